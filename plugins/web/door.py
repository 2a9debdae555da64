"""The addresses of a service: bound before the node is ready, and answered from the first request on.

Until somebody asks, the libraries that answer are not even imported: a node that nobody looks at starts as fast and
stays as small as without them. Who asks meanwhile waits in the backlog of the socket.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.plugin import Child, Host, HTTPListener, SSLOptions

if TYPE_CHECKING:
    from starlette.types import ASGIApp

STOP_WAIT_S = 2.0  # for requests under way when the node stops


class Entrance:
    """What a service answers, and by which names it is known.

    `protocol` is RabbitMQ's word for what is spoken there. `application` makes what answers, on the loop and once for
    each door, after `module` was imported beside it: whatever takes long to import is to be in there.
    """

    def __init__(self, service: str, protocol: str, module: str, application: Callable[[], ASGIApp]) -> None:
        self.service = service
        self.protocol = protocol
        self.module = module
        self.application = application


class Doors:
    """All of a service."""

    def __init__(self, host: Host, entrance: Entrance) -> None:
        self._host = host
        self._entrance = entrance
        self._doors: list[Door] = []

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
            await self._open(tls, secure, secure_context(self._host, options), optional=False)

    async def _open(self, at: HTTPListener, protocol: str, context: ssl.SSLContext | None, optional: bool) -> None:
        assert at.port is not None
        host = self._host
        for address in [at.ip] if at.ip else dict.fromkeys(name for name, _ in host.config.listeners_tcp):
            try:
                sockets = await host.bind(protocol, address, at.port)
            except OSError as error:
                reason = f"{address}:{at.port}: {error.strerror or error}"
                if not optional:
                    raise OSError(error.errno, reason) from None
                host.report("cannot_listen", "warning", {"service": self._entrance.service, "reason": reason})
                continue
            self._doors.append(Door(host, self._entrance, at, sockets, context))

    async def close(self) -> None:
        await asyncio.gather(*(door.close() for door in self._doors))


class Door:
    """Sockets that are answered from their first request on."""

    def __init__(
        self,
        host: Host,
        entrance: Entrance,
        at: HTTPListener,
        sockets: list[socket.socket],
        context: ssl.SSLContext | None,
    ) -> None:
        self._host = host
        self._entrance = entrance
        self._at = at
        self._sockets = sockets
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._serving: Child | None = None
        self._closing = asyncio.Event()
        for listening in sockets:
            self._loop.add_reader(listening, self._knocked)

    def _knocked(self) -> None:
        for listening in self._sockets:
            self._loop.remove_reader(listening)
        self._serving = self._host.supervisor.keep("http_server", self._serve, service=self._entrance.service)

    async def _serve(self) -> None:
        # Beside the loop, as importing takes a few tenths of a second.
        await self._loop.run_in_executor(None, import_all, self._entrance.module)
        from .serving import serve

        application = self._entrance.application()
        await serve(self._host, application, self._at, self._sockets, self._context, self._closing)

    async def close(self) -> None:
        """Requests under way are still answered, if that does not take long."""
        self._closing.set()
        if self._serving is not None:
            try:
                await asyncio.wait_for(self._serving.ended(), STOP_WAIT_S)
            except TimeoutError:
                self._serving.cancel()
        for listening in self._sockets:
            if self._serving is None:
                self._loop.remove_reader(listening)
            listening.close()


def import_all(module: str) -> None:
    importlib.import_module(".serving", __package__)
    importlib.import_module(module)


def secure_context(host: Host, options: SSLOptions) -> ssl.SSLContext:
    """Whose certificates are read again when their files change: each connection looks. Raises OSError, ValueError."""
    tls = host.tls(options)
    context = tls.context

    def newest(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, first: ssl.SSLContext) -> None:
        tls.look()
        connection.context = tls.context

    context.sni_callback = newest
    return context
