"""Scenarios 78 to 85 and 88 to 89: messages move to where consumers want them, and stay where nobody does."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.amqp_client import Channel
from tests.support.federation import Place
from tests.support.polling import until, until_steady

from .conftest import NewProxy

pytestmark = pytest.mark.sockets

ALL = {"federation-upstream-set": "all"}


def pair(up: Place, down: Place, name: str = "fed.q", arguments: dict[str, Any] | None = None, **settings: Any) -> None:
    """A queue of this name in both, the one here federated."""
    up.ch.declare(name, durable=True, arguments=arguments or {})
    down.ch.declare(name, durable=True, arguments=arguments or {})
    down.link("^fed", up.inside, **settings)


def bodies(channel: Channel, count: int) -> list[bytes]:
    return [message.body for message in channel.deliveries(count)]


def test_a_message_moves_where_somebody_wants_it(up: Place, down: Place) -> None:
    pair(up, down)
    up.fill("fed.q", *range(3))
    until_steady(lambda: (up.ready("fed.q"), down.ready("fed.q"), down.rows()))
    assert (up.ready("fed.q"), down.ready("fed.q")) == (3, 0)
    assert down.row()["state"] == "paused" and down.row()["reason"]
    wanting = down.consumer()
    assert bodies(wanting, 3) == [b"0", b"1", b"2"]
    up.fill("fed.q", 3)
    assert bodies(wanting, 1) == [b"3"]
    assert up.ready("fed.q") == 0 and down.row()["state"] == "flowing"


def test_one_upstream_with_several_queues_feeds_one_queue(up: Place, down: Place) -> None:
    for name in ("one", "two"):
        up.ch.declare(name)
    down.ch.declare("fed.q")
    down.upstream("u0", up.inside)
    down.upstream_set("both", {"upstream": "u0", "queue": "one"}, {"upstream": "u0", "queue": "two"})
    down.policy("^fed", {"federation-upstream-set": "both"})
    assert sorted(row["upstream_name"] for row in down.running(2)) == ["one", "two"]
    wanting = down.consumer()
    up.fill("one", 1)
    assert bodies(wanting, 1) == [b"1"]
    up.fill("two", 2)
    assert bodies(wanting, 1) == [b"2"]


TYPES = [("classic", "classic"), ("quorum", "quorum"), ("classic", "quorum")]


@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_of_two_mutual_queues_one_consumer_gets_everything(up: Place, down: Place, types: tuple[str, str]) -> None:
    for place, type_ in zip((up, down), types, strict=True):
        place.ch.declare("fed.q", durable=True, arguments={"x-queue-type": type_})
    for one, other in ((up, down), (down, up)):  # both queues are there: a link would make one that is like its own
        one.federate("^fed", other.inside)
    for place in (up, down):
        place.running()
    for round_, at in enumerate((up, down)):
        numbers = [10 * round_ + number for number in range(10)]
        up.fill("fed.q", *numbers)
        down.fill("fed.q", *(100 + number for number in numbers))
        wanting = at.consumer()
        expected = {b"%d" % (number + more) for number in numbers for more in (0, 100)}
        assert set(bodies(wanting, 20)) == expected
        wanting.client.vanish()
        until(lambda: not up.consumers() and not down.consumers(), lambda: f"{up.consumers()} {down.consumers()}")
        assert up.ch.get("fed.q") is None and down.ch.get("fed.q") is None


def test_basic_get_pulls_nothing(up: Place, down: Place) -> None:
    pair(up, down)
    up.fill("fed.q", 1)
    for _ in range(5):
        assert down.ch.get("fed.q") is None
    until_steady(lambda: (up.ready("fed.q"), down.rows()))
    assert up.ready("fed.q") == 1 and up.consumers() == []


@pytest.mark.parametrize("tag", ["", "fed.tag"])
def test_consumers_upstream_come_first(up: Place, down: Place, tag: str) -> None:
    settings: dict[str, Any] = {"consumer_tag": tag} if tag else {}
    pair(up, down, **settings)
    wanting = down.consumer()
    until(lambda: up.consumers() == [(tag or "federation-link-u0", -1)], lambda: str(up.consumers()))
    local = up.consumer()
    up.fill("fed.q", *range(20))
    assert bodies(local, 20) == [b"%d" % number for number in range(20)]
    assert down.row()["forwarded"] == 0 and down.row()["consumer_tag"] == (tag or "federation-link-u0")
    local.client.vanish()
    until(lambda: len(up.consumers()) == 1, lambda: str(up.consumers()))
    up.fill("fed.q", 20)
    assert bodies(wanting, 1) == [b"20"]


def test_a_queue_that_has_messages_pulls_when_it_has_none_left(up: Place, down: Place) -> None:
    pair(up, down)
    down.fill("fed.q", 1, 2, 3)
    up.fill("fed.q", 4)
    wanting = down.consumer(prefetch=1)
    for number in (1, 2, 3):
        message = wanting.delivery()
        assert message.body == b"%d" % number
        if number < 3:
            until_steady(lambda: down.row()["state"], 0.1)
            assert down.row()["state"] == "paused" and up.ready("fed.q") == 1
        wanting.ack(message.tag)
    assert bodies(wanting, 1) == [b"4"]


@pytest.mark.parametrize("prefetch", [1, 20])
def test_a_consumer_that_never_acknowledges_pulls_little_and_no_storm(
    up: Place, down: Place, proxied: NewProxy, prefetch: int
) -> None:
    up.ch.declare("fed.q")
    down.ch.declare("fed.q")
    down.link("^fed", up.inside, prefetch_count=30)
    up.fill("fed.q", *range(200))
    bodies(down.consumer(prefetch=prefetch), prefetch)
    until_steady(lambda: (up.ready("fed.q"), down.ready("fed.q"), down.row()["state"]), 0.5)
    assert up.ready("fed.q") >= 200 - 30 - prefetch
    assert not up.consumers() and down.row()["state"] == "paused"


def test_a_break_half_way_loses_nothing(up: Place, down: Place, proxied: NewProxy) -> None:
    proxy = proxied(up.site)
    up.ch.declare("fed.q", durable=True)
    down.ch.declare("fed.q", durable=True)
    down.link("^fed", up.through(proxy.port), prefetch_count=5)
    up.fill("fed.q", *range(20))
    down.fill("fed.q", *range(20, 40))
    got: list[bytes] = []
    for place in (up, down):
        wanting = place.consumer(prefetch=10)
        messages = wanting.deliveries(10)
        wanting.ack(messages[-1].tag, multiple=True)
        wanting.sync()
        wanting.client.close()
        got += [message.body for message in messages]
    proxy.blink()
    until(lambda: down.row()["reconnects"] >= 1, lambda: str(down.row()))
    down.running()
    wanting = down.consumer()
    got += bodies(wanting, 40 - len(set(got)))
    assert set(got) == {b"%d" % number for number in range(40)}


def test_federation_of_a_queue_is_switched_off_and_on(up: Place, down: Place) -> None:
    pair(up, down)
    wanting = down.consumer()
    number = 0
    switches: list[tuple[Callable[[], None], Callable[[], None]]] = [
        (down.clear_policy, lambda: down.policy("^fed", ALL)),
        (lambda: down.clear_upstream("u0"), lambda: down.upstream("u0", up.inside)),
        (lambda: down.policy("^fed", {"max-length": 100}), lambda: down.policy("^fed", ALL)),
    ]
    for off, on in switches:
        up.fill("fed.q", number)
        assert bodies(wanting, 1) == [b"%d" % number]
        off()
        down.without_links()
        until(lambda: not up.consumers(), lambda: str(up.consumers()))
        up.fill("fed.q", number + 1)
        until_steady(lambda: up.ready("fed.q"))
        assert up.ready("fed.q") == 1
        on()
        down.running()
        assert bodies(wanting, 1) == [b"%d" % (number + 1)]
        number += 2
