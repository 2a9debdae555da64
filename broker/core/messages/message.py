"""A message: the exchange and routing key it was published with, and its content in the frames it was received in.

The content is kept as bytes and delivered unchanged wherever channel number and frame_max allow, so a consumer gets the
very bytes of the publisher. Properties are decoded only when they are needed.
"""

from __future__ import annotations

from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from ...amqp.field_table import Table, encoded_name
from ...amqp.framing import CONTENT_FIXED, FRAME_HEAD, FRAME_OVERHEAD, content_frames, header_frame
from ...amqp.properties import EXPIRATION, Properties, delivery_mode, text, with_first_field
from ...amqp.properties import headers as headers_of
from .message_state import MessageState, values_of

DELIVERY_COUNT = "x-delivery-count"
COUNT_NAME = encoded_name(DELIVERY_COUNT)
SEARCH_SHIFT = 9  # to search 512 bytes of headers, or read them from the journal, costs 1
FIELD_SHIFT, FIELDS_COST = 2, 512  # to find the fields in 4 bytes of headers costs 1; the most that all of them cost
VALUES = 5  # of `ShedMessage.values`
PAGES = 16  # records of a message of several queues, in as many states, that are known
PAGE_BYTES = 300  # of memory for each of them
LONG_HEADER = 512  # bytes of frames beside the body; of shorter headers no total is kept


@mypyc_attr(acyclic=True)
class ByteCount:
    """The bytes of memory that objects take which count themselves until they are freed."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0


@mypyc_attr(acyclic=True)
class RoutingAddress:
    """The exchange and routing key of a publish, shared by all messages that were published with both.

    `encoded` is both as short strings, as in basic.publish, deliver, return and get-ok. `delivered` is the end of a
    basic.deliver frame: not redelivered, exchange, routing key, end byte. Text that is not UTF-8 is kept with surrogate
    escapes, so that it is routed and delivered as the same bytes.
    """

    __slots__ = ("exchange", "routing_key", "encoded", "delivered", "counted")
    OVERHEAD: ClassVar[int] = 200  # bytes of memory beside three copies of both

    def __init__(self, exchange: str, routing_key: str) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        first = exchange.encode("utf-8", "surrogateescape")
        second = routing_key.encode("utf-8", "surrogateescape")
        self.encoded = bytes((len(first),)) + first + bytes((len(second),)) + second
        self.delivered = b"\x00" + self.encoded + b"\xce"
        self.counted: ByteCount | None = None  # the sum that it is part of, with its `size_bytes`, or None

    def __del__(self) -> None:
        if self.counted is not None:
            self.counted.total -= self.size_bytes

    @property
    def size_bytes(self) -> int:
        """The memory that it takes."""
        return self.OVERHEAD + 3 * len(self.encoded)

    def count(self, counted: ByteCount) -> None:
        """Count it in this sum until it is freed, unless it is counted already."""
        if self.counted is None:
            self.counted = counted
            counted.total += self.size_bytes


NO_ADDRESS: Final = RoutingAddress("", "")


@mypyc_attr(acyclic=True)
class Message:
    """A published message: its address and its content, which never changes; `with_properties` makes another message.

    frames         the content header frame and the body frames, each with its end byte
    channel        the channel number in those frames; 0 if they must be framed anew for each channel
    body_bytes     length of the body
    largest_frame  length of the longest of `frames`; 0 if they must be framed anew
    persistent     delivery mode 2
    id             of its record in the journal; 0 if it is not stored
    state          its state in the one queue that it is in, or None; a message without state may be in several queues
    seq            its number in the traffic log; 0 if it has none
    """

    __slots__ = ("address", "frames", "channel", "body_bytes", "largest_frame", "persistent", "id", "state", "seq")

    def __init__(
        self,
        address: RoutingAddress,
        frames: bytes,
        channel: int,
        body_bytes: int,
        largest_frame: int,
        persistent: bool,
    ) -> None:
        self.address = address
        self.frames = frames
        self.channel = channel
        self.body_bytes = body_bytes
        self.largest_frame = largest_frame
        self.persistent = persistent
        self.id = 0
        self.state: MessageState | None = None
        self.seq = 0

    def copy_for_queue(self) -> Message:
        """Return a copy with a state and a journal record of its own, for another queue."""
        copy = Message(self.address, self.frames, self.channel, self.body_bytes, self.largest_frame, self.persistent)
        copy.state, copy.seq = self.state, self.seq
        return copy

    def copy_with_record(self) -> Message:
        """Return a copy with a state of its own, for another queue of the same journal record."""
        copy = self.copy_for_queue()
        copy.id = self.id
        if copy.state is not None:
            copy.state = copy.state.copy()
        return copy

    def as_republished(self) -> Message:
        """Return a copy as if it were published now: its time to live starts anew."""
        raw = self.property_bytes
        persistent = delivery_mode(raw) == 2
        copy = Message(self.address, self.frames, self.channel, self.body_bytes, self.largest_frame, persistent)
        expiration = text(raw, EXPIRATION)
        if expiration is not None and expiration.isdecimal():
            copy.state = MessageState(int(expiration), dead_lettered=self.dead_lettered, bcc_keys=self.bcc_keys)
        elif self.dead_lettered or self.bcc_keys:
            copy.state = MessageState(dead_lettered=self.dead_lettered, bcc_keys=self.bcc_keys)
        return copy

    def with_properties(self, property_bytes: bytes) -> Message:
        """Return the message with other properties and the same record in the journal."""
        copy = Message(self.address, self.frames_with(property_bytes), 0, self.body_bytes, 0, self.persistent)
        copy.id, copy.state, copy.seq = self.id, self.state, self.seq
        return copy

    def with_delivery_count(self, state: MessageState) -> Message:
        """Return the message with this state and its attempts in the `x-delivery-count` header.

        That is the first one, where the next count finds it without a look at all others.
        """
        copy = self.with_properties(with_first_field(self.property_bytes, DELIVERY_COUNT, ("l", state.attempts)))
        copy.state = state
        return copy

    @property
    def counting_cost(self) -> int:
        """The cost of finding an `x-delivery-count` in the headers (`jobs.scheduler`).

        It is small if there is none, or one at the front; otherwise all fields are looked at.
        """
        end = self.header_end
        if self.frames.find(COUNT_NAME, 0, end) < 0 or self.headers.raw.find(COUNT_NAME, 1) < 0:
            return end >> SEARCH_SHIFT
        return min(end >> FIELD_SHIFT, FIELDS_COST)

    def frames_with(self, property_bytes: bytes) -> bytes:
        """Return the content with other properties, which must be framed anew for each channel. The body is copied."""
        return header_frame(0, property_bytes, self.body_bytes) + memoryview(self.frames)[self.header_end + 1 :]

    @property
    def dead_lettered(self) -> int:
        """Not 0 if its x-death header was written by a broker's queue, so that dead-lettering continues it."""
        return self.state.dead_lettered if self.state is not None else 0

    @property
    def bcc_keys(self) -> tuple[str, ...]:
        """The routing keys of its BCC header, which was removed."""
        return self.state.bcc_keys if self.state is not None else ()

    @property
    def header_end(self) -> int:
        """The end of the header frame's payload in `frames`."""
        return FRAME_HEAD + int.from_bytes(self.frames[3:7], "big")

    @property
    def property_bytes(self) -> bytes:
        """The property flags and values, which follow the body size in the header frame."""
        return self.frames[FRAME_HEAD + CONTENT_FIXED : self.header_end]

    @property
    def properties(self) -> Properties:
        """The fourteen basic properties, decoded at each access."""
        return Properties.decode(self.property_bytes)

    @property
    def headers(self) -> Table:
        """The headers property, or an empty table."""
        return headers_of(self.property_bytes) or Table.EMPTY

    @property
    def body(self) -> bytes:
        """The body, joined from its frames."""
        frames = self.frames
        at = self.header_end + 1
        if len(frames) - at == self.body_bytes + FRAME_OVERHEAD:
            return frames[at + FRAME_HEAD : -1]
        pieces = []
        while at < len(frames):
            size = int.from_bytes(frames[at + 3 : at + 7], "big")
            pieces.append(frames[at + FRAME_HEAD : at + FRAME_HEAD + size])
            at += FRAME_OVERHEAD + size
        return b"".join(pieces)


@mypyc_attr(acyclic=True)
class SharedMessage(Message):
    """A message that several queues got, or a copy of it with a state of its own in one of them.

    It counts in memory until it is freed. Its creator adds its part to the sum.

    shared   the sum that it is part of
    counted  its part of it, in bytes
    origin   the message of which it is a copy, with the same frames; None if it is none
    pages    of the origin, the last records that the journal has of the message or a copy for no queue, and may have
             dropped: their ids by `MessageState.values`; or None
    """

    __slots__ = ("shared", "counted", "origin", "pages")
    ALONE: ClassVar[int] = 200  # bytes of memory that it takes beside its frames

    def __init__(
        self,
        address: RoutingAddress,
        frames: bytes,
        channel: int,
        body_bytes: int,
        largest_frame: int,
        persistent: bool,
        shared: ByteCount,
        counted: int,
    ) -> None:
        self.address = address  # as in the base class, without a call
        self.frames = frames
        self.channel = channel
        self.body_bytes = body_bytes
        self.largest_frame = largest_frame
        self.persistent = persistent
        self.id = 0
        self.state = None
        self.seq = 0
        self.shared = shared
        self.counted = counted
        self.origin: SharedMessage | None = None
        self.pages: dict[object, int] | None = None

    def __del__(self) -> None:
        """Count it no more. HOT: bench G."""
        self.shared.total -= self.counted

    def copy_for_queue(self) -> Message:
        copy = shared_message(self, self.shared, self.ALONE)
        copy.id, copy.origin = 0, self.origin or self
        return copy

    def stored_page(self) -> int:
        """Return the id of the last record that the journal has for no queue of a message in this state, or 0."""
        pages = (self.origin or self).pages
        return pages.get(values_of(self.state), 0) if pages is not None else 0

    def note_page(self, id_: int) -> None:
        """Note such a record of this message in its present state."""
        origin = self.origin or self
        pages = origin.pages = origin.pages or {}
        known = len(pages)
        pages[values_of(self.state)] = id_
        if len(pages) > PAGES:
            del pages[next(iter(pages))]
        added_bytes = (len(pages) - known) * PAGE_BYTES
        origin.counted += added_bytes
        origin.shared.total += added_bytes


def shared_message(message: Message, shared: ByteCount, counted: int) -> SharedMessage:
    """Return a copy of a message for several queues, and count it."""
    address, frames, largest = message.address, message.frames, message.largest_frame
    number, body_bytes, persistent = message.channel, message.body_bytes, message.persistent
    copy = SharedMessage(address, frames, number, body_bytes, largest, persistent, shared, counted)
    copy.id, copy.state, copy.seq = message.id, message.state, message.seq
    shared.total += counted
    return copy


@mypyc_attr(acyclic=True)
class ShedMessage(Message):
    """The rest of a message in memory whose content only the journal has: its id and sizes, and no frames."""

    __slots__ = ("position", "content_bytes", "attempts", "timed", "redelivered")

    def __init__(
        self,
        position: int,
        id_: int,
        seq: int,
        body_bytes: int,
        content_bytes: int,
        persistent: bool,
        timed: bool,
        redelivered: bool = True,
        attempts: int = 0,
    ) -> None:
        super().__init__(NO_ADDRESS, b"", 0, body_bytes, 0, persistent)
        self.id = id_
        self.seq = seq
        self.position = position  # in its queue
        self.content_bytes = content_bytes  # length of the frames, or an estimate
        self.attempts = attempts  # as in its state, which is in the journal
        self.timed = timed  # it may have a deadline
        self.redelivered = redelivered  # it is one that counts as redelivered

    def values(self) -> tuple[int, int, int, int, int]:
        """Return all of it as VALUES integers, which `shed_message` takes."""
        flags = self.persistent | self.timed << 1 | self.redelivered << 2 | self.attempts << 3
        return self.position, self.id, max(self.seq, 0), self.body_bytes << 32 | self.content_bytes, flags


def shed_message(position: int, id_: int, seq: int, sizes: int, flags: int) -> ShedMessage:
    """Return the message with these `ShedMessage.values`."""
    persistent, timed, redelivered = flags & 1 > 0, flags & 2 > 0, flags & 4 > 0
    body_bytes, content_bytes = sizes >> 32, sizes & 0xFFFF_FFFF
    return ShedMessage(
        position, id_, seq, body_bytes, content_bytes, persistent, timed, redelivered, attempts=flags >> 3
    )


def framed(address: RoutingAddress, properties: Properties, body: bytes) -> Message:
    """Return a message of the broker itself. Its channel is 0, because its frames are made anew for each consumer."""
    frames = content_frames(0, properties.encode(), body)
    return Message(address, frames, 0, len(body), 0, properties.delivery_mode == 2)


def total_bytes(messages: list[Message]) -> int:
    """Return the sum of the lengths of their bodies. HOT: bench B, D, I, L."""
    return sum([message.body_bytes for message in messages])


def frame_bytes(messages: list[Message]) -> int:
    """Return the sum of the lengths of their frames, which are what a copy or a record of the journal takes."""
    return len(messages[0].frames) if len(messages) == 1 else sum([len(message.frames) for message in messages])


def read_bytes(messages: list[Message]) -> int:
    """Return the sum of the lengths of frames that were read back, before their delivery counts are in the headers.

    The search for a count takes as long as reading this number of bytes more.
    """
    total = 0
    for message in messages:
        total += len(message.frames)
        if message.state is not None and message.state.attempts:
            total += message.counting_cost << SEARCH_SHIFT
    return total


def header_bytes_of(messages: list[Message]) -> int:
    """Return the sum of the lengths of their long headers: of the frames beside the body above LONG_HEADER."""
    total = 0
    for message in messages:
        length = len(message.frames) - message.body_bytes
        if length > LONG_HEADER:
            total += length
    return total
