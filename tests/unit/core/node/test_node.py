"""The node: the pumping of all queues, and its limits."""

from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from warren.broker.amqp.errors import Invalid, PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.app.build import build_node
from warren.broker.app.open_storage import Store
from warren.broker.config import Config
from warren.broker.core.access.users import Users
from warren.broker.core.jobs.scheduler import RETRY_MS
from warren.broker.core.messages.journal_port import Journal
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.metadata.records import (
    StoredExchange,
    StoredGlobalParameter,
    StoredQueue,
    StoredUser,
    StoredVHost,
    first_definitions,
)
from warren.broker.core.node.node import Node
from warren.broker.core.queues import ready_messages as line_module
from warren.broker.core.queues.consumers import Consumer
from warren.broker.storage.journal import Journal as SegmentJournal


class Greedy(Consumer):
    """A consumer that takes everything, and fails if set to."""

    taken = 0
    fails = False

    def room(self, body_bytes: int) -> int:
        return 1000

    def deliver(self, messages, position, step, redelivered) -> None:  # type: ignore[no-untyped-def]
        if self.fails:
            raise KeyError("a bug")
        self.taken += len(messages)


def two_queues() -> tuple[Node, FakeClock, list[Greedy], list[tuple[str, str, dict[str, object]]]]:
    """Return queues with a consumer each, and the lines that the node logs."""
    clock = FakeClock()
    node = Node("n", "n", clock, Journal(), Users(frozenset()))
    log: list[tuple[str, str, dict[str, object]]] = []
    node.scheduler.report = lambda *line: log.append(line)
    vhost = node.add_vhost("/")
    consumers = []
    for name in ("one", "two"):
        queue = vhost.declare_queue(name)
        consumers.append(Greedy(name, object(), True, False, 0))
        queue.add_consumer(consumers[-1])
    node.pump()
    return node, clock, consumers, log


def publish(node: Node, name: str) -> None:
    node.vhosts["/"].queues[name].push([framed(RoutingAddress("", name), Properties(), b"body")], 4)


def test_a_delivery_that_fails_is_reported_with_its_queue_and_delays_no_other() -> None:
    node, _, consumers, log = two_queues()
    consumers[0].fails = True
    publish(node, "one")
    publish(node, "two")
    node.pump()
    assert consumers[1].taken == 1
    assert [(event, level, fields["queue"], fields["vhost"]) for event, level, fields in log] == [
        ("queue_failed", "error", "one", "/")
    ]


def test_a_queue_that_failed_is_pumped_again_after_a_while_and_not_at_each_publish() -> None:
    node, clock, consumers, log = two_queues()
    consumers[0].fails = True
    for _ in range(5):
        publish(node, "one")
        node.pump()
    assert len(log) == 1
    consumers[0].fails = False
    clock.advance(RETRY_MS)
    assert consumers[0].taken == 5
    publish(node, "one")
    node.pump()
    assert consumers[0].taken == 6 and len(log) == 1


def test_a_consumer_that_fails_while_a_full_queue_is_published_to_fails_no_publisher() -> None:
    node, _, _, log = two_queues()
    vhost = node.vhosts["/"]
    arguments = Table.of({"x-max-length": 1, "x-overflow": "reject-publish"})
    queue = vhost.declare_queue("full", arguments=arguments)
    publish(node, "full")
    consumer = Greedy("c", object(), True, False, 0)
    queue.add_consumer(consumer)
    consumer.fails = True
    vhost.enqueue([framed(RoutingAddress("", "full"), Properties(), b"body")], 4, False, (queue,))
    assert [fields["queue"] for _, _, fields in log] == ["full"]


def test_where_nothing_is_stored_nothing_is_paged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "PAGE_ABOVE", 5)
    config = Config(memory=True, message_memory_bytes=0)
    vhost = build_node(config, FakeClock(), Store(config)).vhosts["/"]
    queue = vhost.declare_queue("queue")
    for _ in range(20):
        vhost.enqueue([framed(RoutingAddress("", "queue"), Properties(), b"body")], 4, False, (queue,))
    for _ in range(20):
        assert queue.get(True) is not None


def test_limits_apply_to_new_objects_and_not_to_restored_ones() -> None:
    config = Config(memory=True, cluster_queue_limit=1, cluster_exchange_limit=1, vhost_max=1)
    store = Store(config)
    stored = store.definitions = first_definitions("/", [StoredUser("guest", b"", ())])
    stored.vhosts.append(StoredVHost("other"))
    stored.exchanges.append(StoredExchange("/", "e", "fanout", True, False, False, b""))
    stored.queues += [StoredQueue("/", name, number, False, b"") for number, name in enumerate("ab", 1)]
    node = build_node(config, FakeClock(), store)
    vhost = node.vhosts["/"]
    assert list(vhost.queues) == ["a", "b"] and "e" in vhost.exchanges and "other" in node.vhosts
    with pytest.raises(PreconditionFailed):
        vhost.declare_queue("c", durable=True)
    with pytest.raises(PreconditionFailed):
        vhost.declare_exchange("f", "fanout", durable=True)
    with pytest.raises(Invalid):
        node.add_vhost("third")


def test_the_default_virtual_host_of_a_new_node_has_the_configured_queue_type() -> None:
    config = Config(memory=True, default_queue_type="quorum")
    node = build_node(config, FakeClock(), Store(config))
    assert node.vhosts["/"].declare_queue("q", durable=True).settings.type == "quorum"
    assert node.vhosts["/"].metadata.default_queue_type == "quorum"


def test_the_cluster_keeps_its_id() -> None:
    config = Config(memory=True)
    store = Store(config)
    id_ = build_node(config, FakeClock(), store).parameters.globals()["internal_cluster_id"]
    assert isinstance(id_, str) and id_.startswith("rabbitmq-cluster-id-") and len(id_) == 42
    stored = store.definitions = first_definitions("/", [StoredUser("guest", b"", ())])
    stored.global_parameters.append(StoredGlobalParameter("internal_cluster_id", '"ours"'))
    assert build_node(config, FakeClock(), store).parameters.globals() == {"internal_cluster_id": "ours"}


def test_faults_of_the_disk_are_logged_with_the_names_of_queues_and_exchanges(tmp_path: Path) -> None:
    store = Store(Config(data_dir=str(tmp_path)))
    vhost = build_node(Config(), FakeClock(), store).vhosts["/"]
    queue = vhost.declare_queue("q", durable=True)
    delayed = vhost.declare_exchange("e", "direct", durable=True)
    delayed.number = queue.number + 1  # as that of a type which stores messages
    assert isinstance(store.journal, SegmentJournal)
    named = [store.journal.reader.name_of(number) for number in (queue.number, delayed.number, 99)]
    assert named == ["queue 'q' in vhost '/'", "exchange 'e' in vhost '/'", ""]
    store.close()
