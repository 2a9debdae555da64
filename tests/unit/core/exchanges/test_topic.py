"""The topic exchange, against a table of patterns and a plain recursive matcher."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.speed import within
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.topic import TopicExchange
from warren.broker.core.messages.binding import Binding, Destination
from warren.broker.core.messages.message import RoutingAddress, framed

MESSAGE = framed(RoutingAddress("x", "k"), Properties(), b"")


def exchange_with(*binding_keys: str) -> TopicExchange:
    """Return an exchange with one destination per binding key, named like the key."""
    exchange = TopicExchange("x", Table.EMPTY)
    for key in binding_keys:
        exchange.on_bind(Binding("x", Destination(key), key, Table.EMPTY))
    return exchange


def routed(exchange: TopicExchange, *keys: str) -> list[str]:
    return sorted({destination.name for destination in exchange.route(keys, MESSAGE)})


def matches(binding_key: list[str], key: list[str]) -> bool:
    """Match word by word, by the definition."""
    if not binding_key:
        return not key
    if binding_key[0] == "#":
        return matches(binding_key[1:], key) or (bool(key) and matches(binding_key, key[1:]))
    return bool(key) and binding_key[0] in ("*", key[0]) and matches(binding_key[1:], key[1:])


@pytest.mark.parametrize(
    ("binding_key", "matching", "other"),
    [
        ("#", ["", "a", "a.b", ".", "#", "*"], []),
        ("", [""], ["a", "."]),
        ("*", ["a", "*", "#"], ["", "a.b", "."]),
        ("a.#", ["a", "a.b", "a.b.c", "a."], ["", "b.a", "A"]),
        ("#.a", ["a", "b.a", "c.b.a", ".a"], ["", "a.b"]),
        ("*.#", ["a", "a.b", "."], [""]),
        ("#.*", ["a", "a.b"], [""]),
        ("a.*.b", ["a..b", "a.x.b"], ["a.b", "a.x.y.b"]),
        ("a.*", ["a.", "a.b"], ["a", "a.b.c"]),
        ("a.", ["a."], ["a", "a.b"]),
        ("a.#.b", ["a.b", "a.x.b", "a.b.b", "a.x.y.b"], ["a", "b", "a.b.c"]),
        ("#.a.#", ["a", "b.a", "a.b", "b.a.c", "a.a"], ["", "b", "b.c"]),
        ("#.#", ["", "a", "a.b.c"], []),
        ("#.*.#.*", ["a.b", "a.b.c"], ["", "a"]),
        ("##", ["##"], ["", "a"]),
        ("a#b", ["a#b"], ["a.b", "axb"]),
        ("a*", ["a*"], ["ab", "a.b"]),
        ("a.b", ["a.b"], ["a", "b", "a.B", "a.b.c"]),
        ("\udcff.*", ["\udcff.x"], ["ÿ.x"]),
    ],
)
def test_patterns_match_as_rabbitmq_matches_them(binding_key, matching, other):
    exchange = exchange_with(binding_key)
    assert [key for key in matching + other if routed(exchange, key)] == matching


words = st.sampled_from(["a", "b", ""])
binding_keys = st.lists(st.one_of(words, st.sampled_from(["*", "#"])), max_size=6).map(".".join)
routing_keys = st.lists(st.one_of(words, st.sampled_from(["*", "#"])), max_size=6).map(".".join)


@given(st.lists(binding_keys, max_size=8), routing_keys)
def test_a_route_agrees_with_the_definition(keys, routing_key):
    key = routing_key.split(".") if routing_key else []
    expected = {each for each in keys if matches(each.split(".") if each else [], key)}
    assert routed(exchange_with(*keys), routing_key) == sorted(expected)


@given(st.lists(binding_keys, max_size=8), st.lists(binding_keys, max_size=8), routing_keys)
def test_deleted_bindings_leave_no_nodes(kept, gone, routing_key):
    exchange = exchange_with(*kept)
    untouched = exchange_with(*kept)
    bindings = [Binding("x", Destination("gone"), key, Table.EMPTY) for key in gone]
    for binding in bindings:
        exchange.on_bind(binding)
    for binding in bindings:
        exchange.on_unbind(binding)
    assert routed(exchange, routing_key) == routed(untouched, routing_key)
    assert count_nodes(exchange) == count_nodes(untouched)


def count_nodes(exchange: TopicExchange) -> int:
    """Return the number of nodes of the trie."""
    waiting, count = [exchange._root], 0
    while waiting:
        node = waiting.pop()
        count += 1
        waiting += [after for after in (*node.words.values(), node.one, node.any) if after is not None]
    return count


def test_each_of_the_keys_is_tried():
    exchange = exchange_with("a.*", "b.#", "c")
    assert routed(exchange, "none", "a.x", "b") == ["a.*", "b.#"]


@pytest.mark.parametrize(
    "shape", ["#.#.#.#.a", "#.a.#.a.#.a.#.a.#.b{}", "#.*.#.*.#.*.#.*.a{}", "#.b{}.#", "#.a.*.a.*.#.a.*.#.a.{}"]
)
def test_a_hundred_hostile_patterns_cost_less_than_five_milliseconds_a_message(shape):
    exchange = exchange_with()
    for number in range(100):
        exchange.on_bind(Binding("x", Destination(str(number)), shape.format(number), Table.EMPTY))
    key = ".".join(["a"] * 50)
    taken = []
    for _ in range(5):
        begun = time.thread_time()
        exchange.route((key,), MESSAGE)
        taken.append(time.thread_time() - begun)
    assert within(min(taken), 0.005)
