"""Field tables with values of every type, and long messages."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import codec
from tests.support.amqp_client import Channel
from tests.support.codec import Typed

EVERY_TYPE: dict[str, Any] = {
    "a-array": [1, "two", [Typed("b", -3), None], {"k": Typed("s", 4)}], "b-bool": True, "c-i8": Typed("b", -128),
    "d-u8": Typed("B", 255), "e-i16": Typed("s", -32768), "f-u16": Typed("u", 65535), "g-i32": Typed("I", -(2**31)),
    "h-u32": Typed("i", 2**32 - 1), "i-i64": Typed("l", -(2**63)), "j-float": Typed("f", 1.5),
    "k-double": Typed("d", 0.1), "l-decimal": Typed("D", (2, -314)), "m-string": "grün", "n-octets": b"\x00\xff\xce",
    "o-time": Typed("T", 2**63), "p-table": {"inner": {"innermost": None}, "zero": 0}, "q-void": None, "r-empty": "",
    "s-not-utf8": Typed("S", b"\xff\xfe"),
}  # fmt: skip


def returned(ch: Channel, queue: str, properties: bytes) -> bytes:
    """Return the property bytes with which a message comes back."""
    ch.publish("", queue, b"body", properties)
    return ch.get(queue).property_bytes


def test_headers_of_every_type_return_byte_for_byte(ch: Channel, queue: str) -> None:
    sent = codec.property_bytes({"headers": EVERY_TYPE})
    assert returned(ch, queue, sent) == sent


@pytest.mark.differs("since 4.0 headers are sorted, repeats are dropped and L becomes l")
@pytest.mark.parametrize(
    "inside",
    [codec.pairs({"k": Typed("L", 5)}), codec.pairs({"z": 1, "a": 2}), codec.pairs({"k": 1}) + codec.pairs({"k": 2})],
)
def test_headers_return_as_they_were_written(ch: Channel, queue: str, inside: bytes) -> None:
    sent = codec.property_bytes({"headers": inside})
    assert returned(ch, queue, sent) == sent


def test_headers_of_every_type_are_delivered_to_another_channel_number(ch: Channel, queue: str) -> None:
    sent = codec.property_bytes({"headers": EVERY_TYPE, "priority": 3})
    other = ch.client.channel(1000)
    other.consume(queue, no_ack=True)
    ch.publish("", queue, b"body", sent)
    assert other.delivery().property_bytes == sent


def test_an_exchange_takes_arguments_of_every_type(ch: Channel, name: Callable[[str], str]) -> None:
    ch.exchange(exchange := name("exchange"), arguments=EVERY_TYPE)
    ch.exchange(exchange, arguments=EVERY_TYPE)


def test_a_queue_and_a_binding_take_arguments_of_every_type(ch: Channel, name: Callable[[str], str]) -> None:
    ch.declare(queue := name("queue"), arguments=EVERY_TYPE)
    ch.declare(queue, arguments=EVERY_TYPE)
    ch.bind(queue, "amq.direct", queue, arguments=EVERY_TYPE)
    ch.publish("amq.direct", queue, b"body")
    assert ch.drain(queue) == [b"body"]


def test_a_message_of_sixteen_mebibytes_passes(ch: Channel, queue: str) -> None:
    body = struct.pack(">Q", 0x0123456789ABCDEF) * (2 << 20)
    ch.publish("", queue, body)
    assert ch.drain(queue) == [body]


@pytest.mark.differs("128 MiB are allowed before 4.0")
def test_a_longer_message_closes_the_channel_only(ch: Channel, queue: str) -> None:
    ch.publish("", queue, b"x" * ((16 << 20) + 1))
    closed = ch.expect_close(406)
    text = "PRECONDITION_FAILED - message size 16777217 is larger than configured max size 16777216"
    assert closed.reply_text == text
    assert (closed.class_id, closed.method_id) == (60, 40)
    assert ch.client.channel().count(queue) == 0
