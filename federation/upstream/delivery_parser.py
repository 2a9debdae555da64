"""The parser of deliveries: splits the bytes that an upstream sends into complete deliveries and other frames; pure.

A delivery is the method basic.deliver and its content: a header frame and body frames. Successive deliveries that were
received completely and have at most one body frame are parsed in one step; everything else is parsed frame by frame,
with the same results. Frames that are not part of a delivery are returned unchanged. Sizes are checked before any byte
is kept.
"""

from struct import Struct
from typing import NamedTuple

from .errors import LinkError

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
KINDS = (METHOD, HEADER, BODY, HEARTBEAT)
FRAME_END = 0xCE
OVERHEAD = 8  # bytes of a frame beside its payload
HEADER_FIXED = 14  # bytes of class, weight, body size and property flags
CONTENT_CLASS = 60
DELIVER = 0x003C003C

FIRST_FRAME_MAX = 1 << 17  # bytes, before tune-ok: connection.start can have long properties
FRAME_MAX = 1 << 20  # bytes, the most that tune-ok asks for: as much of an incomplete frame may be kept
BODY_MAX = 16 << 20  # bytes of one message, by default
OTHERS_MAX = 16 << 20  # bytes of partial deliveries on all channels, frames included, in addition to BODY_MAX

_head = Struct(">BHI").unpack_from
_content_head = Struct(">BHIHHQ").unpack_from
_tag = Struct(">QB").unpack_from
_index = Struct(">I").unpack_from


class Delivery(NamedTuple):
    """A message that an upstream delivered.

    `tag` is the delivery tag; `properties` are flags and values as in the header frame; `body_frames` are complete
    frames, with the upstream's channel number in them.
    """

    channel: int
    tag: int
    redelivered: bool
    exchange: bytes
    routing_key: bytes
    properties: bytes
    body_bytes: int
    body_frames: bytes
    consumer_tag: bytes


class DeliverMethod:
    """A parsed basic.deliver without delivery tag and redelivered flag; later deliveries often differ only in those.

    `prefix` is the frame up to the delivery tag, `suffix` the frame after the redelivered flag.
    """

    __slots__ = ("channel", "consumer_tag", "exchange", "routing_key", "prefix", "suffix")

    def __init__(self, frame: bytes, channel: int) -> None:
        """Parse the frame of a basic.deliver. Raises LinkError."""
        try:
            tag_end = 12 + frame[11]
            exchange_at = tag_end + 9
            key_at = exchange_at + 1 + frame[exchange_at]
            end = key_at + 1 + frame[key_at]
        except IndexError:
            end = -1
        if end != len(frame) - 1:
            raise LinkError("the upstream sent a malformed basic.deliver")
        self.channel = channel
        self.consumer_tag = frame[12:tag_end]
        self.exchange = frame[exchange_at + 1 : key_at]
        self.routing_key = frame[key_at + 1 : end]
        self.prefix = frame[:tag_end]
        self.suffix = frame[exchange_at:]


class PartialDelivery:
    """A delivery whose content is incomplete. `properties` are None before the header frame."""

    __slots__ = ("method", "tag", "redelivered", "properties", "body_bytes", "missing", "frames")

    def __init__(self, method: DeliverMethod, tag: int, flags: int) -> None:
        self.method = method
        self.tag = tag
        self.redelivered = flags & 1 == 1
        self.properties: bytes | None = None
        self.body_bytes = 0
        self.missing = 0
        self.frames = bytearray()

    def finish(self) -> Delivery:
        method, properties = self.method, self.properties or b""
        return Delivery(
            method.channel, self.tag, self.redelivered, method.exchange, method.routing_key, properties,
            self.body_bytes, bytes(self.frames), method.consumer_tag,
        )  # fmt: skip


class DeliveryParser:
    """The incremental parser of one connection. `frame_max` is the limit of a frame's payload, in bytes.

    The body of a message with more than `body_max` bytes is not kept: it is delivered without `body_frames`.
    """

    def __init__(self, body_max: int = BODY_MAX) -> None:
        self.frame_max = FIRST_FRAME_MAX
        self.body_max = body_max
        self._rest: list[bytes] = []  # the beginning of an incomplete frame
        self._missing = 0  # bytes that it still lacks
        self._partial: dict[int, PartialDelivery] = {}  # by channel
        self._kept_bytes = 0  # of partial deliveries
        self._method: DeliverMethod | None = None  # that of the delivery before

    def feed(self, data: bytes, deliveries: list[Delivery], others: list[bytes]) -> None:
        """Append complete deliveries to `deliveries`, and frames that are not part of one to `others`.

        Raises LinkError for a malformed or too large frame, after adding those before it. HOT: the federation bench.
        """
        if self._rest:
            self._rest.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._rest)
            self._rest.clear()
        at = self._parse(data, deliveries, others)
        if at < len(data):
            self._rest.append(data[at:])

    def drop_channel(self, channel: int) -> None:
        """Drop the partial delivery of a closed channel, if there is one."""
        partial = self._partial.pop(channel, None)
        if partial is not None:
            self._kept_bytes -= len(partial.frames)

    def _parse(self, data: bytes, deliveries: list[Delivery], others: list[bytes]) -> int:
        """Parse complete frames. Returns the offset of the first incomplete one, and sets `_missing`."""
        at, end = 0, len(data)
        while True:
            if end - at < 7:
                self._missing = 7 - (end - at)
                return at
            kind, channel, size = _head(data, at)
            if kind not in KINDS:
                raise LinkError("the upstream does not speak AMQP 0-9-1")
            if size > self.frame_max:
                raise LinkError(f"the upstream sent a frame of {size} bytes, {self.frame_max} are allowed")
            stop = at + size + OVERHEAD
            if stop > end:
                self._missing = stop - end
                return at
            if data[stop - 1] != FRAME_END:
                raise LinkError("the upstream sent a frame without its end")
            partial = self._partial.get(channel)
            if partial is not None:
                self._add_frame(partial, kind, data[at:stop], deliveries)
            elif kind == METHOD and size >= 4 and _index(data, at + 7)[0] == DELIVER:
                at = self._deliver(data, at, stop, deliveries)
                continue
            else:
                others.append(data[at:stop])
            at = stop

    def _deliver(self, data: bytes, at: int, stop: int, deliveries: list[Delivery]) -> int:
        """Parse successive deliveries or one method frame. Returns the offset after it. HOT: the federation bench."""
        start, end = at, len(data)
        while True:
            method = self._method
            if (
                method is None
                or not data.startswith(method.prefix, at)
                or not data.startswith(method.suffix, at + len(method.prefix) + 9)
            ):
                self._method = method = DeliverMethod(data[at:stop], _head(data, at)[1])
                if method.channel in self._partial or not method.channel:
                    raise out_of_place(METHOD)
            channel = method.channel
            tag_at = at + len(method.prefix)
            header_at = tag_at + 9 + len(method.suffix)
            if header_at + 21 > end:
                break
            kind, number, size, class_id, _, body = _content_head(data, header_at)
            body_at = header_at + size + OVERHEAD
            last = body_at + body + OVERHEAD if body else body_at
            if (
                last > end
                or kind != HEADER
                or body > self.body_max
                or number != channel
                or class_id != CONTENT_CLASS
                or size < HEADER_FIXED
                or data[body_at - 1] != FRAME_END
                or data[last - 1] != FRAME_END
                or (body and _head(data, body_at) != (BODY, channel, body))
            ):
                break
            tag, redelivered = _tag(data, tag_at)
            deliveries.append(
                Delivery(
                    channel, tag, redelivered & 1 == 1, method.exchange, method.routing_key,
                    data[header_at + 19 : body_at - 1], body, data[body_at:last], method.consumer_tag,
                )
            )  # fmt: skip
            at = last
            if end - at < 21 or data[at] != METHOD or _index(data, at + 7)[0] != DELIVER:
                return at
            stop = at + _index(data, at + 3)[0] + OVERHEAD
            if stop > end or data[stop - 1] != FRAME_END:
                return at
        if at > start:
            return at
        self._partial[channel] = PartialDelivery(method, *_tag(data, tag_at))
        return stop

    def _add_frame(self, partial: PartialDelivery, kind: int, frame: bytes, deliveries: list[Delivery]) -> None:
        """Add the next frame of a content. Raises LinkError if it is out of place."""
        payload_bytes = len(frame) - OVERHEAD
        if partial.properties is None:
            if kind != HEADER or payload_bytes < HEADER_FIXED:
                raise out_of_place(kind)
            _, _, _, class_id, _, body = _content_head(frame)
            if class_id != CONTENT_CLASS:
                raise out_of_place(kind)
            partial.properties = frame[19:-1]
            partial.body_bytes = partial.missing = body
        elif kind != BODY or payload_bytes > partial.missing:
            raise out_of_place(kind)
        else:
            partial.missing -= payload_bytes
            if partial.body_bytes <= self.body_max:
                self._keep(partial, frame)
        if not partial.missing:
            self.drop_channel(partial.method.channel)
            deliveries.append(partial.finish())

    def _keep(self, partial: PartialDelivery, frame: bytes) -> None:
        partial.frames += frame
        self._kept_bytes += len(frame)
        limit = self.body_max + OTHERS_MAX
        if self._kept_bytes > limit:
            raise LinkError(f"the upstream sent more than {limit} bytes of unfinished messages")


def out_of_place(kind: int) -> LinkError:
    return LinkError(f"the upstream sent a frame of type {kind} out of place")
