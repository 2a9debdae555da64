"""HTTP listeners that are bound before the node is ready and start their server at the first request.

The server's libraries are imported then, so a node whose API is unused starts faster and stays smaller. The first
requests wait in the backlog of the socket.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warren.broker.config import HTTPListener, SSLOptions
from warren.broker.net.listener import address_of, another_address, listen_error
from warren.broker.net.tls import TLS
from warren.broker.plugin import Child, Host, Listener, Pool, StandbyHost

if TYPE_CHECKING:
    from starlette.types import ASGIApp

# A connection beyond the limit replaces the oldest one of the source address that has most.
CONNECTIONS_LIMIT = 1024  # of one service
SOURCE_LIMIT = 512  # of these, from one source address; a proxy has many connections, but not all
STOP_WAIT_S = 1.0  # for the server to stop, beyond the time it allows requests in progress


@dataclass(slots=True)
class HTTPApp:
    """An HTTP service: its name, its protocol in RabbitMQ's words, and a factory of its ASGI application.

    `option` of the command line chooses another address.
    `application` is called in the loop, once for each listener, after `module` was imported in a thread; imports that
    take long belong in that module.
    """

    service: str
    protocol: str
    module: str
    application: Callable[[], ASGIApp]
    option: str = ""


class HTTPListeners:
    """All listeners of a service."""

    def __init__(self, host: Host | StandbyHost, app: HTTPApp) -> None:
        self._host = host
        self._app = app
        self._listeners: list[LazyListener] = []
        self._pool = Pool(f"for {app.service}", CONNECTIONS_LIMIT, SOURCE_LIMIT)

    def __len__(self) -> int:
        return len(self._listeners)

    async def open(self, tcp: HTTPListener, tls: HTTPListener, options: SSLOptions, stock: HTTPListener) -> None:
        """Bind the plain and the TLS port, on the addresses of AMQP if none is configured.

        `stock` is the default listener: if its port is taken, the node logs that and starts without it. Raises
        ValueError if a configured address cannot be bound.
        """
        protocol = self._app.protocol
        if tcp.port is not None:
            await self._open(tcp, protocol, None, optional=tcp == stock)
        if tls.port is not None:
            secure = protocol.replace("http", "https", 1)
            await self._open(tls, secure, self._host.tls(options), optional=False)

    async def _open(self, at: HTTPListener, protocol: str, tls: TLS | None, optional: bool) -> None:
        assert at.port is not None
        host = self._host
        addresses = [at.ip] if at.ip else list(dict.fromkeys(name for name, _ in host.config.listeners_tcp))
        if not addresses:
            keys = f"{self._app.service}.tcp.ip, or {self._app.service}.ssl.port"
            host.not_listening[protocol] = f"none, as AMQP has no address without TLS; {keys}, names one"
        for address in addresses:
            try:
                listener = await host.bind(protocol, address, at.port, self._pool, tls)
            except OSError as error:
                place, reason = address_of((address, at.port)), listen_error(error, at.port, search=not optional)
                option = f"the key {self._app.service}.ssl.port"
                if tls is None:
                    option = another_address(self._app.option, error, address, at.port)
                if not optional:
                    raise ValueError(f"cannot listen at {place}: {reason}; {option} chooses another address") from None
                fields: dict[str, object] = {"service": self._app.service, "address": place}
                host.report("cannot_listen", "warning", {**fields, "reason": reason, "option": option})
                host.not_listening[protocol] = f"none at {place}: {reason}; {option} chooses another address"
                continue
            self._listeners.append(LazyListener(host, self._app, at, listener))

    async def close(self) -> None:
        await asyncio.gather(*(listener.close() for listener in self._listeners))


class LazyListener:
    """A bound listener that imports and starts its HTTP server at the first connection."""

    def __init__(self, host: Host | StandbyHost, app: HTTPApp, at: HTTPListener, listener: Listener) -> None:
        self._host = host
        self._app = app
        self._at = at
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._serving: Child | None = None
        self._closing = asyncio.Event()
        for listening in listener.sockets:
            self._loop.add_reader(listening, self._start_server)

    def _start_server(self) -> None:
        for listening in self._listener.sockets:
            self._loop.remove_reader(listening)
        self._serving = self._host.supervisor.keep("http_server", self._serve, service=self._app.service)

    async def _serve(self) -> None:
        with ExitStack() as undo:
            undo.callback(self._close_backlog)
            for module in (f"{__package__}.server", self._app.module):  # in a thread: it takes a few tenths of a second
                await self._loop.run_in_executor(None, importlib.import_module, module)
            from .server import serve

            application = self._app.application()
            undo.pop_all()
        await serve(self._host, application, self._at, self._listener, self._closing)

    def _close_backlog(self) -> None:
        """Close the waiting connections after a failed start; they would wait forever."""
        for listening in self._listener.sockets:
            for _ in range(CONNECTIONS_LIMIT):
                try:
                    listening.accept()[0].close()
                except OSError:
                    break

    async def close(self) -> None:
        """Stop the server; requests in progress may finish within the configured time."""
        self._closing.set()
        if self._serving is not None:
            try:
                await asyncio.wait_for(self._serving.ended(), self._at.shutdown_timeout / 1000 + STOP_WAIT_S)
            except TimeoutError:
                self._serving.cancel()
        self._listener.close()
