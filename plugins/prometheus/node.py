"""Metrics of the node: churn, resources, storage, logins, alarms."""

from collections.abc import Iterable

from .families import Family, FamilyGroup, Row, Values, text
from .scope import Scope

NET_TICKTIME_S = 60  # of a cluster's nodes; here there is one


def churn(scope: Scope) -> Iterable[Row]:
    of = scope.node.churn
    values = (
        *(of.connection_created, of.connection_closed, of.channel_created, of.channel_closed),
        *(of.queue_declared, of.queue_created, of.queue_deleted),
    )
    return [((), values)]


def used(scope: Scope) -> Iterable[Row]:
    at = scope.state.readings
    values = (
        *(at.fd_used, at.sockets_used, at.mem_used, at.disk_free, at.proc_used, at.gc_num, 0, at.context_switches),
    )
    return [((), values)]


def limits(scope: Scope) -> Iterable[Row]:
    at, resources = scope.state.readings, scope.host.resources
    values = (
        *(at.fd_total, at.sockets_total, resources.memory_limit_bytes, resources.disk_free_limit_bytes),
        *(at.proc_total, 0, NET_TICKTIME_S, at.uptime_ms / 1000),
    )
    return [((), values)]


def stored(scope: Scope) -> Iterable[Row]:
    """A batch of the journal is one write and usually one sync."""
    journal, commits = scope.node.journal, scope.node.commits
    batches = sum(commits.counts)
    values = (
        *(journal.reads, journal.read_bytes, batches, journal.written_bytes, batches, 0, 0, 0, 0),
        *(journal.read_messages, journal.written_messages, 0, 0, 0, 0, commits.total_s, 0),
    )
    return [((), values)]


def logins(scope: Scope) -> Iterable[Row]:
    for protocol, attempts in scope.node.attempts.items():
        yield (text(protocol),), (attempts.succeeded + attempts.failed, attempts.succeeded, attempts.failed)


def alarms(scope: Scope) -> Iterable[Row]:
    on = scope.node.alarms.on()
    values: Values = (0, "disk" in on, "memory" in on)
    return [((), values)]


GROUPS = (
    FamilyGroup(
        "connection_churn_metrics",
        (
            Family("connections_opened_total", "counter", "Connections that were opened"),
            Family("connections_closed_total", "counter", "Connections that were closed"),
            Family("channels_opened_total", "counter", "Channels that were opened"),
            Family("channels_closed_total", "counter", "Channels that were closed"),
            Family("queues_declared_total", "counter", "Declarations of queues, existing ones included"),
            Family("queues_created_total", "counter", "Queues that were created"),
            Family("queues_deleted_total", "counter", "Queues that were deleted"),
        ),
        churn,
    ),
    FamilyGroup(
        "node_coarse_metrics",
        (
            Family("process_open_fds", "gauge", "File descriptors that are open"),
            Family("process_open_tcp_sockets", "gauge", "Sockets of clients that are open"),
            Family("process_resident_memory_bytes", "gauge", "Resident memory of the process"),
            Family("disk_space_available_bytes", "gauge", "Free disk space"),
            Family("erlang_processes_used", "gauge", "Tasks of the event loop"),
            Family("erlang_gc_runs_total", "counter", "Runs of Python's garbage collector"),
            Family("erlang_gc_reclaimed_bytes_total", "counter", "0: Python does not report it"),
            Family("erlang_scheduler_context_switches_total", "counter", "Context switches of the process"),
        ),
        used,
    ),
    FamilyGroup(
        "node_metrics",
        (
            Family("process_max_fds", "gauge", "Most file descriptors"),
            Family("process_max_tcp_sockets", "gauge", "Most sockets of clients"),
            Family("resident_memory_limit_bytes", "gauge", "Memory above which publishers wait"),
            Family("disk_space_available_limit_bytes", "gauge", "Free disk below which publishers wait"),
            Family("erlang_processes_limit", "gauge", "Most processes of Erlang; tasks have no limit"),
            Family("erlang_scheduler_run_queue", "gauge", "0: see warren_event_loop_lag_seconds"),
            Family("erlang_net_ticktime_seconds", "gauge", "Between the ticks of nodes of a cluster"),
            Family("erlang_uptime_seconds", "gauge", "Since the start of the broker"),
        ),
        limits,
    ),
    FamilyGroup(
        "node_persister_metrics",
        (
            Family("io_read_ops_total", "counter", "Reads of the journal"),
            Family("io_read_bytes_total", "counter", "Bytes read from the journal"),
            Family("io_write_ops_total", "counter", "Writes of the journal"),
            Family("io_write_bytes_total", "counter", "Bytes written to the journal"),
            Family("io_sync_ops_total", "counter", "Syncs of the journal"),
            Family("io_seek_ops_total", "counter", "0: reads and writes say where"),
            Family("io_reopen_ops_total", "counter", "0: files stay open"),
            Family("schema_db_ram_tx_total", "counter", "0: there is no such store"),
            Family("schema_db_disk_tx_total", "counter", "0: declarations are part of the journal's batches"),
            Family("msg_store_read_total", "counter", "Messages read back from the journal"),
            Family("msg_store_write_total", "counter", "Messages written to the journal"),
            Family("queue_index_read_ops_total", "counter", "0: there is no index of queues on the disk"),
            Family("queue_index_write_ops_total", "counter", "0: there is no index of queues on the disk"),
            Family("io_read_time_seconds_total", "counter", "0: reads are not timed"),
            Family("io_write_time_seconds_total", "counter", "0: part of the time of syncs"),
            Family("io_sync_time_seconds_total", "counter", "Time that batches of the journal took to write and sync"),
            Family("io_seek_time_seconds_total", "counter", "0: reads and writes say where"),
        ),
        stored,
    ),
    FamilyGroup(
        "auth_attempt_metrics",
        (
            Family("auth_attempts_total", "counter", "Attempts to log in"),
            Family("auth_attempts_succeeded_total", "counter", "Logins"),
            Family("auth_attempts_failed_total", "counter", "Attempts to log in that failed"),
        ),
        logins,
        ("protocol",),
    ),
)
ALARMS = FamilyGroup(
    "alarms",
    (
        Family("alarms_file_descriptor_limit", "untyped", "0: there is no such alarm"),
        Family("alarms_free_disk_space_watermark", "untyped", "1 while the disk is low"),
        Family("alarms_memory_used_watermark", "untyped", "1 while memory is low"),
    ),
    alarms,
)
PEERS = FamilyGroup(
    "peers",
    (Family("unreachable_cluster_peers_count", "gauge", "0: there are no other nodes"),),
    lambda scope: [((), (0,))],
)
