"""The frame reader returns the same events and the same documented error however its input is cut."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pamqp import body, commands, frame, header

from tests.support import codec
from tests.support.hypothesis_settings import examples
from tests.support.traced_memory import traced_memory
from warren.broker.amqp.errors import AMQPError, CommandInvalid, FrameError, ResourceFault, SyntaxFault, UnexpectedFrame
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.wire.frame_reader import Acks, Event, FrameReader, Method

DOCUMENTED = (FrameError, UnexpectedFrame, SyntaxFault, CommandInvalid, ResourceFault)
OPEN = frozenset((1, 2))
FRAME_MAX, BODY_MAX = 120, 90

Seen = tuple[Any, ...]


def frames_of(content: bytes) -> list[bytes]:
    found = []
    while content:
        end = codec.FRAME_OVERHEAD + int.from_bytes(content[3:7], "big")
        found.append(content[:end])
        content = content[end:]
    return found


def flat(event: Event) -> list[Seen]:
    """Return one entry for each method, publish and tag, as an event may have several."""
    if isinstance(event, Method):
        return [("method", event.channel, event.index, event.payload)]
    if isinstance(event, Acks):
        assert event.tags and (len(event.tags) == 1 or not event.multiple)
        return [("ack", event.channel, tag, event.multiple) for tag in event.tags]
    if not event.contents:
        return [("too long", event.channel, *event.methods, event.too_long)]
    if len(event.methods) > 1:
        assert len(set(event.methods)) > 1 and not event.alike
        assert all(len(frames_of(content)) <= 2 for content in event.contents)
        return [
            ("publish", event.channel, method, content)
            for method, content in zip(event.methods, event.contents, strict=True)
        ]
    contents = [frames_of(content) for content in event.contents]
    assert event.alike == (len({frames[0] for frames in contents}) == 1)
    for frames in contents:
        longest = max(map(len, frames))
        assert event.largest_frame in ((longest,) if len(frames) > 2 else (0, longest))
    return [("publish", event.channel, event.methods[0], content) for content in event.contents]


def read(pieces: list[bytes], frame_max: int = FRAME_MAX, body_max: int = BODY_MAX) -> tuple[list[Seen], Seen | None]:
    """Return all events of these pieces, and the error that ended them."""
    reader = FrameReader(frame_max, body_max, OPEN)
    seen: list[Seen] = []
    for piece in pieces:
        reader.feed(piece)
        try:
            while (event := reader.next()) is not None:
                seen += flat(event)
        except AMQPError as error:
            assert isinstance(error, DOCUMENTED)
            return seen, (type(error), error.class_id, error.method_id)
    return seen, None


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in zip(marks, marks[1:], strict=False)]


# The parts of a stream. There are few names, so that equal publishes follow each other.

channels = st.sampled_from((1, 1, 1, 2, 3, 0))
property_bytes = st.sampled_from(
    (b"\0\0", b"\0\0", b"\x10\0\x02", b"\x80\0\x04text", b"\x20\0\0\0\0\x03\x01aV", b"\0", b"\0\x01\0\0", b"\xff\xff")
)


@st.composite
def publishes(draw: st.DrawFn) -> bytes:
    """A publish with its body in any number of frames, sometimes not of the announced length."""
    channel = draw(channels)
    fields = {"exchange": draw(st.sampled_from(("", "e"))), "routing_key": "k", "mandatory": draw(st.booleans())}
    data = draw(st.binary(max_size=BODY_MAX + 6))
    announced = max(len(data) + draw(st.sampled_from((0, 0, 0, 0, 0, 1, -1, 1 << 62))), 0)
    parts = cut(data, draw(st.lists(st.integers(0, 100), max_size=3)))
    return (
        codec.method_frame(channel, commands.Basic.Publish, fields)
        + codec.header_frame(channel, announced, draw(property_bytes))
        + b"".join(codec.frame(codec.BODY, channel, part) for part in parts if part or draw(st.booleans()))
    )


@st.composite
def acks(draw: st.DrawFn) -> bytes:
    fields = {"delivery_tag": draw(st.integers(0, 9)), "multiple": draw(st.booleans())}
    return codec.method_frame(draw(channels), commands.Basic.Ack, fields)


@st.composite
def methods(draw: st.DrawFn) -> bytes:
    payload = draw(st.sampled_from((b"\0\x14\0\x0a\0", b"\0\x3c\0\x28", b"\0\x3c\0\x50", b"", b"\0\0\0")))
    return codec.frame(codec.METHOD, draw(channels), payload + draw(st.binary(max_size=12)))


@st.composite
def odd_frames(draw: st.DrawFn) -> bytes:
    kind = draw(st.integers(0, 9))
    end = draw(st.sampled_from((codec.FRAME_END, codec.FRAME_END, b"\0")))
    return codec.frame(kind, draw(channels), draw(st.binary(max_size=FRAME_MAX + 2)), end)


sound = st.one_of(publishes(), publishes(), acks(), acks(), st.just(codec.BEAT))
streams = st.lists(st.one_of(sound, sound, methods(), odd_frames(), st.binary(max_size=9)), max_size=8).map(b"".join)
repeated = st.tuples(sound, st.integers(1, 5), streams).map(lambda parts: parts[0] * parts[1] + parts[2])


@given(st.one_of(streams, repeated), st.lists(st.integers(0, 1 << 12), max_size=6))
@example(codec.frame(0, 0, b"") * 2, [])
@examples(200)
def test_how_a_stream_is_cut_makes_no_difference(stream: bytes, places: list[int]) -> None:
    whole = read([stream])
    assert read([bytes((byte,)) for byte in stream]) == whole
    assert read(cut(stream, places)) == whole


@given(st.lists(sound, min_size=1, max_size=4).map(b"".join), st.data())
@examples(200)
def test_a_damaged_stream_ends_the_same_way_however_it_is_cut(stream: bytes, data: st.DataObject) -> None:
    damaged = bytearray(stream)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    stream = bytes(damaged)
    assert read([bytes((byte,)) for byte in stream]) == read([stream])


@given(st.binary(max_size=300), st.sampled_from((0, 50, FRAME_MAX)))
@examples(200)
def test_noise_gives_documented_errors_only(noise: bytes, frame_max: int) -> None:
    assert read([noise], frame_max) == read([bytes((byte,)) for byte in noise], frame_max)


# Comparison with pamqp

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
fields = st.fixed_dictionaries(
    {},
    optional={
        "content_type": texts,
        "headers": st.dictionaries(texts, st.one_of(st.booleans(), texts), max_size=3),
        "delivery_mode": st.sampled_from((1, 2)),
        "priority": st.integers(0, 255),
        "correlation_id": texts,
        "expiration": st.integers(0, 99).map(str),
        "message_id": texts,
        "app_id": texts,
    },
)
names = st.text("abc.-_:", max_size=30)
sent = st.tuples(st.sampled_from((1, 2)), names, names, st.booleans(), fields, st.binary(max_size=300))


def encoded(channel: int, exchange: str, key: str, mandatory: bool, given: dict[str, Any], data: bytes) -> bytes:
    method = commands.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory)
    head = header.ContentHeader(0, len(data), commands.Basic.Properties(**given))
    parts = [data[at : at + 100] for at in range(0, len(data), 100)]
    return frame.marshal(method, channel) + frame.marshal(head, channel) + b"".join(
        frame.marshal(body.ContentBody(part), channel) for part in parts
    )  # fmt: skip


def decoded(stream: bytes) -> list[Seen]:
    """Return what pamqp decodes."""
    found: list[list[Any]] = []
    while stream:
        length, channel, part = frame.unmarshal(stream)
        stream = stream[length:]
        if isinstance(part, commands.Basic.Publish):
            found.append([channel, part.exchange, part.routing_key, part.mandatory, None, b""])
        elif isinstance(part, header.ContentHeader):
            given = {name: value for name, value in part.properties if value is not None}
            given.pop("cluster_id")  # pamqp makes one up
            found[-1][4] = given
        else:
            found[-1][5] += part.value
    return [tuple(entry) for entry in found]


def understood(event: Seen) -> Seen:
    """Return one of the reader's events in the same form."""
    _, channel, payload, content = event
    method = commands.Basic.Publish()
    method.unmarshal(payload[4:-1])
    message = Message(RoutingAddress(method.exchange, method.routing_key), content, channel, 0, 0, False)
    properties: dict[str, Any] = {}
    for name in codec.PROPERTY_NAMES:
        value = getattr(message.properties, name)
        if value is not None:
            properties[name] = value
    if "headers" in properties:
        items = properties["headers"].items()
        properties["headers"] = {key: value.decode() if kind == "S" else value for key, (kind, value) in items}
    message.body_bytes = sum(len(part) - codec.FRAME_OVERHEAD for part in frames_of(content)[1:])
    return channel, method.exchange, method.routing_key, method.mandatory, properties, message.body


@given(st.lists(sent, min_size=1, max_size=5), st.booleans())
@examples(80)
def test_both_ways_read_what_pamqp_reads(publishes: list[Any], again: bool) -> None:
    stream = b"".join(encoded(*publish) for publish in publishes) * (1 + again)
    expected = decoded(stream)
    for pieces in ([stream], [bytes((byte,)) for byte in stream]):
        events, error = read(pieces, 4096, 4096)
        assert error is None
        assert [understood(event) for event in events] == expected


# Memory of the reader

PUBLISH = {"exchange": "e", "routing_key": "k"}


def kept_by(pieces: list[bytes], channel_count: int = 1) -> int:
    """Return the number of bytes that the reader keeps after these pieces."""
    reader = FrameReader(131_072, 1 << 24, range(1, channel_count + 1))
    with traced_memory() as memory:
        for piece in pieces:
            reader.feed(bytes(bytearray(piece)))  # a copy of its own, as a socket gives
            while reader.next() is not None:
                pass
    return memory.peak_bytes


def announcement(channel: int, body_bytes: int) -> bytes:
    return codec.method_frame(channel, commands.Basic.Publish, PUBLISH) + codec.header_frame(channel, body_bytes)


def test_what_is_announced_and_not_sent_takes_no_memory() -> None:
    pieces = [announcement(channel, 1 << 24) + codec.frame(3, channel, b"x") for channel in range(1, 101)]
    pieces.append(b"\x03\0\x01\0\x01\xff\xff and no more")
    assert kept_by(pieces, 100) < 200_000


def test_a_body_in_tiny_frames_takes_little_more_than_what_was_sent() -> None:
    tiny = codec.frame(codec.BODY, 1, b"x") * 100
    pieces = [announcement(1, 1 << 20)] + [tiny] * 300
    assert kept_by(pieces) < 2 * sum(map(len, pieces))


@pytest.mark.parametrize("claimed", [131_073, 1 << 31, (1 << 32) - 1])
def test_a_frame_over_the_limit_is_refused_by_its_first_bytes(claimed: int) -> None:
    reader = FrameReader(131_072, 1 << 24, OPEN)
    reader.feed(b"\x01\0\0" + claimed.to_bytes(4, "big"))
    with pytest.raises(FrameError, match=f"frame_too_large,{claimed}"):
        reader.next()
