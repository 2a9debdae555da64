"""Metrics of the node: churn, resources, storage, logins, alarms, memory by use, and build_info and identity_info."""

import platform
from collections.abc import Iterable
from functools import partial
from importlib.metadata import version

from warren.broker.core.policies.parameters import CLUSTER_ID
from warren.broker.product import PRODUCT, product_version

from ..management.service import ManagementService
from ..management.stats.process_stats import PROC_LIMIT
from .families import Family, FamilyGroup, Row, Values, counters, gauges, single_row, text
from .scope import Scope

NET_TICKTIME_S = 60  # of a cluster's nodes; here there is one


def churn(scope: Scope) -> Values:
    of = scope.node.churn
    return (
        *(of.connection_created, of.connection_closed, of.channel_created, of.channel_closed),
        *(of.queue_declared, of.queue_created, of.queue_deleted),
    )


def used(scope: Scope) -> Values:
    at = scope.state.readings
    return at.fd_used, at.sockets_used, at.mem_used, at.disk_free, at.proc_used, at.gc_num, 0, at.context_switches


def limits(scope: Scope) -> Values:
    at, resources = scope.state.readings, scope.host.resources
    return (
        *(at.fd_total, at.sockets_total, resources.memory_limit_bytes, resources.disk_free_limit_bytes),
        *(PROC_LIMIT, 0, NET_TICKTIME_S, at.uptime_ms / 1000),
    )


def stored(scope: Scope) -> Values:
    """A batch of the journal is one write and usually one sync."""
    journal, commits = scope.node.journal, scope.node.commits
    batches = sum(commits.counts)
    return (
        *(journal.reads, journal.read_bytes, batches, journal.written_bytes, batches, 0, 0, 0, 0),
        *(journal.read_messages, journal.written_messages, 0, 0, 0, 0, commits.total_s, 0),
    )


def logins(scope: Scope) -> Iterable[Row]:
    for protocol, attempts in list(scope.node.attempts.items()):
        yield (text(protocol),), (attempts.succeeded + attempts.failed, attempts.succeeded, attempts.failed)


def alarms(scope: Scope) -> Values:
    on = scope.node.alarms.on()
    return 0, "disk" in on, "memory" in on


CHURN = counters(
    connections_opened="Connections that were opened",
    connections_closed="Connections that were closed",
    channels_opened="Channels that were opened",
    channels_closed="Channels that were closed",
    queues_declared="Declarations of queues, existing ones included",
    queues_created="Queues that were created",
    queues_deleted="Queues that were deleted",
)
USED = (
    *gauges(
        process_open_fds="File descriptors that are open",
        process_open_tcp_sockets="Sockets of clients that are open",
        process_resident_memory_bytes="Resident memory of the process",
        disk_space_available_bytes="Free disk space",
        erlang_processes_used="Tasks of the event loop",
    ),
    *counters(
        erlang_gc_runs="Runs of Python's garbage collector",
        erlang_gc_reclaimed_bytes="0: Python does not report it",
        erlang_scheduler_context_switches="Context switches of the process",
    ),
)
LIMITS = gauges(
    process_max_fds="Most file descriptors",
    process_max_tcp_sockets="Most sockets of clients",
    resident_memory_limit_bytes="Memory above which publishers wait",
    disk_space_available_limit_bytes="Free disk below which publishers wait",
    erlang_processes_limit="Most processes of Erlang; tasks have no limit",
    erlang_scheduler_run_queue="0: see warren_event_loop_lag_seconds",
    erlang_net_ticktime_seconds="Between the ticks of nodes of a cluster",
    erlang_uptime_seconds="Since the start of the broker",
)
STORED = counters(
    io_read_ops="Reads of the journal",
    io_read_bytes="Bytes read from the journal",
    io_write_ops="Writes of the journal",
    io_write_bytes="Bytes written to the journal",
    io_sync_ops="Syncs of the journal",
    io_seek_ops="0: reads and writes say where",
    io_reopen_ops="0: files stay open",
    schema_db_ram_tx="0: there is no such store",
    schema_db_disk_tx="0: declarations are part of the journal's batches",
    msg_store_read="Messages read back from the journal",
    msg_store_write="Messages written to the journal",
    queue_index_read_ops="0: there is no index of queues on the disk",
    queue_index_write_ops="0: there is no index of queues on the disk",
    io_read_time_seconds="0: reads are not timed",
    io_write_time_seconds="0: part of the time of syncs",
    io_sync_time_seconds="Time that batches of the journal took to write and sync",
    io_seek_time_seconds="0: reads and writes say where",
)
LOGINS = counters(
    auth_attempts="Attempts to log in",
    auth_attempts_succeeded="Logins",
    auth_attempts_failed="Attempts to log in that failed",
)
GROUPS = (
    FamilyGroup("connection_churn_metrics", CHURN, single_row(churn)),
    FamilyGroup("node_coarse_metrics", USED, single_row(used)),
    FamilyGroup("node_metrics", LIMITS, single_row(limits)),
    FamilyGroup("node_persister_metrics", STORED, single_row(stored)),
    FamilyGroup("auth_attempt_metrics", LOGINS, logins, ("protocol",)),
)
ALARMS = FamilyGroup(
    "alarms",
    (
        Family("alarms_file_descriptor_limit", "untyped", "0: there is no such alarm"),
        Family("alarms_free_disk_space_watermark", "untyped", "1 while the disk is low"),
        Family("alarms_memory_used_watermark", "untyped", "1 while memory is low"),
    ),
    single_row(alarms),
)
PEERS = FamilyGroup(
    "peers", gauges(unreachable_cluster_peers_count="0: there are no other nodes"), single_row(lambda scope: (0,))
)

# Memory by use: RabbitMQ's name of each use in the HTTP API, and its name here, without the unit.
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


def memory_by_use(scope: Scope) -> Values:
    management = scope.host.services.get("management")
    samples_bytes = management.samples_bytes if isinstance(management, ManagementService) else 0
    by_use = scope.state.readings.memory_by_use(samples_bytes)
    return [by_use[use] for use in USES]


MEMORY = gauges(
    **{f"memory_{name}_bytes": KNOWN.get(use, "0: not known apart from the rest") for use, name in USES.items()}
)
BREAKDOWN = FamilyGroup("node_memory", MEMORY, single_row(memory_by_use))


LIBRARY_VERSION = version("prometheus-client")


def build(scope: Scope) -> Iterable[Row]:
    broker = text(scope.node.version)
    return [((broker, platform.python_version(), broker, LIBRARY_VERSION, PRODUCT, product_version()), (1,))]


def identity(endpoint: str, scope: Scope) -> Iterable[Row]:
    node = scope.node
    permanent = node.parameters.get_global(CLUSTER_ID)
    return [((text(node.name), text(node.cluster_name), text(str(permanent or "")), endpoint), (1,))]


VERSIONS = (
    *("rabbitmq_version", "erlang_version", "prometheus_plugin_version", "prometheus_client_version"),
    *("product_name", "product_version"),
)
NAMES = ("rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint")
BUILD = Family("build_info", "untyped", "1, labelled with the versions of product, RabbitMQ and Python")
IDENTITY = Family("identity_info", "untyped", "1, with the names of the node and of its cluster")


def once(endpoint: str) -> tuple[FamilyGroup, ...]:
    """Return the groups of each scrape's end; dashboards join the other metrics with identity_info by its labels."""
    return (
        FamilyGroup("build_info", (BUILD,), build, VERSIONS),
        FamilyGroup("identity_info", (IDENTITY,), partial(identity, endpoint), NAMES),
    )
