"""Virtual hosts that are created, changed and deleted while the broker runs, and the restoring of settings at a
restart.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.recording_observer import RecordingObserver
from tests.unit.core.definitions.test_recorder import empty_node
from warren.broker.amqp.errors import Invalid, PreconditionFailed, Unknown
from warren.broker.amqp.field_table import Table
from warren.broker.core.definitions.definition_recorder import DefinitionRecorder
from warren.broker.core.definitions.restore import restore
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.metadata.records import (
    Change,
    StoredGlobalParameter,
    StoredParameter,
    StoredVHost,
    first_definitions,
)
from warren.broker.core.node.node import Node
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.observer import Observer
from warren.broker.core.vhost.vhost import VHost
from warren.broker.storage.sqlite_metadata import SQLiteMetadata

QUORUM = Table.of({"x-queue-type": "quorum"})


class Order(Observer):
    """An observer that records deletions in their order."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def configured(self, change: Change) -> None:
        if not change.put:
            self.ended.append(type(change.record).__name__)

    def queue_deleted(self, queue: Queue) -> None:
        self.ended.append(queue.name)

    def exchange_deleted(self, exchange: Exchange) -> None:
        self.ended.append(exchange.name)


def queue(
    vhost: VHost, name: str, arguments: Table = Table.EMPTY, durable: bool = True, auto_delete: bool = False
) -> Queue:
    return vhost.declare_queue(name, durable=durable, auto_delete=auto_delete, arguments=arguments)


# Creation and changes


def test_a_vhost_is_created_once_and_keeps_its_metadata(node: Node, watcher: RecordingObserver) -> None:
    made = node.add_vhost("v", "for tests", ("a", "b"), "quorum")
    assert node.add_vhost("v", "other") is made is node.vhosts["v"]
    assert watcher.take_changes() == ["+vhost v"]
    kept = made.metadata
    assert (kept.description, kept.tags, kept.default_queue_type) == ("for tests", ("a", "b"), "quorum")
    assert "amq.topic" in made.exchanges


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128, "\ud800"])
def test_an_invalid_name_is_refused(node: Node, watcher: RecordingObserver, name: str) -> None:
    with pytest.raises(Invalid):
        node.add_vhost(name)
    assert not watcher.take_changes() and list(node.vhosts) == ["/"]


def test_an_unknown_queue_type_cannot_be_the_default(node: Node) -> None:
    with pytest.raises(Invalid) as raised:
        node.add_vhost("v", default_queue_type="stream")
    assert raised.value.text == "default queue type 'stream' is not supported" and "v" not in node.vhosts
    with pytest.raises(Invalid):
        node.update_vhost("/", default_queue_type="x")


def test_a_text_that_could_not_be_stored_is_refused(node: Node, watcher: RecordingObserver) -> None:
    for metadata in ({"description": "\ud800"}, {"tags": ("\ud800",)}):
        with pytest.raises(Invalid, match="not UTF-8"):
            node.add_vhost("v", **metadata)  # type: ignore[arg-type]
    assert "v" not in node.vhosts and not watcher.changes


def test_only_given_metadata_is_changed(node: Node, watcher: RecordingObserver) -> None:
    node.add_vhost("v", "old", ("a",), "quorum")
    watcher.take_changes()
    node.update_vhost("v", description="new")
    node.update_vhost("v", protected=True)
    kept = node.vhosts["v"].metadata
    assert (kept.description, kept.tags, kept.default_queue_type, kept.protected) == ("new", ("a",), "quorum", True)
    assert watcher.take_changes() == ["+vhost v"] * 2
    node.update_vhost("v", tags=(), default_queue_type="", protected=False)
    kept = node.vhosts["v"].metadata
    assert (kept.tags, kept.default_queue_type, kept.protected) == ((), "", False)
    with pytest.raises(Unknown):
        node.update_vhost("none", description="x")


# The default type of queues


def test_durable_queues_get_the_default_type_as_an_argument(node: Node) -> None:
    vhost = node.add_vhost("v", default_queue_type="quorum")
    made = queue(vhost, "q")
    assert made.arguments.text("x-queue-type") == "quorum" == made.settings.type
    assert queue(vhost, "q") is made is queue(vhost, "q", QUORUM)
    assert queue(vhost, "own", Table.of({"x-queue-type": "classic"})).settings.type == "classic"
    for name, transient in (
        ("transient", vhost.declare_queue("transient")),
        ("exclusive", vhost.declare_queue("exclusive", durable=True, exclusive=True, owner=node)),
        ("auto-delete", queue(vhost, "auto-delete", auto_delete=True)),
    ):
        assert "x-queue-type" not in transient.arguments, name


def test_a_queue_of_another_type_is_not_the_same(node: Node) -> None:
    vhost = node.add_vhost("v")
    queue(vhost, "q")
    node.update_vhost("v", default_queue_type="quorum")
    with pytest.raises(PreconditionFailed) as raised:
        queue(vhost, "q")
    assert "x-queue-type" in raised.value.text


def test_the_node_may_have_a_default_type_for_new_vhosts(node: Node) -> None:
    node.default_queue_type = "quorum"
    assert node.add_vhost("v").metadata.default_queue_type == "quorum"
    assert node.add_vhost("w", default_queue_type="classic").metadata.default_queue_type == "classic"
    assert node.vhosts["/"].metadata.default_queue_type == ""


# Deletion


def test_a_vhost_is_deleted_with_all_its_objects(node: Node) -> None:
    vhost, order = node.add_vhost("v"), Order()
    node.users.add("u")
    node.users.set_permission("u", "v", "", "", "")
    node.users.set_permission("u", "/", "", "", "")
    node.parameters.set("v", "vhost-limits", "limits", {"max-queues": 9})
    node.policies.set("v", "p", ".*", {"max-length": 5})
    made = queue(vhost, "q")
    vhost.bind("amq.topic", made, "k", Table.EMPTY)
    vhost.open_reply_queue("reply")
    node.observers.add(order)
    node.delete_vhost("v")
    assert order.ended[:2] == ["StoredVHost", "q"], "connections must end before the objects they use"
    assert sorted(order.ended[2:]) == sorted(
        [name for name in node.vhosts["/"].exchanges if name != "amq.rabbitmq.event"]
        + ["StoredParameter"] * 2
        + ["StoredPermission"]
    )
    assert made.deleted and not (vhost.queues or vhost.exchanges or vhost.reply_queues)
    assert list(node.vhosts) == ["/"] and not node.parameters.all("v") and not node.policies.all()
    assert list(node.users.find("u").permissions) == ["/"]
    again = node.add_vhost("v")
    assert again is not vhost and queue(again, "q").policy is None and node.limits.vhost_queues("v") is None


def test_a_protected_vhost_is_not_deleted(node: Node) -> None:
    node.update_vhost("/", protected=True)
    with pytest.raises(Invalid) as raised:
        node.delete_vhost("/")
    assert raised.value.text == "cannot delete virtual host '/': it is protected from deletion"
    node.update_vhost("/", protected=False)
    node.delete_vhost("/")
    assert not node.vhosts
    with pytest.raises(Unknown) as missing:
        node.delete_vhost("/")
    assert missing.value.text == 'Virtual host "/" does not exist'


# A restart


class Restarting:
    """A broker whose metadata is on the disk. `node` is a new one after each `restart`."""

    def __init__(self, path: Path) -> None:
        self._metadata = SQLiteMetadata(path, False)
        self._metadata.apply(first_definitions("/", []).changes())
        self.lost: list[str] = []
        self.node, self._journal = empty_node()
        self.restart()

    def restart(self) -> Node:
        self._metadata.apply(self._journal.changes)
        self.node, self._journal = empty_node()
        restored = restore(self.node, self._metadata.load())
        self.lost = [loss.text for loss in restored.lost]
        assert not self._journal.changes, "restoring has notified an observer"
        self.node.observers.add(DefinitionRecorder(self.node, restored.orphans))
        return self.node

    def damage(self, changes: list[Change]) -> None:
        self._metadata.apply(changes)

    def close(self) -> None:
        self._metadata.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Restarting]:
    made = Restarting(tmp_path / "meta.sqlite")
    yield made
    made.close()


def test_all_settings_are_restored(broker: Restarting) -> None:
    node = broker.node
    node.add_vhost("vü", "for tests", ("a",), "quorum")
    node.update_vhost("vü", protected=True)
    node.users.add("u", b"", ("monitoring",))
    node.users.set_permission("u", "/", "c", "w", "r")
    node.users.set_topic_permission("u", "/", "amq.topic", "w", "r")
    node.limits.set_user("u", {"max-connections": 5})
    node.limits.set_vhost("/", {"max-queues": 2})
    node.policies.set("/", "p", "^q", {"max-length": 5}, -3, "queues")
    node.policies.set("/", "o", "^q", {"expires": 9_000_000}, 0, "queues", True)
    node.parameters.set("vü", "federation-upstream", "upü", {"uri": "amqp://h"})
    node.parameters.set_global("cluster_name", "ours")
    kept = queue(node.vhosts["/"], "q1")
    queue(node.vhosts["/"], "other")
    node.limits.set_vhost("/", {"max-queues": 1})
    for _ in range(2):
        node = broker.restart()
        assert not broker.lost and node.cluster_name == "ours"
        data = node.vhosts["vü"].metadata
        assert (data.description, data.tags, data.default_queue_type, data.protected) == (
            ("for tests", ("a",), "quorum", True)
        )
        user = node.users.find("u")
        assert user.tags == ("monitoring",) and node.limits.user_connections("u") == 5
        assert list(user.permissions) == ["/"] and list(user.topic_permissions["/"]) == ["amq.topic"]
        found = node.vhosts["/"].queues["q1"]
        assert found.effective == {"max-length": 5, "expires": 9_000_000} == kept.effective
        (policy,) = node.policies.all()
        assert (policy.name, policy.pattern, policy.priority, policy.apply_to) == ("p", "^q", -3, "queues")
        assert node.parameters.get("vü", "federation-upstream", "upü") == {"uri": "amqp://h"}
        assert "other" in node.vhosts["/"].queues, "a limit applies to new queues"


def test_deleted_objects_are_not_restored(broker: Restarting) -> None:
    node = broker.node
    node.add_vhost("v")
    node.policies.set("/", "p", "q", {"max-length": 5})
    node.parameters.set_global("g", 1)
    node.parameters.set("v", "federation-upstream", "up", {"uri": "amqp://h"})
    vhost = node.vhosts["v"]
    vhost.bind("amq.topic", queue(vhost, "q"), "k", Table.EMPTY)
    node = broker.restart()
    node.policies.clear("/", "p")
    node.parameters.clear_global("g")
    node.delete_vhost("v")
    node = broker.restart()
    assert list(node.vhosts) == ["/"] and not node.parameters.all() and not node.parameters.globals()
    assert not broker.lost


def test_a_default_type_does_not_change_what_was_there(broker: Restarting) -> None:
    queue(broker.node.vhosts["/"], "q")
    broker.node.update_vhost("/", default_queue_type="quorum")
    node = broker.restart()
    assert "x-queue-type" not in node.vhosts["/"].queues["q"].arguments


def test_invalid_settings_are_reported_and_kept(broker: Restarting) -> None:
    wrong = [
        StoredParameter("/", "policy", "p", '{"pattern": "("}'),
        StoredParameter("none", "federation-upstream", "up", "{}"),
        StoredParameter("/", "colour", "of a plugin", '"red"'),
        StoredGlobalParameter("torn", "{"),
    ]
    broker.damage([Change(True, record) for record in wrong])
    for _ in range(2):
        node = broker.restart()
        assert [line.partition(": ")[0] for line in broker.lost] == [
            "global parameter 'torn'",
            "policy 'p' in vhost '/'",
            "federation-upstream 'up' in vhost 'none'",
        ]
        assert node.parameters.get("/", "colour", "of a plugin") == "red"


def test_the_first_vhost_says_what_it_is() -> None:
    (record,) = first_definitions("/", []).vhosts
    assert isinstance(record, StoredVHost) and record.description == "Default virtual host"
