"""Publishes after changes of the topology: cached routes must not be used any more."""

import pytest
from pamqp.commands import Exchange, Queue

from tests.support.amqp_client import Channel
from tests.support.peer import Name, Peer


@pytest.fixture
def other(broker: Peer) -> Channel:
    """Another client, which changes the topology."""
    return broker.connect().channel()


def arrives(ch: Channel, exchange: str, key: str, *queues: str) -> list[bool]:
    """Publish, always with the same bytes, and read each queue."""
    ch.publish(exchange, key, b"body")
    ch.sync()
    return [ch.drain(queue) == [b"body"] for queue in queues]


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_a_binding_routes_until_it_is_removed(ch: Channel, other: Channel, queue: str, name: Name, kind: str) -> None:
    ch.exchange(exchange := name("exchange"), kind)
    for _ in range(2):
        assert arrives(ch, exchange, "key", queue) == [False]
        other.bind(queue, exchange, "key")
        assert arrives(ch, exchange, "key", queue) == [True]
        other.call(Queue.Unbind, queue=queue, exchange=exchange, routing_key="key")


def test_a_queue_that_is_deleted_and_made_again_is_reached_by_its_name(ch: Channel, other: Channel, queue: str) -> None:
    for _ in range(2):
        assert arrives(ch, "", queue, queue) == [True]
        other.call(Queue.Delete, queue=queue)
        ch.publish("", queue, b"lost", mandatory=True)
        assert ch.next().body == b"lost"
        ch.publish("", queue, b"lost")
        ch.sync()
        other.declare(queue)
        assert ch.drain(queue) == []


def test_a_queue_that_is_made_again_has_lost_its_bindings(ch: Channel, other: Channel, queue: str, name: Name) -> None:
    ch.exchange(exchange := name("exchange"), "fanout")
    ch.bind(queue, exchange)
    assert arrives(ch, exchange, "", queue) == [True]
    other.call(Queue.Delete, queue=queue)
    other.declare(queue)
    assert arrives(ch, exchange, "", queue) == [False]


def test_a_redeclared_exchange_routes_by_its_new_type(ch: Channel, other: Channel, queue: str, name: Name) -> None:
    ch.exchange(exchange := name("exchange"), "fanout")
    ch.bind(queue, exchange, "other")
    assert arrives(ch, exchange, "key", queue) == [True]
    other.call(Exchange.Delete, exchange=exchange)
    other.exchange(exchange, "direct")
    other.bind(queue, exchange, "other")
    assert arrives(ch, exchange, "key", queue) == [False]
    other.call(Exchange.Delete, exchange=exchange)
    ch.publish(exchange, "key", b"body")
    ch.expect_close(404)


def test_a_change_behind_another_exchange_counts_too(ch: Channel, other: Channel, queue: str, name: Name) -> None:
    ch.exchange(outer := name("outer"), "fanout")
    ch.exchange(inner := name("inner"), "topic")
    assert arrives(ch, outer, "a.b", queue) == [False]
    other.bind(queue, inner, "a.*")
    assert arrives(ch, outer, "a.b", queue) == [False]
    other.call(Exchange.Bind, destination=inner, source=outer)
    assert arrives(ch, outer, "a.b", queue) == [True]
    other.call(Queue.Unbind, queue=queue, exchange=inner, routing_key="a.*")
    assert arrives(ch, outer, "a.b", queue) == [False]


def test_a_change_behind_the_alternate_exchange_counts_too(ch: Channel, other: Channel, queue: str, name: Name) -> None:
    alternate = name("alternate")
    ch.exchange(exchange := name("exchange"), "direct", arguments={"alternate-exchange": alternate})
    assert arrives(ch, exchange, "key", queue) == [False]
    other.exchange(alternate, "fanout")
    other.bind(queue, alternate)
    assert arrives(ch, exchange, "key", queue) == [True]
    other.call(Exchange.Delete, exchange=alternate)
    assert arrives(ch, exchange, "key", queue) == [False]


def test_an_auto_delete_queue_that_went_is_reached_no_more(ch: Channel, other: Channel, name: Name) -> None:
    other.declare(queue := name("queue"), auto_delete=True)
    tag = other.consume(queue, no_ack=True)
    ch.publish("", queue, b"body")
    assert other.delivery().body == b"body"
    other.cancel(tag)
    ch.publish("", queue, b"body", mandatory=True)
    assert ch.next().method.name == "Basic.Return"


def test_the_same_bytes_with_other_headers_go_elsewhere(ch: Channel, name: Name) -> None:
    one, two = (str(ch.declare(name(word)).queue) for word in ("one", "two"))
    for _ in range(2):
        ch.publish("", one, b"plain")
        ch.publish("", one, b"copied", {"headers": {"CC": [two]}})
    ch.sync()
    assert ch.drain(one) == [b"plain", b"copied"] * 2
    assert ch.drain(two) == [b"copied"] * 2


@pytest.mark.parametrize("mandatory", [True, False])
def test_flags_belong_to_each_publish(ch: Channel, mandatory: bool) -> None:
    for flag in (mandatory, not mandatory):
        ch.publish("", "nowhere", b"body", mandatory=flag)
    assert ch.next().method.name == "Basic.Return"
    ch.nothing()


def test_a_missing_exchange_is_reported_before_a_fault_of_the_message(ch: Channel) -> None:
    ch.publish("missing", "key", b"body", {"expiration": "foobar", "user_id": "other"})
    ch.expect_close(404)


def test_a_closed_channel_gets_nothing_more(ch: Channel, other: Channel, queue: str) -> None:
    ch.consume(queue)
    other.publish("", queue, b"1")
    ch.delivery()
    ch.send(Queue.Declare, queue="missing", passive=True)
    ch.expect_close(404, answer=False)
    other.publish("", queue, b"2")
    other.sync()
    ch.client.channel().sync()
    assert not ch.client.inbox(ch.number)
    assert other.drain(queue) == [b"1", b"2"]
