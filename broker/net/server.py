"""The AMQP server: listeners, their connections, and one write per connection at the end of each turn."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress

from ..amqp.errors import ConnectionForced
from ..core.jobs.scheduler import Job
from ..core.messages.ports import DISK_FULL
from ..core.node.node import Node
from ..core.telemetry.resource_alarms import DISK
from ..runtime.loop_watchdog import Turns
from ..runtime.supervisor import Report, Supervisor
from ..session.connection import Connection
from ..session.consumer_timeout import Timeouts
from ..session.settings import Settings
from ..session.transport import Peer
from .access_enforcement import AccessEnforcement
from .connection_limits import ConnectionLimits, connection_limit, login_limit, raise_descriptor_limit
from .listener import Listener, SocketOptions
from .peer_watcher import PeerCloseWatcher
from .tls import TLS
from .transport import Transport

LINGER_LIMIT = 1000  # closing connections that wait for the peer to close or for the delay of a refused login
STOP_WAIT_S = 3.0  # for clients to answer connection.close when the node stops
CERTIFICATES_LOOK_S = 5.0
TURN_S = 0.001  # for the input and the ends of connections in one turn of the loop; what is begun is finished
FLUSH_S = 0.003  # processor time for the output of all connections in one turn
LOOKED_AT, LOOK_COST = 50, 6  # connections in one step after a change of an alarm, and the cost of each (`scheduler`)
CLOSE_S = 0.00002  # of the loop and the system, to close a socket


class OutputGuard:
    """The part of the broker that knows whether output may still be sent, however long the process stood still.

    expect_flush  makes the server, which sets it, flush at the end of the turn and call `sent` when nothing is left
    """

    expect_flush: Callable[[], None]

    def may_send(self) -> bool:
        """Whether the output of a connection may be sent now; it is aborted if not."""
        raise NotImplementedError

    def sent(self) -> None:
        """Note that all output so far was passed to the sockets."""
        raise NotImplementedError


class Server:
    """The AMQP server: accepts connections and flushes their output.

    report       logs an event: name, level, fields
    commit_soon  makes the committer check the journal at the end of the turn
    guard        of a store that another broker may take over; None for any other
    transport    the class of the transports of accepted connections
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
        self.commit_soon = commit_soon
        self._transport = transport
        self.loop = asyncio.get_running_loop()
        self.handshake_timeout_s = handshake_timeout_s
        self.report = report
        self.supervisor = supervisor or Supervisor(report)
        self.turns = Turns(report)
        self.limits = ConnectionLimits(connection_limit(raise_descriptor_limit()), report)
        self.socket_options = socket_options or SocketOptions()
        self.departures = PeerCloseWatcher(self.loop)
        self.guard: OutputGuard | None = None
        self.connections: dict[Transport, Connection] = {}
        self.listeners: list[Listener] = []
        self._node = node
        self.settings = settings
        settings.descriptor_connections = login_limit(self.limits.limit)
        self._connected = 0  # connections since the start
        self._certificates: asyncio.TimerHandle | None = None
        self._flushes: dict[Transport, None] = {}  # in order, each once
        self._flush_expected = False
        self._flush_ends_s = 0.0  # processor time; 0 until it is needed in this turn
        self._turn_ends_s = 0.0  # 0 until something is served in this turn
        self._waiting: deque[Callable[[], None]] = deque()  # for a turn with time
        self._lingering: set[Transport] = set()
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
        """Open a connection within the process and return the client's end of it; `peer` describes the client.

        Raises OSError.
        """
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
        self.report("alarm_set" if on else "alarm_cleared", "warning", {"resource": resource})
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
        """Whether the disk is full, for which jobs of connections may wait."""
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

    def connected(self, transport: Transport, peer: Peer) -> Connection:
        connection = Connection(self._node, self.settings, peer, transport)
        self._connected += 1
        connection.id = self._connected
        self.connections[transport] = connection
        self._empty.clear()
        return connection

    def disconnected(self, transport: Transport) -> None:
        self.connections.pop(transport, None)
        self._lingering.discard(transport)
        if not self.connections:
            self._empty.set()

    def may_linger(self, transport: Transport) -> bool:
        """Whether a closing transport may wait for its peer to close; only LINGER_LIMIT of them may."""
        if len(self._lingering) < LINGER_LIMIT:
            self._lingering.add(transport)
        return transport in self._lingering

    def has_time(self) -> bool:
        """Whether this turn of the loop has time for more input. HOT: bench A-M.

        If not, `call_in_turn` calls functions in later turns. The loop itself reads all ready sockets in one turn:
        those of a client with thousands of connections, which it closes at once, would hold the loop for a second.
        """
        if self._turn_ends_s:
            return not self._waiting and time.perf_counter() < self._turn_ends_s
        self._turn_ends_s = time.perf_counter() + TURN_S
        self._expect_flush()
        return not self._waiting

    def closed_socket(self) -> None:
        """Charge this turn for a socket that the loop closes in the next one."""
        self._turn_ends_s -= CLOSE_S

    def call_in_turn(self, fn: Callable[[], None]) -> None:
        """Call a function in a later turn that has time, in the order of these calls."""
        self._waiting.append(fn)
        self._expect_flush()

    def _call_waiting(self) -> None:
        """Call what waits for a turn, one function at least, until this turn has no more time."""
        self._expect_flush()
        waiting = self._waiting
        self._turn_ends_s = time.perf_counter() + TURN_S
        while waiting:
            waiting.popleft()()
            if time.perf_counter() >= self._turn_ends_s:
                break

    def _expect_flush(self) -> None:
        if not self._flush_expected:
            self._flush_expected = True
            self.loop.call_soon(self._flush)

    def flush_soon(self, transport: Transport) -> None:
        """Flush a transport at the end of this turn. HOT: bench A-M."""
        if not self._flush_expected:
            self._flush_expected = True
            self.loop.call_soon(self._flush)
        self._flushes[transport] = None

    def may_flush(self) -> bool:
        """Whether this turn has time for more output."""
        if self._flush_ends_s:
            return time.thread_time() < self._flush_ends_s
        self._flush_ends_s = time.thread_time() + FLUSH_S
        return True

    def _flush(self) -> None:
        """Flush transports in order, and call what waits. What this turn has no time for is flushed in the next."""
        self._flush_expected = False
        self._turn_ends_s = self._flush_ends_s = 0.0
        flushes = self._flushes
        self._flushes = {}
        waiting = iter(flushes)
        guard = self.guard
        for transport in waiting:
            try:
                if guard is not None and not guard.may_send():
                    transport.abort()
                    continue
                transport.flush()
            except Exception as error:  # a bug: it must not keep other connections from being flushed
                transport.report("internal_error", "error", {"exc_info": error})
                transport.abort()
            if len(flushes) > 1 and not self.may_flush():
                break
        if rest := dict.fromkeys(waiting):
            self._expect_flush()
            self._flushes = rest | self._flushes
        elif guard is not None:
            guard.sent()
        if self._waiting:
            self._call_waiting()
        self.commit_soon()  # requests that waited for the flush may have written to the journal
