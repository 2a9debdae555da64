"""The rows of messages that pass from one broker to the next: both sides have the same identity."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import codec
from tests.support.amqp_client import Channel
from warren.broker.plugin import Content, InternalPublisher, Table
from warren.broker.session.settings import Settings
from warren.federation.hop_headers import ExchangeStamp

from .exporting import Exporting, Row

LINK, UPSTREAM = "federation: x -> here", "up"
BODY = b"body"


@pytest.fixture
def inflow(export: Exporting) -> InternalPublisher:
    later: list[Callable[[], None]] = []

    def report(event: str, level: str, fields: dict[str, object]) -> None: ...

    made = InternalPublisher(
        export.peer.node, Settings(Table.EMPTY), export.vhost, "a link", report, later.append, lambda: None
    )  # fmt: skip
    made.comes_from(UPSTREAM, LINK)
    return made


def content(**properties: Any) -> Content:
    """Return a content as if it had come over a link."""
    header = codec.header_frame(1, len(BODY), properties)
    raw = header[19:-1]
    stamped = ExchangeStamp("amqp://up", "x", "up", "/", False)(raw, False)
    return stamped, len(BODY), codec.body_frames(1, BODY, 131072)


def one(rows: list[Row]) -> Row:
    (row,) = rows
    return row


def test_what_a_link_brings_has_its_names_and_is_confirmed_once_it_is_safe(
    export: Exporting, ch: Channel, inflow: InternalPublisher
) -> None:
    ch.declare("q")
    inflow.publish("", "q", [content(message_id="m1"), content(message_id="m2")])
    inflow.flush()
    rows = export.events()
    assert [row["event"] for row in rows] == ["fed_in", "fed_in", "enqueue", "enqueue", "confirm", "confirm"]
    assert [(row["identity"], row["hops"], row["link"], row["upstream"], row["routed"]) for row in rows[:2]] == [
        ("m1", 1, LINK, UPSTREAM, 1),
        ("m2", 1, LINK, UPSTREAM, 1),
    ]
    assert [row["msg_seq"] for row in rows[:2]] * 2 == [row["msg_seq"] for row in rows[2:]]
    assert {row["link"] for row in rows[4:]} == {LINK} and not inflow._channel.origin.unconfirmed


def test_what_a_queue_refuses_of_a_link_is_not_confirmed_until_it_is_brought_again(
    export: Exporting, ch: Channel, inflow: InternalPublisher
) -> None:
    ch.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.declare("q")
    for queue in ("full", "full", "q", "full"):
        inflow.publish("", queue, [content()])
    inflow.flush()
    brought = [row["msg_seq"] for row in export.events("fed_in") if row["routed"]]
    assert [(row["msg_seq"], row["reason"]) for row in export.events("confirm")] == [(seq, None) for seq in brought]
    assert len(brought) == 2 and not inflow._channel.origin.unconfirmed


def test_what_goes_no_further_says_why_and_is_known_by_the_same_identity(
    export: Exporting, ch: Channel, inflow: InternalPublisher
) -> None:
    ch.declare("q")
    for given in (content(), content(headers={"h": "v"}), content(message_id="m")):
        inflow.publish("", "q", [given])
        inflow.discard("", "q", given, "seen")
    rows = export.events("fed_in")
    assert [row["reason"] for row in rows] == [None, "seen"] * 3
    assert [row["routed"] for row in rows] == [1, 0] * 3
    identities = [row["identity"] for row in rows]
    assert identities[::2] == identities[1::2] and len(set(identities)) == 3
    assert {(row["link"], row["hops"], row["size"]) for row in rows} == {(LINK, 1, len(BODY))}


def test_what_no_queue_takes_says_whether_it_was_refused_or_held(export: Exporting, ch: Channel) -> None:
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.exchange("later", "fanout", arguments={"x-delayed-exchange": True})
    ch.publish("", "full", BODY)
    ch.publish("later", "k", BODY, {"headers": {"x-delay": 10_000}})
    ch.publish("", "nowhere", BODY)
    ch.sync()
    rows = export.events("publish")
    assert [(row["routing_key"], row["routed"], row["reason"]) for row in rows] == [
        ("full", 0, "refused"),
        ("k", 0, "held"),
        ("nowhere", 0, None),
    ]


def test_of_a_batch_those_that_a_queue_refuses_say_so_and_the_others_do_not(export: Exporting, ch: Channel) -> None:
    ch.declare("full", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    for number in range(4):
        ch.publish("", "full", BODY, {"delivery_mode": 1 + number % 2})
    ch.sync()
    rows = export.events("publish")
    assert [(row["routed"], row["reason"], row["persistent"]) for row in rows] == [
        (1, None, False),
        (1, None, True),
        (0, "refused", False),
        (0, "refused", True),
    ]


@pytest.mark.parametrize(("queue", "tag"), [("federation: x -> down", "1"), ("work", "federation-link-up")])
@pytest.mark.parametrize("properties", [{}, {"headers": {"h": "v"}, "user_id": "guest"}, {"message_id": "mine"}])
def test_both_sides_know_a_message_by_the_same_identity(
    export: Exporting, ch: Channel, inflow: InternalPublisher, queue: str, tag: str, properties: dict[str, Any]
) -> None:
    ch.declare(queue)
    ch.declare("q")
    ch.consume(queue, consumer_tag=tag, no_ack=False)
    ch.publish("", queue, BODY, properties)
    ch.ack(ch.delivery().tag)
    ch.sync()
    inflow.publish("", "q", [content(**{name: value for name, value in properties.items() if name != "user_id"})])
    inflow.flush()
    taken, came = one(export.events("fed_out")), one(export.events("fed_in"))
    assert taken["identity"] == came["identity"] and taken["link"] == queue
    assert one(export.events("deliver"))["link"] == queue and export.events("ack") == []


def test_a_link_that_rejects_a_message_has_not_taken_it(export: Exporting, ch: Channel) -> None:
    ch.declare("q")
    ch.consume("q", consumer_tag="federation-link-up", no_ack=False)
    ch.publish("", "q", BODY)
    ch.nack(ch.delivery().tag, requeue=False)
    ch.sync()
    assert export.events("fed_out") == [] and one(export.events("nack"))["queue"] == "q"


def test_clients_deliveries_name_no_link(export: Exporting, ch: Channel) -> None:
    ch.declare("q")
    ch.fill("q", BODY)
    ch.consume("q", no_ack=True)
    ch.delivery()
    assert one(export.events("deliver"))["link"] is None
