"""The addresses of a service: bound before the node is ready, and answered from the first request on.

Until somebody asks, the libraries that answer are not even imported: a node that nobody looks at starts as fast and
stays as small as without them. Who asks meanwhile waits in the backlog of the socket.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from warren.broker.config import HTTPListener, SSLOptions
from warren.broker.hosting.local_socket import LocalListener
from warren.broker.net.tls import TLS
from warren.broker.plugin import Child, Host, Listener, Pool

if TYPE_CHECKING:
    from starlette.types import ASGIApp

# A connection that is over the limit takes the place of the oldest one of the address that has most.
CONNECTIONS_LIMIT = 1024  # of one service
SOURCE_LIMIT = 512  # of these, from one address: a proxy in front of many has a lot, but never all of them
STOP_WAIT_S = 1.0  # for the server to end, beyond the time that it gives to requests under way


class HTTPApp:
    """What a service answers, and by which names it is known.

    `protocol` is RabbitMQ's word for what is spoken there. `application` makes what answers, on the loop and once for
    each door, after `module` was imported beside it: whatever takes long to import is to be in there.
    """

    def __init__(self, service: str, protocol: str, module: str, application: Callable[[], ASGIApp]) -> None:
        self.service = service
        self.protocol = protocol
        self.module = module
        self.application = application


class HTTPListeners:
    """All of a service."""

    def __init__(self, host: Host, entrance: HTTPApp) -> None:
        self._host = host
        self._entrance = entrance
        self._doors: list[LazyListener] = []
        self._pool = Pool(f"for {entrance.service}", CONNECTIONS_LIMIT, SOURCE_LIMIT)

    def __len__(self) -> int:
        return len(self._doors)

    async def open(self, tcp: HTTPListener, tls: HTTPListener, options: SSLOptions, stock: HTTPListener) -> None:
        """Where the configuration says, plainly and with TLS, on the addresses of AMQP if it names none.

        `stock` is what it says where it says nothing: an offer, so the log tells where that port is taken, and that is
        all. Raises OSError, ValueError where an address that was asked for cannot be had.
        """
        protocol = self._entrance.protocol
        if tcp.port is not None:
            await self._open(tcp, protocol, None, optional=tcp == stock)
        if tls.port is not None:
            secure = protocol.replace("http", "https", 1)
            await self._open(tls, secure, self._host.tls(options), optional=False)

    async def _open(self, at: HTTPListener, protocol: str, tls: TLS | None, optional: bool) -> None:
        assert at.port is not None
        host = self._host
        for address in [at.ip] if at.ip else dict.fromkeys(name for name, _ in host.config.listeners_tcp):
            try:
                listener = await host.bind(protocol, address, at.port, self._pool, tls)
            except OSError as error:
                reason = f"{address}:{at.port}: {error.strerror or error}"
                if not optional:
                    raise OSError(error.errno, reason) from None
                host.report("cannot_listen", "warning", {"service": self._entrance.service, "reason": reason})
                continue
            self._doors.append(LazyListener(host, self._entrance, at, listener))

    async def close(self) -> None:
        await asyncio.gather(*(door.close() for door in self._doors))


class LazyListener:
    """Sockets that are answered from their first request on."""

    def __init__(self, host: Host, entrance: HTTPApp, at: HTTPListener, listener: Listener | LocalListener) -> None:
        self._host = host
        self._entrance = entrance
        self._at = at
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._serving: Child | None = None
        self._closing = asyncio.Event()
        for listening in listener.sockets:
            self._loop.add_reader(listening, self._knocked)

    def _knocked(self) -> None:
        for listening in self._listener.sockets:
            self._loop.remove_reader(listening)
        self._serving = self._host.supervisor.keep("http_server", self._serve, service=self._entrance.service)

    async def _serve(self) -> None:
        with ExitStack() as undo:
            undo.callback(self._turn_away)
            # Beside the loop, as importing takes a few tenths of a second.
            await self._loop.run_in_executor(None, import_all, self._entrance.module)
            from .server import serve

            application = self._entrance.application()
            undo.pop_all()
        await serve(self._host, application, self._at, self._listener, self._closing)

    def _turn_away(self) -> None:
        """Close the connections that wait, as nobody can serve them: else they would wait without an end."""
        for listening in self._listener.sockets:
            for _ in range(CONNECTIONS_LIMIT):
                try:
                    listening.accept()[0].close()
                except OSError:
                    break

    async def close(self) -> None:
        """Requests under way are still answered, if that does not take long."""
        self._closing.set()
        if self._serving is not None:
            try:
                await asyncio.wait_for(self._serving.ended(), self._at.shutdown_timeout / 1000 + STOP_WAIT_S)
            except TimeoutError:
                self._serving.cancel()
        self._listener.close()


def import_all(module: str) -> None:
    importlib.import_module(".server", __package__)
    importlib.import_module(module)
