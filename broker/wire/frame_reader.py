"""Parser of a connection's input: frames, and whole runs of publishes and acknowledgements straight from the buffer.

The layout of frames is in `amqp/framing.py`. The reader knows the grammar of the stream, which method is followed by
content and what that content must look like, but no queue and no channel's state: those are the session's. Sizes are
checked before anything is waited for or kept.

Two ways lead to the same events. Where method, header and body of a publish lie whole in the buffer they are taken in
one step, and with them all that follow and differ in the body alone. All else goes frame by frame.
"""

from __future__ import annotations

from collections.abc import Container
from struct import Struct

from pamqp import commands

from ..amqp.errors import FrameError, ResourceFault, SyntaxFault, UnexpectedFrame
from ..amqp.framing import BODY, CONTENT_CLASS, CONTENT_MIN, FRAME_END, FRAME_OVERHEAD, HEADER, HEARTBEAT, METHOD
from .content_assembler import Content, check_header

PUBLISH = commands.Basic.Publish.index
ACK = commands.Basic.Ack.index
ACK_SIZE = 13
LONGEST_PUBLISH = 4 + 2 + 256 + 256 + 1  # ids, ticket, exchange, routing key, flags

_head = Struct(">BHI").unpack_from
_index = _size = Struct(">I").unpack_from
_content_head = Struct(">BHIHHQ").unpack_from
_ack = Struct(">QB").unpack_from


class Method:
    """A method other than a publish or an acknowledgement. `index` is class id << 16 | method id."""

    __slots__ = ("channel", "index", "payload")

    def __init__(self, channel: int, index: int, payload: bytes) -> None:
        self.channel = channel
        self.index = index
        self.payload = payload


class Publishes:
    """Publishes on one channel, one after the other, with the same method.

    method    the method's payload with the end octet behind it: exchange, key and flags (ids and ticket in front)
    contents  header frame and body frames of each, whole
    alike     their header frames are the same, to the octet
    too_long  octets of a body that is over the limit and was not kept; `contents` is empty then
    largest_frame  octets of the longest frame, 0 where no content has more than one frame of each kind
    """

    __slots__ = ("channel", "method", "contents", "alike", "too_long", "largest_frame")

    def __init__(
        self,
        channel: int,
        method: bytes,
        contents: list[bytes],
        alike: bool,
        too_long: int = 0,
        largest_frame: int = 0,
    ) -> None:
        self.channel = channel
        self.method = method
        self.contents = contents
        self.alike = alike
        self.too_long = too_long
        self.largest_frame = largest_frame


class Acks:
    """basic.ack: either several single tags in the order they came, or one with `multiple`."""

    __slots__ = ("channel", "tags", "multiple")

    def __init__(self, channel: int, tags: list[int], multiple: bool) -> None:
        self.channel = channel
        self.tags = tags
        self.multiple = multiple


Event = Method | Publishes | Acks


class FrameReader:
    """Incremental parser of one connection's input. `feed` received bytes, then call `next` until it returns None.

    frame_max  the largest payload accepted, in octets; 0 is no limit
    body_max   bodies longer than this are not kept; the publish is still reported, with no contents
    unfinished_max  octets of unfinished contents that are kept for all channels together
    channels   the open ones: only there a publish is followed by its content, elsewhere it is a method out of place
    """

    __slots__ = (
        "frame_max",
        "body_max",
        "unfinished_max",
        "_channels",
        "_kept",
        "_data",
        "_at",
        "_parts",
        "_missing",
        "_behind",
        "_behind_at",
        "_unfinished",
    )

    def __init__(self, frame_max: int, body_max: int, channels: Container[int]) -> None:
        self.frame_max = frame_max
        self.body_max = body_max
        self.unfinished_max = 8 * body_max
        self._channels = channels
        self._kept = 0  # octets of unfinished contents
        self._data = b""
        self._at = 0
        self._parts: list[bytes] = []  # what arrived of a frame that is not whole yet
        self._missing = 0  # octets that frame still needs
        self._behind = b""  # what arrived together with the end of that frame, and where in it the next one starts
        self._behind_at = 0
        self._unfinished: dict[int, Content] = {}

    def feed(self, data: bytes) -> None:
        """Append received bytes to the input that is not consumed yet."""
        if self._parts:
            if len(data) < self._missing:
                self._parts.append(data)
                self._missing -= len(data)
                return
            # Only the frame that was cut is put together; what came behind it is not copied.
            self._parts.append(data[: self._missing])
            self._behind, self._behind_at = data, self._missing
            data = b"".join(self._parts)
            self._parts.clear()
        elif self._at < len(self._data) or self._behind:
            data = self._data[self._at :] + self._behind[self._behind_at :] + data
            self._behind = b""
        self._data = data
        self._at = 0

    def take(self, octets: int) -> bytes | None:
        """Consume raw bytes, for the protocol header; return None if there are fewer."""
        if len(self._data) - self._at < octets:
            return None
        self._at += octets
        return self._data[self._at - octets : self._at]

    def next(self) -> Event | None:
        """Return the next event, or None if more input is needed; raises FrameError (501), UnexpectedFrame (505).

        After an error the input cannot be trusted any more: take nothing further. HOT: bench A-M.
        """
        data = self._data
        while True:
            at = self._at
            have = len(data) - at
            if not have and self._behind:
                data, at = self._data, self._at = self._behind, self._behind_at
                self._behind = b""
                have = len(data) - at
            if have < 7:
                if not have:
                    self._data = b""  # nothing is left of what arrived: let go of it
                    self._at = 0
                return None
            kind, channel, size = _head(data, at)
            if size > self.frame_max and self.frame_max:
                raise self._too_large(kind, size)
            stop = at + size + FRAME_OVERHEAD
            if stop > len(data):
                if kind not in (METHOD, HEADER, BODY, HEARTBEAT):
                    raise self._unknown(kind, at)
                self._wait_for(stop - len(data))
                return None
            if data[stop - 1] != FRAME_END:
                raise FrameError(f"type {kind}, all octets = <<>>: {{invalid_frame_end_marker,{data[stop - 1]}}}")
            self._at = stop
            if kind == METHOD:
                if size < 4:
                    raise FrameError(f"type 1, all octets = {shown(data[at + 7 : stop - 1])}: malformed method frame")
                if channel in self._unfinished:
                    raise self._unfinished[channel].expected(METHOD)
                index = _index(data, at + 7)[0]
                if index == PUBLISH and channel in self._channels:
                    if size > LONGEST_PUBLISH:
                        raise SyntaxFault("method arguments are longer than the method has", 60, 40)
                    event = self._publishes(at, stop, channel)
                    if event is not None:
                        return event
                    continue
                if index == ACK and size == ACK_SIZE:
                    return self._acks(at, channel)
                return Method(channel, index, data[at + 7 : stop - 1])
            event = self._other(kind, channel, at, stop)
            if event is not None:
                return event

    def _publishes(self, at: int, stop: int, channel: int) -> Publishes | None:
        """Parse whole publishes with the same method, the first at `at` with its method ending at `stop`. HOT: bench
        A-M."""
        data = self._data
        end = len(data)
        last = self._content_end(stop, channel)
        if not last:
            self._unfinished[channel] = Content(data[at + 7 : stop], channel)
            return None
        start, skip, stride = at, stop - at, last - at
        contents = [data[stop:last]]
        header_end = FRAME_OVERHEAD + _size(data, stop + 3)[0]
        body_at = stop + header_end
        # First those that differ in their body alone,
        lead = data[at : body_at + 7] if last > body_at else data[at:body_at]
        at = last
        last += stride
        while last <= end and data.startswith(lead, at) and data[last - 1] == FRAME_END:
            contents.append(data[at + skip : last])
            at = last
            last += stride
        # then those with other properties, or bodies of another length.
        alike = len(contents)
        lead = data[start:stop]
        while data.startswith(lead, at):
            last = self._content_end(at + skip, channel)
            if not last:
                break
            contents.append(data[at + skip : last])
            at = last
        self._at = at
        return Publishes(channel, data[start + 7 : stop], contents, alike == len(contents))

    def _content_end(self, at: int, channel: int) -> int:
        """Return the end of the content whose header frame is at `at`; 0 unless it is whole with at most one body
        frame.

        HOT: bench L.
        """
        data = self._data
        if at + 7 + CONTENT_MIN >= len(data):
            return 0
        kind, number, size, class_id, weight, body = _content_head(data, at)
        body_at = at + size + FRAME_OVERHEAD
        end = int(body_at + body + FRAME_OVERHEAD if body else body_at)
        if (
            kind != HEADER
            or number != channel
            or class_id != CONTENT_CLASS
            or weight
            or size < CONTENT_MIN
            or end > len(data)
            or body > self.body_max
            or data[body_at - 1] != FRAME_END
            or data[end - 1] != FRAME_END
            or (self.frame_max and (size > self.frame_max or body > self.frame_max))
            or (body and _head(data, body_at) != (BODY, channel, body))
        ):
            return 0
        return end

    def _acks(self, at: int, channel: int) -> Acks:
        """Parse an acknowledgement at `at`, with all single ones that follow it. HOT: bench I."""
        data = self._data
        tag, multiple = _ack(data, at + 11)
        if multiple & 1:
            return Acks(channel, [tag], True)
        tags = [tag]
        lead = data[at : at + 11]
        end = len(data)
        at += 21
        while at + 21 <= end and data.startswith(lead, at) and data[at + 20] == FRAME_END:
            tag, multiple = _ack(data, at + 11)
            if multiple & 1:
                break
            tags.append(tag)
            at += 21
        self._at = at
        return Acks(channel, tags, False)

    def _other(self, kind: int, channel: int, at: int, stop: int) -> Publishes | None:
        """Handle a frame other than a method: part of a content, or a heartbeat."""
        data = self._data
        if kind == HEARTBEAT:
            if channel:
                raise UnexpectedFrame(f"type 8, all octets = {shown(data[at + 7 : stop - 1])}: unexpected heartbeat")
            if stop - at != FRAME_OVERHEAD:
                raise self._unknown(kind, at)
            return None
        if kind not in (HEADER, BODY):
            raise self._unknown(kind, at)
        content = self._unfinished.get(channel)
        if content is None:
            if not channel:
                octets = shown(data[at + 7 : stop - 1])
                raise UnexpectedFrame(f"type {kind}, all octets = {octets}: content on channel 0")
            raise UnexpectedFrame("expected method frame, got non method frame instead")
        frame = data[at:stop]
        self._kept -= content.kept
        if content.waits_for_header:
            if kind != HEADER:
                raise content.expected(kind)
            check_header(frame)
            content.header(frame, self.body_max)
        elif kind == BODY:
            content.body(frame)
        else:
            raise content.expected(kind)
        if content.missing:
            self._kept += content.kept
            if self._kept > self.unfinished_max:
                text = f"unfinished contents of {self._kept} octets exceed the maximum of {self.unfinished_max}"
                raise ResourceFault(text, 60, 40)
            return None
        del self._unfinished[channel]
        if not content.frames:
            return Publishes(channel, content.method, [], True, content.body_bytes)
        return Publishes(channel, content.method, [b"".join(content.frames)], True, 0, content.largest_frame)

    def in_content(self) -> bool:
        """Whether a content is incomplete whose header has arrived."""
        return any(not content.waits_for_header for content in self._unfinished.values())

    def _wait_for(self, octets: int) -> None:
        """Collect the parts of an incomplete frame, without joining them at each read."""
        self._parts = [self._data[self._at :]]
        self._missing = octets
        self._data = b""
        self._at = 0

    def _too_large(self, kind: int, size: int) -> FrameError:
        return FrameError(f"type {kind}, all octets = <<>>: {{frame_too_large,{size},{self.frame_max}}}")

    def _unknown(self, kind: int, at: int) -> FrameError:
        return FrameError(f"type {kind}, first 16 octets = {shown(self._data[at : at + 16])}: unknown_frame")


def shown(octets: bytes) -> str:
    """Format the first 16 bytes as Erlang prints a binary."""
    return "<<" + ",".join(str(octet) for octet in octets[:16]) + ">>"
