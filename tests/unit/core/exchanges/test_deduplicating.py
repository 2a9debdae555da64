"""Deduplication: equal values, their expiry and number, and the fate of duplicates."""

from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue, Tx
from pytest import MonkeyPatch

from tests.support.amqp_client import Channel, Content
from tests.support.clock import fake_clock
from tests.support.queues import limit_dead_letters
from tests.support.session import connected
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.deduplicating import DeduplicatingExchange
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.node.node import Node
from warren.broker.core.queues.deduplication import Deduplication
from warren.plugins.exchanges.delayed_message import DelayedMessageExchange

ON = {"x-message-deduplication": True}


def message(**headers: object) -> Message:
    table = Table.of({key.replace("_", "-"): value for key, value in headers.items()})
    return framed(RoutingAddress("", "q"), Properties(headers=table), b"")


def is_duplicate(deduplication: Deduplication, each: Message, now_ms: int) -> bool:
    return deduplication.is_duplicate(deduplication.key_of(each), now_ms)


def add(deduplication: Deduplication, each: Message, now_ms: int) -> None:
    deduplication.add(deduplication.key_of(each), each, now_ms)


def taken(deduplication: Deduplication, *values: object, now_ms: int = 1000) -> list[object]:
    """Return the values that were no duplicates."""
    passed = []
    for value in values:
        each = message(x_deduplication_header=value)
        if not is_duplicate(deduplication, each, now_ms):
            add(deduplication, each, now_ms)
            passed.append(value)
    return passed


def test_equal_integers_of_any_width_are_the_same_and_no_text_is() -> None:
    values = [
        ("b", 1),
        ("l", 1),
        ("S", b"1"),
        ("x", b"1"),
        ("A", [("I", 1)]),
        ("A", [("I", 1)]),
        ("t", True),
        ("S", b"1"),
    ]
    deduplication = Deduplication(Table.EMPTY)
    assert taken(deduplication, *values) == [values[0], *values[2:5], values[6]]
    assert deduplication.duplicates == 3


def test_a_message_without_the_header_is_never_a_duplicate() -> None:
    deduplication = Deduplication(Table.EMPTY)
    for each in (message(), message(other="x"), framed(RoutingAddress("", ""), Properties(), b"")):
        add(deduplication, each, 1)
        assert not is_duplicate(deduplication, each, 1)


def test_the_argument_names_the_header() -> None:
    deduplication = Deduplication(Table.of({"x-deduplication-header": "id"}))
    add(deduplication, message(id="a"), 1)
    assert is_duplicate(deduplication, message(id="a"), 1)
    assert not is_duplicate(deduplication, message(x_deduplication_header="a"), 1)


def test_the_oldest_value_is_forgotten_first() -> None:
    deduplication = Deduplication(Table.of({"x-cache-size": 3}))
    assert taken(deduplication, "a", "b", "c", "a", "d", "b", "a") == ["a", "b", "c", "d", "a"]


def test_values_are_remembered_by_default() -> None:
    deduplication = Deduplication(Table.EMPTY)
    numbers = list(range(128))
    assert taken(deduplication, *numbers, *numbers) == numbers
    assert taken(deduplication, 128, 1, 0) == [128, 0]


def test_values_are_forgotten_after_their_ttl() -> None:
    deduplication = Deduplication(Table.of({"x-cache-ttl": 100}))
    assert taken(deduplication, "a", now_ms=1000) == ["a"]
    assert taken(deduplication, "a", now_ms=1099) == []
    assert taken(deduplication, "a", now_ms=1100) == ["a"]
    assert taken(deduplication, "a", now_ms=1199) == []


def test_a_message_may_set_the_ttl_of_its_value() -> None:
    deduplication = Deduplication(Table.of({"x-cache-ttl": 100}))
    add(deduplication, message(x_deduplication_header="a", x_cache_ttl=500), 1000)
    assert is_duplicate(deduplication, message(x_deduplication_header="a"), 1499)
    assert not is_duplicate(deduplication, message(x_deduplication_header="a"), 1500)


# In a broker


@pytest.fixture
def channel(node: Node) -> Channel:
    return connected(node).channel()


def send(channel: Channel, exchange: str, key: str, *values: Any, **fields: Any) -> None:
    for index, value in enumerate(values):
        headers = {"x-deduplication-header": value} if value is not None else {}
        channel.publish(exchange, key, b"%d" % index, {"headers": headers}, **fields)


def test_a_queue_drops_duplicates_and_they_are_confirmed(node: Node, channel: Channel) -> None:
    channel.declare("q", arguments=ON)
    channel.confirm()
    send(channel, "", "q", "a", "b", "a", None, None, "b")
    assert channel.confirms(range(1, 7)) == ({1, 2, 3, 4, 5, 6}, set())
    assert channel.drain("q") == [b"0", b"1", b"3", b"4"]
    queue = node.vhosts["/"].queues["q"]
    assert queue.deduplication is not None and queue.deduplication.duplicates == 2


def test_each_queue_has_a_cache_of_its_own(channel: Channel) -> None:
    for queue in ("one", "two", "plain"):
        channel.declare(queue, arguments=ON if queue != "plain" else {})
        channel.bind(queue, "amq.fanout")
    send(channel, "", "two", "a")
    send(channel, "amq.fanout", "", "a", "a")
    assert channel.drain("one") == [b"0"]
    assert channel.drain("two") == [b"0"]
    assert channel.drain("plain") == [b"0", b"1"]


def test_a_message_that_a_full_queue_rejects_is_not_remembered(channel: Channel) -> None:
    channel.declare("q", arguments=ON | {"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm()
    send(channel, "", "q", "a", "b")
    assert channel.confirms((1, 2)) == ({1}, {2})
    assert channel.drain("q") == [b"0"]
    send(channel, "", "q", "b")
    assert channel.confirms((3,)) == ({3}, set())
    assert channel.drain("q") == [b"0"]


def test_a_requeued_message_is_no_duplicate(channel: Channel) -> None:
    channel.declare("q", arguments=ON)
    send(channel, "", "q", "a")
    got = channel.get("q", no_ack=False)
    assert got is not None
    channel.reject(got.tag)
    assert channel.drain("q") == [b"0"]


@pytest.mark.parametrize("type_", ["direct", "fanout", "topic", "headers"])
def test_an_exchange_of_any_type_drops_duplicates(node: Node, channel: Channel, type_: str) -> None:
    channel.exchange("x", type_, arguments=ON)
    channel.declare("q")
    channel.bind("q", "x", "k")
    channel.confirm()
    send(channel, "x", "k", "a", "a", None, "b")
    channel.confirms(range(1, 5))
    assert channel.drain("q") == [b"0", b"2", b"3"]
    type_of = node.vhosts["/"].exchanges["x"].type
    assert isinstance(type_of, DeduplicatingExchange) and type_of.deduplication.duplicates == 1


def test_a_duplicate_is_not_returned_and_goes_to_no_alternate_exchange(channel: Channel) -> None:
    channel.exchange("x", "direct", arguments=ON | {"alternate-exchange": "amq.fanout"})
    channel.declare("rest")
    channel.bind("rest", "amq.fanout")
    send(channel, "x", "nobody", "a", "a", mandatory=True)
    assert channel.drain("rest") == [b"0"]
    channel.nothing()


def test_an_unroutable_message_is_not_remembered(channel: Channel) -> None:
    channel.exchange("x", "direct", arguments=ON)
    send(channel, "x", "k", "a", "a", mandatory=True)
    for body in (b"0", b"1"):
        returned = channel.next()
        assert isinstance(returned, Content) and isinstance(returned.method, Basic.Return) and returned.body == body
    channel.declare("q")
    channel.bind("q", "x", "k")
    send(channel, "x", "k", "a", "a", mandatory=True)
    assert channel.drain("q") == [b"0"]


@pytest.mark.parametrize("way", ["publish", "transaction", "delay"])
def test_duplicates_that_wait_for_a_full_queue_are_dropped(node: Node, way: str, monkeypatch: MonkeyPatch) -> None:
    """They were no duplicates when they were routed."""
    limit_dead_letters(monkeypatch, MANY=0)
    node.registry.register("x-delayed-message", DelayedMessageExchange)
    clients = [connected(node).channel() for _ in range(5)]
    clients[0].exchange("late", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    clients[0].exchange("x", "fanout", arguments=ON)
    clients[0].bind_exchange("x", "late")
    given = {"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "amq.fanout"}
    clients[0].declare("q", arguments=given)
    queue = node.vhosts["/"].queues["q"]
    queue.outbox.awaits_journal = True
    clients[0].fill("q", b"stays", b"rejected")
    clients[0].bind("q", "x")
    assert queue.must_not_reject
    for number, client in enumerate(clients):
        fields = {"headers": {"x-deduplication-header": "a", "x-delay": 10}}
        if way == "transaction":
            client.call(Tx.Select)
        elif way == "publish":
            client.confirm()
        client.publish("x" if way != "delay" else "late", "", b"%d" % number, fields)
        if way == "transaction":
            client.send(Tx.Commit)
    fake_clock(node.clock).advance(1_000)
    assert connected(node).channel().drain("q") == [b"stays"]
    queue.outbox.awaits_journal = False
    queue.schedule_pump()
    node.pump()
    node.clock.advance(10_000)
    assert connected(node).channel().drain("q") == [b"0"]
    for client in clients:
        if way == "transaction":
            assert client.next().name == "Tx.CommitOk"
        elif way == "publish":
            assert client.confirms((1,)) == ({1}, set())
    type_of = node.vhosts["/"].exchanges["x"].type
    assert isinstance(type_of, DeduplicatingExchange) and type_of.deduplication.duplicates == 4


def test_a_rolled_back_message_is_not_remembered_and_a_commit_takes_one_of_two(node: Node, channel: Channel) -> None:
    channel.exchange("x", "fanout", arguments=ON)
    channel.declare("q")
    channel.bind("q", "x")
    channel.transact()
    send(channel, "x", "", "a")
    channel.rollback()
    send(channel, "x", "", "a", "a", "b")
    channel.commit()
    send(channel, "x", "", "a", "b")
    channel.commit()
    assert channel.drain("q") == [b"0", b"2"]
    assert node.vhosts["/"].exchanges["x"].publish_out == 2


def test_time_passes_by_the_clock_of_the_broker(node: Node, channel: Channel) -> None:
    channel.exchange("x", "fanout", arguments=ON | {"x-cache-ttl": 50})
    channel.declare("q")
    channel.bind("q", "x")
    for _ in range(2):
        send(channel, "x", "", "a", "a")
        channel.sync()
        fake_clock(node.clock).advance(50)
    assert channel.drain("q") == [b"0", b"0"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("x-message-deduplication", "true"),
        ("x-cache-size", 0),
        ("x-cache-size", 10_000_001),
        ("x-cache-size", "3"),
        ("x-cache-ttl", -1),
        ("x-cache-ttl", "1"),
        ("x-deduplication-header", 1),
    ],
)
def test_invalid_arguments_are_refused(node: Node, key: str, value: object) -> None:
    arguments = {**ON, key: value}
    client = connected(node)
    client.channel().refused(406, Queue.Declare, queue="q", arguments=arguments)
    client.channel().refused(406, Exchange.Declare, exchange="x", exchange_type="fanout", arguments=arguments)


def test_a_redeclaration_must_have_the_same_arguments(node: Node) -> None:
    client = connected(node)
    channel = client.channel()
    channel.exchange("x", "fanout", arguments=ON | {"x-cache-size": 5})
    channel.exchange("x", "fanout", arguments=ON | {"x-cache-size": 5})
    channel.declare("q", arguments=ON)
    for arguments in ({}, ON, ON | {"x-cache-size": 6}):
        client.channel().refused(406, Exchange.Declare, exchange="x", exchange_type="fanout", arguments=arguments)
    client.channel().refused(406, Queue.Declare, queue="q", arguments={})
