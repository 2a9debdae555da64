"""Shards of exchanges: at a start, with very many of them, and when they are refused. Others: acceptance/amqp."""

import time
from pathlib import Path

import pytest

from tests.loop_latency.meter import TURN_MS
from tests.support.clock import FakeClock
from tests.support.in_process import InProcessPeer
from tests.support.journal import commit
from tests.support.speed import within
from warren.broker.amqp.field_table import Table
from warren.broker.app.build import build_node
from warren.broker.app.open_storage import Store
from warren.broker.config import Config
from warren.broker.core.node.node import Node
from warren.broker.core.policies.policy_keys import SHARDS_LIMIT
from warren.broker.core.vhost.vhost import VHost


@pytest.fixture
def broker() -> InProcessPeer:
    return InProcessPeer()


@pytest.fixture
def vhost(broker: InProcessPeer) -> VHost:
    return broker.node.vhosts["/"]


@pytest.fixture
def reports(broker: InProcessPeer) -> list[tuple[str, str, dict[str, object]]]:
    reported: list[tuple[str, str, dict[str, object]]] = []
    broker.node.scheduler.report = lambda *line: reported.append(line)
    return reported


def shard(node: Node, exchange: str, number: int = 0) -> str:
    return f"sharding: {exchange} - {node.name} - {number}"


def bound(vhost: VHost, exchange: str) -> list[str]:
    return [binding.destination.name for binding in vhost.exchanges[exchange].outgoing.values()]


def test_shards_and_their_bindings_are_there_again_after_a_restart(tmp_path: Path) -> None:
    config = Config(data_dir=str(tmp_path))
    store = Store(config)
    node = build_node(config, FakeClock(), store)
    node.policies.set("/", "p", "^(x|transient)$", {"shards-per-node": 2})
    vhost = node.vhosts["/"]
    for name in ("x", "transient"):
        vhost.declare_exchange(name, "fanout", durable=name == "x")
    vhost.delete_queue(vhost.queues[shard(node, "x", 1)])
    commit(store.journal)
    store.close()
    store = Store(config)
    node = build_node(config, FakeClock(), store)
    vhost = node.vhosts["/"]
    assert sorted(bound(vhost, "x")) == [shard(node, "x", number) for number in range(2)], "a deleted one is made anew"
    assert len(vhost.queues) == 4 and not any(queue.auto_delete for queue in vhost.queues.values())
    vhost.declare_exchange("transient", "fanout")
    assert len(bound(vhost, "transient")) == 2
    node.policies.set("/", "p", "^(x|transient)$", {"shards-per-node": 2, "routing-key": "key"})
    node.pump()
    assert {binding.routing_key for binding in vhost.exchanges["x"].outgoing.values()} == {"key"}
    store.close()


def test_very_many_shards_are_made_in_short_steps_and_those_of_the_last_policy_are_left(
    broker: InProcessPeer, vhost: VHost
) -> None:
    for number in range(3):
        vhost.declare_exchange(f"x{number}", "fanout")
    broker.node.policies.set("/", "p", "^x", {"shards-per-node": SHARDS_LIMIT, "routing-key": "old"})
    assert len(vhost.queues) < SHARDS_LIMIT, "a part of them in the first turn"
    broker.node.policies.set("/", "p", "^x", {"shards-per-node": 2, "routing-key": "new"})
    vhost.delete_exchange("x2")
    longest_s, more = 0.0, True
    while more or len(broker.node.scheduler):
        begun_s = time.thread_time()
        more = broker.loop.turn()
        longest_s = max(longest_s, time.thread_time() - begun_s)
        broker.clock.advance(0)
    assert within(longest_s * 1000, TURN_MS)
    for name in ("x0", "x1"):
        outgoing = vhost.exchanges[name].outgoing.values()
        kept = {(binding.routing_key, binding.destination.name) for binding in outgoing}
        assert kept == {("new", shard(broker.node, name, number)) for number in range(2)}


def test_a_shard_that_is_refused_is_reported_once_and_the_others_are_made(
    broker: InProcessPeer, vhost: VHost, reports: list[tuple[str, str, dict[str, object]]]
) -> None:
    vhost.declare_queue(shard(broker.node, "x"), exclusive=True, owner=object())
    broker.node.limits.set_vhost("/", {"max-queues": 3})
    broker.node.policies.set("/", "p", "^x$", {"shards-per-node": 5})
    vhost.declare_exchange("x", "fanout")
    broker.settle()
    assert bound(vhost, "x") == [shard(broker.node, "x", number) for number in (1, 2)]
    (line,) = reports
    assert line[:2] == ("shards_refused", "warning") and "cannot obtain exclusive access" in str(line[2]["reason"])
    vhost.delete_queue(vhost.queues[shard(broker.node, "x")])
    broker.node.limits.set_vhost("/", {"max-queues": -1})
    broker.node.policies.clear("/", "p")
    broker.node.policies.set("/", "p", "^x$", {"shards-per-node": 5})
    broker.settle()
    assert len(bound(vhost, "x")) == 5 and len(reports) == 1, "they are tried again when the policy is set anew"


def test_a_shard_with_a_name_that_no_queue_can_have_is_refused(
    broker: InProcessPeer, vhost: VHost, reports: list[tuple[str, str, dict[str, object]]]
) -> None:
    broker.node.policies.set("/", "p", ".*", {"shards-per-node": 1})
    vhost.declare_exchange("x" * 240, "fanout")
    broker.settle()
    assert [line[2]["exchange"] for line in reports] == ["x" * 240]
    assert "more than 255 bytes" in str(reports[0][2]["reason"])
    ch = broker.connect().channel()
    assert ch.declare("").queue.startswith("amq.gen-"), "the default exchange has no shards"
    assert not any(" -  - " in name for name in vhost.queues)


def test_a_policy_of_an_exchange_in_a_deleted_virtual_host_makes_no_shards(broker: InProcessPeer) -> None:
    broker.add_vhost("v")
    vhost = broker.node.vhosts["v"]
    vhost.declare_exchange("x", "fanout")
    broker.node.policies.set("v", "p", "^x$", {"shards-per-node": SHARDS_LIMIT})
    broker.node.delete_vhost("v")
    broker.settle()
    assert not vhost.queues and "v" not in broker.node.vhosts


def test_a_queue_that_is_no_shard_may_be_bound_to_a_sharded_exchange(broker: InProcessPeer, vhost: VHost) -> None:
    broker.node.policies.set("/", "p", "^x$", {"shards-per-node": 1})
    vhost.declare_exchange("x", "fanout")
    vhost.bind("x", vhost.declare_queue("q"), "", Table.EMPTY)
    broker.node.policies.clear("/", "p")
    broker.settle()
    assert bound(vhost, "x") == ["q"]
