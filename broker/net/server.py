"""The AMQP server: listeners, their connections, and one write per connection at the end of each turn."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress

from ..amqp.errors import ConnectionForced
from ..core.jobs.scheduler import Job
from ..core.messages.journal_port import DISK_FULL
from ..core.node.node import Node
from ..core.telemetry.resource_alarms import DISK
from ..runtime.supervisor import Report, Supervisor
from ..session.connection import Connection
from ..session.consumer_timeout import Timeouts
from ..session.settings import Settings
from ..session.transport import Peer
from .access_enforcement import AccessEnforcement
from .connection_limits import ConnectionLimits, connection_limit, login_limit, raise_descriptor_limit
from .fair_turns import OutputGuard, ServedTransport, TransportHost
from .listener import Listener, SocketOptions
from .tls import TLS
from .transport import Transport

LINGER_LIMIT = 1000  # closing connections that wait for the peer to close or for the delay of a refused login
STOP_WAIT_S = 3.0  # for clients to answer connection.close when the node stops
CERTIFICATES_LOOK_S = 5.0
LOOKED_AT, LOOK_COST = 50, 6  # connections in one step after a change of an alarm, and the cost of each


class Server(TransportHost):
    """The AMQP server: accepts connections and flushes their output.

    `transport` is the class of the transports of accepted connections.
    """

    def __init__(
        self,
        node: Node,
        settings: Settings,
        handshake_timeout_s: float,
        report: Report,
        commit_soon: Callable[[], None] = lambda: None,
        socket_options: SocketOptions | None = None,
        supervisor: Supervisor | None = None,
        transport: type[Transport] = Transport,
    ) -> None:
        super().__init__(handshake_timeout_s, report, commit_soon, socket_options or SocketOptions())
        self._transport = transport
        self.supervisor = supervisor or Supervisor(report)
        self.limits = ConnectionLimits(connection_limit(raise_descriptor_limit()), report)
        self.connections: dict[ServedTransport, Connection] = {}
        self.listeners: list[Listener] = []
        self.alarm_facts: Callable[[str], Mapping[str, object]] = no_facts  # for the log, by resource
        self._node = node
        self.settings = settings
        settings.descriptor_connections = login_limit(self.limits.limit)
        self._connected = 0  # connections since the start
        self._certificates: asyncio.TimerHandle | None = None
        self._lingering: set[ServedTransport] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._timeouts = Timeouts(node, settings.consumer_timeout_ms, self.connections.values)
        self._timeouts.start()
        node.alarms.add_hook(self._alarm_changed)
        node.observers.add(AccessEnforcement(self.close_connections, self.connections.values, node))

    async def listen(self, host: str, port: int, tls: TLS | None = None) -> list[str]:
        """Accept connections at an address, with any free port for port 0; return addresses as HOST:PORT.

        Raises OSError.
        """
        listener = Listener(self.socket_options, self.report, self.supervisor, self.limits, tls)
        await listener.bind(host, port)
        listener.accept(lambda slot: self._transport(self, tls, slot=slot))
        for address in listener.addresses:
            self.report("listener_started", "info", {"address": address, "tls": tls is not None})
        self.listeners.append(listener)
        if tls is not None and self._certificates is None:
            self._certificates = self.loop.call_later(CERTIFICATES_LOOK_S, self._look_at_certificates)
        return listener.addresses

    def guard_output(self, guard: OutputGuard) -> None:
        """Ask this guard whenever output is about to be sent."""
        self.guard = guard
        guard.expect_flush = self._expect_flush

    async def connect_inside(self, peer: Peer) -> socket.socket:
        """Open a connection within the process for the client `peer`; return the client's end. Raises OSError."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        with ExitStack() as undo:
            undo.callback(theirs.close)
            # Shielded: if it were cancelled half way, the transport would never get `connection_lost`.
            await asyncio.shield(self._accept_inside(peer, ours))
            undo.pop_all()
        return theirs

    async def _accept_inside(self, peer: Peer, ours: socket.socket) -> None:
        try:
            await self.loop.connect_accepted_socket(lambda: Transport(self, peer=peer), ours)
        except OSError:
            ours.close()
            raise

    def reload_certificates(self) -> None:
        """Reload certificates for new connections; unusable files are logged and ignored."""
        for listener in self.listeners:
            if listener.tls is not None:
                listener.tls.reload()

    def _look_at_certificates(self) -> None:
        for listener in self.listeners:
            if listener.tls is not None:
                listener.tls.reload_if_changed()
        self._certificates = self.loop.call_later(CERTIFICATES_LOOK_S, self._look_at_certificates)

    def _alarm_changed(self, resource: str, on: bool) -> None:
        """Log a change of an alarm, and serve the connections again that wait for its end."""
        facts = self.alarm_facts(resource) if on else {}
        self.report("alarm_set" if on else "alarm_cleared", "warning", {"resource": resource, **facts})
        if resource == DISK or not on:
            self._node.scheduler.start(f"connections after a change of the alarm of {resource}", self._look_at_alarms())

    def _look_at_alarms(self) -> Job:
        """Serve the connections that wait for no alarm any more, and watch the peers of those that wait."""
        connections = list(self.connections.items())
        for at in range(0, len(connections), LOOKED_AT):
            for transport, connection in connections[at : at + LOOKED_AT]:
                if transport in self.connections:
                    connection.unblock()
                    transport.read_or_rest()
            yield LOOK_COST * LOOKED_AT

    @property
    def disk_full(self) -> bool:
        return self._node.journal.room() == DISK_FULL

    async def stop(self, reason: str) -> None:
        """Stop accepting, close all connections with 320 and wait some seconds for them."""
        self._timeouts.stop()
        for listener in self.listeners:
            listener.close()
        if self._certificates is not None:
            self._certificates.cancel()
        self.close_connections(lambda connection: True, reason)
        if self.connections:
            try:
                await asyncio.wait_for(self._empty.wait(), STOP_WAIT_S)
            except TimeoutError:
                for transport in list(self.connections):
                    transport.abort()
                # Their deliveries return to the queues, and may be dead-lettered, before the journal is closed.
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._empty.wait(), STOP_WAIT_S)

    def close_connections(self, chosen: Callable[[Connection], bool], reason: str) -> int:
        """Close the chosen connections with 320 (connection-forced); return how many."""
        connections = [connection for connection in self.connections.values() if chosen(connection)]
        for connection in connections:
            connection.close(ConnectionForced(reason))
        self.commit_soon()
        return len(connections)

    def connected(self, transport: ServedTransport, peer: Peer) -> Connection:
        connection = Connection(self._node, self.settings, peer, transport)
        self._connected += 1
        connection.id = self._connected
        self.connections[transport] = connection
        self._empty.clear()
        return connection

    def disconnected(self, transport: ServedTransport) -> None:
        self.connections.pop(transport, None)
        self._lingering.discard(transport)
        if not self.connections:
            self._empty.set()

    def may_linger(self, transport: ServedTransport) -> bool:
        if len(self._lingering) < LINGER_LIMIT:
            self._lingering.add(transport)
        return transport in self._lingering


def no_facts(resource: str) -> Mapping[str, object]:
    """Return nothing, of a server whose resources nobody measures."""
    return {}
