"""An export begins without an object for each parameter, virtual host or permission.

The collector would traverse all of them in one turn.
"""

import sys
from itertools import islice

from tests.support.in_process import InProcessPeer
from warren.broker.amqp.field_table import Table
from warren.broker.core.definitions.exporter import export_definitions, snapshot
from warren.broker.core.metadata.records import StoredGlobalParameter, StoredTopicPermission

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
    peer.close()


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
    peer.close()


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
    peer.close()
