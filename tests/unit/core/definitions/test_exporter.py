"""Export of definitions: RabbitMQ's keys, and only objects that another broker can have."""

import sys
from itertools import islice
from typing import Any

import pytest

from tests.support.definitions import DEFINITIONS, SECRET_HASH, SECTIONS, new_node
from tests.support.in_process import InProcessPeer
from warren.broker.amqp.errors import Unknown
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.table_json import table_of_json
from warren.broker.core.definitions.exporter import IMPORTED_HASH, export_definitions, snapshot
from warren.broker.core.definitions.importer import import_definitions
from warren.broker.core.metadata.records import StoredGlobalParameter, StoredTopicPermission
from warren.broker.core.node.node import Node
from warren.broker.core.policies.parameters import CLUSTER_ID

HEAD = {"rabbit_version": "4.3.5", "rabbitmq_version": "4.3.5", "product_name": "RabbitMQ", "product_version": "4.3.5"}


@pytest.fixture
def node() -> Node:
    made = new_node()
    import_definitions(made, DEFINITIONS)
    return made


def section(node: Node, name: str, vhost: str | None = None) -> list[Any]:
    found = export_definitions(node, vhost)[name]
    assert isinstance(found, list)
    return found


def names(node: Node, name: str) -> list[str]:
    return [item["name"] for item in section(node, name)]


def test_a_broker_that_has_nothing_exports_every_section_empty() -> None:
    found = export_definitions(new_node())
    assert found == {
        **HEAD,
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": "warren@test",
        "explanation": "Definitions of cluster 'warren@test'",
        **{name: [] for name in SECTIONS},
    }


def test_users_have_their_hash_and_its_algorithm(node: Node) -> None:
    assert section(node, "users")[0] == {
        "name": "alice",
        "password_hash": SECRET_HASH,
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": ["management", "policymaker"],
        "limits": {"max-connections": 5},
    }


def test_a_vhost_has_its_metadata_and_limits(node: Node) -> None:
    node.update_vhost("v", protected=True)
    assert section(node, "vhosts")[1] == {
        "name": "v",
        "description": "for tests",
        "tags": ["a", "b"],
        "default_queue_type": "quorum",
        "metadata": {
            "description": "for tests",
            "tags": ["a", "b"],
            "default_queue_type": "quorum",
            "protected_from_deletion": True,
        },
    }
    assert section(node, "vhosts")[0]["metadata"] == {
        "description": "Default virtual host",
        "tags": [],
        "default_queue_type": "classic",
    }
    assert section(node, "vhosts")[0]["default_queue_type"] == "classic"


def test_parameters_specific_to_this_broker_are_not_exported(node: Node) -> None:
    node.parameters.set_global(CLUSTER_ID, "x")
    node.parameters.set_global(IMPORTED_HASH, "y")
    assert names(node, "global_parameters") == ["cluster_name", "mqtt_port"]


def test_exclusive_queues_and_predeclared_and_plugins_exchanges_are_left_out_with_their_bindings(node: Node) -> None:
    vhost = node.vhosts["v"]
    exclusive = vhost.declare_queue("exclusive", exclusive=True, owner=object())
    purpose = table_of_json({"x-internal-purpose": "federation"})
    internal = vhost.declare_exchange("internal", "fanout", durable=True, internal=True, arguments=purpose)
    vhost.bind("t", exclusive, "k", Table.EMPTY)
    vhost.bind("t", internal, "k", Table.EMPTY)
    vhost.bind("internal", vhost.queue("q"), "k", Table.EMPTY)
    assert names(node, "exchanges") == ["h", "t"]
    assert names(node, "queues") == ["q", "quorum"]
    ends = [(item["source"], item["destination"]) for item in section(node, "bindings")]
    assert ends == [("amq.fanout", "t"), ("h", "quorum"), ("t", "q")]


def test_transient_objects_are_exported(node: Node) -> None:
    node.vhosts["v"].declare_queue("fleeting", auto_delete=True)
    assert section(node, "queues")[0] == {
        "vhost": "v",
        "name": "fleeting",
        "durable": False,
        "auto_delete": True,
        "arguments": {"x-queue-type": "classic"},
    }


def test_one_vhost_is_exported_without_its_name_and_without_users(node: Node) -> None:
    found = export_definitions(node, "v")
    assert list(found) == [
        *HEAD,
        *("rabbitmq_definition_format", "original_vhost_name", "explanation"),
        *("description", "tags", "default_queue_type", "metadata", "limits"),
        *("parameters", "policies", "queues", "exchanges", "bindings"),
    ]
    assert found["rabbitmq_definition_format"] == "single_virtual_host"
    assert found["original_vhost_name"] == "v"
    assert found["explanation"] == "Definitions of virtual host 'v'"
    assert found["limits"] == {"max-queues": 10}
    assert export_definitions(node, "/")["limits"] == []
    for name in ("parameters", "policies", "queues", "exchanges", "bindings"):
        whole = [item for item in section(node, name) if item["vhost"] == "v"]
        assert section(node, name, "v") == [{key: item[key] for key in item if key != "vhost"} for item in whole]


def test_an_unknown_vhost_has_no_definitions(node: Node) -> None:
    with pytest.raises(Unknown) as raised:
        export_definitions(node, "x")
    assert raised.value.text == 'Virtual host "x" does not exist'


PARAMETERS, VHOSTS, PERMISSIONS = 5_000, 200, 5_000


def test_an_export_beside_very_many_global_parameters_begins_without_an_object_for_each() -> None:
    peer = InProcessPeer()
    node = peer.node
    for number in range(PARAMETERS):
        node.parameters.restore_global(StoredGlobalParameter(f"g{number}", "1"))
    snapshot(node)
    before = sys.getallocatedblocks()
    head, sections = snapshot(node)
    made = sys.getallocatedblocks() - before
    assert made < PARAMETERS / 10 and head and sections
    exported = export_definitions(node)["global_parameters"]
    assert isinstance(exported, list) and len(exported) == PARAMETERS


def test_an_export_beside_many_virtual_hosts_begins_without_an_object_for_each() -> None:
    peer = InProcessPeer()
    node = peer.node
    snapshot(node)
    before = sys.getallocatedblocks()
    few = snapshot(node)
    of_few = sys.getallocatedblocks() - before
    for number in range(VHOSTS):
        node.add_vhost(f"v{number}").bind("amq.direct", node.vhosts[f"v{number}"].declare_queue("q"), "", Table.EMPTY)
    snapshot(node)
    before = sys.getallocatedblocks()
    many = snapshot(node)
    assert sys.getallocatedblocks() - before < of_few + VHOSTS / 2 and few and many
    assert [item["vhost"] for item in export_definitions(node)["bindings"]] == sorted(
        f"v{number}" for number in range(VHOSTS)
    )  # type: ignore[attr-defined]


def test_the_topic_permissions_of_one_user_are_exported_one_by_one_as_they_are_then() -> None:
    peer = InProcessPeer()
    users = peer.node.users
    for number in range(PERMISSIONS):
        users.restore_topic_permission(StoredTopicPermission("guest", "/", f"x{number:04}", "", ""))
    _, sections = snapshot(peer.node)
    (section,) = [section for section in sections if section.name == "topic_permissions"]
    batches = section.batches()
    first = [item for items in islice(batches, PERMISSIONS // 2) for item in items]
    users.clear_topic_permission("guest", "/", f"x{PERMISSIONS - 1}")
    rest = list(batches)
    assert max(map(len, rest)) == 1
    exported = [item["exchange"] for item in first] + [item["exchange"] for items in rest for item in items]
    assert exported == [f"x{number:04}" for number in range(PERMISSIONS - 1)]
