"""The headers exchange."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch

from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.amqp.field_table import FLOATS, INTEGERS, STRINGS, Table, Value, value_of
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges import headers as headers_module
from warren.broker.core.exchanges.headers import HeadersExchange
from warren.broker.core.messages.binding import Binding, Destination
from warren.broker.core.messages.message import Message, RoutingAddress, framed


def message(headers: dict[str, object] | None) -> Message:
    table = None if headers is None else Table.of(headers)
    return framed(RoutingAddress("x", "k"), Properties(headers=table), b"")


def bound(**queues: dict[str, object]) -> HeadersExchange:
    """Return an exchange with one queue per name, bound with these arguments (`_` in a name is `-`)."""
    exchange = HeadersExchange("x", Table.EMPTY)
    for name, arguments in queues.items():
        binding = Binding("x", Destination(name.replace("_", "-")), "", Table.of(arguments))
        exchange.validate_binding(binding.routing_key, binding.arguments, "classic")
        exchange.on_bind(binding)
    return exchange


def routed(exchange: HeadersExchange, headers: dict[str, object] | None) -> list[str]:
    return sorted({destination.name for destination in exchange.route(("k",), message(headers))})


def equal_header(wanted: Value, sent: Value) -> bool:
    """Whether a header of a message satisfies an argument of a binding.

    V matches any value. A timestamp in the binding matches an equal timestamp or integer, as in RabbitMQ; an integer in
    the binding matches no timestamp.
    """
    type_, sent_type = wanted[0], sent[0]
    if type_ == "V":
        return True
    if type_ in INTEGERS or type_ == "T":
        return (sent_type in INTEGERS or sent_type == type_) and wanted[1] == sent[1]
    if type_ in STRINGS:
        return sent_type in STRINGS and wanted[1] == sent[1]
    if type_ in FLOATS:
        return sent_type in FLOATS and wanted[1] == sent[1]
    return wanted == sent


def test_all_wants_each_header_and_any_wants_one():
    wanted = {"h1": "12345", "h2": "bar", "h3": None}
    exchange = bound(all={**wanted, "x-match": "all"}, any={**wanted, "x-match": "any"}, default=wanted)
    assert routed(exchange, {"h1": "12345"}) == ["any"]
    assert routed(exchange, {"h1": "12345", "h2": "bar", "h3": "whatever"}) == ["all", "any", "default"]
    assert routed(exchange, {"h1": "12345", "h2": "quux", "h3": 1}) == ["any"]
    assert routed(exchange, {"h1": "other", "h2": "quux"}) == []
    assert routed(exchange, {"h3": None}) == ["any"]
    assert routed(exchange, {}) == routed(exchange, None) == []


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [
        (("V", None), ("S", b"anything")),
        (("V", None), ("V", None)),
        (("b", 1), ("l", 1)),
        (("S", b"x"), ("x", b"x")),
        (("f", 0.5), ("d", 0.5)),
        (("t", True), ("t", True)),
        (("T", 5), ("T", 5)),
        (("T", 5), ("l", 5)),
        (("D", (1, 5)), ("D", (1, 5))),
        (("A", [("S", b"x")]), ("A", [("S", b"x")])),
        (("F", Table.of({"a": 1})), ("F", Table.of({"a": 1}))),
    ],
)
def test_a_header_that_satisfies_a_binding(wanted: Value, sent: Value) -> None:
    assert equal_header(wanted, sent)
    assert routed(bound(q={"h": wanted}), {"h": sent}) == ["q"]


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [
        (("I", 1), ("d", 1.0)),
        (("d", 1.0), ("I", 1)),
        (("I", 1), ("t", True)),
        (("t", True), ("I", 1)),
        (("t", True), ("t", False)),
        (("S", b"1"), ("I", 1)),
        (("l", 5), ("T", 5)),
        (("S", b"x"), ("V", None)),
        (("A", [("S", b"x"), ("I", 1)]), ("A", [("I", 1), ("S", b"x")])),
    ],
)
def test_a_header_that_does_not(wanted: Value, sent: Value) -> None:
    assert not equal_header(wanted, sent)
    assert routed(bound(q={"h": wanted}), {"h": sent}) == []


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("ANY", 'Invalid x-match field value <<"ANY">>; expected all, any, all-with-x, or any-with-x'),
        ("", 'Invalid x-match field value <<"">>; expected all, any, all-with-x, or any-with-x'),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
    ],
)
def test_a_wrong_x_match_is_refused(mode, text):
    with pytest.raises(PreconditionFailed) as caught:
        bound(q={"x-match": mode, "h": 1})
    assert caught.value.text == text


def test_a_binding_is_found_again_with_its_arguments_in_another_order():
    exchange = HeadersExchange("x", Table.EMPTY)
    queue = Destination("q")
    exchange.on_bind(Binding("x", queue, "", Table.of({"a": 1, "b": 2})))
    exchange.on_unbind(Binding("x", queue, "", Table.of({"b": 2, "a": 1})))
    assert routed(exchange, {"a": 1, "b": 2}) == []


class Counting:
    """Counts the bindings that are compared with a message."""

    def __init__(self, monkeypatch: MonkeyPatch) -> None:
        self.compared = 0
        matches = headers_module._Wanted.matches

        def counted(wanted: headers_module._Wanted, sent: set[headers_module._Header]) -> bool:
            self.compared += 1
            return matches(wanted, sent)

        monkeypatch.setattr(headers_module._Wanted, "matches", counted)


@pytest.mark.parametrize("match", ["all", "any"])
def test_a_publish_looks_only_at_bindings_that_share_a_header_with_it(monkeypatch: MonkeyPatch, match: str) -> None:
    kind = {"kind": "a"} if match == "all" else {}
    values: list[object] = [*range(1_000), *([number, "x"] for number in range(1_000, 2_000))]
    many = {f"q{number}": {"x-match": match, **kind, "number": value} for number, value in enumerate(values)}
    exchange = bound(**many)
    counting = Counting(monkeypatch)
    assert routed(exchange, {"kind": "a", "number": 77, "other": [1, "x"]}) == ["q77"]
    assert routed(exchange, {"kind": "a", "number": [1_077, "x"]}) == ["q1077"]
    assert counting.compared <= 4
    for number in range(2_000):
        binding = Binding("x", Destination(f"q{number}"), "", Table.of(many[f"q{number}"]))
        identity = headers_module._identity(binding)
        known = next(each for each in exchange._bound if each[0].name == f"q{number}" and each[1:] == identity[1:])
        exchange.on_unbind(Binding("x", known[0], "", binding.arguments))
    assert not exchange._headers and not exchange._bound and routed(exchange, {"kind": "a", "number": 77}) == []


VALUES = st.sampled_from(
    [None, 1, ("b", 1), ("T", 1), ("l", 1), True, "1", ("x", b"1"), 1.0, ("f", 1.0), 0.0, -0.0, float("nan"), [1, "x"],
     [("b", 1), "x"], {"a": 1}, ("D", (1, 10)), [], "", 2]
)  # fmt: skip
HEADERS = st.dictionaries(st.sampled_from(["a", "b", "x-c"]), VALUES, max_size=3)


@given(st.lists(st.tuples(HEADERS, st.sampled_from(["all", "any", "all-with-x", "any-with-x"])), max_size=6), HEADERS)
def test_the_index_finds_what_a_look_at_each_binding_finds(
    bindings: list[tuple[dict[str, object], str]], sent: dict[str, object]
) -> None:
    exchange = bound(**{f"q{at}": {**asked, "x-match": mode} for at, (asked, mode) in enumerate(bindings)})
    expected = [f"q{at}" for at, (asked, mode) in enumerate(bindings) if matches(asked, mode, Table.of(sent))]
    assert routed(exchange, sent) == sorted(expected)


def matches(asked: dict[str, object], mode: str, sent: Table) -> bool:
    """Compare each header that a binding wants."""
    wanted = [(key, value_of(value)) for key, value in asked.items() if "with-x" in mode or not key.startswith("x-")]
    both = [(value, sent.get(key)) for key, value in wanted]
    equal = [value is not None and equal_header(asked, value) for asked, value in both]
    return any(equal) if mode.startswith("any") else all(equal)


@pytest.mark.parametrize("match", ["all", "any"])
def test_of_headers_with_the_same_name_only_the_first_counts(match: str) -> None:
    exchange = bound(first={"x-match": match, "h": 1}, second={"x-match": match, "h": 2})
    twice = Table(Table.of({"h": 1}).raw + Table.of({"h": 2}).raw)
    sent = framed(RoutingAddress("x", "k"), Properties(headers=twice), b"")
    assert [destination.name for destination in exchange.route(("k",), sent)] == ["first"]
