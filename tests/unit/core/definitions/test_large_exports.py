"""An export begins without an object for each parameter, all of which the collector would traverse in one turn."""

import sys

from tests.support.in_process import InProcessPeer
from warren.broker.core.definitions.exporter import export_definitions, snapshot
from warren.broker.core.metadata.records import StoredGlobalParameter

PARAMETERS = 5_000


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
