"""The direct and the fanout exchange, and bindings of all built-in types to the same queue."""

import pytest

from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.direct import DirectExchange
from warren.broker.core.exchanges.exchange_type import ExchangeType
from warren.broker.core.exchanges.fanout import FanoutExchange
from warren.broker.core.exchanges.headers import HeadersExchange
from warren.broker.core.exchanges.topic import TopicExchange
from warren.broker.core.messages.binding import Binding, Destination
from warren.broker.core.messages.message import Message, RoutingAddress, framed

MESSAGE: Message = framed(RoutingAddress("x", "k"), Properties(), b"")
Q1, Q2 = Destination("q1"), Destination("q2")


def binding(destination: Destination, key: str, **arguments: object) -> Binding:
    return Binding("x", destination, key, Table.of(arguments))


def routed(exchange: ExchangeType, *keys: str) -> list[str]:
    return sorted(destination.name for destination in exchange.route(keys, MESSAGE))


@pytest.fixture
def direct() -> DirectExchange:
    return DirectExchange("x", Table.EMPTY)


@pytest.fixture
def fanout() -> FanoutExchange:
    return FanoutExchange("x", Table.EMPTY)


def test_direct_follows_the_binding_keys_that_equal_one_of_the_keys(direct):
    direct.on_bind(binding(Q1, "a"))
    direct.on_bind(binding(Q2, "b"))
    assert routed(direct, "a") == ["q1"]
    assert routed(direct, "none", "a", "b") == ["q1", "q2"]
    assert routed(direct, "A") == routed(direct, "") == []


def test_direct_distinguishes_queues_of_the_same_name(direct):
    gone = Destination("q1")
    direct.on_bind(binding(gone, "a"))
    direct.on_unbind(binding(gone, "a"))
    direct.on_bind(binding(Q1, "a"))
    assert direct.route(("a",), MESSAGE) == [Q1]


def test_fanout_follows_every_binding_whatever_the_keys(fanout):
    fanout.on_bind(binding(Q1, "a"))
    fanout.on_bind(binding(Q2, "b"))
    assert routed(fanout, "c") == routed(fanout, "c", "d") == ["q1", "q2"]


@pytest.mark.parametrize(
    ("type_", "bindings"),
    [
        (DirectExchange, [("a", {}), ("a", {"n": 1})]),
        (FanoutExchange, [("a", {}), ("b", {})]),
        (TopicExchange, [("a.#", {}), ("a.#", {"n": 1}), ("a.#.#", {})]),
        (HeadersExchange, [("", {"h": 1}), ("k", {"h": 1}), ("", {"h": None})]),
    ],
)
def test_a_queue_gets_one_copy_until_its_last_binding_is_deleted(type_, bindings):
    exchange = type_("x", Table.EMPTY)
    message = framed(RoutingAddress("x", "a"), Properties(headers=Table.of({"h": 1})), b"")
    for key, arguments in bindings:
        exchange.on_bind(binding(Q1, key, **arguments))
    for key, arguments in bindings:
        assert exchange.route(("a",), message) == [Q1]
        exchange.on_unbind(binding(Q1, key, **arguments))
    assert exchange.route(("a",), message) == []
