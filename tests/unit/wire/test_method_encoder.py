"""Frames sent by the broker, decoded by pamqp."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Confirm, Connection, Exchange, Queue, Tx

from tests.support import codec
from tests.support.hypothesis_settings import examples
from warren.broker.amqp.framing import FRAME_END, METHOD, reframe
from warren.broker.core.messages.message import RoutingAddress
from warren.broker.wire import method_encoder
from warren.broker.wire.method_encoder import long, long_string, short, short_string


def read(data: bytes) -> tuple[int, Any]:
    """Return channel and method of a single frame."""
    taken, channel, method = frame.unmarshal(data)
    assert taken == len(data)
    return channel, method


BARE = {
    method_encoder.CONNECTION_CLOSE_OK: Connection.CloseOk,
    method_encoder.CONNECTION_UNBLOCKED: Connection.Unblocked,
    method_encoder.UPDATE_SECRET_OK: Connection.UpdateSecretOk,
    method_encoder.CHANNEL_CLOSE_OK: Channel.CloseOk,
    method_encoder.EXCHANGE_DECLARE_OK: Exchange.DeclareOk,
    method_encoder.EXCHANGE_DELETE_OK: Exchange.DeleteOk,
    method_encoder.EXCHANGE_BIND_OK: Exchange.BindOk,
    method_encoder.EXCHANGE_UNBIND_OK: Exchange.UnbindOk,
    method_encoder.QUEUE_BIND_OK: Queue.BindOk,
    method_encoder.QUEUE_UNBIND_OK: Queue.UnbindOk,
    method_encoder.QOS_OK: Basic.QosOk,
    method_encoder.RECOVER_OK: Basic.RecoverOk,
    method_encoder.CONFIRM_SELECT_OK: Confirm.SelectOk,
    method_encoder.TX_SELECT_OK: Tx.SelectOk,
    method_encoder.TX_COMMIT_OK: Tx.CommitOk,
    method_encoder.TX_ROLLBACK_OK: Tx.RollbackOk,
}
WITH_ARGUMENTS: list[tuple[int, bytes, type[Frame], dict[str, object]]] = [
    (method_encoder.CONNECTION_START, b"\0\x09" + long_string(b"\x07productV") + long_string(b"PLAIN") * 2,
     Connection.Start, {"version_minor": 9, "mechanisms": "PLAIN"}),
    (method_encoder.CONNECTION_TUNE, short(7) + long(4096) + short(60), Connection.Tune,
     {"channel_max": 7, "frame_max": 4096, "heartbeat": 60}),
    (method_encoder.CONNECTION_OPEN_OK, short_string(""), Connection.OpenOk, {}),
    (method_encoder.CONNECTION_BLOCKED, short_string("memory"), Connection.Blocked, {"reason": "memory"}),
    (method_encoder.CHANNEL_OPEN_OK, long_string(b""), Channel.OpenOk, {}),
    (method_encoder.CHANNEL_FLOW_OK, b"\x01", Channel.FlowOk, {"active": True}),
    (method_encoder.QUEUE_DECLARE_OK, short_string("ü") + long(5) + long(6), Queue.DeclareOk,
     {"queue": "ü", "message_count": 5, "consumer_count": 6}),
    (method_encoder.QUEUE_PURGE_OK, long(3), Queue.PurgeOk, {"message_count": 3}),
    (method_encoder.QUEUE_DELETE_OK, long(1 << 31), Queue.DeleteOk, {"message_count": 1 << 31}),
    (method_encoder.CONSUME_OK, short_string("tag"), Basic.ConsumeOk, {"consumer_tag": "tag"}),
    (method_encoder.CANCEL_OK, short_string("tag"), Basic.CancelOk, {"consumer_tag": "tag"}),
    (method_encoder.CANCEL, short_string("tag") + b"\x01", Basic.Cancel, {"consumer_tag": "tag", "nowait": True}),
    (method_encoder.GET_EMPTY, short_string(""), Basic.GetEmpty, {}),
]  # fmt: skip


@pytest.mark.parametrize("index", BARE, ids=lambda index: BARE[index].name)
def test_replies_without_arguments(index: int) -> None:
    channel, method = read(method_encoder.method(65_535, index))
    assert channel == 65_535 and type(method) is BARE[index]


@pytest.mark.parametrize("index, arguments, kind, fields", WITH_ARGUMENTS)
def test_replies_with_arguments(index: int, arguments: bytes, kind: type[Frame], fields: dict[str, object]) -> None:
    channel, method = read(method_encoder.method(1, index, arguments))
    assert channel == 1 and type(method) is kind
    assert {name: getattr(method, name) for name in fields} == fields


@pytest.mark.parametrize("channel, kind", [(0, Connection.Close), (3, Channel.Close)])
def test_a_close_is_the_connections_on_channel_0_alone(channel: int, kind: type[Frame]) -> None:
    number, method = read(method_encoder.close(channel, 404, "NOT_FOUND - no queue 'q'", 50, 10))
    assert number == channel and type(method) is kind
    assert (method.reply_code, method.reply_text) == (404, "NOT_FOUND - no queue 'q'")
    assert (method.class_id, method.method_id) == (50, 10)


@given(st.integers(0, (1 << 63) - 1), st.booleans(), st.sampled_from((method_encoder.ACK, method_encoder.NACK)))
@examples(30)
def test_confirms(tag: int, multiple: bool, index: int) -> None:
    _, method = read(method_encoder.acknowledgement(METHOD, 9, 13, index, tag, multiple, FRAME_END))
    assert (method.index, method.delivery_tag, method.multiple) == (index, tag, multiple)
    assert not getattr(method, "requeue", False)


names = st.text(st.characters(codec="utf-8"), max_size=60)


@given(names, names, names, st.integers(1, (1 << 63) - 1), st.booleans())
@examples(80)
def test_what_goes_before_a_content(exchange: str, key: str, tag: str, number: int, redelivered: bool) -> None:
    address = RoutingAddress(exchange, key)
    prefix = method_encoder.deliver_prefix(2, short_string(tag), len(address.encoded))
    rest = b"\x01" + address.delivered[1:] if redelivered else address.delivered
    _, delivered = read(method_encoder.deliver_encoder(len(prefix), len(rest))(prefix, number, rest))
    _, got = read(method_encoder.get_ok(2, number, redelivered, address.encoded, 7))
    _, returned = read(method_encoder.basic_return(2, 312, "NO_ROUTE", address.encoded))
    assert delivered.consumer_tag == tag and got.message_count == 7
    assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
    for method in (delivered, got, returned):
        assert (method.exchange, method.routing_key) == (exchange, key)
    for method in (delivered, got):
        assert (method.delivery_tag, method.redelivered) == (number, redelivered)


def test_a_short_string_is_no_longer_than_255_bytes() -> None:
    assert short_string("ü" * 127) == b"\xfe" + b"\xc3\xbc" * 127
    assert short_string("\udcff") == b"\x01\xff"
    with pytest.raises(ValueError):
        short_string("ü" * 128)


@given(
    st.binary(max_size=400),
    st.lists(st.integers(1, 400), max_size=5),
    st.sampled_from((b"\0\0", b"\x80\0\x04text", b"\x80\0\x80" + b"t" * 128)),
    st.sampled_from((0, 9, 20, 64, 131_072)),
)
@examples(200)
def test_reframing_keeps_header_and_body(body: bytes, cuts: list[int], given: bytes, frame_max: int) -> None:
    marks = [0, *sorted({cut for cut in cuts if cut < len(body)}), len(body)] if body else []
    pieces = [body[start:end] for start, end in zip(marks, marks[1:], strict=False)]
    header = codec.header_frame(1, len(body), given)
    frames = header + b"".join(codec.frame(codec.BODY, 1, piece) for piece in pieces)
    out = reframe(frames, 7, frame_max)
    assert out.startswith(header[:1] + b"\0\x07" + header[3:])
    out, found = out[len(header) :], b""
    while out:
        size = int.from_bytes(out[3:7], "big")
        assert out[:3] == b"\x03\0\x07" and size > 0 and out[7 + size] == 0xCE
        assert not frame_max or size + codec.FRAME_OVERHEAD <= frame_max
        found += out[7 : 7 + size]
        out = out[8 + size :]
    assert found == body


def test_every_index_is_that_of_a_method() -> None:
    indices = [
        value for name, value in vars(method_encoder).items() if isinstance(value, int) and name.isupper() and value > 9
    ]
    assert len(indices) > 30 and set(indices) <= {*commands.INDEX_MAPPING, method_encoder.REQUEST_OK}
