"""The promises of RabbitMQ's guides to federated exchanges (today's and that of 2012) and to federated queues: each
statement about behaviour, with the test that shows it. Those that no other file tests are tested here."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import ROOT
from tests.support.federation import Place, Site
from tests.support.loop_thread import LoopThread
from tests.support.polling import until, until_steady
from warren.broker.amqp.field_table import Table, Value

from .conftest import NewPlaces, NewProxy

EXCHANGES = """
what is published upstream comes here as though it had been published here
    messages::test_a_message_is_the_same_after_a_link_but_for_where_it_was
upstreams need not be configured; all of that is on the broker that receives
    rabbitmq_guides::test_upstreams_need_no_configuration
an exchange may have several upstreams
    matching::test_all_are_the_upstreams_of_this_virtual_host
an exchange may be the upstream of several
    rabbitmq_guides::test_one_exchange_feeds_several_brokers
copied is only what needs to be
    bindings::test_without_a_binding_here_nothing_is_brought
an exchange receives what it is bound for
    bindings::test_a_bound_key_is_bound_upstream_and_messages_flow
bindings are grouped
    bindings::test_queues_with_one_key_need_one_binding
bindings go upstream when they change
    bindings::test_a_binding_ends_with_its_queue_however_that_ends
bindings go upstream in their own time
    rabbitmq_guides::test_who_binds_does_not_wait_for_the_upstream
links speak AMQP
    status::test_the_connections_of_a_link_say_whose_they_are
links may use TLS
    tests/unit/federation/test_connection_tls.py::test_tls_is_verified_as_the_uri_says
an upstream is a URI whose query controls the connection
    tests/unit/federation/test_connection.py::test_limits_of_the_uri_are_agreed_on_and_the_upstream_sees_who_we_are
an upstream may be a cluster
    links::test_of_several_uris_one_that_answers_is_enough
replication outlives what happens to connections
    failures::test_a_line_that_is_silent_is_given_up_and_what_waited_comes
messages wait in a queue upstream
    broker_restarts::test_what_comes_while_this_broker_is_dead_waits_for_it
the queue is bound with the grouped bindings
    links::test_a_link_makes_the_queue_the_internal_exchange_and_the_exchange
properties of the queue can be chosen
    links::test_expires_and_message_ttl_are_arguments_of_the_queue
a standby is kept with times to live
    links::test_messages_that_nobody_takes_expire
what is published at the downstream does not go upstream
    rabbitmq_guides::test_what_is_published_here_does_not_go_upstream
some exchanges are federated, others stay local
    rabbitmq_guides::test_exchanges_that_no_policy_matches_stay_local
all built-in types can be federated, others by their own nature
    rabbitmq_guides::test_every_type_can_be_federated
types that differ link, and route each by its own
    links::test_an_exchange_that_is_there_may_be_of_another_type
neither the default exchange nor internal ones are federated
    matching::test_what_federation_itself_makes_is_never_federated
exchanges that are there are federated, but for the default and internal ones
    matching::test_of_a_new_virtual_host_five_exchanges_are_federated_by_everything
a federated exchange may be an upstream, also in circles
    topologies::test_in_a_pair_more_hops_make_no_more_copies
an exchange that is its own upstream makes no circle
    hops::test_an_upstream_that_is_the_exchange_itself_makes_no_loop
max-hops limits how often a message is copied
    hops::test_a_message_that_has_hopped_goes_so_much_less_far
with too many hops a message comes by several ways
    topologies::test_in_a_triangle_with_two_hops_both_ways_bring_a_copy
a pair: both receive what either publishes
    topologies::test_in_a_pair_everybody_gets_one_copy
a complete graph with one hop: one copy everywhere
    topologies::test_in_a_complete_graph_of_three_everybody_gets_one_copy
fan-out: the root need not be federated, everybody in the tree receives
    topologies::test_in_a_tree_everybody_gets_what_the_root_is_given
fan-out: max-hops is the number of levels less one
    topologies::test_a_leaf_gets_from_the_root_as_its_own_link_lets_it
a ring of six with five hops: once everywhere; one failure breaks it
    topologies::test_in_a_ring_of_six_everybody_gets_one_copy_also_after_a_cut
upstreams are set by the HTTP API
    parameters::test_an_upstream_is_created_shown_and_replaced
upstreams and policies are set by the command line, in the guide's own words
    tests/acceptance/operator/ctl/test_commands.py::test_commands_print_and_exit_as_rabbitmqctl_does
federation is configured anew as it runs
    links::test_a_policy_that_begins_to_federate_starts_a_link
the end of the policy is the end of its links
    links::test_a_link_that_is_not_wanted_any_more_takes_its_things_along
of several policies that of the highest priority holds, and none is combined
    matching::test_the_policy_of_the_highest_priority_alone_federates
of equal priorities one holds
    tests/unit/core/policies/test_policies.py::test_of_equal_priorities_the_lower_name_wins_whatever_came_first
there is a link for each pair of a matching exchange and an upstream
    tests/unit/federation/test_link_spec.py::test_a_policy_that_names_one_upstream_asks_for_one_link_of_each_object
without a match there is none
    tests/unit/federation/test_link_spec.py::test_nothing_is_wanted_without_a_policy_or_after_it
"""

QUEUES = """
messages come from upstream to satisfy consumers here
    queues::test_a_message_moves_where_somebody_wants_it
upstream queues need not be configured
    rabbitmq_guides::test_upstreams_need_no_configuration
one logical queue lies on many brokers
    queues::test_of_two_mutual_queues_one_consumer_gets_everything
in a complete graph each has all others upstream
    deduplication_and_multi_hop::test_in_a_complete_graph_demand_ends_with_its_consumer
what is consumed where it was published is not moved
    queues::test_consumers_upstream_come_first
applications declare federated queues as any other
    queues::test_a_queue_that_is_not_there_upstream_is_made
policies by pattern, of which the first in priority holds
    matching::test_the_policy_of_the_highest_priority_alone_federates
a queue has one policy
    tests/unit/core/policies/test_policies.py::test_of_equal_priorities_the_lower_name_wins_whatever_came_first
the names upstream are listed with the upstreams
    queues::test_a_queue_pulls_from_the_upstreams_it_is_mapped_to
a queue takes only when it has run out itself
    queues::test_a_queue_that_has_messages_pulls_when_it_has_none_left
a queue takes only when consumers need something
    queues::test_a_consumer_that_never_acknowledges_pulls_little_and_no_storm
a queue takes only what is to spare upstream
    queues::test_a_link_gets_what_consumers_upstream_cannot_take
order holds along one way
    queues::test_of_two_mutual_queues_one_consumer_gets_everything
each queue applies its own arguments
    queue_edge_cases::test_arguments_hold_for_each_queue_alone
a time to live begins anew with a move
    queue_edge_cases::test_a_time_to_live_begins_anew_with_each_move
a message moves as often as it is wanted elsewhere
    queue_edge_cases::test_a_message_that_goes_to_and_fro_counts_its_visits
basic.get takes nothing from upstream
    queues::test_basic_get_pulls_nothing
an upstream of another version serves
    tests/acceptance/federation/interop/test_upstream.py::test_a_queue_pulls_from_a_rabbitmq
an upstream without consumer priorities does not
    rabbitmq_guides::test_an_upstream_without_consumer_priorities_feeds_no_queue
messages go over one hop alone
    deduplication_and_multi_hop::test_without_the_key_they_come_one_hop
in between somebody has to consume
    queue_edge_cases::test_the_demand_of_a_link_is_not_passed_on
a federated queue at a federated exchange may have copies
    queue_edge_cases::test_a_federated_queue_at_a_federated_exchange_gets_one_copy_or_two
"""


LINES = [line.strip() for line in (EXCHANGES + QUEUES).splitlines() if line]
PROMISES = dict(zip(LINES[::2], LINES[1::2], strict=True))


@cache
def functions(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("promise", PROMISES)
def test_what_the_guides_say_has_a_test(promise: str) -> None:
    place, _, name = PROMISES[promise].partition("::")
    path = ROOT / place if place.endswith(".py") else Path(__file__).with_name(f"test_{place}.py")
    assert name.startswith("test_") and name in functions(path)


# Statements that no other file tests


def linked(up: Place, down: Place, type_: str = "direct", key: str = "k", uri: str = "", **arguments: Any) -> str:
    """A queue here that gets what is published upstream."""
    down.ch.exchange("fed.x", type_)
    here = f"of {type_}"
    down.ch.declare(here)
    down.ch.bind(here, "fed.x", key, arguments=arguments)
    down.federate("^fed", uri or up.inside)
    down.running()
    up.bound("fed.x", key)
    return here


@pytest.mark.sockets
def test_upstreams_need_no_configuration(up: Place, down: Place) -> None:
    up.ch.exchange("fed.x", "direct")
    up.ch.declare("fed.q")
    before = up.exchange("fed.x"), up.queue("fed.q")
    down.ch.declare("fed.q")
    down.ch.exchange("fed.x", "direct")
    here = down.listener("fed.x", "k")
    down.federate("^fed", up.inside)
    down.running(2)
    up.bound("fed.x", "k")
    up.ch.publish("fed.x", "k", b"copied")
    assert down.get(here).body == b"copied"
    wanting = down.channel()
    wanting.consume("fed.q", no_ack=True)
    up.ch.fill("fed.q", b"moved")
    assert wanting.deliveries(1)[0].body == b"moved"
    assert (up.exchange("fed.x"), up.queue("fed.q")) == before
    assert not up.act(up.site.node.parameters.all, up.vhost) and not up.rows()


@pytest.mark.sockets
def test_one_exchange_feeds_several_brokers(everywhere: list[Place]) -> None:
    up, *downs = everywhere
    queues = []
    for down in downs:
        down.ch.exchange("fed.x", "direct")
        queues.append(down.listener("fed.x", "k"))
        down.federate("^fed", up.uri)
        down.running()
    up.bound("fed.x", "k", "k")
    up.ch.publish("fed.x", "k", b"for both")
    for down, queue in zip(downs, queues, strict=True):
        assert down.bodies(queue, 1) == [b"for both"]


@pytest.mark.sockets
def test_who_binds_does_not_wait_for_the_upstream(up: Place, down: Place, proxied: NewProxy) -> None:
    proxy = proxied(up.site)
    here = linked(up, down, uri=up.through(proxy.port))
    proxy.silence()
    down.ch.bind(here, "fed.x", "later")  # is answered
    assert up.keys("fed.x") == ["k"]
    proxy.restore()
    up.bound("fed.x", "k", "later")


@pytest.mark.sockets
def test_what_is_published_here_does_not_go_upstream(up: Place, down: Place) -> None:
    here = linked(up, down)
    there = up.listener("fed.x", "k")
    down.ch.publish("fed.x", "k", b"here alone")
    assert down.get(here).body == b"here alone"
    up.ch.publish("fed.x", "k", b"everywhere")
    assert down.get(here).body == b"everywhere"
    until_steady(lambda: up.ready(there))
    assert up.ch.drain(there) == [b"everywhere"]


@pytest.mark.sockets
def test_exchanges_that_no_policy_matches_stay_local(up: Place, down: Place) -> None:
    here = linked(up, down)
    for place in (up, down):
        place.ch.exchange("own.x", "direct")
    local = down.listener("own.x", "k")
    up.ch.publish("own.x", "k", b"stays")
    up.ch.publish("fed.x", "k", b"comes")
    assert down.get(here).body == b"comes"
    assert down.ready(local) == 0 and [row["name"] for row in down.rows()] == ["fed.x"]


TYPES: dict[str, tuple[str, dict[str, str]]] = {
    "direct": ("k", {}),
    "fanout": ("", {}),
    "topic": ("a.*.#", {}),
    "headers": ("", {"x-match": "any", "h": "v"}),
    "x-modulus-hash": ("k", {}),
    "x-consistent-hash": ("1", {}),
    "x-random": ("k", {}),
    "x-recent-history": ("", {}),
}


@pytest.mark.sockets
@pytest.mark.parametrize("type_", TYPES)
def test_every_type_can_be_federated(up: Place, down: Place, type_: str) -> None:
    key, arguments = TYPES[type_]
    here = linked(up, down, type_, key, **arguments)
    found = up.exchange("fed.x")
    assert found is not None and found.type_name == type_
    up.ch.publish("fed.x", "a.b.c" if type_ == "topic" else "k", b"routed", {"headers": {"h": "v"}})
    assert down.get(here).body == b"routed"
    if type_ == "topic":
        up.ch.publish("fed.x", "c.b", b"not for us")
        until_steady(lambda: down.ready(here))
        assert down.ready(here) == 0


@pytest.fixture
def old(loop: LoopThread) -> Iterator[Site]:
    """A broker that knows no priorities of consumers."""
    site = Site(loop, "old")
    settings = site.server.settings
    capabilities: Value = ("F", Table.of({"basic.nack": True, "exchange_exchange_bindings": True}))
    settings.server_properties = settings.server_properties.with_items([("capabilities", capabilities)])
    yield site
    site.close()


@pytest.mark.sockets
def test_an_upstream_without_consumer_priorities_feeds_no_queue(old: Site, here: NewPlaces) -> None:
    up, (down,) = old.place(), here(1)
    down.ch.declare("fed.q")
    down.ch.exchange("fed.x", "direct")
    bound = down.listener("fed.x", "k")
    down.federate("^fed", up.uri)
    until(lambda: {row["name"]: row["status"] for row in down.rows()} == {"fed.q": "error", "fed.x": "running"})
    assert "consumer_priorities" in down.row("fed.q")["error"]
    up.bound("fed.x", "k")
    up.ch.publish("fed.x", "k", b"an exchange needs none")
    assert down.get(bound).body == b"an exchange needs none"
    up.close()
