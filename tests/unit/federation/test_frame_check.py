"""Frames of an upstream that may reach aio-pika's decoder, and those that may not."""

import struct

import pytest

from tests.support import codec
from warren.broker.amqp.field_table import Table
from warren.federation.upstream.errors import LinkError
from warren.federation.upstream.frame_check import METHOD_MAX, START_MAX, is_for_decoder

START = b"\x00\x0a\x00\x0a\x00\x09"


def long(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def start(table: bytes, mechanisms: bytes = b"PLAIN", rest: bytes = b"") -> bytes:
    return codec.frame(codec.METHOD, 0, START + long(table) + long(mechanisms) + long(b"en_US") + rest)


def nested(depth: int) -> bytes:
    table = b""
    for _ in range(depth):
        table = b"\x01aF" + long(table)
    return table


def method(index: int, channel: int, arguments: bytes = b"") -> bytes:
    return codec.frame(codec.METHOD, channel, struct.pack(">I", index) + arguments)


def test_a_connection_start_as_brokers_send_it_passes() -> None:
    properties = Table.of({"product": "RabbitMQ", "capabilities": {"basic.nack": True}, "cluster_name": "c" * 255})
    assert is_for_decoder(start(properties.raw), False)
    assert is_for_decoder(start(nested(5)), False)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (start(nested(20)), "nested more than"),
        (start(nested(10_000)), "nested more than"),
        (start(b"\x01aF\xff\xff\xff\xff"), "malformed connection.start"),
        (start(b"\x01a"), "malformed connection.start"),
        (start(b"\x05a"), "malformed connection.start"),
        (start(b"", rest=b"more"), "malformed connection.start"),
        (codec.frame(codec.METHOD, 0, START), "malformed connection.start"),
        (codec.frame(codec.METHOD, 0, START + b"\xff\xff\xff\xff"), "malformed connection.start"),
        (start(b"", b"x" * START_MAX), f"{START_MAX} are allowed"),
        (method(0x0032000B, 1, b"\1q" + b"\0" * 8), "does not speak AMQP"),
        (codec.frame(codec.BODY, 1, b"x"), "frame of type 3 out of place"),
        (codec.frame(codec.METHOD, 0, b"\0\x0a"), "frame of type 1 out of place"),
    ],
)
def test_what_else_comes_first_does_not(frame: bytes, reason: str) -> None:
    with pytest.raises(LinkError, match=reason):
        is_for_decoder(frame, False)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (start(b""), "connection.start out of place"),
        (method(0x000A0032, 0, b"x" * METHOD_MAX), "connection.close of .* are allowed"),
        (method(0x000A0032, 1, b"x"), "connection.close out of place"),
        (method(0x0014000B, 0, b"\0" * 4), "channel.open-ok out of place"),
        (codec.frame(codec.HEADER, 1, b"\0" * 14), "frame of type 2 out of place"),
    ],
)
def test_what_is_out_of_place_later_does_not(frame: bytes, reason: str) -> None:
    with pytest.raises(LinkError, match=reason):
        is_for_decoder(frame, True)


def test_answers_that_nobody_waits_for_and_long_heartbeats_are_left_out() -> None:
    assert not is_for_decoder(method(0x0032000B, 1, b"\1q" + b"\0" * 8), True)
    assert not is_for_decoder(method(0x00640014, 1, b"x" * 5000), True)
    assert is_for_decoder(codec.frame(codec.HEARTBEAT, 0, b""), True)
    assert not is_for_decoder(codec.frame(codec.HEARTBEAT, 0, b"x" * 5000), True)
    assert is_for_decoder(method(0x003C001E, 1, b"\1t\0"), True)
