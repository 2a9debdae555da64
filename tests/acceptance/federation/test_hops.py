"""Scenarios 60 to 67: how far bindings and messages go, and that they come back to nobody."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.federation import Place, Site, headers, plain
from tests.support.loop_thread import LoopThread
from tests.support.polling import until, until_steady

from .conftest import NewPlaces

pytestmark = pytest.mark.sockets


@pytest.fixture
def twins(loop: LoopThread) -> Iterator[list[Site]]:
    """Two brokers whose clusters have one name, and one that has another."""
    sites = [Site(loop, "twin"), Site(loop, "twin"), Site(loop, "other")]
    yield sites
    for site in sites:
        site.close()


def chained(places: list[Place], max_hops: int, at: dict[int, int] | None = None, type_: str = "direct") -> None:
    """Each federates from the one before it. `at` is max-hops of the links of some, counted from 1."""
    for place in places:
        place.ch.exchange("fed.x", type_)
    for number, (up, down) in enumerate(zip(places, places[1:], strict=False), 2):
        down.link("^fed", up.inside, max_hops=(at or {}).get(number, max_hops))


def entries(place: Place) -> list[dict[str, Any]]:
    """Return the entries of x-bound-from of the only binding."""
    ((_, _, arguments),) = place.bindings("fed.x")
    found = plain(arguments.get("x-bound-from"))
    assert found[0] == "A"
    return [dict(entry) for _, entry in found[1]]


def seen(places: list[Place]) -> list[int]:
    """Return the places where a link has bound something, counted from 1."""
    return [number for number, place in enumerate(places, 1) if place.keys("fed.x")]


def test_a_binding_says_by_which_ways_it_came(here: NewPlaces) -> None:
    places = here(10)
    chained(places, 10)
    places[-1].listener("fed.x", "k")
    for number, place in enumerate(places[:-1], 1):
        place.bound("fed.x", "k")
        came = entries(place)
        assert len(came) == 10 - number
        assert came[0]["vhost"] == ("S", places[number].vhost) and came[-1]["vhost"] == ("S", places[-1].vhost)
        assert came[0]["hops"] == ("s", number + 1)
    places[0].ch.publish("fed.x", "k", b"from end to end")
    until(lambda: places[-1].row()["forwarded"] == 1, "it came")


@pytest.mark.parametrize(("at", "expected"), [({5: 1}, range(4, 10)), ({10: 3}, range(7, 10))])
def test_the_lowest_max_hops_on_the_way_counts(here: NewPlaces, at: dict[int, int], expected: range) -> None:
    places = here(10)
    chained(places, 10, at)
    places[-1].listener("fed.x", "k")
    until(lambda: seen(places) == list(expected), lambda: f"{list(expected)}: {seen(places)}")
    until_steady(lambda: seen(places))
    assert seen(places) == list(expected)


def test_a_message_that_has_hopped_goes_so_much_less_far(here: NewPlaces) -> None:
    places = here(4)
    chained(places, 3)
    queues = [place.listener("fed.x", "k") for place in places]
    places[0].bound("fed.x", *["k"] * 3)
    hopped = [{"uri": "amqp://there"}, {"uri": "amqp://far"}]
    places[0].ch.publish("fed.x", "k", b"tired", {"headers": {"x-received-from": hopped}})
    places[0].ch.publish("fed.x", "k", b"fresh")
    got = [place.bodies(queue, count) for place, queue, count in zip(places, queues, (2, 2, 1, 1), strict=True)]
    assert got == [[b"tired", b"fresh"], [b"tired", b"fresh"], [b"fresh"], [b"fresh"]]


def test_who_shares_a_queue_is_warned(twins: list[Site]) -> None:
    first, second, up = [site.place("shared") for site in (*twins[:2], twins[2])]
    for down in (first, second):
        down.ch.exchange("fed.x", "fanout")
        down.link("^fed", up.uri)
    assert up.queues() == ["federation: fed.x -> twin"]

    def warned(site: Site) -> list[object]:
        return [fields for event, level, fields in site.log if "shared" in event and level == "warning"]

    assert not warned(twins[0])
    assert until(lambda: warned(twins[1]), lambda: str(twins[1].log))


def test_a_namesake_of_the_origin_gets_nothing_over_a_second_hop(twins: list[Site]) -> None:
    origin, namesake, middle = [site.place("same") for site in twins]
    for place in (origin, middle, namesake):
        place.ch.exchange("fed.x", "direct")
    middle.link("^fed", origin.uri, max_hops=5)
    namesake.link("^fed", middle.uri, max_hops=5)
    here, there = middle.listener("fed.x", "k"), namesake.listener("fed.x", "k")
    origin.bound("fed.x", "k")
    middle.bound("fed.x", "k")
    origin.ch.publish("fed.x", "k", b"from the origin")
    middle.counted(here, 1)
    middle.ch.publish("fed.x", "k", b"from the middle")
    assert namesake.bodies(there, 1) == [b"from the middle"]


def test_with_no_hops_nothing_is_bound_and_nothing_comes(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "fanout")
    here = down.listener("fed.x")
    down.link("^fed", up.inside, max_hops=0)
    up.ch.publish("fed.x", "", b"stays")
    up.ch.sync()
    until_steady(lambda: (up.bindings("fed.x"), down.ready(here), down.rows()))
    assert (up.bindings("fed.x"), down.ready(here), down.row()["status"]) == ([], 0, "running")
    assert down.row()["forwarded"] == 0


@pytest.mark.parametrize("uri", ["amqp://", "inside", "uri"])
def test_an_upstream_that_is_the_exchange_itself_makes_no_loop(here: NewPlaces, uri: str) -> None:
    (place,) = here(1)
    place.ch.exchange("fed.x", "fanout")
    place.link("^fed", {"inside": place.inside, "uri": place.uri}.get(uri, uri), max_hops=3)
    queue = place.listener("fed.x")
    place.bound("fed.x", "")
    for number in range(5):
        place.ch.publish("fed.x", "", b"%d" % number)
    expected = 10 if uri == "uri" else 5  # that the address is our own is not known; a hop over it is the last one
    place.counted(queue, expected)
    until_steady(lambda: place.ready(queue))
    assert place.ready(queue) == expected
    assert place.row()["status"] == "running"
    assert all(len(headers(message).get("x-received-from", ("A", []))[1]) < 2 for message in place.ch.get_all(queue))
