"""Links that drain: they take all messages of an upstream queue as they are, with no consumer here."""

from typing import Any

import pytest

from tests.support.amqp_client import Content
from tests.support.federation import Place, headers
from tests.support.polling import until, until_steady

pytestmark = pytest.mark.sockets


def both(up: Place, down: Place, name: str = "q", **arguments: Any) -> None:
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    for place in (up, down):
        place.ch.declare(name, durable=True, arguments=given)


def drain(up: Place, down: Place, *names: str, **settings: Any) -> None:
    down.upstream("old", up.uri, drain=list(names or ("q",)), **settings)
    down.running(len(names) or 1)


def known(content: Content) -> tuple[str, str, bytes, bytes]:
    return content.method.exchange, content.method.routing_key, content.body, content.property_bytes


def test_a_message_arrives_as_it_was_published_although_nobody_consumes(up: Place, down: Place) -> None:
    both(up, down)
    up.ch.exchange("x", "topic")
    up.ch.bind("q", "x", "a.#")
    sent = {
        "delivery_mode": 2, "priority": 3, "expiration": "3600000", "timestamp": 1_700_000_000, "message_id": "m",
        "headers": {"mine": 1}, "user_id": "guest", "reply_to": "there", "correlation_id": "c", "app_id": "a",
    }  # fmt: skip
    up.ch.publish("x", "a.b", b"first", sent)
    up.ch.publish("x", "a.c", b"second")
    up.ch.publish("", "q", b"third", {"headers": {"x-received-from": [{"uri": "amqp://far"}]}})
    at_source = [known(message) for _ in range(3) if (message := up.ch.get("q", no_ack=False))]
    up.ch.nack(3, multiple=True)
    drain(up, down)
    down.counted("q", 3)
    assert [known(down.get("q")) for _ in range(3)] == at_source
    assert up.ready("q") == 0


def test_messages_keep_their_order_and_new_ones_follow(up: Place, down: Place) -> None:
    both(up, down)
    up.ch.fill("q", *(b"%d" % number for number in range(2500)))
    drain(up, down, prefetch_count=100)
    for number in range(2500, 2600):
        up.ch.publish("", "q", b"%d" % number)
    assert down.bodies("q", 2600) == [b"%d" % number for number in range(2600)]
    assert down.row()["state"] == "flowing"
    until(lambda: down.row()["confirmed"] == 2600, lambda: str(down.row()))


@pytest.mark.parametrize("direct", [True, False])
def test_a_queue_does_not_drain_itself(up: Place, direct: bool) -> None:
    up.ch.declare("q", durable=True)
    up.ch.fill("q", b"m")
    up.upstream("self", up.inside if direct else up.uri, drain=["q"])
    says = "the upstream queue is the queue itself, which cannot drain itself"
    until(lambda: up.row()["error"] == says, lambda: str(up.row()))
    assert up.ready("q") == 1
    up.clear_upstream("self")
    up.without_links()


def test_a_copied_message_is_not_routed_again(up: Place, down: Place) -> None:
    both(up, down)
    both(up, down, "copies")
    up.ch.publish("", "q", b"copied", {"headers": {"CC": ["copies"]}})
    assert up.ready("copies") == 1
    drain(up, down)
    assert headers(down.get("q")) == {"CC": ("A", [("S", "copies")])}
    assert down.ready("copies") == 0


def test_a_queue_that_is_full_loses_nothing_for_it(up: Place, down: Place) -> None:
    both(up, down, x_max_length=3)
    down.ch.fill("q", b"newest")
    up.ch.fill("q", b"0", b"1", b"2")
    drain(up, down)
    down.counted("q", 3)
    row = until(lambda: down.row() if down.row()["state"] == "blocked" else None, lambda: str(down.row()))
    assert row["reason"] == "a queue of this broker refuses messages"
    taken = [down.get("q").body for _ in range(4)]
    assert taken == [b"newest", b"0", b"1", b"2"]
    until(lambda: down.row()["state"] == "flowing", lambda: str(down.row()))


def test_a_message_that_this_broker_cannot_take_stays_with_all_after_it(up: Place, down: Place) -> None:
    both(up, down)
    limit = down.site.config.max_message_size
    settings = down.site.host.settings
    up.ch.fill("q", b"small", b"x" * 1000, b"after")
    settings.max_message_size = 999
    try:
        drain(up, down)
        assert down.bodies("q", 1) == [b"small"]
        until(lambda: down.row()["state"] == "blocked", lambda: str(down.row()))
        assert down.row()["reason"] == "message size 1000 is larger than configured max size 999"
    finally:
        settings.max_message_size = limit
    down.clear_upstream("old")
    down.without_links()
    up.counted("q", 2)
    drain(up, down)
    assert down.bodies("q", 2) == [b"x" * 1000, b"after"]


def test_deaths_are_counted_on(up: Place, down: Place) -> None:
    up.ch.declare("first", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "second"})
    down.ch.declare("third")
    both(up, down, "second", x_dead_letter_exchange="", x_dead_letter_routing_key="third")
    up.ch.fill("first", b"m")
    up.ch.reject_next("first")
    drain(up, down, "second")
    down.counted("second", 1)
    down.ch.reject_next("second")
    _, deaths = headers(down.get("third"))["x-death"]
    assert [dict(entry)["queue"] for _, entry in deaths] == [("S", "second"), ("S", "first")]


def test_a_queue_that_the_upstream_lacks_is_not_made_there(up: Place, down: Place) -> None:
    down.ch.declare("q", durable=True)
    drain(up, down)
    until(lambda: down.row()["reason"] == "the upstream has no such queue", lambda: str(down.row()))
    assert "q" not in up.queues()


def test_only_queues_that_are_listed_are_drained_and_links_of_others_stay(up: Place, down: Place) -> None:
    for name in ("one", "two", "three"):
        both(up, down, name)
        up.ch.fill(name, b"m")
    down.upstream("old", up.uri, drain=["one", "absent"])
    down.counted("one", 1)
    before = down.row("one")
    down.upstream("old", up.uri, drain=["one", "two"])
    down.counted("two", 1)
    assert down.row("one")["since_s"] == before["since_s"], "the link was not restarted"
    until_steady(lambda: (up.ready("three"), down.ready("three")))
    assert up.ready("three") == 1
    down.clear_upstream("old")
    down.without_links()
    up.ch.fill("one", b"stays")
    until_steady(lambda: up.ready("one"))
    assert up.ready("one") == 1


@pytest.mark.parametrize("value", ["q", [1], {"q": 1}])
def test_a_drain_lists_names_of_queues(down: Place, value: object) -> None:
    body = {"value": {"uri": "amqp://there", "drain": value}}
    refused = down.site.request("PUT", f"/parameters/federation-upstream/{down.vhost}/old", body)
    assert refused.status == 400 and "drain should be a list of strings" in refused.json["reason"]
