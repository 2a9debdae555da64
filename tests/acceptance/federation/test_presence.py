"""A federated x-presence exchange: each listener gets one notice of each presence of every site, and one of its end."""

from collections.abc import Collection

import pytest

from tests.support.amqp_client import Content
from tests.support.federation import Place, headers, text
from tests.support.polling import until, until_steady
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.plugins.exchanges.federated_presence import Presence

from .conftest import NewPlaces, NewProxy
from .test_topologies import COMPLETE, PAIR, TRIANGLE, Edge, ring

pytestmark = pytest.mark.sockets

X = "fed.p"
CHAIN, TREE = [(0, 1), (1, 2)], [(0, 1), (0, 2)]
DEDUPLICATE = {"federation-upstream-set": "all", "federation-deduplicate": True}

Notice = tuple[str, str, str]  # action, key, and the site: cluster and virtual host, or nothing for a local one


def notice(content: Content) -> Notice:
    fields = Properties.decode(content.property_bytes).headers or Table.EMPTY
    site = [text(value) for name, value in fields.items() if name in ("cluster-name", "vhost")]
    return fields.text("action") or "", fields.text("key") or "", "/".join(site)


class Sites:
    """A presence exchange with a listener in each place, federated along the edges."""

    def __init__(self, places: list[Place], edges: list[Edge], max_hops: int = 1, **arguments: object) -> None:
        self.places = places
        self.edges = edges
        self.max_hops = max_hops
        self.unlimited = False  # for notices, where exchanges deduplicate
        for place in places:
            place.ch.exchange(X, "x-presence", arguments=arguments)
            place.listener(X, queue="listener")

    def federate(self) -> None:
        for at, place in enumerate(self.places):
            uris = [self.places[up].uri for up, down in self.edges if down == at]
            if uris:
                place.federate("^fed", *uris, max_hops=self.max_hops)
        for at, place in enumerate(self.places):
            count = len([down for _, down in self.edges if down == at])
            if count:
                place.running(count)

    def site(self, at: int) -> str:
        return f"{self.places[at].site.name}/{self.places[at].vhost}"

    def expect(self, *expected: list[Notice]) -> None:
        """Check that each listener gets these notices, in any order, and no others."""
        until(lambda: self._ready() == [len(each) for each in expected], lambda: f"{expected}: {self._ready()}")
        until_steady(self._ready)
        self._check_notices(*expected)

    def _check_notices(self, *expected: list[Notice]) -> None:
        received = [sorted(map(notice, place.ch.get_all("listener"))) for place in self.places]
        assert received == [sorted(each) for each in expected]

    def _ready(self) -> list[int]:
        return [place.ready("listener") for place in self.places]

    def known(self, key: str, at: int, present: bool = True) -> None:
        """Wait until all other places know the presence by all paths, or none knows it."""
        reach = len(self.places) if self.unlimited else self.max_hops
        held = holders(self.edges, self.max_hops, reach, at) if present else {}
        named = {tuple(map(self.site, way)): count for way, count in held.items()}
        until(lambda: self._held(key, at) == named, lambda: f"{named}: {self._held(key, at)}")

    def _held(self, key: str, at: int) -> dict[tuple[str, ...], int]:
        presence = Presence(self.places[at].site.name, self.places[at].vhost, key)
        found = {}
        for number, place in enumerate(self.places):
            for way, count in place.look(lambda vhost: vhost.exchanges[X].type.remote.paths(presence)).items():
                found[*["/".join(site) for site in reversed(way)], self.site(number)] = count
        return found

    def everywhere(self, action: str, key: str, at: int, deaf: Collection[int] = ()) -> list[list[Notice]]:
        """Return the notices that each place gets of a presence that appears or ends at one of them."""
        received = [[(action, key, self.site(at))] if number not in deaf else [] for number in range(len(self.places))]
        received[at] = [(action, key, "")]
        return received

    def come_and_go(self, at: int, deaf: Collection[int] = ()) -> None:
        place = self.places[at]
        queue = place.listener(X, f"key {at}")
        self.known(f"key {at}", at)
        self._check_notices(*self.everywhere("bind", f"key {at}", at, deaf))
        place.ch.delete(queue)
        self.known(f"key {at}", at, False)
        self.expect(*self.everywhere("unbind", f"key {at}", at, deaf))


def holders(edges: list[Edge], max_hops: int, reach: int, at: int) -> dict[tuple[int, ...], int]:
    """The ways by which news goes from there without a detour: over at most `max_hops` links up by bindings, and then
    down again by notices, `reach` in all. To the last on each it may come both ways."""
    found: dict[tuple[int, ...], int] = {(at,): 0}
    for steps, limit in (([edge[::-1] for edge in edges], max_hops), (edges, reach)):
        ways = list(found)
        for way in ways:  # which grows meanwhile
            for longer in [(*way, to) for one, to in steps if one == way[-1] and to not in way and len(way) <= limit]:
                if longer not in found:
                    ways.append(longer)
                found[longer] = found.get(longer, 0) + 1
    del found[at,]
    return found


@pytest.fixture
def pair(everywhere: list[Place]) -> Sites:
    sites = Sites(everywhere[:2], PAIR)
    sites.federate()
    return sites


FAR = {0: [2], 2: [0]}  # from one end of a chain to the other
LEAVES = {1: [2], 2: [1]}


@pytest.mark.parametrize(
    ("edges", "max_hops", "deaf"),
    [
        *[(PAIR, 1, {}), (PAIR, 5, {}), (TRIANGLE, 1, {}), (TRIANGLE, 2, {}), (CHAIN, 1, FAR), (CHAIN, 2, {})],
        *[(TREE, 1, LEAVES), (TREE, 2, {}), (ring(3), 1, {}), (ring(3), 2, {}), (ring(3), 5, {})],
    ],
    ids=repr,
)
def test_who_comes_and_who_goes_is_told_once_to_everybody_to_whom_messages_may_go_in_either_direction(
    everywhere: list[Place], edges: list[Edge], max_hops: int, deaf: dict[int, list[int]]
) -> None:
    count = max(map(max, edges)) + 1
    sites = Sites(everywhere[:count], edges, max_hops)
    sites.federate()
    for at in range(count):
        sites.come_and_go(at, deaf.get(at, ()))


def test_in_a_complete_graph_that_deduplicates_everybody_is_told_once(here: NewPlaces) -> None:
    places = here(4)
    sites = Sites(places, COMPLETE)
    for place in places:
        place.policy("^fed", DEDUPLICATE, "deduplicate", 1)
    sites.unlimited = True
    sites.federate()
    for at in range(4):
        sites.come_and_go(at)


def test_a_notice_names_the_exchange_there_and_the_site(pair: Sites) -> None:
    pair.places[0].listener(X, "k")
    assert list(headers(pair.places[1].get("listener")).items()) == [
        ("action", ("S", "bind")),
        ("exchange", ("S", X)),
        ("queue", ("S", X)),
        ("key", ("S", "k")),
        ("cluster-name", ("S", "a")),
        ("vhost", ("S", pair.places[0].vhost)),
    ]


def test_a_link_that_starts_again_tells_nothing(pair: Sites) -> None:
    pair.places[0].listener(X, "k")
    pair.known("k", 0)
    pair.expect([("bind", "k", "")], [("bind", "k", pair.site(0))])
    for place in pair.places:
        restarted(place)
    pair.expect([], [])
    pair.come_and_go(1)


def restarted(place: Place) -> None:
    """Each of its links, and they run again."""
    for row in place.running():
        assert place.site.loop.call(place.site.federation.restart, row["id"])
    until(
        lambda: [row for row in place.rows() if row["status"] == "running" and row["state"] == "flowing"],
        lambda: str(place.rows()),
    )


@pytest.mark.parametrize("lost", [False, True], ids=["waits upstream", "is lost"])
def test_what_happens_while_a_link_is_down_is_told_when_it_is_back(
    everywhere: list[Place], proxied: NewProxy, lost: bool
) -> None:
    up, down = everywhere[:2]
    sites = Sites([up, down], [(0, 1)])
    proxy = proxied(up.site)
    down.link("^fed", up.through(proxy.port))
    gone = up.listener(X, "gone")
    up.listener(X, "stays")
    sites.expect(
        [("bind", "gone", ""), ("bind", "stays", "")], [("bind", key, sites.site(0)) for key in ("gone", "stays")]
    )
    proxy.cut()
    down.down()
    up.ch.delete(gone)
    up.listener(X, "new")
    sites.expect([("unbind", "gone", ""), ("bind", "new", "")], [])
    if lost:
        up.ch.delete(f"federation: {X} -> b")  # with the news in it
    proxy.restore()
    sites.expect([], [("unbind", "gone", sites.site(0)), ("bind", "new", sites.site(0))])


def test_who_is_present_stays_while_the_link_is_down_and_goes_with_it(
    everywhere: list[Place], proxied: NewProxy
) -> None:
    up, down = everywhere[:2]
    sites = Sites([up, down], [(0, 1)])
    proxy = proxied(up.site)
    down.link("^fed", up.through(proxy.port))
    up.listener(X, "k")
    down.listener(X, "l")
    sites.expect([("bind", "k", ""), ("bind", "l", sites.site(1))], [("bind", "k", sites.site(0)), ("bind", "l", "")])
    proxy.cut()
    down.down()
    sites.expect([], [])
    proxy.restore()
    down.running()
    down.clear_upstream("u0")
    sites.expect([("unbind", "l", sites.site(1))], [("unbind", "k", sites.site(0))])


def test_clients_pass_nothing_for_a_notice(pair: Sites) -> None:
    here, there = pair.places
    forged = {"action": "bind", "exchange": X, "queue": "q", "key": "forged"}
    for headers_ in (forged, {**forged, "x-received-from": [{"cluster-name": "c", "vhost": "/"}]}):
        here.ch.publish(X, "", b"", {"headers": headers_})
        there.ch.publish(X, "", b"", {"headers": headers_})
        here.ch.publish("", f"federation: {X} -> b", b"", {"headers": headers_})
    dropped = until(lambda: [row for row in there.rows() if row["dropped_invalid"] == 2], lambda: str(there.rows()))
    assert len(dropped) == 1
    pair.expect([], [])


def test_from_an_upstream_of_another_type_nothing_is_taken_for_a_notice(up: Place, down: Place) -> None:
    up.ch.exchange(X, "fanout")
    down.ch.exchange(X, "x-presence")
    listener = down.listener(X)
    down.link("^fed", up.uri)
    here = down.listener(X, "k")
    up.bound(X, "k")
    forged = {"action": "bind", "exchange": X, "queue": "q", "key": "forged"}
    up.ch.publish(X, "k", b"", {"headers": forged})
    until(lambda: down.row()["forwarded"] == 1, lambda: str(down.row()))
    assert [notice(content) for content in down.ch.get_all(listener)] == [("bind", "k", "")]
    assert down.ready(here) == 0
    assert any(event == "federation_not_listening" for event, _, _ in down.site.log)


def test_a_link_that_may_not_look_at_the_upstream_exchange_shows_who_is_downstream_alone(
    up: Place, down: Place
) -> None:
    sites = Sites([up, down], [(0, 1)])
    up.site.add_user("linker", {up.vhost: ("^federation: .*", "^federation: .*", ".*")})
    down.link("^fed", up.through(up.site.port, user="linker:linker"))
    up.listener(X, "k")
    down.listener(X, "l")
    sites.expect([("bind", "k", ""), ("bind", "l", sites.site(1))], [("bind", "l", "")])
    assert up.keys(X) == ["l"]


def test_a_listener_downstream_makes_no_binding_upstream(up: Place, down: Place) -> None:
    """The link has one of its own, for all of them."""
    Sites([up, down], [(0, 1)]).federate()
    down.listener(X)
    until_steady(lambda: up.keys(X))
    assert up.keys(X) == [""]


def test_what_is_relayed_is_wrapped_up_once_and_says_where_it_was_published(everywhere: list[Place]) -> None:
    sites = Sites(everywhere, TRIANGLE, 1, **{"x-presence-relay": True})
    sites.federate()
    everywhere[0].ch.publish(X, "some.key", b"body", {"content_type": "text/plain"})
    for at, place in enumerate(everywhere):
        place.counted("listener", 1)
        content = place.get("listener")
        assert (notice(content), content.body) == (("message", "some.key", sites.site(0) if at else ""), b"body")
        fields = headers(content)
        assert fields["exchange"] == ("S", X)
        assert fields["properties"] == ("F", [("content_type", ("S", "text/plain"))])
    sites.expect([], [], [])
