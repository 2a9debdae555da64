"""Parser of a connection's input: bytes to methods, runs of publishes and runs of acknowledgements.

The layout of frames is in `amqp/framing.py`. The reader knows the grammar of the stream: which method is followed by a
content, and the form of that content. Queues and the states of channels belong to the session. Sizes are checked before
anything is buffered.

Two ways lead to the same events. If method, header and body of a publish are complete in the buffer, they are taken in
one step, together with all publishes after it that differ only in the body. All other input is read frame by frame.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from struct import Struct
from typing import Final

from mypy_extensions import mypyc_attr
from pamqp import commands

from ..amqp.errors import FrameError, ResourceFault, SyntaxFault, UnexpectedFrame
from ..amqp.framing import BODY, CONTENT_CLASS, CONTENT_MIN, FRAME_END, FRAME_OVERHEAD, HEADER, HEARTBEAT, METHOD
from .content_assembler import Content, check_header

PUBLISH: Final = commands.Basic.Publish.index
ACK: Final = commands.Basic.Ack.index
ACK_SIZE: Final = 13
LONGEST_PUBLISH: Final = 4 + 2 + 256 + 256 + 1  # ids, ticket, exchange, routing key, flags

MIXED_RUN: Final = 128  # publishes with different methods in one event, at most: other connections follow
SHORT_RUN: Final = 8  # publishes with the same method; a run of this length is an event of its own
CONTENT_HEAD_BYTES: Final = 19  # frame head, class, weight and body size

_head: Final[Callable[[bytes, int], tuple[int, int, int]]] = Struct(">BHI").unpack_from
_method_head: Final[Callable[[bytes, int], tuple[int, int, int, int]]] = Struct(">BHII").unpack_from
_index: Final[Callable[[bytes, int], tuple[int]]] = Struct(">I").unpack_from
_size: Final = _index
_content_head: Final[Callable[[bytes, int], tuple[int, int, int, int, int, int]]] = Struct(">BHIHHQ").unpack_from
_ack: Final[Callable[[bytes, int], tuple[int, int]]] = Struct(">QB").unpack_from


@mypyc_attr(acyclic=True)
class Method:
    """A method other than a publish or an acknowledgement. `index` is class id << 16 | method id."""

    __slots__ = ("channel", "index", "payload")

    def __init__(self, channel: int, index: int, payload: bytes) -> None:
        self.channel = channel
        self.index = index
        self.payload = payload


@mypyc_attr(acyclic=True)
class Publishes:
    """Consecutive publishes on one channel.

    methods        the payload of each method and its end byte: ids, ticket, exchange, key, flags; one if all are equal
    contents       the whole header frame and body frames of each; one body frame at most if the methods differ
    alike          whether the header frames and the methods are equal
    too_long       the length of a body over the limit, which was not kept; `contents` is empty then
    largest_frame  the length of the longest frame, 0 if no content has more than one frame of each type
    resolved       whether the routes of the methods have been searched, as far as the cache has room for them
    """

    __slots__ = ("channel", "methods", "contents", "alike", "too_long", "largest_frame", "resolved")

    def __init__(
        self,
        channel: int,
        methods: list[bytes],
        contents: list[bytes],
        alike: bool,
        too_long: int = 0,
        largest_frame: int = 0,
    ) -> None:
        self.channel = channel
        self.methods = methods
        self.contents = contents
        self.alike = alike
        self.too_long = too_long
        self.largest_frame = largest_frame
        self.resolved = False

    def after(self, count: int) -> Publishes:
        """Return the publishes after the first `count`."""
        methods = self.methods[count:] if len(self.methods) > 1 else self.methods
        return Publishes(self.channel, methods, self.contents[count:], self.alike, 0, self.largest_frame)


@mypyc_attr(acyclic=True)
class Acks:
    """Consecutive basic.ack on one channel: single tags in order, or one tag with `multiple`."""

    __slots__ = ("channel", "tags", "multiple")

    def __init__(self, channel: int, tags: list[int], multiple: bool) -> None:
        self.channel = channel
        self.tags = tags
        self.multiple = multiple


Event = Method | Publishes | Acks


class FrameReader:
    """Incremental parser of one connection's input. `feed` received bytes, then call `next` until it returns None.

    frame_max       the largest accepted payload in bytes, 0 for no limit
    body_max        the longest body in bytes that is kept; a longer publish is returned without contents
    unfinished_max  the limit in bytes of unfinished contents of all channels together
    channels        the open channels: only on these a publish is followed by its content
    """

    __slots__ = (
        "frame_max",
        "body_max",
        "unfinished_max",
        "_channels",
        "_kept_bytes",
        "_data",
        "_at",
        "_parts",
        "_missing",
        "_awaited_bytes",
        "_next_data",
        "_next_at",
        "_unfinished",
    )

    def __init__(self, frame_max: int, body_max: int, channels: Container[int]) -> None:
        self.frame_max = frame_max
        self.body_max = body_max
        self.unfinished_max = 8 * body_max
        self._channels = channels
        self._kept_bytes = 0  # of unfinished contents
        self._data = b""
        self._at = 0
        self._parts: list[bytes] = []  # of an incomplete frame
        self._missing = 0  # bytes that this frame still needs
        self._awaited_bytes = 0  # of the whole frame
        self._next_data = b""  # the read that completed the frame
        self._next_at = 0  # offset of the next frame in it
        self._unfinished: dict[int, Content] = {}

    def feed(self, data: bytes) -> None:
        """Append received bytes to the input."""
        if self._parts:
            if len(data) < self._missing:
                self._parts.append(data)
                self._missing -= len(data)
                return
            # Only the frame that was cut is joined; the frames after it are not copied.
            self._parts.append(data[: self._missing])
            self._next_data, self._next_at = data, self._missing
            data = b"".join(self._parts)
            self._parts.clear()
        elif self._at < len(self._data) or self._next_data:
            data = self._data[self._at :] + self._next_data[self._next_at :] + data
            self._next_data = b""
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes | None:
        """Consume raw bytes, for the protocol header; return None if there are fewer."""
        if len(self._data) - self._at < count:
            return None
        self._at += count
        return self._data[self._at - count : self._at]

    def next(self) -> Event | None:
        """Return the next event, or None if more input is needed. HOT: bench A-M.

        Raises FrameError (501), SyntaxFault (502), UnexpectedFrame (505), ResourceFault (506). After an error the rest
        of the input is meaningless.
        """
        data = self._data
        while True:
            at = self._at
            have = len(data) - at
            if not have and self._next_data:
                data, at = self._data, self._at = self._next_data, self._next_at
                self._next_data = b""
                have = len(data) - at
            if have < 7:
                if not have:
                    self._data = b""  # frees the memory: all of it is consumed
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
                    payload = format_bytes(data[at + 7 : stop - 1])
                    raise FrameError(f"type 1, all octets = {payload}: malformed method frame")
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
        """Parse complete publishes with the same method, from `at`; the first method ends at `stop`. HOT: bench A-M.

        Return None if the first content is incomplete.
        """
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
        # First, contents that differ only in their bodies
        lead = data[at : body_at + 7] if last > body_at else data[at:body_at]
        lead_bytes = len(lead)
        at = last
        last += stride
        while last <= end and data[at : at + lead_bytes] == lead and data[last - 1] == FRAME_END:
            contents.append(data[at + skip : last])
            at = last
            last += stride
        # Then, contents with other properties or lengths of bodies
        alike = len(contents)
        lead = data[start:stop]
        while data[at : at + skip] == lead:
            last = self._content_end(at + skip, channel)
            if not last:
                break
            content_at = at + skip
            contents.append(data[content_at:last])
            # Contents of the same shape: header and body have the same lengths as the last ones.
            header_bytes = FRAME_OVERHEAD + _size(data, content_at + 3)[0]
            head = data[at : content_at + CONTENT_HEAD_BYTES]
            head_bytes = len(head)
            body_at = content_at + header_bytes
            middle = data[body_at - 1 : body_at + 7] if last > body_at else data[body_at - 1 : body_at]
            stride = last - at
            middle_at = body_at - 1 - at
            middle_end = middle_at + len(middle)
            at = last
            last += stride
            while (
                last <= end
                and data[at : at + head_bytes] == head
                and data[at + middle_at : at + middle_end] == middle
                and data[last - 1] == FRAME_END
            ):
                contents.append(data[at + skip : last])
                at = last
                last += stride
        method = data[start + 7 : stop]
        if len(contents) < SHORT_RUN and at + 11 < end:
            return self._mixed_publishes(at, channel, method, contents, alike == len(contents))
        self._at = at
        return Publishes(channel, [method], contents, alike == len(contents))

    def _mixed_publishes(self, at: int, channel: int, method: bytes, contents: list[bytes], alike: bool) -> Publishes:
        """Parse complete publishes with other methods from `at`, after a short run with one method. HOT: bench K."""
        data = self._data
        end = len(data)
        run = len(contents)
        methods = [method] * run
        while at + 11 <= end and len(contents) < MIXED_RUN:
            kind, number, size, index = _method_head(data, at)
            stop = at + size + FRAME_OVERHEAD
            # `next` reads anything else, and reports errors in it.
            if (
                index != PUBLISH
                or kind != METHOD
                or number != channel
                or not 4 <= size <= LONGEST_PUBLISH
                or stop > end
                or data[stop - 1] != FRAME_END
            ):
                break
            last = self._content_end(stop, channel)
            if not last:
                break
            methods.append(data[at + 7 : stop])
            contents.append(data[stop:last])
            # Publishes of the same shape: method and body have the same lengths, and the headers are equal.
            body_at = stop + FRAME_OVERHEAD + _size(data, stop + 3)[0]
            head = data[at : at + 11]
            middle = data[stop - 1 : body_at + 7] if last > body_at else data[stop - 1 : body_at]
            middle_bytes = len(middle)
            stride = last - at
            at = last
            stop += stride
            last += stride
            while (
                last <= end
                and len(contents) < MIXED_RUN
                and data[stop - 1 : stop - 1 + middle_bytes] == middle
                and data[at : at + 11] == head
                and data[last - 1] == FRAME_END
            ):
                methods.append(data[at + 7 : stop])
                contents.append(data[stop:last])
                at = last
                stop += stride
                last += stride
        self._at = at
        if len(contents) == run:
            return Publishes(channel, [method], contents, alike)
        return Publishes(channel, methods, contents, False)

    def _content_end(self, at: int, channel: int) -> int:
        """Return the end of the content whose header frame is at `at`. HOT: bench L.

        Return 0 unless it is complete and has at most one body frame.
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
        """Parse the acknowledgement at `at` and the single ones that follow it. HOT: bench I."""
        data = self._data
        tag, multiple = _ack(data, at + 11)
        if multiple & 1:
            return Acks(channel, [tag], True)
        tags = [tag]
        lead = data[at : at + 11]
        end = len(data)
        at += 21
        while at + 21 <= end and data[at : at + 11] == lead and data[at + 20] == FRAME_END:
            tag, multiple = _ack(data, at + 11)
            if multiple & 1:
                break
            tags.append(tag)
            at += 21
        self._at = at
        return Acks(channel, tags, False)

    def _other(self, kind: int, channel: int, at: int, stop: int) -> Publishes | None:
        """Handle a heartbeat or a part of a content; return the publish that it completes, or None."""
        data = self._data
        if kind == HEARTBEAT:
            if channel:
                payload = format_bytes(data[at + 7 : stop - 1])
                raise UnexpectedFrame(f"type 8, all octets = {payload}: unexpected heartbeat")
            if stop - at != FRAME_OVERHEAD:
                raise self._unknown(kind, at)
            return None
        if kind not in (HEADER, BODY):
            raise self._unknown(kind, at)
        content = self._unfinished.get(channel)
        if content is None:
            if not channel:
                payload = format_bytes(data[at + 7 : stop - 1])
                raise UnexpectedFrame(f"type {kind}, all octets = {payload}: content on channel 0")
            raise UnexpectedFrame("expected method frame, got non method frame instead")
        frame = data[at:stop]
        self._kept_bytes -= content.kept_bytes
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
            self._kept_bytes += content.kept_bytes
            if self._kept_bytes > self.unfinished_max:
                text = f"unfinished contents of {self._kept_bytes} bytes exceed the maximum of {self.unfinished_max}"
                raise ResourceFault(text, 60, 40)
            return None
        del self._unfinished[channel]
        if not content.frames:
            return Publishes(channel, [content.method], [], True, content.body_bytes)
        return Publishes(channel, [content.method], [b"".join(content.frames)], True, 0, content.largest_frame)

    @property
    def held_bytes(self) -> int:
        """The bytes of contents and frames of which a part has come."""
        of_frame = self._awaited_bytes - self._missing if self._parts else len(self._data) - self._at
        return self._kept_bytes + of_frame

    def in_content(self) -> bool:
        """Whether any content has its header but not all of its body."""
        return any(not content.waits_for_header for content in self._unfinished.values())

    def _wait_for(self, count: int) -> None:
        """Begin to collect an incomplete frame that needs `count` more bytes; its parts are joined once, at the end."""
        self._parts = [self._data[self._at :]]
        self._missing = count
        self._awaited_bytes = len(self._parts[0]) + count
        self._data = b""
        self._at = 0

    def _too_large(self, kind: int, size: int) -> FrameError:
        return FrameError(f"type {kind}, all octets = <<>>: {{frame_too_large,{size},{self.frame_max}}}")

    def _unknown(self, kind: int, at: int) -> FrameError:
        return FrameError(f"type {kind}, first 16 octets = {format_bytes(self._data[at : at + 16])}: unknown_frame")


def format_bytes(data: bytes) -> str:
    """Format the first 16 bytes as Erlang prints a binary."""
    return "<<" + ",".join(str(byte) for byte in data[:16]) + ">>"
