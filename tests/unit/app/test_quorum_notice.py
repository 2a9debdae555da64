"""The lines of the log about quorum queues on a store that is not replicated."""

from collections.abc import MutableMapping
from typing import Any

from structlog.testing import capture_logs

from tests.support.definitions import new_node
from warren.broker.amqp.field_table import Table
from warren.broker.app import build
from warren.broker.app.build import QuorumNotice
from warren.broker.core.messages.journal_port import StorageStatus
from warren.broker.core.node.node import Node

QUORUM = Table.EMPTY.with_items([("x-queue-type", ("S", b"quorum"))])


def node_on(status: StorageStatus) -> Node:
    node = new_node()
    node.add_vhost("/")
    node.replication.status = lambda: status
    node.observers.add(QuorumNotice(node.replication))
    return node


def declare(node: Node, *names: str) -> list[MutableMapping[str, Any]]:
    """Declare quorum queues twice, and return the lines that are logged."""
    with capture_logs() as lines:
        for name in names * 2:
            node.vhosts["/"].declare_queue(name, durable=True, arguments=QUORUM)
    return lines


def test_on_a_disk_the_first_quorum_queue_is_logged_and_no_further_one() -> None:
    node = node_on(StorageStatus("fsync", "the disk of this machine"))
    with capture_logs() as none:
        node.vhosts["/"].declare_queue("classic", durable=True)
    (line,) = declare(node, "a", "b")
    assert not none and (line["event"], line["log_level"]) == ("quorum_queue_not_replicated", "warning")
    assert (line["queue"], line["vhost"], line["guarantee"]) == ("a", "/", "the disk of this machine")
    assert declare(node, "c") == []


def test_on_a_replicated_store_there_is_nothing_to_log() -> None:
    assert declare(node_on(StorageStatus("postgresql", "the disks of two", replicated=True)), "a") == []


def test_restored_quorum_queues_are_counted_in_one_line() -> None:
    node = node_on(StorageStatus("fsync", "the disk of this machine"))
    declare(node, "a", "b")
    notice = QuorumNotice(node.replication)
    node.vhosts["/"].declare_queue("classic", durable=True)
    logged = []
    for required in (False, True):
        node.replication.required = required
        with capture_logs() as lines:
            notice.log_restored(node.vhosts["/"].queues.values())
            notice.log_restored([])
        logged += [(line["log_level"], line["queues"], line["means"]) for line in lines]
    assert logged == [("info", 2, build.MEANS), ("warning", 2, build.REQUIRED)]
