"""Cuts deliveries out of what an upstream sends: pure, it knows no socket.

A delivery is the method basic.deliver and its content, which is a header frame and the body's frames. Where these lie
whole and behind each other in what came, with one body frame at most, they are taken in one step, and with them all
that follow; all else goes frame by frame. Both ways give the same. Frames that are no part of a delivery are given as
they came. Sizes are checked before anything is kept.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ..errors import LinkError

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
KINDS = (METHOD, HEADER, BODY, HEARTBEAT)
FRAME_END = 0xCE
OVERHEAD = 8  # octets of a frame beside its payload
HEADER_FIXED = 14  # octets of class, weight, body size and property flags
CONTENT_CLASS = 60
DELIVER = 0x003C003C

FIRST_FRAME_MAX = 1 << 17  # bytes, until one is agreed on: connection.start can hold long properties
FRAME_MAX = 1 << 20  # bytes, the most that is ever agreed on: as much of a frame is kept until it is whole
BODY_MAX = 16 << 20  # bytes of one message, where nothing else is said
OTHERS_MAX = 16 << 20  # bytes of unfinished contents beside one of BODY_MAX, with their frames, on all channels

_head = Struct(">BHI").unpack_from
_content_head = Struct(">BHIHHQ").unpack_from
_tag = Struct(">QB").unpack_from
_index = Struct(">I").unpack_from


class Delivery(NamedTuple):
    """`tag` is the delivery tag. `properties` are flags and values as in the header frame; `body_frames` are whole
    frames, with heads and end octets and the channel of the upstream connection in them."""

    channel: int
    tag: int
    redelivered: bool
    exchange: bytes
    routing_key: bytes
    properties: bytes
    body_bytes: int
    body_frames: bytes
    consumer_tag: bytes


class Address:
    """What deliveries of one consumer with one exchange and routing key have in common, and the frame around it:
    `prefix` up to the delivery tag, `suffix` behind the flag that it was redelivered."""

    __slots__ = ("channel", "consumer_tag", "exchange", "routing_key", "prefix", "suffix")

    def __init__(self, frame: bytes, channel: int) -> None:
        """Of a basic.deliver; raises LinkError."""
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


class Unfinished:
    """A delivery whose content is not whole yet. `properties` are None until the header frame has come."""

    __slots__ = ("address", "tag", "redelivered", "properties", "body_bytes", "missing", "frames")

    def __init__(self, address: Address, tag: int, flags: int) -> None:
        self.address = address
        self.tag = tag
        self.redelivered = flags & 1 == 1
        self.properties: bytes | None = None
        self.body_bytes = 0
        self.missing = 0
        self.frames = bytearray()

    def delivery(self) -> Delivery:
        of, properties = self.address, self.properties or b""
        return Delivery(
            of.channel, self.tag, self.redelivered, of.exchange, of.routing_key, properties, self.body_bytes,
            bytes(self.frames), of.consumer_tag,
        )  # fmt: skip


class Cutter:
    """Cuts the stream of one connection. `frame_max` is how long a payload may be, in bytes.

    Of a message with more than `body_max` bytes nothing is kept: it is delivered without `body_frames`.
    """

    def __init__(self, body_max: int = BODY_MAX) -> None:
        self.frame_max = FIRST_FRAME_MAX
        self.body_max = body_max
        self._rest: list[bytes] = []  # of a frame that is not whole
        self._missing = 0  # octets of it that must come before it is worth looking again
        self._unfinished: dict[int, Unfinished] = {}
        self._kept = 0  # octets of them
        self._address: Address | None = None  # of the delivery before

    def take(self, data: bytes, deliveries: list[Delivery], others: list[bytes]) -> None:
        """Add what is whole now: deliveries, and frames that are no part of one.

        Raises LinkError for what is no AMQP, or too much; what came before it is added. HOT: the federation bench.
        """
        if self._rest:
            self._rest.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._rest)
            self._rest.clear()
        at = self._cut(data, deliveries, others)
        if at < len(data):
            self._rest.append(data[at:])

    def forget(self, channel: int) -> None:
        """The channel is over, in the midst of a content or not."""
        unfinished = self._unfinished.pop(channel, None)
        if unfinished is not None:
            self._kept -= len(unfinished.frames)

    def _cut(self, data: bytes, deliveries: list[Delivery], others: list[bytes]) -> int:
        """Where the first frame starts that is not whole. Sets what is missing of it."""
        at, end = 0, len(data)
        while True:
            if end - at < 7:
                self._missing = 7 - (end - at)
                return at
            kind, channel, size = _head(data, at)
            if kind not in KINDS:
                raise LinkError("the upstream does not speak AMQP 0-9-1")
            if size > self.frame_max:
                raise LinkError(f"the upstream sent a frame of {size} octets, {self.frame_max} are allowed")
            stop = at + size + OVERHEAD
            if stop > end:
                self._missing = stop - end
                return at
            if data[stop - 1] != FRAME_END:
                raise LinkError("the upstream sent a frame without its end")
            unfinished = self._unfinished.get(channel)
            if unfinished is not None:
                self._go_on(unfinished, kind, data[at:stop], deliveries)
            elif kind == METHOD and size >= 4 and _index(data, at + 7)[0] == DELIVER:
                at = self._deliver(data, at, stop, deliveries)
                continue
            else:
                others.append(data[at:stop])
            at = stop

    def _deliver(self, data: bytes, at: int, stop: int, deliveries: list[Delivery]) -> int:
        """Take whole deliveries that follow each other, or one method frame; the place after them. HOT: bench."""
        start, end = at, len(data)
        while True:
            address = self._address
            if (
                address is None
                or not data.startswith(address.prefix, at)
                or not data.startswith(address.suffix, at + len(address.prefix) + 9)
            ):
                self._address = address = Address(data[at:stop], _head(data, at)[1])
                if address.channel in self._unfinished or not address.channel:
                    raise out_of_place(METHOD)
            channel = address.channel
            tag_at = at + len(address.prefix)
            header_at = tag_at + 9 + len(address.suffix)
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
                    channel, tag, redelivered & 1 == 1, address.exchange, address.routing_key,
                    data[header_at + 19 : body_at - 1], body, data[body_at:last], address.consumer_tag,
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
        self._unfinished[channel] = Unfinished(address, *_tag(data, tag_at))
        return stop

    def _go_on(self, unfinished: Unfinished, kind: int, frame: bytes, deliveries: list[Delivery]) -> None:
        """The next frame of a content."""
        payload_bytes = len(frame) - OVERHEAD
        if unfinished.properties is None:
            if kind != HEADER or payload_bytes < HEADER_FIXED:
                raise out_of_place(kind)
            _, _, _, class_id, _, body = _content_head(frame)
            if class_id != CONTENT_CLASS:
                raise out_of_place(kind)
            unfinished.properties = frame[19:-1]
            unfinished.body_bytes = unfinished.missing = body
        elif kind != BODY or payload_bytes > unfinished.missing:
            raise out_of_place(kind)
        else:
            unfinished.missing -= payload_bytes
            if unfinished.body_bytes <= self.body_max:
                self._keep(unfinished, frame)
        if not unfinished.missing:
            self.forget(unfinished.address.channel)
            deliveries.append(unfinished.delivery())

    def _keep(self, unfinished: Unfinished, frame: bytes) -> None:
        unfinished.frames += frame
        self._kept += len(frame)
        limit = self.body_max + OTHERS_MAX
        if self._kept > limit:
            raise LinkError(f"the upstream sent more than {limit} bytes of unfinished messages")


def out_of_place(kind: int) -> LinkError:
    return LinkError(f"the upstream sent a frame of type {kind} out of place")
