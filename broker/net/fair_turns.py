"""The turns of the event loop that the transports of a server share, and the server as its transports use it."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..runtime.loop_watchdog import Turns
from ..runtime.supervisor import Report
from ..session.connection import Connection
from ..session.transport import Peer, TransportPort
from .listener import SocketOptions
from .peer_watcher import PeerCloseWatcher

TURN_S = 0.001  # for input and ends of connections in one turn of the loop; a call that has begun is finished
FLUSH_S = 0.003  # processor time for the output of all connections in one turn
CLOSE_S = 0.00002  # of the loop and the system, to close a socket


class OutputGuard(Protocol):
    """The part of the broker that knows whether output may still be sent, however long the process was suspended.

    expect_flush  makes the server, which sets it, flush at the end of the turn and call `sent` when nothing is left
    """

    expect_flush: Callable[[], None]

    def may_send(self) -> bool:
        """Whether the output of a connection may be sent now; otherwise the connection is aborted."""

    def sent(self) -> None:
        """Note that all output so far was passed to the sockets."""


class ServedTransport(TransportPort):
    """A transport as its server uses it."""

    __slots__ = ()

    def flush(self) -> None:
        """Write the output of the connection."""
        raise NotImplementedError

    def read_or_rest(self) -> None:
        """Read from the socket, or stop reading, according to the state of the connection."""
        raise NotImplementedError

    def abort(self) -> None:
        """Close the socket without close methods."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class TransportHost:
    """A server as its transports use it: a share of each turn of the loop for their input and their output."""

    handshake_timeout_s: float
    report: Report  # logs an event: name, level, fields
    commit_soon: Callable[[], None]  # makes the committer check the journal at the end of the turn
    socket_options: SocketOptions

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.turns = Turns(self.report)
        self.departures = PeerCloseWatcher(self.loop)
        self.guard: OutputGuard | None = None  # set with a store that another broker may take over
        self._flushes: dict[ServedTransport, None] = {}  # in order, each once
        self._flush_expected = False
        self._flush_ends_s = 0.0  # processor time; 0 until it is needed in this turn
        self._turn_ends_s = 0.0  # 0 until something is served in this turn
        # For a turn with time: the input of connections that are open, and what opens or ends a connection
        self._waiting_input: deque[Callable[[], None]] = deque()
        self._waiting_churn: deque[Callable[[], None]] = deque()

    @property
    def disk_full(self) -> bool:
        """Whether the disk is full, for which jobs of connections may wait."""
        raise NotImplementedError

    def connected(self, transport: ServedTransport, peer: Peer) -> Connection:
        """Return the connection of a transport, whose socket is open."""
        raise NotImplementedError

    def disconnected(self, transport: ServedTransport) -> None:
        """Forget a transport, whose socket has closed."""
        raise NotImplementedError

    def may_linger(self, transport: ServedTransport) -> bool:
        """Whether a closing transport may wait for its peer to close; only some of them may."""
        raise NotImplementedError

    def has_time(self) -> bool:
        """Whether this turn of the loop has time for more input. HOT: bench A-M.

        If not, `call_in_turn` calls functions in later turns. The loop itself reads all ready sockets in one turn:
        those of a client with thousands of connections, which it closes at once, would hold the loop for a second.
        """
        if self._turn_ends_s:
            return not self._waiting_input and time.perf_counter() < self._turn_ends_s
        self._turn_ends_s = time.perf_counter() + TURN_S
        self._expect_flush()
        return not self._waiting_input

    def closed_socket(self) -> None:
        """Charge this turn for a socket that the loop closes in the next one."""
        self._turn_ends_s -= CLOSE_S

    def call_in_turn(self, fn: Callable[[], None], churn: bool = False) -> None:
        """Call a function in a later turn that has time, in the order of these calls.

        `churn` is for what opens or ends a connection: it waits in an order of its own, so that ten thousand
        connections that close at once keep no open one from its requests.
        """
        (self._waiting_churn if churn else self._waiting_input).append(fn)
        self._expect_flush()

    def _call_waiting(self) -> None:
        """Call waiting functions of both orders in turn until this turn has no more time, but at least one of each."""
        self._expect_flush()
        orders = (self._waiting_input, self._waiting_churn)
        self._turn_ends_s = time.perf_counter() + TURN_S
        while any(orders):
            for order in orders:
                if order:
                    order.popleft()()
            if time.perf_counter() >= self._turn_ends_s:
                break

    def _expect_flush(self) -> None:
        if not self._flush_expected:
            self._flush_expected = True
            self.loop.call_soon(self._flush)

    def flush_soon(self, transport: ServedTransport) -> None:
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
        """Flush transports in order, and call waiting functions, as far as this turn has time."""
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
        if self._waiting_input or self._waiting_churn:
            self._call_waiting()
        self.commit_soon()  # requests that waited for the flush may have written to the journal
