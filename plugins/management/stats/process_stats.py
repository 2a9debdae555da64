"""Statistics of the process from the operating system, in RabbitMQ's terms."""

import asyncio
import gc
import os
import resource
from pathlib import Path

from warren.broker.plugin import Host

DESCRIPTORS = Path("/proc/self/fd")
PROC_LIMIT = 1_048_576  # of Erlang's processes; Warren's tasks have no limit
MEMORY = (
    *("connection_readers", "connection_writers", "connection_channels", "connection_other", "queue_procs"),
    *("quorum_queue_procs", "quorum_queue_dlx_procs", "stream_queue_procs", "stream_queue_replica_reader_procs"),
    *("stream_queue_coordinator_procs", "plugins", "metadata_store", "other_proc", "metrics", "mgmt_db", "mnesia"),
    *("quorum_ets", "metadata_store_ets", "other_ets", "binary", "msg_index", "code", "atom", "other_system"),
    *("allocated_unused", "reserved_unallocated"),
)


class Readings:
    """Values that are measured at each access."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def mem_used(self) -> int:
        """Resident bytes. Each value of this class is 0 if the system does not report it."""
        return self._host.resources.used_bytes() or 0

    def memory_by_use(self, samples_bytes: int) -> dict[str, int]:
        """The bytes of messages by their holder, the bytes of samples, and the rest as one part."""
        node = self._host.node
        ledger = node.ledger
        used = dict.fromkeys(MEMORY, 0)
        left = self.mem_used
        for use, size in (
            ("queue_procs", ledger.ready_bytes + ledger.shared.total + ledger.addresses.total),
            ("connection_channels", ledger.unacked_bytes + ledger.shed_bytes + ledger.transaction_bytes),
            ("quorum_queue_dlx_procs", ledger.dead_letters.total),
            ("connection_readers", ledger.arriving_bytes),
            ("connection_writers", ledger.output_bytes),
            ("other_proc", node.journal.unwritten_bytes()),
            ("mgmt_db", samples_bytes),
        ):
            used[use] = min(size, left)
            left -= used[use]
        used["other_system"] = left
        return used

    @property
    def disk_free(self) -> int:
        return self._host.resources.shown_free_bytes()

    @property
    def fd_used(self) -> int:
        try:
            return len(os.listdir(DESCRIPTORS))
        except OSError:
            return 0

    @property
    def fd_total(self) -> int:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return limit if limit != resource.RLIM_INFINITY else 1 << 31

    @property
    def sockets_used(self) -> int:
        return len(self._host.connections())

    @property
    def sockets_total(self) -> int:
        limit = self._host.config.connection_max
        return self.fd_total if limit is None else min(limit, self.fd_total)

    @property
    def proc_used(self) -> int:
        """Tasks of the event loop, in place of Erlang processes."""
        return len(asyncio.all_tasks())

    @property
    def gc_num(self) -> int:
        return sum(generation["collections"] for generation in gc.get_stats())

    @property
    def context_switches(self) -> int:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_nvcsw + usage.ru_nivcsw

    @property
    def processors(self) -> int:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    @property
    def uptime_ms(self) -> int:
        return self._host.node.clock.now_ms() - self._host.started_ms

    def gauges(self) -> tuple[int, ...]:
        """The values in the order of GAUGES."""
        return self.mem_used, self.fd_used, self.sockets_used, self.proc_used, self.disk_free
