"""The octets of one connection to an upstream, beneath aio-pika.

aio-pika keeps the connection: the handshake, heartbeats, the opening and closing of channels, the goodbye. What a link
does often, or needs to be exact to the octet, does not pass through it: deliveries are cut out of the stream, whole and
as they are, and so are the replies to calls that were written here. All other octets go on to its reader, unchanged and
in order. What came together is handed over together; a delivery is handed over before aio-pika sees anything behind it.

Nothing here knows what is done with a delivery, nor how the socket came to be.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import Any, cast

from ..errors import LinkError
from .delivery_parser import BODY_MAX, Cutter, Delivery
from .frame_check import is_for_decoder

METHOD = 1
FRAME_END = 0xCE
END = b"\xce"
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
CONNECTION_CLOSE, CHANNEL_CLOSE = 0x000A0032, 0x00140028
CANCEL, ACK, NACK = 0x003C001E, 0x003C0050, 0x003C0078
ANSWERS = {0x00280028: 0x00280033}  # exchange.unbind alone is not answered by the method of the next number
REQUEUE = 2  # among the flags of basic.nack

WRITE_MAX = 8 << 20  # octets that the upstream has not read yet: acknowledgements and calls, which are short
READER_LIMIT = 1 << 16  # octets for aio-pika; beyond twice that nothing is read
FULL_READ = 1 << 16  # octets: a read of this size may be followed by more at once, and others wait for their turn
RESTS = "rest"  # why nothing is read until the next turn
SILENT_LOOKS = 2  # in a row, a heartbeat apart, after which the upstream is given up
# For the answer to one request. An upstream whose disk is slow takes seconds; heartbeats say nothing of whether it
# serves requests at all.
ANSWER_S = 30
ANSWER_LOOK_S = 1.0  # how often answers are looked for that are overdue

_frame = Struct(">BHII").unpack_from
_close = Struct(">HB").unpack_from
_call_head = Struct(">BHII").pack
_ack = Struct(">BHIIQBB").pack


class UpstreamEvents:
    """Who wants to know what goes on. All are called from within `data_received`."""

    def delivered(self, deliveries: list[Delivery]) -> None:
        """What came whole at once, in order."""
        raise NotImplementedError

    def cancelled(self, channel: int, consumer_tag: str) -> None:
        """The upstream has ended a consumer."""
        raise NotImplementedError

    def channel_closed(self, channel: int, fault: LinkError) -> None:
        """By the upstream."""
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        """A bug of ours; the connection is about to end."""
        raise NotImplementedError


class UpstreamTransport(asyncio.StreamReaderProtocol):
    """The protocol of a socket, to be given to a loop. `reader` is aio-pika's.

    `ended` is told why, once the socket is gone; `fault` is what the upstream said in its connection.close.
    """

    def __init__(self, listener: UpstreamEvents, body_max: int = BODY_MAX) -> None:
        self.loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader(READER_LIMIT, self.loop)
        super().__init__(self.reader, loop=self.loop)
        self.reader.set_transport(cast(asyncio.BaseTransport, Reading(self)))
        self.ended: asyncio.Future[str] = self.loop.create_future()
        self.fault: LinkError | None = None
        self.socket: asyncio.Transport | None = None
        self.cutter = Cutter(body_max)
        self.started = False  # whether connection.start has come
        self._listener = listener
        self._reason = ""
        self._calls: dict[int, deque[tuple[int, asyncio.Future[bytes]]]] = {}
        self._pauses: set[str] = set()  # why nothing is read
        self._received = 0  # reads
        self._seen = 0
        self._silent = 0
        self._watch_timer: asyncio.TimerHandle | None = None
        self._awaited: dict[asyncio.Future[Any], tuple[int, str]] = {}  # the look at which it is overdue; the reason
        self._answer_looks = 0  # while the socket was read
        self._answer_timer: asyncio.TimerHandle | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.socket = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """HOT: the federation bench."""
        self._received += 1
        try:
            self._take(data)
        except LinkError as fault:
            self.abort(fault.text)
        except Exception as error:
            self._listener.failed(error)
            self.abort("internal error")
        if len(data) >= FULL_READ and not self._pauses:
            self.hold(RESTS)
            self.loop.call_soon(self.release, RESTS)

    def eof_received(self) -> bool:
        return False  # which closes the socket

    def connection_lost(self, exc: Exception | None) -> None:
        self.socket = None
        for timer in (self._watch_timer, self._answer_timer):
            if timer is not None:
                timer.cancel()
        reason = self._reason or (self.fault.text if self.fault is not None else "")
        reason = reason or (f"socket closed: {exc}" if exc is not None else "socket closed")
        for channel in list(self._calls):
            self._fail_calls(channel, self.fault or LinkError(reason))
        self.cutter = Cutter(self.cutter.body_max)
        if not self.ended.done():
            self.ended.set_result(reason)
        super().connection_lost(None)

    # Out

    def write(self, frames: bytes) -> None:
        """Whole frames. What comes after the end is dropped, and so is an upstream that does not read."""
        socket = self.socket
        if socket is None or socket.is_closing():
            return
        socket.write(frames)
        if socket.get_write_buffer_size() > WRITE_MAX:
            self.abort("the upstream does not read what is sent to it")

    def ack(self, channel: int, tag: int, multiple: bool) -> None:
        self.write(_ack(METHOD, channel, 13, ACK, tag, multiple, FRAME_END))

    def nack(self, channel: int, tag: int, requeue: bool) -> None:
        self.write(_ack(METHOD, channel, 13, NACK, tag, REQUEUE if requeue else 0, FRAME_END))

    def send(self, channel: int, index: int, arguments: bytes) -> None:
        """A method that is not answered."""
        self.write(_call_head(METHOD, channel, 4 + len(arguments), index) + arguments + END)

    def call(self, channel: int, index: int, arguments: bytes) -> asyncio.Future[bytes]:
        """A method, and the arguments of its answer; any number of them may be on their way. The future has LinkError
        where the upstream closes the channel or is gone."""
        answer: asyncio.Future[bytes] = self.loop.create_future()
        answer.add_done_callback(seen)
        if self.socket is None or self.socket.is_closing():
            answer.set_exception(self.fault or LinkError(self._reason or "socket closed"))
        else:
            self._calls.setdefault(channel, deque()).append((ANSWERS.get(index, index + 1), answer))
            self.send(channel, index, arguments)
            self.expect(answer)
        return answer

    def expect(self, answer: asyncio.Future[Any], within_s: int = 0, what: str = "answered a request") -> None:
        """Abort the connection unless `answer` is done after so many seconds in which the socket was read: by default
        ANSWER_S. While we do not read, no answer can come."""
        within_s = within_s or ANSWER_S
        self._awaited[answer] = self._answer_looks + within_s, f"the upstream has not {what} within {within_s} s"
        answer.add_done_callback(self._forget_answer)
        if self._answer_timer is None and self.socket is not None:
            self._answer_timer = self.loop.call_later(ANSWER_LOOK_S, self._look_for_answers)

    def _forget_answer(self, answer: asyncio.Future[Any]) -> None:
        self._awaited.pop(answer, None)

    def _look_for_answers(self) -> None:
        self._answer_timer = None
        if not self._pauses - {RESTS}:
            self._answer_looks += 1
        for overdue_at, reason in self._awaited.values():
            if overdue_at <= self._answer_looks:
                self.abort(reason)
                return
        if self._awaited:
            self._answer_timer = self.loop.call_later(ANSWER_LOOK_S, self._look_for_answers)

    def forget(self, channel: int, fault: LinkError) -> None:
        """The channel is over."""
        self.cutter.forget(channel)
        self._fail_calls(channel, fault)

    def abort(self, reason: str) -> None:
        """End without another word."""
        self._reason = self._reason or reason
        if self.socket is not None:
            self.socket.abort()

    # Reading

    def pause(self) -> None:
        """Take no more from the socket until `resume`."""
        self.hold("link")

    def resume(self) -> None:
        self.release("link")

    def hold(self, why: str) -> None:
        if not self._pauses and self.socket is not None and not self.socket.is_closing():
            self.socket.pause_reading()
        self._pauses.add(why)

    def release(self, why: str) -> None:
        if why in self._pauses:
            self._pauses.remove(why)
            if not self._pauses and self.socket is not None and not self.socket.is_closing():
                self.socket.resume_reading()

    def watch(self, heartbeat_s: float) -> None:
        """From now on, give the upstream up when nothing has come for some heartbeats. While we do not read, we do not
        look. aio-pika, which sees no deliveries, is shown that the connection is alive."""
        self._watch_timer = self.loop.call_later(heartbeat_s, self._look, heartbeat_s)

    def _look(self, heartbeat_s: float) -> None:
        self._silent = 0 if self._received != self._seen or self._pauses else self._silent + 1
        self._seen = self._received
        if self._silent >= SILENT_LOOKS:
            self.abort("heartbeat_timeout")
            return
        self.reader.feed_data(HEARTBEAT_FRAME)
        self.watch(heartbeat_s)

    # In

    def _take(self, data: bytes) -> None:
        """Raises LinkError. HOT: the federation bench."""
        deliveries: list[Delivery] = []
        others: list[bytes] = []
        try:
            self.cutter.take(data, deliveries, others)
        finally:  # what came whole before a fault is good
            if deliveries:
                self._listener.delivered(deliveries)
            if others:
                frames = [frame for frame in others if not self._is_answer(frame) and self._is_for_reader(frame)]
                if frames:
                    self.reader.feed_data(b"".join(frames))

    def _is_answer(self, frame: bytes) -> bool:
        """Whether it is the answer to a call, which it is given to."""
        if frame[0] != METHOD or len(frame) < 12:
            return False
        _, channel, _, index = _frame(frame)
        calls = self._calls.get(channel)
        if calls and calls[0][0] == index:
            answer = calls.popleft()[1]
            if not calls:
                del self._calls[channel]
            if not answer.done():  # nobody may wait any more
                answer.set_result(frame[11:-1])
            return True
        if index == CHANNEL_CLOSE:
            fault = said(frame)
            self.forget(channel, fault)
            self._listener.channel_closed(channel, fault)
        elif index == CONNECTION_CLOSE:
            self.fault = said(frame)
        elif index == CANCEL:
            tag = frame[12 : 12 + frame[11]]
            self._listener.cancelled(channel, tag.decode("utf-8", "surrogateescape"))
        return False

    def _is_for_reader(self, frame: bytes) -> bool:
        """Raises LinkError."""
        passes = is_for_decoder(frame, self.started)
        self.started = self.started or passes and frame[0] == METHOD
        return passes

    def _fail_calls(self, channel: int, fault: LinkError) -> None:
        for _, answer in self._calls.pop(channel, ()):
            if not answer.done():
                answer.set_exception(fault)


class Reading:
    """What aio-pika's reader takes for the socket, to hold it back when it has too much."""

    def __init__(self, line: UpstreamTransport) -> None:
        self._line = line

    def pause_reading(self) -> None:
        self._line.hold("reader")

    def resume_reading(self) -> None:
        self._line.release("reader")


def seen(future: asyncio.Future[Any]) -> None:
    """Nobody need wait for it, and then nothing is to be said of one that failed."""
    if not future.cancelled():
        future.exception()


def said(frame: bytes) -> LinkError:
    """Of a connection.close or a channel.close; raises LinkError where it is none."""
    if len(frame) < 15:
        raise LinkError("the upstream sent a malformed close")
    code, size = _close(frame, 11)
    text = "".join([one if one.isprintable() else "?" for one in frame[14 : 14 + size].decode("utf-8", "replace")])
    return LinkError(text or f"closed by the upstream with {code}", code)


__all__ = ["Delivery", "UpstreamEvents", "UpstreamTransport", "seen"]
