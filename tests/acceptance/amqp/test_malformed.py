"""Methods that cannot be decoded, and input that is cut short."""

import struct
from collections.abc import Callable

import pytest
from pamqp.commands import Basic, Connection, Exchange, Queue

from tests.support import codec
from tests.support.amqp_client import PROTOCOL_HEADER, Channel, Client
from tests.support.peer import Peer


def send_method(ch: Channel, ids: int, arguments: bytes) -> None:
    ch.client.raw(codec.frame(codec.METHOD, ch.number, struct.pack(">I", ids) + arguments))


DROPPED = pytest.mark.differs("RabbitMQ drops the connection")
UNKNOWN = [pytest.param(ids, b"", marks=DROPPED) for ids in (0x003C00C8, 0x003C00FF, 0x00460001, 0xFFFFFFFF)]
OF_THE_SERVER = [
    (Connection.Start.index, b"\x00\x09" + bytes(12)),
    (Queue.DeclareOk.index, b"\x01q" + bytes(8)),
    (Basic.GetEmpty.index, b"\x00"),
    (Basic.Deliver.index, b"\x01t" + bytes(8) + b"\x00\x00\x00"),
]


@pytest.mark.parametrize(("ids", "arguments"), [*UNKNOWN, *OF_THE_SERVER])
def test_a_method_that_is_unknown_or_the_servers_own_is_refused(ch: Channel, ids: int, arguments: bytes) -> None:
    send_method(ch, ids, arguments)
    if ids == Basic.Deliver.index:  # it carries content, and may be judged after the header
        ch.client.raw(codec.header_frame(ch.number, 0))
    assert ch.client.expect_close(503).reply_text == "COMMAND_INVALID - unimplemented method"


@pytest.mark.differs("RabbitMQ drops the connection, or answers 501")
@pytest.mark.parametrize("arguments", [
    b"",
    b"\x00\x00\x05abc",  # a short string of five bytes with three
    b"\x00\x00\x01q\x00",  # no table
    b"\x00\x00\x01q\x00\x00\x00\x00\x09\x01kS\x00",  # a table longer than the frame
    b"\x00\x00\x01q\x00\x00\x00\x00\x07\x01kS\x00\x00\x00\xff",  # a long string beyond the table
    b"\x00\x00\x01q\x00\x00\x00\x00\x03\x01k?",  # an unknown field type
    b"\x00\x00\x01q\x00\x00\x00\x00\x00more",  # bytes left over
])  # fmt: skip
def test_arguments_that_cannot_be_decoded_are_a_syntax_error(ch: Channel, arguments: bytes) -> None:
    send_method(ch, Queue.Declare.index, arguments)
    ch.client.expect_close(502)


def nested(letter: str) -> bytes:
    """Tables (F) or arrays (A) in each other, five hundred deep."""
    value = b"V"
    for _ in range(500):
        value = letter.encode() + codec.long_string((b"\x01k" if letter == "F" else b"") + value)
    return value


@pytest.mark.differs("RabbitMQ takes any depth")
@pytest.mark.parametrize("letter", ["F", "A"])
def test_a_table_nested_five_hundred_deep_ends_only_its_connection(broker: Peer, letter: str) -> None:
    client = broker.connect()
    client.channel().send(Queue.Declare, queue=broker.name("queue"), arguments=b"\x01k" + nested(letter))
    client.expect_close(502)
    broker.connect().channel().sync()


@pytest.mark.parametrize("letter", ["F", "A"])
@pytest.mark.parametrize("exchange", ["", "amq.headers"])
def test_a_deeply_nested_header_harms_nobody(broker: Peer, ch: Channel, queue: str, exchange: str, letter: str) -> None:
    ch.bind(queue, "amq.headers", arguments={"absent": queue})
    client = broker.connect()
    headers = b"\x01k" + nested(letter) + b"\x02CC" + codec.field([])
    client.channel().publish(exchange, queue, b"body", {"headers": headers})
    ch.sync()
    assert ch.count(queue) <= 1


@pytest.mark.differs("RabbitMQ answers 541")
@pytest.mark.parametrize(("properties", "code"), [
    (b"\x80\x00", 502),  # a content type that is not there
    (b"\x80\x00\x05text", 502),  # ... that is longer than the frame
    (b"\x20\x00\x00\x00\x00\x09\x01kS", 502),  # headers longer than the frame
    (b"\x20\x00\x00\x00\x00\x07\x01kS\x00\x00\x00\xff", 502),  # a header longer than the headers
    (b"\x00\x40\x00", 502),  # a timestamp of one byte
    (b"\x00", 501),  # half of the flags
    (b"\x00\x01", 502),  # more flags announced
    (b"\x80\x00\x04textmore", 502),  # bytes left over
])  # fmt: skip
def test_malformed_properties_reach_nobody(broker: Peer, ch: Channel, queue: str, properties: bytes, code: int) -> None:
    other = broker.connect().channel()
    ch.publish("", queue, b"body", properties)
    ch.client.expect_close(code)
    assert other.count(queue) == 0


def test_a_queue_name_that_is_not_utf8_is_a_frame_error(ch: Channel) -> None:
    ch.send(Queue.Declare, queue=b"\xff\xfe")
    assert ch.client.expect_close(501).reply_text == "FRAME_ERROR - Malformed UTF-8 in shortstr"


def test_a_routing_key_that_is_not_utf8_is_routed_as_it_is(ch: Channel, name: Callable[[str], str]) -> None:
    ch.exchange(exchange := name("exchange"), "fanout")
    ch.declare(queue := name("queue"))
    ch.bind(queue, exchange)
    ch.publish(exchange, b"\xff\xfe", b"body")
    ch.send(Basic.Get, queue=queue, no_ack=True)
    while b"\x02\xff\xfe" not in ch.client._buffer:  # pamqp refuses to decode what we look for
        ch.client.pump()


def frames_of(number: int, queue: str, properties: dict[str, object], *bodies: bytes) -> bytes:
    """A publish on this channel, in frames."""
    publish = codec.method_frame(number, Basic.Publish, {"routing_key": queue})
    header = codec.header_frame(number, sum(map(len, bodies)), properties)
    return publish + header + b"".join(codec.frame(codec.BODY, number, body) for body in bodies)


@pytest.mark.parametrize("cut", range(1, 70, 3))
def test_a_publish_that_the_end_of_the_stream_cuts_off_is_none(broker: Peer, ch: Channel, queue: str, cut: int) -> None:
    client = broker.connect()
    channel = client.channel()
    whole = frames_of(channel.number, queue, {"type": "t"}, b"half.", b"other")
    client.raw(whole[: min(cut, len(whole) - 1)])
    client.vanish()
    ch.sync()
    assert ch.count(queue) == 0


@pytest.mark.in_process("many single bytes take long over a socket")
def test_a_session_sent_byte_by_byte_is_understood_alike(broker: Peer) -> None:
    client = broker.dial()
    answers = {
        Connection.StartOk: {"mechanism": "PLAIN", "response": "\0guest\0guest", "locale": "en_US"},
        Connection.TuneOk: {"channel_max": 2047, "frame_max": 131072}, Connection.Open: {"virtual_host": "/"},
    }  # fmt: skip
    for byte in PROTOCOL_HEADER + b"".join(codec.method_frame(0, *answer) for answer in answers.items()):
        client.raw(bytes((byte,)))
    assert [client.next().name for _ in range(3)] == ["Connection.Start", "Connection.Tune", "Connection.OpenOk"]
    channel = client.channel()
    channel.declare("queue")
    for byte in frames_of(1, "queue", {"headers": {"k": "v"}}, b"body"):
        client.raw(bytes((byte,)))
    message = channel.get("queue")
    assert message is not None and (message.body, message.headers) == (b"body", {"k": "v"})


def test_a_name_of_two_hundred_and_fifty_five_bytes_is_accepted_everywhere(client: Client, ch: Channel) -> None:
    long = "n" * 255
    ch.exchange(long, auto_delete=True)
    ch.declare(long, exclusive=True)
    ch.bind(long, long, long)
    ch.publish(long, long, b"body")
    tag = ch.consume(long, consumer_tag="t" * 255, no_ack=True)
    delivery = ch.delivery()
    assert (tag, delivery.method.routing_key, delivery.method.exchange) == ("t" * 255, long, long)
    ch.cancel(tag)
    ch.call(Queue.Delete, queue=long)
    ch.refused(404, Exchange.Declare, exchange=long, passive=True)
