"""The four built-in exchange types."""

from typing import Any

import pytest
from pamqp.commands import Queue

from tests.support.amqp_client import Channel
from tests.support.codec import Typed
from tests.support.peer import Name


def declare_bound(ch: Channel, name: Name, kind: str, keys: list[str]) -> tuple[str, dict[str, str]]:
    """Declare an exchange with one queue for each binding key."""
    ch.exchange(exchange := name("exchange"), kind)
    found = {}
    for at, key in enumerate(keys):
        found[key] = ch.declare(name(f"queue-{at}")).queue
        ch.bind(found[key], exchange, key)
    return exchange, found


def reached_keys(ch: Channel, exchange: str, found: dict[str, str], key: str, headers: Any = None) -> set[str]:
    """Return the binding keys whose queues a message reaches, each once."""
    ch.publish(exchange, key, b"body", {"headers": headers} if headers is not None else None)
    ch.sync()
    copies = {binding: ch.call(Queue.Purge, queue=queue).message_count for binding, queue in found.items()}
    assert max(copies.values()) <= 1
    return {binding for binding, count in copies.items() if count}


def test_direct_compares_keys(ch: Channel, name: Name) -> None:
    exchange, found = declare_bound(ch, name, "direct", ["a", "a.b", "*", "#", ""])
    for key in ("a", "a.b", "*", "#", ""):
        assert reached_keys(ch, exchange, found, key) == {key}
    assert reached_keys(ch, exchange, found, "A") == set()


def test_fanout_reaches_all(ch: Channel, name: Name) -> None:
    exchange, found = declare_bound(ch, name, "fanout", ["a", "b", ""])
    for key in ("a", "x", ""):
        assert reached_keys(ch, exchange, found, key) == {"a", "b", ""}


def test_two_matching_bindings_of_a_queue_give_one_copy(ch: Channel, queue: str, name: Name) -> None:
    ch.exchange(exchange := name("exchange"), "topic")
    for key in ("x.#", "#.x", "#", "*"):
        ch.bind(queue, exchange, key)
    ch.publish(exchange, "x", b"body")
    ch.sync()
    assert ch.drain(queue) == [b"body"]
    for key in ("x.#", "#", "*"):
        ch.call(Queue.Unbind, queue=queue, exchange=exchange, routing_key=key)
    ch.publish(exchange, "x", b"one is left")
    ch.sync()
    assert ch.drain(queue) == [b"one is left"]


PATTERNS = ["#", "", "*", "a.#", "#.a", "*.#", "a.*.b", "a.", "a.*", "##", "a#b", "a*", "*.*", "#.a.#", "a.#.b", "*.a"]
MATCHES = {
    "": {"#", ""},
    "a": {"#", "*", "a.#", "#.a", "*.#", "#.a.#"},
    "b": {"#", "*", "*.#"},
    "a.": {"#", "a.#", "*.#", "a.", "a.*", "*.*", "#.a.#"},
    "a.b": {"#", "a.#", "*.#", "a.*", "*.*", "#.a.#", "a.#.b"},
    "a..b": {"#", "a.#", "*.#", "a.*.b", "#.a.#", "a.#.b"},
    "a.x.b": {"#", "a.#", "*.#", "a.*.b", "#.a.#", "a.#.b"},
    "a.x.y.b": {"#", "a.#", "*.#", "#.a.#", "a.#.b"},
    "x.a": {"#", "#.a", "*.#", "*.*", "#.a.#", "*.a"},
    ".a": {"#", "#.a", "*.#", "*.*", "#.a.#", "*.a"},
    "##": {"#", "*", "*.#", "##"},
    "a#b": {"#", "*", "*.#", "a#b"},
    "a*": {"#", "*", "*.#", "a*"},
    "A": {"#", "*", "*.#"},
    ".": {"#", "*.#", "*.*"},
}


def test_topic_patterns_match_word_by_word(ch: Channel, name: Name) -> None:
    exchange, found = declare_bound(ch, name, "topic", PATTERNS)
    for key, expected in MATCHES.items():
        assert reached_keys(ch, exchange, found, key) == expected, key


def test_topic_bindings_that_are_removed_match_no_more(ch: Channel, name: Name) -> None:
    exchange, found = declare_bound(ch, name, "topic", ["a.#.b", "a.#", "a.*.b"])
    ch.call(Queue.Unbind, queue=found["a.#.b"], exchange=exchange, routing_key="a.#.b")
    assert reached_keys(ch, exchange, found, "a.x.b") == {"a.#", "a.*.b"}
    ch.call(Queue.Unbind, queue=found["a.#"], exchange=exchange, routing_key="a.#")
    assert reached_keys(ch, exchange, found, "a.x.b") == {"a.*.b"}


@pytest.mark.timeout(120)
def test_many_hashes_and_a_long_key_do_not_blow_up(ch: Channel, name: Name) -> None:
    exchange, found = declare_bound(ch, name, "topic", ["#.a.#"])
    words = ".".join(["a"] * 100)
    for at in range(20):
        ch.bind(found["#.a.#"], exchange, f"#.a.#.no{at}")
    for _ in range(10):
        assert reached_keys(ch, exchange, found, words) == {"#.a.#"}


def headers_bound(ch: Channel, name: Name, specs: dict[str, dict[str, Any]]) -> tuple[str, dict[str, str]]:
    ch.exchange(exchange := name("exchange"), "headers")
    found = {}
    for word, arguments in specs.items():
        found[word] = ch.declare(name(word)).queue
        ch.bind(found[word], exchange, arguments=arguments)
    return exchange, found


SPEC = {"h1": "12345", "h2": "bar", "h3": None, "x-key-1": "bindings starting with x- get filtered out"}
HEADERS: list[tuple[dict[str, Any] | None, set[str]]] = [
    (None, {"none"}),
    ({}, {"none"}),
    ({"x-key-1": "bindings starting with x- get filtered out"}, {"none"}),
    ({"h1": "12345"}, {"none", "any"}),
    ({"h1": "12345", "h2": "bar"}, {"none", "any"}),
    ({"h1": "12345", "h2": "bar", "h3": "whatever"}, {"none", "any", "all"}),
    ({"h1": "12345", "h2": "bar", "h3": None, "more": 1}, {"none", "any", "all"}),
    ({"h1": "12345", "h2": "quux", "h3": 5}, {"none", "any"}),
    ({"h1": "other", "h2": "other"}, {"none"}),
    ({"h3": False}, {"none", "any"}),
    ({"h1": 12345}, {"none"}),
]


def test_headers_match_all_or_any_without_the_x_keys(ch: Channel, name: Name) -> None:
    specs: dict[str, dict[str, Any]] = {match: {**SPEC, "x-match": match} for match in ("all", "any")}
    specs |= {"none": {}, "no": {"x-match": "any"}}
    exchange, found = headers_bound(ch, name, specs)
    for headers, expected in HEADERS:
        assert reached_keys(ch, exchange, found, "ignored", headers) == expected, headers


def test_headers_compare_values_with_their_kind(ch: Channel, name: Name) -> None:
    values: dict[str, Any] = {"integer": 1, "string": "1", "true": True, "array": [1, "a"], "table": {"a": 1}}
    exchange, found = headers_bound(ch, name, {word: {"k": value} for word, value in values.items()})
    same: list[tuple[Any, str]] = [(value, word) for word, value in values.items()]
    for value, expected in [
        *same,
        (Typed("b", 1), "integer"),
        (Typed("l", 1), "integer"),
        (2, ""),
        ([1], ""),
        (None, ""),
    ]:
        assert reached_keys(ch, exchange, found, "", {"k": value}) == ({expected} if expected else set()), value


@pytest.mark.differs("1 equals 1.0 before 4.0")
def test_headers_tell_integers_from_floats(ch: Channel, name: Name) -> None:
    exchange, found = headers_bound(ch, name, {"integer": {"k": 1}, "double": {"k": 1.0}})
    for letter, value, expected in [("b", 1, "integer"), ("d", 1.0, "double"), ("f", 1.0, "double")]:
        assert reached_keys(ch, exchange, found, "", {"k": Typed(letter, value)}) == {expected}


def test_headers_match_with_the_x_keys_where_asked(ch: Channel, name: Name) -> None:
    keys = {"x-a": "1", "b": "2"}
    specs = {match: {**keys, "x-match": match} for match in ("all", "any", "all-with-x", "any-with-x")}
    exchange, found = headers_bound(ch, name, specs)
    for headers, expected in [
        ({"x-a": "1", "b": "2"}, set(specs)),
        ({"b": "2"}, {"all", "any", "any-with-x"}),
        ({"x-a": "1"}, {"any-with-x"}),
        ({"x-a": "0", "b": "2"}, {"all", "any", "any-with-x"}),
        ({"c": "3"}, set()),
    ]:
        assert reached_keys(ch, exchange, found, "", headers) == expected, headers


@pytest.mark.parametrize("match", ["ANY", "", "some", 1, True, None])
def test_an_unknown_way_to_match_headers_is_refused(ch: Channel, queue: str, match: Any) -> None:
    fields = {"queue": queue, "exchange": "amq.headers", "arguments": {"x-match": match, "k": "v"}}
    assert ch.refused(406, Queue.Bind, **fields).reply_text.startswith("PRECONDITION_FAILED - Invalid x-match field ")
