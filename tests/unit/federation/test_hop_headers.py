"""Hop headers: how far messages and bindings go, and what links write into them."""

import pytest

from warren.broker.amqp.field_table import Table, Value
from warren.broker.amqp.properties import Properties
from warren.federation.hop_headers import MAX, SEEN, ExchangeStamp, QueueStamp, bound_from, drop_reason, hops_left

URI = "amqp://host/v"


def entry(cluster_name: str, vhost: str = "/", **others: object) -> dict[str, object]:
    return {"uri": URI, "exchange": "x", "redelivered": False, "cluster-name": cluster_name, "vhost": vhost, **others}


def raw(headers: dict[str, object] | None = None, **others: object) -> bytes:
    given = Properties(headers=None if headers is None else Table.of(headers))
    for name, value in others.items():
        setattr(given, name, value)
    return given.encode()


def came_from(*cluster_names: str) -> bytes:
    return raw({"x-received-from": [entry(name) for name in cluster_names]})


def headers(properties: bytes) -> Table:
    return Properties.decode(properties).headers or Table.EMPTY


def tables(value: Value | None) -> list[dict[str, Value]]:
    assert value is not None and value[0] == "A" and isinstance(value[1], list)
    found = []
    for kind, content in value[1]:
        assert kind == "F" and isinstance(content, Table)
        found.append(dict(content.items()))
    return found


def text(value: str) -> Value:
    return ("S", value.encode())


# Rule F


def test_a_message_goes_on_until_it_has_made_as_many_hops_as_the_link_allows() -> None:
    assert drop_reason(raw(), 1, "d", "/") == ""
    assert drop_reason(raw({"a": 1}), 1, "d", "/") == ""
    assert drop_reason(came_from("a"), 1, "d", "/") == MAX
    assert drop_reason(came_from("a"), 2, "d", "/") == ""
    assert drop_reason(came_from("b", "a"), 2, "d", "/") == MAX


def test_with_no_hops_nothing_goes() -> None:
    assert drop_reason(raw(), 0, "d", "/") == MAX
    assert drop_reason(came_from("a"), 0, "d", "/") == MAX


def test_a_message_does_not_go_where_it_has_been() -> None:
    assert drop_reason(came_from("b", "a"), 9, "a", "/") == SEEN
    assert drop_reason(came_from("b", "a"), 9, "a", "other") == "", "another virtual host is another place"
    assert drop_reason(came_from("b", "a"), 9, None, "/") == "", "who has no name has been nowhere"


@pytest.mark.parametrize(
    "value",
    ["text", 5, {"cluster-name": "d", "vhost": "/"}, None, [], [1, "text", {}], [{"cluster-name": "d"}]],
)
def test_what_clients_write_there_stops_nothing_but_what_it_says(value: object) -> None:
    assert drop_reason(raw({"x-received-from": value}), 9, "d", "/") == ""


def test_entries_that_are_no_tables_count_as_hops() -> None:
    assert drop_reason(raw({"x-received-from": [1, 2]}), 2, "d", "/") == MAX


def test_bytes_that_are_no_properties_stop_nothing() -> None:
    broken = came_from("d")[:-3]
    assert drop_reason(broken, 9, "d", "/") == ""
    assert drop_reason(b"", 9, "d", "/") == "" == drop_reason(b"\x20", 9, "d", "/")


# Messages of exchanges


def test_an_entry_has_its_fields_in_their_order_with_their_types() -> None:
    stamp = ExchangeStamp(URI, "logs", "rabbit@a", "v", trust_user_id=False)
    (found,) = tables(headers(stamp(raw(), True)).get("x-received-from"))
    assert list(found.items()) == [
        ("uri", text(URI)),
        ("exchange", text("logs")),
        ("redelivered", ("t", True)),
        ("cluster-name", text("rabbit@a")),
        ("vhost", text("v")),
    ]
    assert tables(headers(stamp(raw(), False)).get("x-received-from"))[0]["redelivered"] == ("t", False)


def test_an_upstream_without_a_cluster_name_is_told_without_it() -> None:
    stamp = ExchangeStamp(URI, "logs", None, "v", trust_user_id=False)
    (found,) = tables(headers(stamp(raw(), False)).get("x-received-from"))
    assert list(found) == ["uri", "exchange", "redelivered", "vhost"]


def test_all_else_keeps_its_bytes_and_types() -> None:
    fields: dict[str, object] = {
        "byte": ("b", -1),
        "unsigned": ("B", 200),
        "short": ("s", 1),
        "int": ("I", 1),
        "long": ("l", 1),
        "float": ("f", 0.5),
        "double": ("d", 0.5),
        "decimal": ("D", (2, 314)),
        "when": ("T", 5),
        "octets": ("x", b"\xff"),
        "void": None,
        "nested": {"a": ["b", {"c": ("s", 3)}]},
    }
    before = raw(
        fields,
        content_type="text/plain",
        content_encoding="gzip",
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="1000",
        message_id="m",
        timestamp=9,
        type="t",
        app_id="a",
        cluster_id="l",
    )
    stamped = Properties.decode(ExchangeStamp(URI, "logs", "a", "/", trust_user_id=False)(before, False))
    old = Properties.decode(before)
    for name in Properties.FIELDS:
        if name != "headers":
            assert getattr(stamped, name) == getattr(old, name)
    assert stamped.headers is not None and old.headers is not None
    assert stamped.headers.raw.startswith(old.headers.raw)
    assert stamped.headers.without(["x-received-from"]) == old.headers


def test_the_newest_entry_comes_first() -> None:
    stamp = ExchangeStamp(URI, "logs", "c", "/", trust_user_id=False)
    found = tables(headers(stamp(came_from("b", "a"), False)).get("x-received-from"))
    assert [each["cluster-name"] for each in found] == [text("c"), text("b"), text("a")]


def test_what_a_client_wrote_in_place_of_the_array_is_set_aside() -> None:
    stamp = ExchangeStamp(URI, "logs", "c", "/", trust_user_id=False)
    found = headers(stamp(raw({"x-received-from": "mine", "other": 1}), False))
    assert len(tables(found.get("x-received-from"))) == 1
    (kind, invalid) = found.get("x-invalid-headers") or ("", None)
    assert kind == "F" and isinstance(invalid, Table)
    assert invalid.items() == [("x-received-from", ("A", [text("mine")]))]
    again = Table.of({"x-invalid-headers": invalid, "x-received-from": ("l", 5)})
    (_, invalid) = headers(stamp(Properties(headers=again).encode(), False)).get("x-invalid-headers") or ("", None)
    assert isinstance(invalid, Table)
    assert invalid.get("x-received-from") == ("A", [("l", 5), text("mine")])


def test_the_user_is_kept_where_the_upstream_is_trusted() -> None:
    before = raw(user_id="somebody", app_id="app")
    kept = Properties.decode(ExchangeStamp(URI, "x", "a", "/", trust_user_id=True)(before, False))
    blank = Properties.decode(ExchangeStamp(URI, "x", "a", "/", trust_user_id=False)(before, False))
    assert (kept.user_id, kept.app_id) == ("somebody", "app")
    assert (blank.user_id, blank.app_id) == (None, "app")


def test_a_message_that_is_like_the_one_before_gets_the_same_answer() -> None:
    stamp = ExchangeStamp(URI, "x", "a", "/", trust_user_id=False)
    first, other = stamp(raw(), False), stamp(raw(), True)
    assert first != other
    assert [stamp(raw(), False), stamp(came_from("b"), False), stamp(raw(), False)] == [
        first,
        ExchangeStamp(URI, "x", "a", "/", trust_user_id=False)(came_from("b"), False),
        first,
    ]


def test_bytes_that_are_no_properties_come_through_for_the_broker_to_refuse() -> None:
    stamp = ExchangeStamp(URI, "x", "a", "/", trust_user_id=False)
    queue = QueueStamp(URI, "q", trust_user_id=False)
    for broken in (b"", b"\x20", b"\x20\x00\x00\x00\x00\x09abc", raw({"x-received-from": ["a"]})[:-1]):
        assert stamp(broken, False) == queue(broken, False, "e", "k") == broken


# Messages of queues


def test_the_first_transfer_keeps_exchange_and_key_and_counts_one_visit() -> None:
    stamp = QueueStamp(URI, "jobs", trust_user_id=False)
    found = headers(stamp(raw({"mine": 1}), True, "orders", "eu.new"))
    assert found.get("mine") == ("I", 1)
    assert (found.text("x-original-exchange"), found.text("x-original-routing-key")) == ("orders", "eu.new")
    (only,) = tables(found.get("x-received-from"))
    assert list(only.items()) == [
        ("uri", text(URI)),
        ("queue", text("jobs")),
        ("redelivered", ("t", True)),
        ("visit-count", ("l", 1)),
    ]


def test_bouncing_raises_the_count_and_not_the_length() -> None:
    there = QueueStamp("amqp://there", "jobs", trust_user_id=False)
    back = QueueStamp("amqp://back", "jobs", trust_user_id=False)
    properties = raw()
    for _ in range(3):
        properties = there(properties, False, "orders", "k")
        properties = back(properties, False, "", "jobs")
    found = headers(properties)
    assert (found.text("x-original-exchange"), found.text("x-original-routing-key")) == ("orders", "k")
    assert [(each["uri"], each["visit-count"]) for each in tables(found.get("x-received-from"))] == [
        (text("amqp://back"), ("l", 3)),
        (text("amqp://there"), ("l", 3)),
    ]


@pytest.mark.parametrize(("count", "next_count"), [("text", 1), (None, 1), (("s", 4), 5), (1 << 62, (1 << 62) + 1)])
def test_a_count_of_any_kind_does_not_stop_the_link(count: object, next_count: int) -> None:
    stamp = QueueStamp(URI, "jobs", trust_user_id=False)
    once = {"uri": URI, "queue": "jobs", "visit-count": count}
    before = raw({"x-received-from": [once, {"uri": URI, "queue": "jobs", "visit-count": 1}, "text", 5]})
    kind, entries = headers(stamp(before, False, "e", "k")).get("x-received-from") or ("", None)
    assert kind == "A" and isinstance(entries, list)
    (_, first), *others = entries
    assert first.get("visit-count") == ("l", max(next_count, 2))
    assert others == [("S", b"text"), ("I", 5)]


def test_copies_are_renamed_so_that_nobody_routes_by_them_again() -> None:
    stamp = QueueStamp(URI, "jobs", trust_user_id=False)
    found = headers(stamp(raw({"CC": ["a", "b"], "x": "CC"}), False, "e", "k"))
    assert "CC" not in found
    assert found.get("x-original-cc") == ("A", [text("a"), text("b")])
    assert found.text("x") == "CC"


def test_a_header_that_is_no_array_counts_as_absent_and_is_set_aside() -> None:
    stamp = QueueStamp(URI, "jobs", trust_user_id=False)
    found = headers(stamp(raw({"x-received-from": "mine"}), False, "e", "k"))
    assert len(tables(found.get("x-received-from"))) == 1
    assert found.text("x-original-exchange") == "e" and "x-invalid-headers" in found


def test_with_an_identity_an_entry_says_where_the_message_was() -> None:
    stamp = QueueStamp(URI, "jobs", False, ("rabbit@a", "/", "jobs-there"))
    (only,) = tables(headers(stamp(raw(), False, "e", "k")).get("x-received-from"))
    assert [only[name] for name in ("cluster-name", "vhost", "upstream-queue")] == [
        text("rabbit@a"),
        text("/"),
        text("jobs-there"),
    ]


# Bindings


def bound(*entries: tuple[str, int]) -> Table:
    return Table.of(
        {"x-bound-from": [{"cluster-name": name, "vhost": "/", "hops": ("s", hops)} for name, hops in entries]}
    )


def test_a_binding_goes_as_far_as_its_messages_could_come() -> None:
    assert hops_left(Table.EMPTY, 3, "u", "/") == 3
    assert hops_left(bound(("b", 2)), 5, "u", "/") == 1
    assert hops_left(bound(("b", 5)), 2, "u", "/") == 2
    assert hops_left(bound(("b", 1)), 5, "u", "/") == 0
    assert hops_left(bound(("b", 0)), 5, "u", "/") == 0, "not less than none"
    assert hops_left(Table.EMPTY, 0, "u", "/") == 0


def test_a_binding_does_not_go_where_it_came_from() -> None:
    assert hops_left(bound(("b", 5), ("u", 6)), 5, "u", "/") == 0
    assert hops_left(bound(("b", 5), ("u", 6)), 5, "u", "v") == 4


@pytest.mark.parametrize("value", ["text", 5, {}, [1], [{}], [{"hops": "many"}], None])
def test_what_clients_write_there_goes_nowhere(value: object) -> None:
    assert hops_left(Table.of({"x-bound-from": value}), 5, "u", "/") == 0


def test_hops_of_any_width_are_read() -> None:
    for letter in "bBsuIil":
        assert hops_left(Table.of({"x-bound-from": [{"hops": (letter, 3)}]}), 5, "u", "/") == 2


def test_the_arguments_of_a_binding_name_who_wants_it() -> None:
    found = bound_from(Table.of({"x-match": "any", "n": ("s", 5)}), "c", "v", "logs B", 3)
    assert found.items()[:2] == [("x-match", text("any")), ("n", ("s", 5))]
    (only,) = tables(found.get("x-bound-from"))
    assert list(only.items()) == [
        ("cluster-name", text("c")),
        ("vhost", text("v")),
        ("exchange", text("v:logs B")),
        ("hops", ("s", 3)),
    ]
    again = tables(bound_from(found, "b", "w", "logs A", 2).get("x-bound-from"))
    assert [each["cluster-name"] for each in again] == [text("b"), text("c")]
    assert tables(bound_from(Table.EMPTY, "c", "v", "x A", 1 << 40).get("x-bound-from"))[0]["hops"] == ("s", 32_767)
