"""The transport of one socket: input to the session, output once per turn of the loop, heartbeats, pauses in reading.

Fairness: uvloop reads a ready socket up to 32 times, 256 KiB each, before it turns to the next. A fast publisher would
be served 8 MiB for every few acknowledgements of its consumer. So after a full read the socket is not read again in the
same turn, and the input is served in pieces of a few milliseconds.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import cast

from ..amqp.errors import InternalFault
from ..session.connection import Connection
from ..session.publisher_throttle import HOLD_MS
from ..session.transport import Peer
from ..wire import method_encoder
from .connection_limits import Slot
from .fair_turns import ServedTransport, TransportHost
from .peers import peer_of
from .tls import TLS

SHORT_READ = 1 << 14  # bytes: shorter reads are served whole
FULL_READ = 250_000  # bytes: after a read of this size uvloop reads again in the same turn
MIN_PIECE, MAX_PIECE = 1 << 12, 1 << 18  # bytes of a long read that are served in one turn
FIRST_PIECE = 1 << 14
PIECE_S = 0.003  # processor time of a piece; after more the next ones are shorter
# Bytes that wait in uvloop before deliveries stop. It is less than one full write of the broker: uvloop collects writes
# below this mark until the end of the turn, and makes longer ones at once.
WRITE_HIGH = 32 << 10
DRAIN_S = 3.0  # for the last output of a socket that is being closed
DEPARTED = "client unexpectedly closed TCP connection"
QUIET_CHECKS = 4  # each after half an interval of heartbeats
# TCP keepalive of connections without heartbeats: probes after two minutes without a byte, close after four lost ones.
KEEP_ALIVE = {"TCP_KEEPIDLE": 120, "TCP_KEEPINTVL": 30, "TCP_KEEPCNT": 4}
CLOSE_METHOD = method_encoder.CONNECTION_CLOSE.to_bytes(4, "big")
CLOSE_AT = 7  # offset of a method in its frame
WRITES = 8  # in one turn: what one fast consumer can take before the others have theirs


class Transport(asyncio.Protocol, ServedTransport):
    """The protocol of one AMQP connection on the event loop. `peer` is for sockets without an address."""

    __slots__ = (
        *("_server", "_slot", "_tls", "_peer", "_loop", "_socket", "_connection"),
        *("_reading", "_held", "_resting", "_running", "_watched"),
        *("_unserved", "_unserved_at", "_piece_bytes", "_slow"),
        *("_heartbeat_s", "_sent", "_seen", "_quiet", "_beat_timer", "_hold_timer", "_end_timer"),
    )

    def __init__(
        self, server: TransportHost, tls: TLS | None = None, peer: Peer | None = None, slot: Slot | None = None
    ) -> None:
        self._server = server
        self._slot = slot
        self._tls = tls
        self._peer = peer
        self._loop = server.loop
        self._socket: asyncio.Transport | None = None
        self._connection: Connection | None = None
        self._reading = True
        self._held = False  # by the session, while queues are congested
        self._resting = False  # until the next turn, after a full read, or while input waits to be served
        self._unserved = b""  # a long read, whose rest is served in later turns
        self._unserved_at = 0  # offset of the rest
        self._piece_bytes = FIRST_PIECE  # served in one turn
        self._slow = False  # the last piece took longer than PIECE_S
        self._running = False  # after the handshake
        self._watched = False  # for a closed peer, while an alarm or a login pauses reading
        self._heartbeat_s = 0
        self._sent = False  # whether bytes were sent in this half interval of heartbeats
        self._seen = 0  # bytes received at the last check of heartbeats
        self._quiet = 0  # consecutive checks without new bytes
        self._beat_timer: asyncio.TimerHandle | None = None
        self._hold_timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = socket_ = cast(asyncio.Transport, transport)
        socket_.set_write_buffer_limits(high=WRITE_HIGH)
        raw = socket_.get_extra_info("socket")
        if raw is not None:
            self._server.socket_options.apply(raw)
        if self._slot is not None:
            self._slot.abort = self.abort
        self._connection = self._server.connected(self, self._peer or peer_of(socket_, self._tls))
        self._end_timer = self._loop.call_later(self._server.handshake_timeout_s, self._handshake_late)

    def data_received(self, data: bytes) -> None:
        """Serve a short read in this turn if it has time, a long one piece by piece. HOT: bench A-M."""
        if self._unserved:
            self._unserved = self._unserved[self._unserved_at :] + data
            self._unserved_at = 0
            return
        server = self._server
        has_time = server.has_time()
        if has_time and len(data) < SHORT_READ:
            self._serve(data)
            self.read_or_rest()
            return
        self._unserved = data
        if has_time:
            self._serve_piece()
        if self._unserved:
            self._resting = True
            server.call_in_turn(self._serve_rest, not self._running or data.startswith(CLOSE_METHOD, CLOSE_AT))
        elif len(data) >= FULL_READ:
            self._resting = True
            self._loop.call_soon(self._rested)
        self.read_or_rest()

    def _serve_rest(self) -> None:
        """Serve the next piece of a long read; after the last one, read again. HOT: bench A-M."""
        if self._connection is None:
            return
        self._serve_piece()
        if self._unserved:
            self._server.call_in_turn(self._serve_rest)
        else:
            self._rested()

    def _serve_piece(self) -> None:
        """Serve a piece of a long read.

        Pieces get shorter or longer until one takes about PIECE_S: the cost of a publish depends on its route and on
        the settings of the queues. A slow piece may have waited for the processor, so the processor time of the next
        one decides, which costs a system call.
        """
        data, at, piece_bytes = self._unserved, self._unserved_at, self._piece_bytes
        stop = at + piece_bytes
        if stop < len(data):
            self._unserved_at = stop
        else:
            self._unserved = b""
            self._unserved_at = 0
        clock = time.thread_time if self._slow else time.perf_counter
        begun_s = clock()
        self._serve(data[at:stop])
        took_s = clock() - begun_s
        if took_s > PIECE_S and self._slow:
            self._piece_bytes = max(piece_bytes // 2, MIN_PIECE)
        self._slow = took_s > PIECE_S
        if took_s < PIECE_S / 2 and stop <= len(data):
            self._piece_bytes = min(piece_bytes * 2, MAX_PIECE)

    def _serve(self, data: bytes) -> None:
        """Pass the bytes to the connection. HOT: bench A-M."""
        assert self._connection is not None
        self._server.turns.last_served = self
        try:
            self._connection.receive(data)
        except Exception as error:  # a bug: it must close no other connection
            self.report("internal_error", "error", {"exc_info": error})
            self._connection.close(InternalFault("the broker failed to serve this connection"))
        self._server.commit_soon()

    def read_or_rest(self) -> None:
        """Continue or pause reading: it pauses while the connection is held, resting or interrupted."""
        if self._socket is None or self._connection is None:
            return
        connection = self._connection
        reading = not (self._held or self._resting or connection.interrupted)
        if reading and self._reading and not (self._watched or connection.blocked or connection.suspended):
            return  # the usual case
        # The peer is watched during a login too: no password is verified for a peer that has closed. A job may wait
        # long, for a full disk or for a queue.
        suspended = connection.suspended > 0 and (
            self._server.disk_full or connection.waits_for_room and connection.holds_what_others_need
        )
        waits = connection.blocked or suspended or not (reading or self._running)
        if waits != self._watched:
            self._watch_peer(self._socket, not self._watched)
        if reading == self._reading or self._socket.is_closing():
            return
        self._reading = reading
        if reading:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()

    def _watch_peer(self, socket_: asyncio.Transport, watched: bool) -> None:
        raw = socket_.get_extra_info("socket")
        self._watched = watched
        if raw is not None and watched:
            self._server.departures.watch(raw.fileno(), self._departed)
        elif raw is not None:
            self._server.departures.forget(raw.fileno())

    def _departed(self) -> None:
        """Close the connection after the peer has closed while reading was paused, in this turn if it has time."""
        if self._server.has_time():
            self._drop()
        else:
            self._server.call_in_turn(self._drop, churn=True)

    def _drop(self) -> None:
        """Release the connection, whose unread input is dropped, and close the socket."""
        if self._connection is not None:
            self._connection.lost(DEPARTED)
        self.abort()

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.output.writable = False

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.output.writable = True
            self.flush_soon()

    def eof_received(self) -> bool:
        """Close a socket that the peer has closed, in this turn if it has time. TLS closes its own at once."""
        if self._tls is not None:
            return False
        if self._server.has_time():
            self._ended()
        else:
            self._server.call_in_turn(self._ended, churn=True)
        return True

    def _ended(self) -> None:
        """Release the connection once its input is served, and close the socket after what is left of its output."""
        if self._unserved:
            self._server.call_in_turn(self._ended, churn=True)
            return
        if self._connection is not None:
            if self._connection.await_requests(self._ended):
                return
            self._connection.lost(DEPARTED)
        if self._socket is not None:
            self._server.closed_socket()
            self._socket.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        if self._watched and self._socket is not None:
            self._watch_peer(self._socket, False)
        self._socket = None
        if self._slot is not None:
            self._slot.leave()
        reason = str(exc) if exc is not None else DEPARTED
        if self._server.has_time():
            self._lost(reason)
        else:
            self._server.call_in_turn(partial(self._lost, reason), churn=True)

    def _lost(self, reason: str) -> None:
        """Release the connection once all that was read from its socket is served."""
        if self._unserved:
            self._server.call_in_turn(partial(self._lost, reason), churn=True)
        elif self._connection is not None and not self._connection.await_requests(partial(self._lost, reason)):
            self._connection.lost(reason)
            self._server.disconnected(self)
            self._server.commit_soon()
            self._connection = None

    # TransportPort

    def flush_soon(self) -> None:
        self._server.flush_soon(self)

    def unsent_bytes(self) -> int:
        return self._socket.get_write_buffer_size() if self._socket is not None else 0

    def call_next_turn(self, fn: Callable[[], None]) -> None:
        self._loop.call_soon(fn)  # after the flush, which was requested before

    def flush(self) -> None:
        """Write the output as long as the socket takes it and the turn has time. HOT: bench A-M."""
        connection = self._connection
        if connection is None:
            return
        output = connection.output
        for _ in range(WRITES):
            if not output.writable:
                connection.not_writable()
                break
            self._write(connection)
            # Consumers and requests that waited for this write may add output.
            connection.flushed()
            if not output.waits():
                break
            if not self._server.may_flush():
                break
        self.read_or_rest()

    def _write(self, connection: Connection) -> None:
        buffers = connection.take_output()
        if not buffers or self._socket is None:
            return
        self._sent = True
        connection.sent_writes += 1
        if len(buffers) == 1:
            connection.sent_bytes += len(buffers[0])
            self._socket.write(buffers[0])
        else:
            connection.sent_bytes += sum(map(len, buffers))
            self._socket.writelines(buffers)

    def running(self, heartbeat_s: int) -> None:
        self._running = True
        if self._slot is not None:
            self._slot.logged_in()
        if self._end_timer is not None:
            self._end_timer.cancel()
            self._end_timer = None
        if heartbeat_s:
            self._sent = False
            self._heartbeat_s = heartbeat_s
            self._beat_timer = self._loop.call_later(heartbeat_s / 2, self._beat, True)
        elif self._socket is not None:
            keep_alive(self._socket)

    def hold(self) -> None:
        self._held = True
        self.read_or_rest()
        if self._hold_timer is None:
            self._hold_timer = self._loop.call_later(HOLD_MS / 1000, self._look_at_hold)

    def release(self) -> None:
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
        self._held = False
        self.read_or_rest()

    def close(self, after_s: float) -> None:
        if self._socket is None or self._connection is None:
            return
        self._write(self._connection)
        if self._end_timer is not None:
            self._end_timer.cancel()
        if after_s <= 0:
            self._socket.close()  # after the output is sent,
            after_s = DRAIN_S  # or this time has passed
        elif not self._server.may_linger(self):
            after_s = 0
        self._end_timer = self._loop.call_later(after_s, self.abort)

    def report(self, event: str, level: str, fields: dict[str, object]) -> None:
        whose: dict[str, object] = {"connection": ""}
        if self._connection is not None:
            whose = {"connection": self._connection.name, "process": f"<0.{self._connection.id}.0>"}
        self._server.report(event, level, whose | fields)

    def __str__(self) -> str:
        """Name of the connection for the log."""
        return self._connection.name if self._connection is not None else ""

    def abort(self) -> None:
        """Close the socket without close methods."""
        if self._socket is not None:
            self._socket.abort()

    # Timers

    def _rested(self) -> None:
        self._resting = bool(self._unserved)
        self.read_or_rest()

    def _look_at_hold(self) -> None:
        self._hold_timer = None
        if self._connection is None or not self._connection.publisher_throttle.queues:
            return
        self._held = self._connection.publisher_throttle.check_progress()
        self.read_or_rest()
        self._hold_timer = self._loop.call_later(HOLD_MS / 1000, self._look_at_hold)

    def _handshake_late(self) -> None:
        self.report("handshake_timeout", "warning", {})
        self.abort()

    def _beat(self, first: bool = False) -> None:
        """Every half interval, send a heartbeat unless something was sent in it, and check for received bytes.

        The first is always sent: connection.open-ok is written after the timer has started, so without it a client
        would receive nothing for a whole interval, which is the read timeout of some. The connection is closed after
        two intervals without a byte, unless reading is paused (AMQP 0-9-1, 4.2.7).
        """
        connection = self._connection
        if self._socket is None or connection is None:
            return
        if connection.received_bytes != self._seen or not self._reading:
            self._seen = connection.received_bytes
            self._quiet = 0
        else:
            self._quiet += 1
            if self._quiet == QUIET_CHECKS:
                connection.lost(f"missed heartbeats from client, timeout: {self._heartbeat_s}s", "error")
                self.abort()
                return
        if (first or not self._sent) and connection.output.writable:
            self._socket.write(method_encoder.HEARTBEAT)
        self._sent = False
        self._beat_timer = self._loop.call_later(self._heartbeat_s / 2, self._beat)

    def _cancel_timers(self) -> None:
        for timer in (self._beat_timer, self._hold_timer, self._end_timer):
            if timer is not None:
                timer.cancel()
        # A timer refers to this transport: without cycles, its memory is free at once and not after a full collection.
        self._beat_timer = self._hold_timer = self._end_timer = None


def keep_alive(transport: asyncio.Transport) -> None:
    """Enable TCP keepalive: without heartbeats the connection of a vanished peer would stay for ever."""
    raw = transport.get_extra_info("socket")
    if raw is None or raw.family not in (socket.AF_INET, socket.AF_INET6):
        return
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        option = getattr(socket, name, None)  # not every system has them
        if option is not None:
            raw.setsockopt(socket.IPPROTO_TCP, option, value)
