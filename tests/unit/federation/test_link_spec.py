"""The links that policies and upstreams ask for."""

import time
from typing import Any

import pytest

from tests.support.clock import FakeClock
from warren.broker.amqp.field_table import Table
from warren.broker.core.access.users import Users
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.messages.journal_port import Journal
from warren.broker.core.node.node import Node
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.vhost import VHost
from warren.federation.link_spec import (
    SLICE,
    LinkKey,
    LinkSpec,
    Upstreams,
    desired_links,
    keeps_upstream_queue,
    read_upstreams,
    scan,
)

URI = "amqp://u:p@host/v"


def upstreams_of(node: Node) -> dict[str, Upstreams]:
    found: dict[str, Upstreams] = {}
    for _ in read_upstreams(node, found):
        pass
    return found


def all_wanted(node: Node) -> dict[LinkKey, LinkSpec]:
    targets: list[Exchange | Queue] = []
    for _ in scan(node, upstreams_of(node), targets):
        pass
    return desired_links(node, targets)


@pytest.fixture
def node() -> Node:
    made = Node("n", "n", FakeClock(), Journal(), Users(frozenset()))
    made.add_vhost("/")
    return made


@pytest.fixture
def vhost(node: Node) -> VHost:
    return node.vhosts["/"]


def upstream(node: Node, name: str, vhost: str = "/", **others: Any) -> None:
    value = {"uri": URI, **{key.replace("_", "-"): value for key, value in others.items()}}
    node.parameters.set(vhost, "federation-upstream", name, value)


def policy(
    node: Node, definition: dict[str, object], pattern: str = "^fed", apply_to: str = "all", **more: Any
) -> None:
    node.policies.set(more.get("vhost", "/"), more.get("name", "p"), pattern, definition, 0, apply_to)


def exchange(vhost: VHost, name: str, internal: bool = False) -> Exchange:
    return vhost.declare_exchange(name, "fanout", durable=True, internal=internal)


def queue(vhost: VHost, name: str, owner: object = None, **arguments: object) -> Queue:
    given = Table.of({key.replace("_", "-"): value for key, value in arguments.items()})
    return vhost.declare_queue(name, durable=owner is None, exclusive=owner is not None, arguments=given, owner=owner)


def names(node: Node) -> list[tuple[str, ...]]:
    return sorted((key.kind, key.name, key.upstream, key.upstream_name) for key in all_wanted(node))


def test_a_policy_that_names_one_upstream_asks_for_one_link_of_each_object(node: Node, vhost: VHost) -> None:
    exchange(vhost, "fed-x")
    exchange(vhost, "other")
    queue(vhost, "fed-q")
    policy(node, {"federation-upstream": "up"})
    assert all_wanted(node) == {}, "there is no such upstream yet"
    upstream(node, "up")
    upstream(node, "another")
    assert names(node) == [("exchange", "fed-x", "up", "fed-x"), ("queue", "fed-q", "up", "fed-q")]


def test_a_pattern_is_searched_for_in_the_names_of_upstreams(node: Node, vhost: VHost) -> None:
    exchange(vhost, "fed-x")
    queue(vhost, "fed-q")
    for name in ("localhost1", "localhost2", "my-localhost", "far"):
        upstream(node, name)
    policy(node, {"federation-upstream-pattern": "^localhost"})
    assert [name for _, _, name, _ in names(node)] == ["localhost1", "localhost2"] * 2
    policy(node, {"federation-upstream-pattern": "host"})
    assert [name for _, _, name, _ in names(node)] == ["localhost1", "localhost2", "my-localhost"] * 2


def test_all_upstreams_are_those_of_the_virtual_host(node: Node, vhost: VHost) -> None:
    exchange(vhost, "fed-x")
    node.add_vhost("other")
    upstream(node, "up1")
    upstream(node, "up2")
    upstream(node, "elsewhere", "other")
    policy(node, {"federation-upstream-set": "all"})
    assert [name for _, _, name, _ in names(node)] == ["up1", "up2"]
    node.parameters.set("/", "federation-upstream-set", "all", [])
    assert [name for _, _, name, _ in names(node)] == ["up1", "up2"], "the set of that name is not asked"


def test_a_set_is_a_link_for_each_element_whose_upstream_is_there(node: Node, vhost: VHost) -> None:
    exchange(vhost, "fed-x")
    queue(vhost, "fed-q")
    upstream(node, "up", exchange="e", max_hops=2)
    elements = [
        {"upstream": "up"},
        {"upstream": "up", "exchange": "f", "max-hops": 7},
        {"upstream": "up", "exchange": "f", "max-hops": 9},
        {"upstream": "missing"},
    ]
    node.parameters.set("/", "federation-upstream-set", "s", elements)
    policy(node, {"federation-upstream-set": "s"})
    assert names(node) == [
        ("exchange", "fed-x", "up", "e"),
        ("exchange", "fed-x", "up", "f"),
        ("queue", "fed-q", "up", "fed-q"),
    ]
    hops = {key.upstream_name: one.settings.max_hops for key, one in all_wanted(node).items() if key.kind == "exchange"}
    assert hops == {"e": 2, "f": 7}


def test_the_five_exchanges_that_are_there_are_federated_and_no_internal_one(node: Node, vhost: VHost) -> None:
    upstream(node, "up")
    exchange(vhost, "federation: x -> n B", internal=True)
    policy(node, {"federation-upstream-set": "all"}, pattern=".*", apply_to="exchanges")
    queue(vhost, "q")
    assert [name for _, name, _, _ in names(node)] == [
        "amq.direct",
        "amq.fanout",
        "amq.headers",
        "amq.match",
        "amq.topic",
    ]


def test_queues_that_come_and_go_with_a_connection_are_not_federated(node: Node, vhost: VHost) -> None:
    upstream(node, "up")
    policy(node, {"federation-upstream": "up"}, pattern=".*", apply_to="queues")
    queue(vhost, "exclusive", owner=object())
    queue(vhost, "amq.gen-xyz")
    queue(vhost, "federation: x -> n", x_internal_purpose="federation")
    queue(vhost, "q")
    assert [name for _, name, _, _ in names(node)] == ["q"]


def test_nothing_is_wanted_without_a_policy_or_after_it(node: Node, vhost: VHost) -> None:
    exchange(vhost, "fed-x")
    upstream(node, "up")
    assert all_wanted(node) == {}
    policy(node, {"federation-upstream": "up"})
    assert len(all_wanted(node)) == 1
    policy(node, {"alternate-exchange": "a"})
    assert all_wanted(node) == {}


def test_only_objects_with_a_key_of_federation_ask_for_what_is_wanted(node: Node, vhost: VHost) -> None:
    upstream(node, "up")
    policy(node, {"max-length": 5}, name="a", pattern="q", apply_to="queues")
    policy(node, {"federation-upstream": "up", "max-length": 5}, name="b", pattern="^fed", apply_to="queues")
    node.policies.set("/", "o", ".*", {"max-length": 3}, 0, "queues", operator=True)
    queue(vhost, "q")
    found = queue(vhost, "fed")
    assert names(node) == [("queue", "fed", "up", "fed")]
    assert desired_links(node, [found]) == all_wanted(node)
    (only,) = all_wanted(node).values()
    assert only.policy == "b"


def test_the_links_of_one_object_are_those_of_all(node: Node, vhost: VHost) -> None:
    upstream(node, "up1")
    upstream(node, "up2")
    policy(node, {"federation-upstream-set": "all"})
    one, other = exchange(vhost, "fed-1"), queue(vhost, "fed-2")
    assert desired_links(node, [one]) | desired_links(node, [other]) == all_wanted(node)
    assert len(desired_links(node, [one])) == 2
    vhost.delete_queue(other)
    vhost.delete_exchange("fed-1")
    assert desired_links(node, [one]) == desired_links(node, [other]) == {}
    again = exchange(vhost, "fed-1")
    assert desired_links(node, [one]) == {} and len(desired_links(node, [again])) == 2


def test_keys_that_mean_something_to_one_kind_alone_do_not_change_links_of_the_other(node: Node, vhost: VHost) -> None:
    upstream(node, "up", consumer_tag="t", max_hops=2)
    exchange(vhost, "fed-x")
    queue(vhost, "fed-q")
    policy(node, {"federation-upstream": "up"})
    before = all_wanted(node)
    upstream(node, "up", consumer_tag="u", max_hops=3)
    after = all_wanted(node)
    assert before.keys() == after.keys()
    changed = {key.kind: one.settings != after[key].settings for key, one in before.items()}
    assert changed == {"exchange": True, "queue": True}
    upstream(node, "up", consumer_tag="u", max_hops=4)
    changed = {key.kind: one != all_wanted(node)[key] for key, one in after.items()}
    assert changed == {"exchange": True, "queue": False}


def test_our_own_keys_are_for_one_kind_each(node: Node, vhost: VHost) -> None:
    upstream(node, "up")
    exchange(vhost, "fed-x")
    queue(vhost, "fed-q")
    policy(node, {"federation-upstream": "up", "federation-deduplicate": True, "federation-multi-hop": True})
    assert {key.kind: (one.deduplicate, one.multi_hop) for key, one in all_wanted(node).items()} == {
        "exchange": (True, False),
        "queue": (False, True),
    }


def test_the_id_of_a_link_has_8_hex_digits_that_never_change() -> None:
    key = LinkKey("/", "exchange", "x", "up", "x")
    assert key.id == "dac74613"
    others = {
        LinkKey("/", "queue", "x", "up", "x").id,
        LinkKey("/x", "exchange", "", "up", "x").id,
        LinkKey("/", "exchange", "xu", "p", "x").id,
    }
    assert len(others | {key.id}) == 4


def link(node: Node, vhost: VHost, **settings: Any) -> LinkSpec:
    if "fed-x" not in vhost.exchanges:
        exchange(vhost, "fed-x")
        policy(node, {"federation-upstream": "up"})
    upstream(node, "up", **settings)
    (only,) = all_wanted(node).values()
    return only


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"prefetch_count": 5}, True),
        ({"reconnect_delay": 1, "ack_mode": "no-ack", "trust_user_id": True, "max_hops": 4}, True),
        ({"bind_nowait": True, "channel_use_mode": "single"}, True),
        ({"uri": "amqp://other:secret@host/v?heartbeat=3"}, True),
        ({"uri": ["amqp://another/v", URI]}, True),
        ({"uri": "amqps://u:p@HOST/v"}, True),
        ({"uri": "amqp://u:p@host:5673/v"}, False),
        ({"uri": "amqp://another/v"}, False),
        ({"uri": "amqp://host/w"}, False),
        ({"expires": 5}, False),
        ({"message_ttl": 5}, False),
        ({"queue_type": "quorum"}, False),
        ({"exchange": "y"}, False),
    ],
)
def test_an_equal_upstream_queue_is_kept(node: Node, vhost: VHost, settings: dict[str, Any], kept: bool) -> None:
    before, after = link(node, vhost), link(node, vhost, **settings)
    assert before != after
    assert keeps_upstream_queue(before, after) is kept


def test_a_virtual_host_that_is_named_is_the_one_that_was_meant(node: Node, vhost: VHost) -> None:
    before = link(node, vhost, uri="amqp://host")
    assert keeps_upstream_queue(before, link(node, vhost, uri="amqp://host/%2f"))
    assert not keeps_upstream_queue(before, link(node, vhost, uri="amqp://host/other"))


def test_many_queues_of_which_few_are_federated_are_looked_through_quickly(node: Node, vhost: VHost) -> None:
    upstream(node, "up")
    policy(node, {"federation-upstream": "up"}, pattern=r"^q\d+00$", apply_to="queues")
    for number in range(10_000):
        queue(vhost, f"q{number}")
    before_s = time.thread_time()
    found = all_wanted(node)
    assert len(found) == 99
    assert time.thread_time() - before_s < 2, "some milliseconds, on a machine that has nothing else to do"


def test_objects_are_looked_at_in_slices_and_not_at_all_where_there_is_no_upstream(node: Node, vhost: VHost) -> None:
    node.policies.set("/", "p", "^q", {"federation-upstream-set": "all"}, 0, "queues")
    for number in range(SLICE):
        vhost.declare_queue(f"q{number}")
    targets: list[Exchange | Queue] = []
    assert list(scan(node, upstreams_of(node), targets)) == [] and targets == []
    node.parameters.set("/", "federation-upstream", "up", {"uri": "amqp://h"})
    slices = scan(node, upstreams_of(node), targets)
    next(slices)
    assert 0 < len(targets) < SLICE
    assert list(slices) == [] and len(targets) == SLICE
    vhost.delete_queue(vhost.queues["q0"])
    assert len(desired_links(node, targets)) == SLICE - 1


def test_an_upstream_that_drains_asks_for_the_links_of_the_queues_it_lists(node: Node, vhost: VHost) -> None:
    for name in ("one", "two", "three"):
        queue(vhost, name)
    queue(vhost, "own", owner=object())
    exchange(vhost, "one")
    upstream(node, "old", drain=["one", "two", "own", "absent"], ack_mode="no-ack", queue="elsewhere")
    assert names(node) == [("queue", "one", "old", "one"), ("queue", "two", "old", "two")]
    settings = [spec.settings for spec in all_wanted(node).values()]
    assert all(one.drain and one.ack_mode == "on-confirm" and one.queue is None for one in settings)


def test_a_link_that_drains_replaces_the_one_of_a_policy(node: Node, vhost: VHost) -> None:
    queue(vhost, "fed-q")
    policy(node, {"federation-upstream": "up"})
    upstream(node, "up")
    assert [(spec.policy, spec.settings.drain) for spec in all_wanted(node).values()] == [("p", False)]
    upstream(node, "up", drain=["fed-q"])
    assert [(spec.policy, spec.settings.drain) for spec in all_wanted(node).values()] == [("", True)]
