"""The copy of a message for the dead letter exchange."""

import pytest

from tests.support.traced_memory import traced_memory
from warren.broker.amqp.field_table import Table, Value, check
from warren.broker.amqp.properties import EXPIRATION, Properties
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.queues.x_death import cycles, dead_letter_copy, routing_keys

NOW_S = 1_700_000_000


def new(exchange: str = "x", key: str = "k", **properties: object) -> Message:
    return framed(RoutingAddress(exchange, key), Properties(**properties), b"body")  # type: ignore[arg-type]


def die(message: Message, queue: str, reason: str = "expired", key: str | None = None, at_s: int = NOW_S) -> Message:
    return dead_letter_copy(message, queue, reason, "dlx", key, at_s)


def deaths(message: Message) -> list[dict[str, Value]]:
    value = message.headers.get("x-death")
    assert value is not None and value[0] == "A" and isinstance(value[1], list)
    entries = []
    for kind, entry in value[1]:
        assert kind == "F" and isinstance(entry, Table)
        entries.append(dict(entry.items()))
    return entries


def trail(message: Message) -> list[tuple[str, str, int]]:
    """Return queue, reason and count of each entry."""
    table = message.headers.get("x-death")
    assert table is not None and isinstance(table[1], list)
    return [(e.text("queue") or "", e.text("reason") or "", e.integer("count") or 0) for _, e in table[1]]


def strings(*texts: str) -> list[Value]:
    return [("S", text.encode()) for text in texts]


def test_the_first_death_is_recorded_with_the_types_of_rabbitmq() -> None:
    copy = die(new(headers=Table.of({"mine": 1}), delivery_mode=2, priority=3), "q")
    assert deaths(copy) == [
        {
            "count": ("l", 1),
            "reason": ("S", b"expired"),
            "queue": ("S", b"q"),
            "time": ("T", NOW_S),
            "exchange": ("S", b"x"),
            "routing-keys": ("A", strings("k")),
        }
    ]
    for when in ("first", "last"):
        found = [copy.headers.get(f"x-{when}-death-{what}") for what in ("reason", "queue", "exchange")]
        assert found == strings("expired", "q", "x")
    assert copy.headers.integer("mine") == 1
    assert (copy.properties.priority, copy.properties.delivery_mode, copy.persistent) == (3, 2, True)
    assert copy.body == b"body"
    assert copy.dead_lettered


def test_the_copy_has_the_address_of_the_dead_letter_exchange() -> None:
    own, configured = die(new(), "q"), die(new(), "q", key="new")
    assert (own.address.exchange, own.address.routing_key) == ("dlx", "k")
    assert (configured.address.exchange, configured.address.routing_key) == ("dlx", "new")


def test_the_expiration_is_removed_and_recorded_in_the_entry() -> None:
    once = die(new(expiration="500", message_id="m"), "q")
    twice = die(once, "r")
    assert once.properties.expiration is None and once.properties.message_id == "m"
    assert "original-expiration" not in deaths(twice)[0]
    assert deaths(twice)[1]["original-expiration"] == ("S", b"500")
    assert int.from_bytes(once.property_bytes[:2], "big") & EXPIRATION == 0


def test_the_latest_death_comes_first() -> None:
    message = die(die(new(), "one"), "two", "rejected")
    assert trail(message) == [("two", "rejected", 1), ("one", "expired", 1)]
    assert message.headers.text("x-first-death-queue") == "one"
    assert message.headers.text("x-first-death-exchange") == "x"
    assert message.headers.text("x-last-death-queue") == "two"
    assert message.headers.text("x-last-death-exchange") == "dlx"


def test_the_same_death_again_is_counted_and_moves_to_the_front() -> None:
    once = die(new(expiration="7"), "one")
    message = die(die(once, "two", "rejected"), "one", key="other", at_s=NOW_S + 9)
    assert trail(message) == [("one", "expired", 2), ("two", "rejected", 1)]
    first, again = deaths(once)[0], deaths(message)[0]
    assert {**again, "count": ("l", 1)} == first


def test_one_queue_has_an_entry_for_each_reason() -> None:
    message = die(die(die(new(), "q"), "q", "maxlen"), "q", "delivery_limit")
    assert trail(message) == [("q", "delivery_limit", 1), ("q", "maxlen", 1), ("q", "expired", 1)]


def test_the_latest_entries_of_very_many_are_kept_and_others_counted() -> None:
    message = die(new(headers=Table.of({"CC": ["c" * 250] * 200})), "q0")
    for number in range(1, 500):
        message = die(message, f"q{number}", "rejected" if number % 3 else "expired")
    check(message.headers.raw)
    queues = [queue for queue, _, _ in trail(message)]
    assert queues[:-1] == [f"q{499 - number}" for number in range(len(queues) - 1)]
    assert message.headers.integer("x-death-omitted") == 500 - len(queues) > 0
    _, keys = deaths(message)[0]["routing-keys"]
    assert isinstance(keys, list) and keys[0] == ("S", b"k") and 1 < len(keys) < 64


def test_a_rejection_that_is_not_kept_still_allows_to_go_round_again() -> None:
    message = die(new(), "first")
    message = die(message, "q", "rejected")
    for number in range(200):
        message = die(message, f"q{number}")
        assert not cycles(message, "first")


def test_a_history_that_a_client_sent_is_replaced() -> None:
    history = die(die(die(new(), "a"), "b"), "q").headers
    republished = new(headers=history)
    message = die(republished, "q", "rejected")
    assert trail(message) == [("q", "rejected", 1)]
    assert message.headers.text("x-first-death-reason") == "rejected"
    assert [key for key, _ in message.headers.items()].count("x-first-death-queue") == 1


def test_any_value_that_a_client_calls_x_death_is_replaced() -> None:
    for value in ("none", ["none"], [{"queue": 1}], Table.EMPTY):
        assert trail(die(new(headers=Table.of({"x-death": value})), "q")) == [("q", "expired", 1)]


def test_the_delivery_count_of_the_queue_is_removed() -> None:
    copy = die(new(headers=Table.of({"x-delivery-count": 3, "mine": 1})), "q", "delivery_limit")
    assert "x-delivery-count" not in copy.headers and "mine" in copy.headers


def test_a_configured_key_routes_alone() -> None:
    message = new(headers=Table.of({"CC": ["c1", "c2"]}))
    assert routing_keys(message, None) == ("k", "c1", "c2")
    assert routing_keys(message, "new") == ("new",)


@pytest.mark.parametrize("key", ["new", "k"])
def test_cc_stays_in_the_properties_but_counts_no_more_after_a_configured_key(key: str) -> None:
    message = new(headers=Table.of({"CC": ["c1", 5, "c2"]}))
    kept, replaced = die(message, "q"), die(message, "q", key=key)
    assert deaths(kept)[0]["routing-keys"] == ("A", strings("k", "c1", "c2"))
    assert "CC" in kept.headers and "CC" in replaced.headers
    assert routing_keys(kept, None) == ("k", "c1", "c2")
    assert routing_keys(replaced, None) == (key,)
    assert deaths(die(replaced, "r"))[0]["routing-keys"] == ("A", strings(key))
    assert routing_keys(die(die(replaced, "r"), "s"), None) == (key,)


def test_a_message_does_not_go_back_where_it_died_by_itself() -> None:
    message = die(new(), "q")
    assert cycles(message, "q")
    assert not cycles(message, "other")
    assert cycles(die(message, "other", "maxlen"), "q")


def test_a_rejection_on_the_way_allows_to_go_round_for_ever() -> None:
    assert not cycles(die(new(), "q", "rejected"), "q")
    message = new()
    for _ in range(3):
        message = die(message, "q1")
        assert not cycles(message, "q2")
        message = die(message, "q2", "rejected")
        assert not cycles(message, "q1")


def test_a_rejection_before_the_cycle_does_not_count() -> None:
    message = die(die(die(new(), "q2", "rejected"), "q1"), "q3")
    assert cycles(message, "q1")
    assert not cycles(message, "q2")


def test_a_rejection_at_the_queue_itself_allows_it_again() -> None:
    """The entry that closes the cycle counts too."""
    message = die(die(new(), "q", "rejected"), "r", "expired")
    assert not cycles(message, "q")


def test_names_that_are_not_text_are_kept_as_they_are() -> None:
    odd = b"\xff\xfe".decode("utf-8", "surrogateescape")
    message = die(new(key=odd), odd)
    assert deaths(message)[0]["queue"] == ("S", b"\xff\xfe")
    assert deaths(message)[0]["routing-keys"] == ("A", [("S", b"\xff\xfe")])
    assert cycles(message, odd)


def test_keys_of_the_cc_header_are_not_remembered_beyond_those_of_an_entry() -> None:
    messages = []
    for number in range(20):
        keys = strings(*[f"{number}.{key}" * 8 for key in range(2000)])
        messages.append(new(headers=Table(Table.encode_items([("CC", ("A", keys))]))))
    with traced_memory() as memory:
        for number, message in enumerate(messages):
            die(message, f"q{number}")
        die(new(headers=Table.of({"k": 1})), "q")  # as the headers that were read last stay decoded
    assert memory.held_bytes < len(messages) * 20_000
