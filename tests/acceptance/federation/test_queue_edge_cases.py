"""Scenarios 86, 87 and 90 to 94: demand that is none, headers, times to live, deletion, and queues like others."""

from typing import Any

import pytest

from tests.support.federation import Place, headers
from tests.support.polling import until, until_steady
from warren.federation import queue_link
from warren.federation.queue_link import QueueLink

from .conftest import NewPlaces

pytestmark = pytest.mark.sockets


def federated(up: Place, down: Place, **settings: Any) -> None:
    for place in (up, down):
        place.ch.declare("fed.q", durable=True)
    down.link("^fed", up.inside, **settings)


def test_a_consumer_of_a_negative_priority_is_no_demand(up: Place, down: Place) -> None:
    federated(up, down)
    up.ch.fill("fed.q", b"stays")
    shy = down.consumer(arguments={"x-priority": -5})
    until_steady(lambda: (up.ready("fed.q"), down.row()["state"], down.row()["reason"]))
    assert up.ready("fed.q") == 1 and down.row()["state"] == "paused"
    shy.consume("fed.q", no_ack=True, arguments={"x-priority": 0})
    until(lambda: up.ready("fed.q") == 0, "it moves")


def test_the_demand_of_a_link_is_not_passed_on(here: NewPlaces) -> None:
    first, second, third = here(3)
    for place in (first, second, third):
        place.ch.declare("fed.q")
    second.federate("^fed", first.inside)
    third.federate("^fed", second.inside)
    for place in (second, third):
        place.running()
    first.ch.fill("fed.q", b"far")
    wanting = third.consumer()
    until(second.consumers, "the link of the third consumes at the second")
    until_steady(lambda: (first.ready("fed.q"), second.row()["state"]))
    assert first.ready("fed.q") == 1 and second.row()["state"] == "paused"
    near = second.consumer()
    until(lambda: first.ready("fed.q") == 0, "it moves")
    until_steady(lambda: (second.ready("fed.q"), third.ready("fed.q")))
    got = [*near.client.inbox(near.number), *wanting.client.inbox(wanting.number)]
    assert len(got) <= 1
    assert near.delivery().body == b"far"


def moved(one: Place, other: Place, body: bytes = b"moves", **properties: Any) -> Any:
    """A message published to the one, as it is at the other, where it stays."""
    one.ch.publish("", "fed.q", body, properties)
    channel = other.consumer()
    message = channel.delivery()
    channel.client.close()
    until(lambda: not one.consumers() and not other.consumers(), "nobody consumes")
    return message


def test_a_message_that_goes_to_and_fro_counts_its_visits(up: Place, down: Place) -> None:
    federated(up, down)
    up.link("^fed", down.inside)
    up.ch.exchange("origin", "fanout")
    up.ch.bind("fed.q", "origin")
    up.ch.publish("origin", "key", b"bounces")
    for visit in range(1, 4):
        for place in (down, up):
            found = headers(pulled(place))
            entries = [dict(entry) for _, entry in found["x-received-from"][1]]
            assert len(entries) == (1 if (visit, place) == (1, down) else 2)
            assert entries[0]["visit-count"] == ("l", visit)
            assert entries[0]["uri"] == ("S", (up if place is down else down).inside)
            assert found["x-original-exchange"] == ("S", "origin")


def pulled(place: Place) -> Any:
    """The message, pulled by a consumer and put back."""
    channel = place.channel()
    channel.qos(1)
    tag = channel.consume("fed.q")
    message = channel.delivery()
    channel.cancel(tag)
    channel.nack(message.tag)
    channel.client.close()
    place.counted("fed.q", 1)
    return message


def test_keys_for_copies_are_put_aside(up: Place, down: Place) -> None:
    federated(up, down)
    for place in (up, down):
        place.ch.declare("copies")
    found = headers(moved(up, down, headers={"CC": ["copies"]}))
    assert found["x-original-cc"] == ("A", [("S", "copies")]) and "CC" not in found
    assert (up.ready("copies"), down.ready("copies")) == (1, 0)


def test_a_time_to_live_begins_anew_with_each_move(up: Place, down: Place) -> None:
    federated(up, down)
    clock = up.site.node.clock
    channel = down.channel()
    published_ms = clock.now_ms()
    up.ch.publish("", "fed.q", b"short of time", {"expiration": "2000"})
    until(lambda: clock.now_ms() > published_ms + 500, "some time")
    channel.qos(1)
    tag = channel.consume("fed.q")
    message = channel.delivery()
    assert message.body == b"short of time" and message.properties.expiration == "2000"
    channel.cancel(tag)
    channel.nack(message.tag)
    down.counted("fed.q", 1)
    down.counted("fed.q", 0)
    assert clock.now_ms() >= published_ms + 2500


def test_a_queue_upstream_is_made_like_the_one_here(up: Place, down: Place) -> None:
    arguments = {"x-message-ttl": 60_000, "x-max-length": 7, "x-dead-letter-exchange": "dlx"}
    down.ch.declare("fed.q", durable=True, arguments=arguments)
    down.link("^fed", up.inside)
    made, ours = up.queue("fed.q"), down.queue("fed.q")
    assert made is not None and ours is not None
    assert (made.durable, made.auto_delete, made.owner) == (True, False, None)
    assert dict(made.arguments.items()) == dict(ours.arguments.items())


def test_a_queue_that_is_deleted_upstream_is_made_again_when_it_is_wanted(up: Place, down: Place) -> None:
    federated(up, down)
    wanting = down.consumer()
    until(up.consumers, "the link consumes")
    up.ch.delete("fed.q")
    until(lambda: down.row()["reconnects"] >= 1, lambda: str(down.row()))
    until(lambda: up.queue("fed.q"), "the queue")
    down.running()
    until(up.consumers, "the link consumes again")
    up.ch.fill("fed.q", b"flows")
    assert wanting.delivery().body == b"flows"


def test_the_end_of_the_queue_here_leaves_the_one_upstream(up: Place, down: Place) -> None:
    federated(up, down)
    up.ch.fill("fed.q", b"stays")
    down.ch.delete("fed.q")
    down.without_links()
    until_steady(up.queues)
    assert up.queues() == ["fed.q"] and up.ready("fed.q") == 1


def test_a_federated_queue_at_a_federated_exchange_gets_one_copy_or_two(up: Place, down: Place) -> None:
    for place in (up, down):
        place.ch.exchange("fed.x", "fanout")
        place.ch.declare("fed.q")
        place.ch.bind("fed.q", "fed.x", "k")
    for place, other in ((up, down), (down, up)):
        place.federate("^fed", other.inside)
    for place in (up, down):
        place.running(2)
        place.bound("fed.x", "k")
    wanting = down.consumer()
    for number in range(10):
        up.ch.publish("fed.x", "k", b"%d" % number)
    until(lambda: up.ready("fed.q") == 0, "all moved")
    got: list[bytes] = [message.body for message in wanting.deliveries(20)]
    wanting.sync()
    assert not wanting.client.inbox(wanting.number)
    assert sorted(got) == sorted([b"%d" % number for number in range(10)] * 2)


def test_links_of_queues_at_which_nothing_happens_do_nothing(
    up: Place, down: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    look = QueueLink._evaluate_demand

    async def counted(self: QueueLink, *args: Any) -> None:
        looks.append(self.queue.name)
        await look(self, *args)

    monkeypatch.setattr(QueueLink, "_evaluate_demand", counted)
    ch = down.channel()
    ch.qos(1)
    for name in ("fed.idle", "fed.full", "fed.without"):
        down.ch.declare(name)
    ch.consume("fed.idle")
    ch.consume("fed.full")
    down.ch.publish("", "fed.full", b"never acknowledged")
    down.link("^fed", up.inside, count=3)
    until(lambda: {row["name"]: row["state"] for row in down.rows()}["fed.idle"] == "flowing", lambda: str(down.rows()))
    until_steady(lambda: len(looks))
    before = len(looks)
    until_steady(lambda: None, 1.0)
    assert len(looks) == before


def test_a_consumer_that_has_room_again_asks_for_more_though_the_queue_stayed_empty(up: Place, down: Place) -> None:
    up.ch.declare("fed.q")
    down.ch.declare("fed.q")
    ch = down.channel()
    ch.qos(1)
    ch.consume("fed.q")
    down.ch.publish("", "fed.q", b"first")
    first = ch.delivery()
    down.link("^fed", up.inside)
    until(lambda: down.row()["state"] == "paused", lambda: str(down.row()))
    up.ch.fill("fed.q", b"second")
    ch.ack(first.tag)
    assert ch.delivery().body == b"second"


def test_a_consumer_that_comes_is_served_at_once(up: Place, down: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_link, "DEMAND_INTERVAL_S", 3600.0)  # which consumers that come need not wait for
    up.ch.declare("fed.q")
    down.ch.declare("fed.q")
    down.link("^fed", up.inside)
    for body in (b"first", b"second"):
        up.ch.fill("fed.q", body)
        ch = down.channel()
        ch.qos(1)
        tag = ch.consume("fed.q")
        message = ch.delivery()
        assert message.body == body
        ch.ack(message.tag)
        ch.cancel(tag)
        until(lambda: down.row()["state"] == "paused", lambda: str(down.row()))
