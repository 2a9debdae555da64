"""Publishes with special properties among others, and mandatory ones that return."""

from typing import Any

import pytest
from pamqp.commands import Basic, Exchange

from tests.support import codec
from tests.support.amqp_client import Content
from tests.support.in_process import InProcessPeer

PUBLISH = codec.method_frame(1, Basic.Publish, {"exchange": "", "routing_key": "queue"})


def content(properties: dict[str, str] | bytes) -> bytes:
    return codec.header_frame(1, 4, properties) + codec.body_frames(1, b"body", 131072)


@pytest.mark.parametrize("how", ["binding", "alternate"])
def test_a_headers_exchange_is_reached_through_one_that_routes_by_key(how: str) -> None:
    ch = InProcessPeer().connect().channel()
    ch.exchange("headers", "headers")
    ch.exchange("direct", arguments={"alternate-exchange": "headers"} if how == "alternate" else None)
    if how == "binding":
        ch.call(Exchange.Bind, destination="headers", source="direct", routing_key="key")
    ch.declare("queue")
    ch.bind("queue", "headers", arguments={"colour": "red"})
    for colour in ("red", "blue"):
        ch.publish("direct", "key", colour.encode(), {"headers": {"colour": colour}})
    assert ch.drain("queue") == [b"red"]


@pytest.mark.parametrize("expiration", ["1\u00b21", "1\u06631"])
def test_an_expiration_is_of_ascii_digits_alone(expiration: str) -> None:
    ch = InProcessPeer().connect().channel()
    ch.publish("", "queue", b"body", {"expiration": expiration})
    ch.expect_close(406)


def test_what_came_before_malformed_properties_is_published() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    ch = client.channel(1)
    ch.declare("queue")
    malformed = content(b"\x80\x00\xff")
    client.raw(PUBLISH + content({"message_id": "a"}) + PUBLISH + content({"message_id": "b"}) + PUBLISH + malformed)
    client.expect_close(502)
    assert broker.node.vhosts["/"].queues["queue"].ready == 2


@pytest.mark.pure("deletes an attribute, which a compiled object keeps")
def test_a_run_whose_enqueueing_fails_is_not_enqueued_again() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    ch = client.channel(1)
    ch.exchange("fanout", "fanout")
    for name in ("good", "failing"):
        ch.declare(name)
        ch.bind(name, "fanout")
    queues = broker.node.vhosts["/"].queues
    del queues["failing"].ready_messages.default  # a bug: every push to it fails
    method = codec.method_frame(1, Basic.Publish, {"exchange": "fanout", "routing_key": ""})
    special = content({"message_id": "c", "expiration": "1000"})
    client.raw(method + content({"message_id": "a"}) + method + content({"message_id": "b"}) + method + special)
    client.expect_close(541)
    assert queues["good"].ready == 2


@pytest.mark.parametrize("other", [{}, {"headers": {"CC": ["second"]}}, {"reply_to": "amq.rabbitmq.reply-to.g"}])
def test_each_of_messages_with_the_same_special_properties_is_treated_as_the_first_one(other: dict[str, Any]) -> None:
    broker = InProcessPeer()
    ch = broker.connect().channel()
    for name in ("first", "second"):
        ch.declare(name)
    for expiration in ("1000", "3000"):
        for _ in range(2):
            ch.publish("", "first", b"x", {"expiration": expiration, **other})
    ch.publish("", "first", b"y", other)
    ch.sync()
    names = ["first", "second"] if "headers" in other else ["first"]
    for elapsed_ms, left in ((999, 5), (2, 3), (2000, 1)):
        broker.node.clock.advance(elapsed_ms)
        assert [ch.count(name) for name in names] == [left] * len(names)


def test_each_message_of_another_user_is_refused() -> None:
    client = InProcessPeer().connect()
    for _ in range(2):
        ch = client.channel()
        ch.declare("queue")
        ch.publish("", "queue", b"x", {"user_id": "guest", "expiration": "1000"})
        ch.publish("", "queue", b"x", {"user_id": "other", "expiration": "1000"})
        ch.expect_close(406)


def test_a_return_is_cut_to_the_frame_size_even_where_the_publish_was_not() -> None:
    client = InProcessPeer().connect(frame_max=4096)
    ch = client.channel(1)
    method = codec.method_frame(1, Basic.Publish, {"routing_key": "nowhere", "mandatory": True})
    client.raw(method + codec.header_frame(1, 4096) + codec.frame(codec.BODY, 1, bytes(4096)))  # 8 over: tolerated
    returned = ch.next()
    assert isinstance(returned, Content) and returned.body == bytes(4096)
    assert client.largest_frame <= 4096


@pytest.mark.parametrize("exchange", ["", "no such exchange"])
def test_the_size_of_a_message_is_looked_at_before_its_exchange(exchange: str) -> None:
    broker = InProcessPeer()
    broker.settings(max_message_size=100)
    ch = broker.connect().channel(1)
    ch.publish(exchange, "key", bytes(101))
    assert "larger than configured max size" in ch.expect_close(406).reply_text


def test_but_after_the_flag_that_is_not_implemented() -> None:
    broker = InProcessPeer()
    broker.settings(max_message_size=100)
    client = broker.connect()
    client.channel(1).publish("no such exchange", "key", bytes(101), immediate=True)
    client.expect_close(540)


def publish_frames(exchange: str, mandatory: bool) -> bytes:
    method = codec.method_frame(1, Basic.Publish, {"exchange": exchange, "routing_key": "k", "mandatory": mandatory})
    return method + codec.header_frame(1, 1) + codec.frame(codec.BODY, 1, b"x")


@pytest.mark.parametrize("first", ["", "amq.fanout"], ids=["to a queue", "unroutable"])
@pytest.mark.parametrize("reads", [1, 2])
def test_a_publish_is_confirmed_before_the_return_of_a_later_one(first: str, reads: int) -> None:
    client = InProcessPeer().connect()
    ch = client.channel(1)
    ch.declare("k")
    ch.confirm()
    publishes = [publish_frames(first, False), publish_frames("amq.fanout", True)]
    for data in publishes if reads == 2 else [b"".join(publishes)]:
        client.raw(data)
    one, returned, two = ch.next(), ch.next(), ch.next()
    assert isinstance(returned, Content) and isinstance(returned.method, Basic.Return)
    assert [(each.name, each.delivery_tag, each.multiple) for each in (one, two)] == [
        ("Basic.Ack", 1, False),
        ("Basic.Ack", 2, False),
    ]
