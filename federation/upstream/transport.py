"""The transport of a connection to an upstream: the protocol of its socket, below aio-pika.

aio-pika does the handshake, heartbeats and connection.close. The frames of channels bypass it, because its channels
take much memory and deliveries must stay unchanged. All other frames are passed to aio-pika's reader, unchanged and in
order. Deliveries that were received together are passed on together, before aio-pika sees any frame that follows them.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Protocol, cast
from weakref import ref

from .delivery_parser import BODY_MAX, Delivery, DeliveryParser
from .errors import NOT_ALONE, LinkError
from .frame_check import is_for_decoder
from .turns import CLOSE_COST, LINK_COST, READ_COST, Turns

METHOD = 1
FRAME_END = 0xCE
END = b"\xce"
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
CONNECTION_CLOSE = 0x000A0032
FLOW, FLOW_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK = 0x00140014, 0x00140015, 0x00140028, 0x00140029
CANCEL, ACK, NACK = 0x003C001E, 0x003C0050, 0x003C0078
REPLIES = {0x00280028: 0x00280033}  # exchange.unbind-ok; the id of any other reply is its request's plus one
REQUEUE = 2  # among the flags of basic.nack

WRITE_MAX = 8 << 20  # bytes that the upstream has not read: acknowledgements and methods, which are short
READER_LIMIT = 1 << 16  # bytes buffered for aio-pika; above twice that the socket is not read
SHORT_READ = 4096  # bytes that may wait for another turn; if more arrive meanwhile, the socket is paused
FULL_READ = 1 << 16  # bytes: after a read of this size, other connections have a turn before the next read
YIELDING = "yield"  # the pause until the next turn of the loop
SILENT_CHECKS = 2  # successive checks, a heartbeat apart, after which the connection is aborted
# The deadline of a reply. An upstream with a slow disk takes seconds; heartbeats do not prove that it serves requests.
ANSWER_S = 30
DEADLINE_CHECK_S = 1.0

_frame = Struct(">BHII").unpack_from
_close = Struct(">HB").unpack_from
_call_head = Struct(">BHII").pack
_ack = Struct(">BHIIQBB").pack
CLOSED = "socket closed"  # the reason if neither side has given one


class UpstreamEvents(Protocol):
    """The listener of an UpstreamTransport. All methods are called from within `data_received`."""

    def delivered(self, deliveries: list[Delivery]) -> None:
        """Handle deliveries that were received together, in order."""

    def cancelled(self, channel: int, consumer_tag: str) -> None:
        """Handle a consumer that the upstream has cancelled."""

    def channel_closed(self, channel: int, fault: LinkError) -> None:
        """Handle a channel that the upstream has closed."""

    def failed(self, error: Exception) -> None:
        """Log an unexpected exception; the connection is aborted."""


class UpstreamTransport(asyncio.StreamReaderProtocol):
    """The protocol of the socket to an upstream. `reader` is aio-pika's.

    `ended` is completed with the reason when the socket is closed, in one of the `turns` that has time for it; `fault`
    is the upstream's connection.close, or None.
    """

    def __init__(
        self,
        events: UpstreamEvents,
        body_max: int = BODY_MAX,
        turns: Turns | None = None,
        alone: Callable[[], bool] | None = None,
    ) -> None:
        """`alone` is that of the `Host`."""
        self.loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader(READER_LIMIT, self.loop)
        super().__init__(self.reader, loop=self.loop)
        self.reader.set_transport(cast(asyncio.BaseTransport, ReaderTransport(self)))
        self.ended: asyncio.Future[str] = self.loop.create_future()
        self.fault: LinkError | None = None
        self.socket: asyncio.Transport | None = None
        self.parser = DeliveryParser(body_max)
        self.started = False  # whether connection.start was received
        self._tls = False
        self._alone = alone
        self._events = events
        self.turns = turns or Turns()
        self._reason = ""
        self._calls: dict[int, deque[tuple[int, asyncio.Future[bytes]]]] = {}
        self._pauses: set[str] = set()  # the reasons for which the socket is not read
        self._unread = b""  # received, and waiting for a turn
        self._reads = 0
        self._reads_before = 0  # at the last check for silence
        self._silent_checks = 0
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self._awaited: dict[asyncio.Future[Any], tuple[int, str]] = {}  # the check at which it is overdue; the error
        self._deadline_checks = 0  # those during which the socket was read
        self._deadline_timer: asyncio.TimerHandle | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.socket = cast(asyncio.Transport, transport)
        if hasattr(transport, "max_size"):  # asyncio's own transports allocate so many bytes for each read
            transport.max_size = FULL_READ
        self._tls = transport.get_extra_info("sslcontext") is not None

    def data_received(self, data: bytes) -> None:
        """Handle bytes from the socket, short ones in a turn that has time for them. HOT: the federation bench."""
        self._reads += 1
        if self._unread:
            self._unread += data
            self.hold(YIELDING)  # not before: to pause very many sockets would take long
        elif len(data) > SHORT_READ and YIELDING not in self._pauses:
            self._read(data)
        else:
            self._unread = data
            self.turns.run(READ_COST, self._read_waiting)

    def _read_waiting(self) -> None:
        data, self._unread = self._unread, b""
        self.release(YIELDING)
        self._read(data)

    def _read(self, data: bytes) -> None:
        try:
            self._take(data)
        except LinkError as fault:
            self.abort(fault.text)
        except Exception as error:
            self._events.failed(error)
            self.abort("internal error")
        if len(data) >= FULL_READ and not self._pauses:
            self.hold(YIELDING)
            self.loop.call_soon(self.release, YIELDING)

    def eof_received(self) -> bool:
        """Close the socket in a turn that has time, because closing very many takes more than one turn.

        Returns whether the socket stays open until then. The loop itself closes a connection with TLS.
        """
        if self._tls or self.socket is None:
            return False
        self.turns.run(CLOSE_COST, self.socket.close)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.socket = None
        for timer in (self._heartbeat_timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        self.turns.run(LINK_COST, partial(self._end, exc))

    def _end(self, exc: Exception | None) -> None:
        reason = self._reason or (self.fault.text if self.fault is not None else "")
        reason = reason or (f"{CLOSED}: {exc}" if exc is not None else CLOSED)
        for channel in list(self._calls):
            self._fail_calls(channel, self.fault or LinkError(reason))
        self.parser = DeliveryParser(self.parser.body_max)
        if not self.ended.done():
            self.ended.set_result(reason)
        super().connection_lost(None)

    # Out

    def write(self, frames: bytes) -> None:
        """Write whole frames, unless the socket is closed.

        Aborts the connection if the upstream does not read, or if another broker may act as this one: the process may
        have been suspended since it decided to write.
        """
        socket = self.socket
        if socket is None or socket.is_closing():
            return
        if self._alone is not None and not self._alone():
            self.abort(NOT_ALONE)
            return
        socket.write(frames)
        if socket.get_write_buffer_size() > WRITE_MAX:
            self.abort("the upstream does not read what is sent to it")

    def ack(self, channel: int, tag: int, multiple: bool) -> None:
        self.write(_ack(METHOD, channel, 13, ACK, tag, multiple, FRAME_END))

    def nack(self, channel: int, tag: int, requeue: bool) -> None:
        self.write(_ack(METHOD, channel, 13, NACK, tag, REQUEUE if requeue else 0, FRAME_END))

    def send(self, channel: int, index: int, arguments: bytes) -> None:
        """Write a method that has no reply."""
        self.write(_call_head(METHOD, channel, 4 + len(arguments), index) + arguments + END)

    def call(self, channel: int, index: int, arguments: bytes) -> asyncio.Future[bytes]:
        """Write a method. The future's result is the arguments of the reply; its error is a LinkError."""
        answer: asyncio.Future[bytes] = self.loop.create_future()
        answer.add_done_callback(mark_retrieved)
        if self.socket is None or self.socket.is_closing():
            answer.set_exception((self.fault or LinkError(self._reason or CLOSED)).copy())
        else:
            self._calls.setdefault(channel, deque()).append((REPLIES.get(index, index + 1), answer))
            self.send(channel, index, arguments)
            self.expect(answer)
        return answer

    def expect(self, answer: asyncio.Future[Any], within_s: int = 0, what: str = "answered a request") -> None:
        """Abort the connection unless `answer` is done within `within_s` seconds in which the socket was read.

        0 means ANSWER_S. `what` completes the error text: "the upstream has not ... within 30 s".
        """
        within_s = within_s or ANSWER_S
        self._awaited[answer] = self._deadline_checks + within_s, f"the upstream has not {what} within {within_s} s"
        answer.add_done_callback(self._drop_deadline)
        if self._deadline_timer is None and self.socket is not None:
            self._deadline_timer = self.loop.call_later(DEADLINE_CHECK_S, self._check_deadlines)

    def _drop_deadline(self, answer: asyncio.Future[Any]) -> None:
        self._awaited.pop(answer, None)

    def _check_deadlines(self) -> None:
        self._deadline_timer = None
        if not self._pauses - {YIELDING}:
            self._deadline_checks += 1
        for overdue_at, reason in self._awaited.values():
            if overdue_at <= self._deadline_checks:
                self.abort(reason)
                return
        if self._awaited:
            self._deadline_timer = self.loop.call_later(DEADLINE_CHECK_S, self._check_deadlines)

    def drop_channel(self, channel: int, fault: LinkError) -> None:
        """Fail the calls of a closed channel and drop its partial delivery."""
        self.parser.drop_channel(channel)
        self._fail_calls(channel, fault)

    def abort(self, reason: str) -> None:
        """Close the socket at once. `ended` gets the reason of the first call."""
        self._reason = self._reason or reason
        if self.socket is not None:
            self.socket.abort()

    # Reading

    def hold(self, reason: str = "link") -> None:
        """Stop reading the socket until every reason is released."""
        if not self._pauses and self.socket is not None and not self.socket.is_closing():
            self.socket.pause_reading()
        self._pauses.add(reason)

    def release(self, reason: str = "link") -> None:
        if reason in self._pauses:
            self._pauses.remove(reason)
            if not self._pauses and self.socket is not None and not self.socket.is_closing():
                self.socket.resume_reading()

    def watch_heartbeats(self, heartbeat_s: float) -> None:
        """Abort the connection if nothing is received for SILENT_CHECKS heartbeats in which the socket is read.

        aio-pika, which sees no deliveries, gets heartbeats in their place.
        """
        if self.socket is not None:
            self._heartbeat_timer = self.loop.call_later(heartbeat_s, self._check_silence, heartbeat_s)

    def _check_silence(self, heartbeat_s: float) -> None:
        active = self._reads != self._reads_before or self._pauses
        self._silent_checks = 0 if active else self._silent_checks + 1
        self._reads_before = self._reads
        if self._silent_checks >= SILENT_CHECKS:
            self.abort("heartbeat_timeout")
            return
        self.reader.feed_data(HEARTBEAT_FRAME)
        self.watch_heartbeats(heartbeat_s)

    # In

    def _take(self, data: bytes) -> None:
        """Parse received bytes and pass on their frames. Raises LinkError. HOT: the federation bench."""
        deliveries: list[Delivery] = []
        others: list[bytes] = []
        try:
            self.parser.feed(data, deliveries, others)
        finally:  # what was complete before an error is valid
            if deliveries:
                self._events.delivered(deliveries)
            if others:
                frames = [frame for frame in others if not self._is_answer(frame) and self._is_for_reader(frame)]
                if frames:
                    self.reader.feed_data(b"".join(frames))

    def _is_answer(self, frame: bytes) -> bool:
        """Whether the frame is the reply to a call, which it completes. Also handles close and cancel."""
        if frame[0] != METHOD or len(frame) < 12:
            return False
        _, channel, _, index = _frame(frame)
        calls = self._calls.get(channel)
        if calls and calls[0][0] == index:
            answer = calls.popleft()[1]
            if not calls:
                del self._calls[channel]
            if not answer.done():  # unless its caller was cancelled
                answer.set_result(frame[11:-1])
            return True
        if index == CHANNEL_CLOSE:
            fault = close_error(frame)
            self.drop_channel(channel, fault)
            self._events.channel_closed(channel, fault)
        elif index == CONNECTION_CLOSE:
            self.fault = close_error(frame)
            self.turns.spend(LINK_COST)
        elif index == CANCEL:
            tag = frame[12 : 12 + frame[11]]
            self._events.cancelled(channel, tag.decode("utf-8", "surrogateescape"))
        return False

    def _is_for_reader(self, frame: bytes) -> bool:
        """Whether the frame is for aio-pika; answer one that concerns a channel. Raises LinkError."""
        passes = is_for_decoder(frame, self.started)
        self.started = self.started or passes and frame[0] == METHOD
        if not passes or frame[0] != METHOD:
            return passes
        _, channel, _, index = _frame(frame)
        if index == CHANNEL_CLOSE:
            self.send(channel, CHANNEL_CLOSE_OK, b"")
        elif index == FLOW:
            self.send(channel, FLOW_OK, frame[11:12])
        return int(channel) == 0

    def _fail_calls(self, channel: int, fault: LinkError) -> None:
        for _, answer in self._calls.pop(channel, ()):
            if not answer.done():
                answer.set_exception(fault.copy())


class ReaderTransport:
    """The transport of aio-pika's reader, by which the reader pauses the socket when its buffer is full."""

    def __init__(self, transport: UpstreamTransport) -> None:
        self._transport = ref(transport)  # weak, because the transport has the reader

    def pause_reading(self) -> None:
        transport = self._transport()
        if transport is not None:
            transport.hold("reader")

    def resume_reading(self) -> None:
        transport = self._transport()
        if transport is not None:
            transport.release("reader")


def mark_retrieved(future: asyncio.Future[Any]) -> None:
    """Retrieve a future's exception, so that asyncio does not log it if the future is never awaited."""
    if not future.cancelled():
        future.exception()


def close_error(frame: bytes) -> LinkError:
    """Return the error of a connection.close or channel.close. Raises LinkError if the frame is malformed."""
    if len(frame) < 15:
        raise LinkError("the upstream sent a malformed close")
    code, size = _close(frame, 11)
    text = "".join([one if one.isprintable() else "?" for one in frame[14 : 14 + size].decode("utf-8", "replace")])
    return LinkError(text or f"closed by the upstream with {code}", code)


__all__ = ["Delivery", "UpstreamEvents", "UpstreamTransport", "mark_retrieved"]
