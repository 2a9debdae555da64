"""New quorum queues are refused where they require a replicated store and there is none."""

from dataclasses import replace

import pytest

from tests.support.definitions import new_node
from warren.broker.amqp.errors import Invalid, PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.core.definitions.importer import import_definitions
from warren.broker.core.messages.journal_port import StorageStatus
from warren.broker.core.node.node import Node
from warren.broker.core.queues.queue import Queue

QUORUM = Table.EMPTY.with_items([("x-queue-type", ("S", b"quorum"))])
ON_A_DISK = StorageStatus("fsync", "the disk of this machine")
REASON = (
    "invalid arg 'x-queue-type' for queue 'q' in vhost '/': "
    '"quorum queues require a replicated store, but a confirmed message is now on the disk of this machine"'
)


@pytest.fixture
def node() -> Node:
    node = new_node()
    node.add_vhost("/")
    node.replication.status = lambda: ON_A_DISK
    node.replication.required = True
    return node


def declare(node: Node, name: str, arguments: Table = QUORUM, number: int = 0) -> Queue:
    return node.vhosts["/"].declare_queue(name, durable=True, arguments=arguments, number=number)


def test_a_new_quorum_queue_is_refused_with_what_has_a_confirmed_message(node: Node) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        declare(node, "q")
    assert refused.value.text == REASON and "q" not in node.vhosts["/"].queues


def test_a_queue_of_the_default_type_is_refused_alike_and_a_classic_one_is_not(node: Node) -> None:
    node.update_vhost("/", default_queue_type="quorum")
    with pytest.raises(PreconditionFailed):
        declare(node, "q", Table.EMPTY)
    declare(node, "classic", Table.EMPTY.with_items([("x-queue-type", ("S", b"classic"))]))
    node.vhosts["/"].declare_queue("transient")


def test_the_status_of_the_store_counts_at_each_declaration(node: Node) -> None:
    status = replace(ON_A_DISK, replicated=True)
    node.replication.status = lambda: status
    declare(node, "q")
    status = ON_A_DISK
    with pytest.raises(PreconditionFailed):
        declare(node, "other")


def test_an_existing_queue_is_declared_again_and_restored_ones_stay(node: Node) -> None:
    restored = declare(node, "q", number=1)
    assert declare(node, "q") is restored


def test_a_document_with_new_quorum_queues_changes_nothing(node: Node) -> None:
    declare(node, "old", number=1)
    document = {"queues": [{"vhost": "/", "name": name, "type": "quorum"} for name in ("old", "q")]}
    with pytest.raises(Invalid) as refused:
        import_definitions(node, {"exchanges": [{"vhost": "/", "name": "x", "type": "fanout"}], **document})
    assert refused.value.text.startswith(REASON) and "x" not in node.vhosts["/"].exchanges
    del document["queues"][1]
    assert import_definitions(node, document) == []


def test_without_the_key_they_are_durable_queues(node: Node) -> None:
    node.replication.required = False
    assert declare(node, "q").settings.type == "quorum"
