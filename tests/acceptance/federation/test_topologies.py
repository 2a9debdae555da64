"""Topologies: pair, complete graph, tree and ring, and how many copies of a message each broker gets.

A node gets a copy for each way without a detour from the publisher to it that is not longer than max-hops, and
upstream there is a binding for each such way.
"""

import random
from collections.abc import Sequence

import pytest

from tests.support.federation import Place, Site
from tests.support.polling import until, until_steady

from .conftest import NewPlaces, NewProxy

pytestmark = pytest.mark.sockets

Edge = tuple[int, int]  # from the upstream to the downstream, by their numbers
PAIR = [(0, 1), (1, 0)]
TRIANGLE = [(up, down) for up in range(3) for down in range(3) if up != down]


def ring(size: int) -> list[Edge]:
    return [(number, (number + 1) % size) for number in range(size)]


def ways(edges: Sequence[Edge], limit: int, *passed: int) -> list[tuple[int, ...]]:
    """Return the simple paths that begin with these nodes."""
    if len(passed) > limit:
        return []
    further = [(*passed, down) for up, down in edges if up == passed[-1] and down not in passed]
    return further + [way for start in further for way in ways(edges, limit, *start)]


class Graph:
    """An exchange in each place, federated along the edges, with queues bound to it by one key."""

    def __init__(
        self, places: list[Place], edges: Sequence[Edge], max_hops: int, type_: str = "fanout", queues: int = 1
    ) -> None:
        self.places = places
        self.edges = edges
        self.max_hops = max_hops
        for place in places:
            place.ch.exchange("fed.x", type_)
            for number in range(queues):
                place.listener("fed.x", "k", queue=f"q{number}")
        self.uris = {edge: places[edge[0]].uri for edge in edges}

    def federate(self) -> None:
        """Federate the places, and wait until all links and bindings exist."""
        uris = [[self.uris[up, down] for up, down in self.edges if down == at] for at in range(len(self.places))]
        federated = [(place, some) for place, some in zip(self.places, uris, strict=True) if some]
        for place, some in federated:
            place.federate("^fed", *some, max_hops=self.max_hops)
        for place, some in federated:
            place.running(len(some))
        for number, place in enumerate(self.places):
            place.bound("fed.x", *["k"] * len(ways(self.edges, self.max_hops, number)))

    def publish(self, publisher: int, body: bytes) -> None:
        self.places[publisher].ch.publish("fed.x", "k", body)

    def ready(self) -> list[int]:
        """Return the ready messages in the first queue of each node."""
        return [place.ready("q0") for place in self.places]

    def reached(self, *counts: int) -> None:
        """These counts, and no more."""
        until(lambda: self.ready() == list(counts), lambda: f"{counts}: {self.ready()}")
        until_steady(self.ready)
        assert self.ready() == list(counts)

    def drained(self) -> list[list[bytes]]:
        return [place.ch.drain("q0") for place in self.places]


def each_reaches(graph: Graph, expected: Sequence[Sequence[int]]) -> None:
    """Publish one message at each node and check the number of copies at each other."""
    for publisher, copies in enumerate(expected):
        graph.publish(publisher, b"from %d" % publisher)
        graph.reached(*copies)
        assert graph.drained() == [[b"from %d" % publisher] * count for count in copies]


def everywhere_once(size: int) -> list[list[int]]:
    return [[1] * size] * size


COMPLETE = [(up, down) for up in range(4) for down in range(4) if up != down]


@pytest.mark.parametrize(
    ("edges", "max_hops", "type_"),
    [
        (PAIR, 1, "fanout"),
        (PAIR, 1, "topic"),
        (PAIR, 5, "direct"),
        (TRIANGLE, 1, "fanout"),
        (COMPLETE, 3, "fanout"),
        ([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)], 2, "fanout"),
        (ring(3), 2, "direct"),
        (ring(6), 4, "fanout"),
    ],
    ids=repr,
)
def test_each_broker_gets_a_copy_for_each_way_from_the_publisher(
    here: NewPlaces, edges: list[Edge], max_hops: int, type_: str
) -> None:
    size = max(map(max, edges)) + 1
    graph = Graph(here(size), edges, max_hops, type_)
    graph.federate()
    reached = [[way[-1] for way in ways(edges, max_hops, node)] for node in range(size)]
    each_reaches(graph, [[1 if to == node else reached[node].count(to) for to in range(size)] for node in range(size)])


@pytest.mark.parametrize("brokers", [1, 3])
def test_in_a_triangle_with_two_hops_both_ways_bring_a_copy(
    everywhere: list[Place], here: NewPlaces, brokers: int
) -> None:
    graph = Graph(everywhere if brokers == 3 else here(3), TRIANGLE, 2, queues=3)
    graph.federate()
    dice = random.Random(5)
    for number in range(500):
        graph.publish(dice.randrange(3), b"%d" % number)

    def total() -> int:
        return sum(place.ready(f"q{number}") for place in graph.places for number in range(3))

    until(lambda: total() == 7500, lambda: f"7500: {total()}")
    until_steady(total)
    assert total() == 7500


@pytest.mark.parametrize(("leaf_hops", "arrives"), [(1, 0), (2, 1)])
def test_a_leaf_gets_from_the_root_as_its_own_link_lets_it(here: NewPlaces, leaf_hops: int, arrives: int) -> None:
    root, middle, leaf = here(3)
    for place in (root, middle, leaf):
        place.ch.exchange("fed.x", "direct")
    middle.link("^fed", root.inside, max_hops=2)
    leaf.link("^fed", middle.inside, max_hops=leaf_hops)
    queue = leaf.listener("fed.x", "only the leaf's")
    middle.bound("fed.x", "only the leaf's")
    everyone = middle.listener("fed.x", "everyone's")
    leaf.ch.bind(queue, "fed.x", "everyone's")
    middle.bound("fed.x", "everyone's", "only the leaf's")
    expected = ["everyone's", "everyone's", "only the leaf's"] if arrives else ["everyone's"]
    root.bound("fed.x", *expected)
    root.ch.publish("fed.x", "everyone's", b"from the root")
    middle.counted(everyone, 1)
    middle.ch.publish("fed.x", "everyone's", b"from the middle")
    leaf.counted(queue, 1 + arrives)
    assert leaf.ch.drain(queue) == [b"from the root"] * arrives + [b"from the middle"]


def test_in_a_ring_of_six_everybody_gets_one_copy_also_after_a_cut(
    here: NewPlaces, proxied: NewProxy, sites: list[Site]
) -> None:
    graph = Graph(here(6), ring(6), 5)
    proxy = proxied(sites[0])
    graph.uris[2, 3] = graph.places[2].through(proxy.port)
    graph.federate()
    for publisher in range(6):
        graph.publish(publisher, b"%d" % publisher)
    graph.reached(*[6] * 6)
    assert [sorted(bodies) for bodies in graph.drained()] == [[b"%d" % publisher for publisher in range(6)]] * 6
    proxy.cut()
    graph.places[3].down()
    graph.publish(1, b"waits")
    graph.reached(0, 1, 1, 0, 0, 0)
    proxy.restore()
    graph.places[3].running()
    graph.reached(1, 1, 1, 1, 1, 1)
