"""Metrics of the memory of the process by use."""

from ..management.service import ManagementService
from .families import FamilyGroup, Values, gauges, single_row
from .scope import Scope

# RabbitMQ's two names of each use: in the HTTP API and here, without the unit.
USES = {
    "code": "code_module",
    "connection_readers": "client_connection_reader",
    "connection_writers": "client_connection_writer",
    "connection_channels": "client_connection_channel",
    "connection_other": "client_connection_other",
    "queue_procs": "classic_queue_erlang_process",
    "quorum_queue_procs": "quorum_queue_erlang_process",
    "quorum_queue_dlx_procs": "quorum_queue_dlx_erlang_process",
    "stream_queue_procs": "stream_erlang_process",
    "stream_queue_replica_reader_procs": "stream_replica_reader_erlang_process",
    "stream_queue_coordinator_procs": "stream_coordinator_erlang_process",
    "plugins": "plugin",
    "metadata_store": "modern_metadata_store",
    "other_proc": "other_erlang_process",
    "metrics": "metrics",
    "mgmt_db": "management_stats_db",
    "mnesia": "classic_metadata_store",
    "quorum_ets": "quorum_queue_ets_table",
    "metadata_store_ets": "modern_metadata_store_ets_table",
    "other_ets": "other_ets_table",
    "binary": "binary_heap",
    "msg_index": "message_index",
    "atom": "atom_table",
    "other_system": "other_system",
    "allocated_unused": "runtime_allocated_unused",
    "reserved_unallocated": "runtime_reserved_unallocated",
}
KNOWN = {
    "queue_procs": "Ready messages",
    "connection_channels": "Unacknowledged messages, and publishes in transactions",
    "quorum_queue_dlx_procs": "Messages that wait to be dead-lettered",
    "connection_readers": "Contents that are still arriving",
    "connection_writers": "Output that waits for its socket",
    "other_proc": "What is to be written to the journal",
    "mgmt_db": "Samples of counters, for the HTTP API",
    "other_system": "All else that the process has",
}


def used(scope: Scope) -> Values:
    management = scope.host.services.get("management")
    samples_bytes = management.samples_bytes if isinstance(management, ManagementService) else 0
    by_use = scope.state.readings.memory_by_use(samples_bytes)
    return [by_use[use] for use in USES]


FAMILIES = gauges(
    **{f"memory_{name}_bytes": KNOWN.get(use, "0: not known apart from the rest") for use, name in USES.items()}
)
BREAKDOWN = FamilyGroup("node_memory", FAMILIES, single_row(used))
