"""Beyond RabbitMQ: one copy in any graph (federation-deduplicate), demand over several hops (federation-multi-hop)."""

import pytest

from tests.support.federation import Place, headers
from tests.support.polling import until, until_steady

from .conftest import NewPlaces
from .test_topologies import COMPLETE, TRIANGLE, Edge, Graph, each_reaches, everywhere_once, ring

pytestmark = pytest.mark.sockets

RING_WITH_A_CHORD = [*ring(4), (0, 2)]
DEDUPLICATE = {"federation-upstream-set": "all", "federation-deduplicate": True}
MULTI_HOP = {"federation-upstream-set": "all", "federation-multi-hop": True}


# One copy


def deduplicating(places: list[Place], edges: list[Edge], max_hops: int) -> Graph:
    graph = Graph(places, edges, max_hops)
    for place in places:
        place.policy("^fed", DEDUPLICATE, "deduplicate", 1)
    graph.federate()
    return graph


@pytest.mark.parametrize("max_hops", [1, 2, 9])
def test_in_a_complete_graph_of_four_everybody_gets_one_copy_whatever_max_hops_is(
    here: NewPlaces, max_hops: int
) -> None:
    each_reaches(deduplicating(here(4), COMPLETE, max_hops), everywhere_once(4))


@pytest.mark.parametrize("max_hops", [1, 3])
def test_round_a_ring_with_a_chord_everybody_gets_one_copy_whatever_max_hops_is(here: NewPlaces, max_hops: int) -> None:
    each_reaches(deduplicating(here(4), RING_WITH_A_CHORD, max_hops), everywhere_once(4))


def test_three_brokers_give_each_other_many_messages_once_and_leave_equal_ones_apart(everywhere: list[Place]) -> None:
    graph = deduplicating(everywhere, TRIANGLE, 2)
    for number in range(300):
        graph.publish(number % 3, b"%d" % (number % 10))  # equal ones are still so many messages
    graph.reached(300, 300, 300)


def test_an_identity_is_seen_where_a_message_came_to_and_not_where_it_was_published(everywhere: list[Place]) -> None:
    graph = deduplicating(everywhere, TRIANGLE, 2)
    graph.publish(0, b"one")
    graph.reached(1, 1, 1)
    first, *others = [headers(place.get("q0")) for place in everywhere]
    assert first == {}
    assert len({fields["x-federation-id"] for fields in others}) == 1


# Several hops


def chain(places: list[Place], definition: dict[str, object]) -> None:
    """Each takes from the one before it."""
    for place in places:
        place.ch.declare("fed.q")
    for upstream, downstream in zip(places, places[1:], strict=False):
        downstream.policy("^fed", definition, "hops", 1)
        downstream.link("^fed", upstream.uri)


def test_messages_come_to_a_consumer_over_several_hops_and_stay_when_it_goes(here: NewPlaces) -> None:
    places = here(4)
    chain(places, MULTI_HOP)
    first, second, third, last = places
    first.fill("fed.q", *range(20))
    channel = last.consumer()
    assert [message.body for message in channel.deliveries(20)] == [b"%d" % number for number in range(20)]
    until(
        lambda: [[priority for _, priority in place.consumers()] for place in places] == [[-3], [-2], [-1], [0]],
        lambda: f"who is nearer comes first: {[place.consumers() for place in places]}",
    )
    channel.close()
    until(lambda: not any(place.consumers() for place in places), "no demand")
    first.fill("fed.q", *range(5))
    until_steady(lambda: [place.ready("fed.q") for place in places])
    assert [place.ready("fed.q") for place in places] == [5, 0, 0, 0]
    until(lambda: second.row()["state"] == third.row()["state"] == "paused", "links that pause")


def test_in_a_complete_graph_demand_ends_with_its_consumer(here: NewPlaces) -> None:
    places = here(3)
    for place in places:
        place.ch.declare("fed.q")
        place.policy("^fed", MULTI_HOP, "hops", 1)
    for place in places:
        place.federate("^fed", *[other.uri for other in places if other is not place])
    for place in places:
        place.running(2)
    channel = places[0].consumer()
    for place in places:
        place.fill("fed.q", *range(10))
    channel.deliveries(30)
    channel.close()
    until(lambda: not any(place.consumers() for place in places), "no demand")
    until_steady(lambda: [place.consumers() for place in places])
    assert not any(place.consumers() for place in places), "nobody asks for nobody"
