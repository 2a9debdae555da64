"""The listeners, the connections they accepted, and the one write per connection at the end of each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..core.node import Node
from ..errors import ConnectionForced
from ..session.connection import Connection
from ..session.link import Peer
from ..session.settings import Settings
from .transport import Transport

BACKLOG = 1024  # connections that wait to be accepted
LINGER_LIMIT = 1000  # connections that are over and wait for the peer to close, or for a refused login's delay
STOP_WAIT_S = 3.0  # for peers to answer the goodbye when the node stops

Report = Callable[[str, str, dict[str, object]], None]


class Server:
    """`report` writes one line to the log: event, level, fields. `commit_soon` is told the journal may have more."""

    def __init__(
        self,
        node: Node,
        settings: Settings,
        handshake_timeout_s: float,
        report: Report,
        commit_soon: Callable[[], None] = lambda: None,
    ) -> None:
        self.commit_soon = commit_soon
        self.loop = asyncio.get_running_loop()
        self.handshake_timeout_s = handshake_timeout_s
        self.report = report
        self.connections: dict[Transport, Connection] = {}
        self._node = node
        self._settings = settings
        self._listeners: list[asyncio.Server] = []
        self._flushes: list[Transport] = []
        self._lingering: set[Transport] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    async def listen(self, host: str, port: int) -> list[str]:
        """Accept connections there, port 0 being any; the addresses as host:port. Raises OSError."""
        server = await self.loop.create_server(lambda: Transport(self), host, port, backlog=BACKLOG)
        self._listeners.append(server)
        return [address_of(socket.getsockname()) for socket in server.sockets]

    def set_alarm(self, reason: str) -> None:
        """From now on publishers wait, for this reason; an empty one lets them go on (spec/core.md 23)."""
        if reason == self._node.alarm:
            return
        self._node.alarm = reason
        self.report("alarm_set" if reason else "alarm_cleared", "warning", {"reason": reason})
        if not reason:
            for connection in list(self.connections.values()):
                connection.unblock()

    async def stop(self, reason: str) -> None:
        """No new connections; the others are closed with 320 and waited for, for some seconds."""
        for listener in self._listeners:
            listener.close()
        for connection in list(self.connections.values()):
            connection.close(ConnectionForced(reason))
        if self.connections:
            try:
                await asyncio.wait_for(self._empty.wait(), STOP_WAIT_S)
            except TimeoutError:
                for transport in list(self.connections):
                    transport.abort()

    def connected(self, transport: Transport, peer: Peer) -> Connection:
        connection = Connection(self._node, self._settings, peer, transport)
        self.connections[transport] = connection
        self._empty.clear()
        return connection

    def disconnected(self, transport: Transport) -> None:
        self.connections.pop(transport, None)
        self._lingering.discard(transport)
        if not self.connections:
            self._empty.set()

    def may_linger(self, transport: Transport) -> bool:
        """Whether this one may wait for its peer to close; not when too many do."""
        if len(self._lingering) < LINGER_LIMIT:
            self._lingering.add(transport)
        return transport in self._lingering

    def flush_soon(self, transport: Transport) -> None:
        """HOT: bench A-M."""
        if not self._flushes:
            self.loop.call_soon(self._flush)
        self._flushes.append(transport)

    def _flush(self) -> None:
        flushes = self._flushes
        self._flushes = []
        for transport in flushes:
            try:
                transport.flush()
            except Exception as error:  # a bug of ours: it must end no other connection, nor leave its output lying
                transport.report("internal_error", "error", {"exc_info": error})
                transport.abort()


def address_of(name: tuple[object, ...]) -> str:
    host, port = str(name[0]), name[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
