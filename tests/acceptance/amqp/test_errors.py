"""Errors: what they close, and their codes and texts."""

from collections.abc import Callable

import pytest
from pamqp.commands import Basic, Exchange, Queue
from pamqp.commands import Channel as ChannelMethods

from tests.support import codec
from tests.support.amqp_client import Channel, Client

CUT = pytest.mark.differs("cuts within characters before 4.0")


def test_looking_for_a_missing_object_closes_the_channel_and_not_the_connection(client: Client, ch: Channel) -> None:
    closed = ch.refused(404, Queue.Declare, queue="missing", passive=True)
    assert closed.reply_text == "NOT_FOUND - no queue 'missing' in vhost '/'"
    closed = client.channel().refused(404, Exchange.Declare, exchange="missing", exchange_type="direct", passive=True)
    assert closed.reply_text == "NOT_FOUND - no exchange 'missing' in vhost '/'"
    client.channel().sync()


@pytest.mark.parametrize("method", [Basic.Get, Basic.Consume, Queue.Purge, Queue.Delete, Queue.Bind])
def test_no_queue_name_and_none_declared_before_is_refused(ch: Channel, method: type) -> None:
    fields = {"exchange": "amq.direct"} if method is Queue.Bind else {}
    assert ch.refused(404, method, **fields).reply_text == "NOT_FOUND - no previously declared queue"


@pytest.mark.parametrize("method", [Basic.Get, Basic.Consume, Queue.Purge])
def test_a_missing_queue_is_refused(ch: Channel, method: type) -> None:
    assert ch.refused(404, method, queue="missing").reply_text == "NOT_FOUND - no queue 'missing' in vhost '/'"


def test_methods_after_a_publish_to_a_missing_exchange_are_ignored(client: Client, ch: Channel, queue: str) -> None:
    ch.publish("missing", "key", b"lost")
    for _ in range(20):
        ch.publish("", queue, b"ignored")
    ch.send(Queue.Delete, queue=queue)
    closed = ch.expect_close(404)
    assert closed.reply_text == "NOT_FOUND - no exchange 'missing' in vhost '/'"
    assert (closed.class_id, closed.method_id) == (60, 40)
    assert client.channel(ch.number).count(queue) == 0


def test_publishes_under_way_when_the_channel_closes_are_swallowed(client: Client, ch: Channel) -> None:
    ch.publish("missing", "key", b"lost")
    ch.client.raw(codec.method_frame(ch.number, Basic.Publish, {"exchange": "missing"}))
    ch.client.raw(codec.header_frame(ch.number, 10) + codec.frame(codec.BODY, ch.number, b"half."))
    ch.expect_close(404, answer=False)
    ch.client.raw(codec.frame(codec.BODY, ch.number, b"other"))
    ch.publish("missing", "key", b"lost")
    ch.send(ChannelMethods.CloseOk)
    client.channel(ch.number).sync()


@pytest.mark.differs("a hard 503 before 4.0")
@pytest.mark.parametrize("kind", ["nonsense", "x-nonsense"])
def test_an_unknown_exchange_type_closes_the_channel_only(client: Client, ch: Channel, kind: str) -> None:
    ch.send(Exchange.Declare, exchange="exchange", exchange_type=kind)
    reply = ch.next()
    assert isinstance(reply, ChannelMethods.Close) and reply.reply_code == 406
    assert reply.reply_text == f"PRECONDITION_FAILED - unknown exchange type '{kind}'"
    client.channel(9).sync()


def test_closes_that_cross_are_both_answered(client: Client, ch: Channel) -> None:
    ch.send(Queue.Declare, queue="missing", passive=True)
    ch.send(ChannelMethods.Close, reply_code=200)
    ch.expect_close(404, answer=False)
    assert isinstance(ch.next(), ChannelMethods.CloseOk)
    ch.send(ChannelMethods.CloseOk)
    client.channel(ch.number).sync()


@pytest.mark.parametrize("queue", [
    pytest.param("q" * 255, id="one byte"),
    pytest.param("ü" * 127, id="two bytes"),
    pytest.param("漢" * 85, id="three bytes", marks=CUT),
    pytest.param("q" + "漢" * 84, id="one and three", marks=CUT),
])  # fmt: skip
def test_a_reply_text_is_cut_to_fit_between_characters(ch: Channel, queue: str) -> None:
    closed = ch.refused(404, Queue.Declare, queue=queue, passive=True)  # pamqp decodes: it is UTF-8
    assert 250 <= len(closed.reply_text.encode()) <= 255
    assert closed.reply_text.startswith(f"NOT_FOUND - no queue '{queue[:70]}")


def test_access_request_is_granted(ch: Channel, name: Callable[[str], str]) -> None:
    payload = b"\x00\x1e\x00\x0a" + b"\x05/data" + b"\x1f"
    ch.client.raw(codec.frame(codec.METHOD, ch.number, payload))
    ch.client.pump()
    granted = codec.frame(codec.METHOD, ch.number, b"\x00\x1e\x00\x0b\x00\x01")
    assert ch.client.read_bytes(len(granted)) == granted
    ch.sync()


@pytest.mark.parametrize(("method", "fields", "text"), [
    (Basic.Publish, {"immediate": True}, "immediate=true"),
    (Basic.Qos, {"prefetch_size": 10}, "prefetch_size!=0 (10)"),
    (Basic.Recover, {"requeue": False}, "requeue=false"),
    (ChannelMethods.Flow, {"active": False}, "active=false"),
])  # fmt: skip
def test_unsupported_methods_are_refused(ch: Channel, method: type, fields: dict[str, object], text: str) -> None:
    assert ch.call(ChannelMethods.Flow, active=True).active is True
    ch.send(method, **fields)
    if method is Basic.Publish:
        ch.client.raw(codec.header_frame(ch.number, 0))
    closed = ch.client.expect_close(540)
    assert closed.reply_text == f"NOT_IMPLEMENTED - {text}"
    assert (closed.class_id, closed.method_id) == (method.index >> 16, method.index & 0xFFFF)
