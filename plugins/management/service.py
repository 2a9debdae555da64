"""The service: its addresses are bound before the node is ready, and answered from the first request on.

Until somebody asks, the libraries that answer are not even imported: a node that nobody looks at starts as fast and
stays as small as without this. Who asks meanwhile waits in the backlog of the socket.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import ssl
from functools import partial

from broker.plugin import Host, HTTPListener, Management, Service

from .links import rows_of
from .sampler import Sampler
from .state import State

STOP_WAIT_S = 2.0  # for requests under way when the node stops


class ManagementService(Service):
    """The HTTP API."""

    def __init__(self) -> None:
        self._doors: list[Door] = []
        self._sampling: asyncio.Task[None] | None = None

    async def start(self, host: Host) -> None:
        """Raises OSError, ValueError; not where the port is taken that nobody asked for."""
        config = host.config.management
        state = State(host)
        if config.tcp.port is not None:
            await self._open(host, state, config.tcp, "http", None, optional=config.tcp == Management().tcp)
        if config.ssl.port is not None:
            await self._open(host, state, config.ssl, "https", secure_context(host), optional=False)
        if self._doors and state.samples.mode != "none":
            sampler = Sampler(host.node, state.samples, host.connections, state.readings.gauges, partial(rows_of, host))
            self._sampling = asyncio.get_running_loop().create_task(sampler.run())

    async def _open(
        self,
        host: Host,
        state: State,
        at: HTTPListener,
        protocol: str,
        context: ssl.SSLContext | None,
        optional: bool,
    ) -> None:
        assert at.port is not None
        for address in [at.ip] if at.ip else dict.fromkeys(name for name, _ in host.config.listeners_tcp):
            try:
                sockets = await host.bind(protocol, address, at.port)
            except OSError as error:
                reason = f"{address}:{at.port}: {error.strerror or error}"
                if not optional:
                    raise OSError(error.errno, reason) from None
                host.report("cannot_listen", "warning", {"service": "management", "reason": reason})
                continue
            self._doors.append(Door(host, state, at, sockets, context))

    async def stop(self) -> None:
        if self._sampling is not None:
            self._sampling.cancel()
        await asyncio.gather(*(door.close() for door in self._doors))


class Door:
    """Sockets that are answered from their first request on."""

    def __init__(
        self,
        host: Host,
        state: State,
        at: HTTPListener,
        sockets: list[socket.socket],
        context: ssl.SSLContext | None,
    ) -> None:
        self._host = host
        self._state = state
        self._at = at
        self._sockets = sockets
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._serving: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        for listening in sockets:
            self._loop.add_reader(listening, self._knocked)

    def _knocked(self) -> None:
        for listening in self._sockets:
            self._loop.remove_reader(listening)
        self._serving = self._loop.create_task(self._serve())

    async def _serve(self) -> None:
        # Beside the loop, as importing takes a few tenths of a second.
        await self._loop.run_in_executor(None, partial(importlib.import_module, ".serving", __package__))
        from .serving import serve

        await serve(self._host, self._state, self._at, self._sockets, self._context, self._closing)

    async def close(self) -> None:
        """Requests under way are still answered, if that does not take long."""
        self._closing.set()
        if self._serving is not None:
            await asyncio.wait([self._serving], timeout=STOP_WAIT_S)
            self._serving.cancel()
        for listening in self._sockets:
            if self._serving is None:
                self._loop.remove_reader(listening)
            listening.close()


def secure_context(host: Host) -> ssl.SSLContext:
    """Whose certificates are read again when their files change: each connection looks. Raises OSError, ValueError."""
    tls = host.tls(host.config.management.ssl_options)
    context = tls.context

    def newest(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, first: ssl.SSLContext) -> None:
        tls.look()
        connection.context = tls.context

    context.sni_callback = newest
    return context
