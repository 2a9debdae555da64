"""Frames, complete and broken, and channels."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from pamqp.commands import Basic, Queue
from pamqp.commands import Channel as ChannelMethods

from tests.support import codec
from tests.support.amqp_client import Channel, Client
from tests.support.peer import Peer

GONE_MS = 3500  # a connection that is no longer trusted is closed by then


def publishing(channel: Channel, queue: str) -> bytes:
    """Return the method frame of a publish to a queue."""
    return codec.method_frame(channel.number, Basic.Publish, {"routing_key": queue})


@pytest.mark.parametrize("payload_bytes", [4096 + 9, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_frame_above_the_limit_is_refused_by_its_head_alone(broker: Peer, payload_bytes: int) -> None:
    client = broker.connect(frame_max=4096)
    channel = client.channel()
    channel.declare(queue := broker.name("queue"))
    client.raw(publishing(channel, queue) + codec.header_frame(channel.number, payload_bytes))
    client.raw(struct.pack(">BHI", codec.BODY, channel.number, payload_bytes))
    client.expect_close(501, answer=False)
    client.expect_eof(GONE_MS)


def test_a_frame_with_a_payload_of_frame_max_is_tolerated(broker: Peer) -> None:
    client = broker.connect(frame_max=4096)
    channel = client.channel()
    channel.declare(queue := broker.name("queue"))
    body = b"x" * 4096
    client.raw(publishing(channel, queue) + codec.header_frame(1, 4096) + codec.frame(codec.BODY, 1, body))
    channel.sync()
    assert channel.drain(queue) == [body]


@pytest.mark.parametrize("frame_max", [4096, 131072])
@pytest.mark.parametrize("more", [-16, -1, 0, 1])
def test_a_body_of_twice_the_frame_limit_returns_in_frames_below_it(broker: Peer, frame_max: int, more: int) -> None:
    client = broker.connect(frame_max=frame_max)
    channel = client.channel()
    channel.declare(queue := broker.name("queue"))
    body = bytes(at % 251 for at in range(2 * frame_max + more))
    channel.publish("", queue, body)
    assert channel.drain(queue) == [body]
    assert client.largest_frame <= frame_max


@pytest.mark.parametrize("number", [1, 9])  # that of the publisher, and another one
def test_each_reader_gets_frames_of_its_own_limit(broker: Peer, ch: Channel, queue: str, number: int) -> None:
    body = b"x" * 100_000
    ch.publish("", queue, body)
    ch.sync()
    for consumes in (False, True):
        small = broker.connect(frame_max=4096)
        reader = small.channel(number)
        if consumes:
            reader.consume(queue, no_ack=True)
            assert [delivery.body for delivery in reader.deliveries(1)] == [body]
        else:
            assert reader.get(queue, no_ack=False).body == body
        assert small.largest_frame <= 4096
        small.close()


def test_a_header_of_fifty_kilobytes_returns(ch: Channel, queue: str) -> None:
    ch.publish("", queue, b"body", {"headers": {"long": "x" * 50_000}})
    message = ch.get(queue)
    assert message is not None and message.headers == {"long": "x" * 50_000}


@pytest.mark.parametrize("frame_bytes", [131071, 131072, 131072 + 8])
def test_a_header_frame_as_long_as_frame_max_is_accepted(ch: Channel, queue: str, frame_bytes: int) -> None:
    empty = codec.header_frame(1, 0, {"headers": {"k": ""}})
    frame = codec.header_frame(1, 0, {"headers": {"k": "x" * (frame_bytes - len(empty))}})
    assert len(frame) == frame_bytes
    ch.client.raw(publishing(ch, queue) + frame)
    ch.sync()
    assert ch.count(queue) == 1


def test_a_publish_without_its_header_is_refused(ch: Channel, queue: str) -> None:
    ch.client.raw(publishing(ch, queue))
    ch.send(Queue.Declare, queue=queue, passive=True)
    closed = ch.client.expect_close(505)
    text = "expected content header for class 60, got non content header frame instead"
    assert closed.reply_text == f"UNEXPECTED_FRAME - {text}"
    assert (closed.class_id, closed.method_id) == (60, 40)


PUBLISH, QOS = codec.method_frame(1, Basic.Publish, {"routing_key": "nowhere"}), codec.method_frame(1, Basic.Qos, {})
HEADER, BODY = codec.header_frame(1, 4), codec.frame(codec.BODY, 1, b"body")
HALF = PUBLISH + codec.header_frame(1, 10) + codec.frame(codec.BODY, 1, b"five.")
NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
OTHER_CLASS = "UNEXPECTED_FRAME - expected content header for class 60, got one for class 10 instead"


@pytest.mark.parametrize(("frames", "code", "text"), [
    (HEADER, 505, NO_METHOD),
    (BODY, 505, NO_METHOD),
    (PUBLISH + BODY, 505, "UNEXPECTED_FRAME - "),
    (HALF + QOS, 505, NO_BODY),
    (HALF + HEADER, 505, NO_BODY),
    (PUBLISH + codec.header_frame(1, 0, class_id=10), 505, OTHER_CLASS),
    (PUBLISH + codec.header_frame(1, 0, weight=1), 505, "UNEXPECTED_FRAME - "),
    (codec.frame(codec.HEARTBEAT, 1, b""), 505, "UNEXPECTED_FRAME - "),
    (codec.header_frame(0, 0), 505, "UNEXPECTED_FRAME - "),
    (codec.frame(codec.BODY, 0, b"body"), 505, "UNEXPECTED_FRAME - "),
    *((codec.frame(kind, 1, b"12345678"), 501, "FRAME_ERROR - ") for kind in (0, 4, 9, 255)),
    (PUBLISH + codec.frame(codec.HEARTBEAT, 0, b"x"), 501, "FRAME_ERROR - "),
    (PUBLISH + codec.frame(codec.HEADER, 1, b"\0\x3c\0\0"), 501, "FRAME_ERROR - "),
])  # fmt: skip
def test_an_unexpected_or_invalid_frame_is_refused(ch: Channel, frames: bytes, code: int, text: str) -> None:
    ch.client.raw(frames)
    assert ch.client.expect_close(code, answer=code == 505).reply_text.startswith(text)


@pytest.mark.parametrize("part", ["method", "header", "body", "heartbeat"])
def test_a_bad_end_byte_ends_this_connection_only(broker: Peer, ch: Channel, queue: str, part: str) -> None:
    other = broker.connect().channel()
    publish = publishing(ch, queue)
    frames = {"method": publish, "header": publish + HEADER, "body": publish + HEADER + BODY, "heartbeat": codec.BEAT}
    ch.client.raw(frames[part][:-1] + b"\xcf")
    ch.client.expect_close(501, answer=False)
    ch.client.raw(codec.method_frame(1, Queue.Delete, {"queue": queue}))
    ch.client.expect_eof(GONE_MS)
    assert other.count(queue) == 0


@pytest.mark.differs("RabbitMQ notices at the next method: 505")
@pytest.mark.parametrize("bodies", [[b"12345"], [b"12", b"345"]])
def test_a_body_longer_than_announced_is_refused(broker: Peer, ch: Channel, queue: str, bodies: list[bytes]) -> None:
    other = broker.connect().channel()
    ch.client.raw(publishing(ch, queue) + codec.header_frame(1, 4))
    ch.client.raw(b"".join(codec.frame(codec.BODY, 1, body) for body in bodies))
    closed = ch.client.expect_close(501, answer=False)
    assert closed.reply_text == "FRAME_ERROR - content body frame exceeds remaining content size"
    assert other.count(queue) == 0


def test_a_body_frame_after_the_whole_body_belongs_to_nothing(broker: Peer, ch: Channel, queue: str) -> None:
    ch.client.raw(publishing(ch, queue) + codec.header_frame(1, 4))
    ch.client.raw(codec.frame(codec.BODY, 1, b"1234") + codec.frame(codec.BODY, 1, b"5"))
    ch.client.expect_close(505)
    assert broker.connect().channel().drain(queue) == [b"1234"]


@pytest.mark.differs("RabbitMQ accepts the announcement")
@pytest.mark.parametrize("body_bytes", [536870913, 2**63, 2**64 - 1])
def test_a_body_announced_as_enormous_is_refused_at_the_header(ch: Channel, queue: str, body_bytes: int) -> None:
    ch.client.raw(publishing(ch, queue) + codec.header_frame(1, body_bytes))
    closed = ch.client.expect_close(501, answer=False)
    text = f"content body size {body_bytes} exceeds maximum allowed size 536870912"
    assert closed.reply_text == f"FRAME_ERROR - {text}"


def test_empty_body_frames_are_tolerated(ch: Channel, queue: str) -> None:
    empty = codec.frame(codec.BODY, 1, b"")
    full = [codec.frame(codec.BODY, 1, bytes((byte,))) for byte in b"body"]
    ch.client.raw(publishing(ch, queue) + codec.header_frame(1, 4) + empty + empty.join(full))
    ch.sync()
    assert ch.drain(queue) == [b"body"]


@pytest.mark.parametrize("properties", [None, {"type": "empty", "headers": {"k": 1}}])
def test_an_empty_message_has_no_body_frame(ch: Channel, queue: str, properties: dict[str, Any] | None) -> None:
    ch.publish("", queue, b"", properties)
    ch.publish("", queue, b"next")
    ch.consume(queue, no_ack=True)
    first, second = ch.deliveries(2)  # the client refuses an empty body frame
    assert (first.body, first.properties.message_type) == (b"", properties and "empty")
    assert second.body == b"next"


def test_publishes_of_two_channels_may_interleave_frame_by_frame(client: Client, name: Callable[[str], str]) -> None:
    one, two = client.channel(), client.channel()
    one.declare(queue := name("queue"))
    parts: list[list[bytes]] = []
    for channel, text in ((one, b"1"), (two, b"2")):
        bodies = [codec.frame(codec.BODY, channel.number, text * 1000) for _ in range(5)]
        parts.append([publishing(channel, queue), codec.header_frame(channel.number, 5000), *bodies])
    for first, second in zip(*parts, strict=True):
        client.raw(first)
        client.raw(second)
    one.sync()
    two.sync()
    assert sorted(one.drain(queue)) == [b"1" * 5000, b"2" * 5000]


@pytest.mark.parametrize("method", [Basic.Qos, Queue.Declare, ChannelMethods.Flow, Basic.Publish])
def test_a_method_on_a_channel_never_opened_is_refused(client: Client, method: type) -> None:
    client.unopened(5).send(method)
    assert client.expect_close(504).reply_text == "CHANNEL_ERROR - expected 'channel.open'"


def test_a_second_open_of_a_channel_is_refused(ch: Channel) -> None:
    assert ch.refused(504, ChannelMethods.Open).reply_text == "CHANNEL_ERROR - second 'channel.open' seen"


def test_a_channel_number_is_free_again_after_close_ok(client: Client) -> None:
    client.channel(3).refused(404, Queue.Declare, queue="missing", passive=True)
    for _ in range(10):
        channel = client.channel(3)
        channel.close()
    client.channel(3).sync()
