"""The composition root: builds the rooms from the configuration, starts them in order and stops them in reverse."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import platform
import signal
import sys
from pathlib import Path

import structlog

from .config import NO_LOGIN, Config
from .core.definitions import Definitions, StoredUser, first_definitions
from .core.durability import Recorder, restore
from .core.node import Node
from .core.ports import Clock, Journal
from .core.users import Users, hash_password
from .net.clock import LoopClock
from .net.committer import Committer
from .net.server import Server
from .session.settings import Settings, server_properties
from .storage.disk import FolderDisk
from .storage.faults import StorageFault
from .storage.journal import Journal as SegmentJournal
from .storage.lock import IN_USE_STATUS, InUse, lock
from .storage.memory import MemoryJournal
from .storage.metadata import Metadata

UNSAFE = {"memory": "nothing survives a restart", "os": "confirmed messages may be lost when the machine stops"}
MESSAGE_MEMORY_LIMIT = 3 << 29  # 1.5 GiB: ten million messages of backlog then fit in two
FAILED = 74  # EX_IOERR: the journal could not be written
UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits: a port in use, an address that is not ours
# Collections walk every live object. Messages are counted, not traced, and form no cycles, so looking rarely is enough.
GC_THRESHOLDS = (50_000, 20, 50)

# Options of glibc's mallopt, in octets: free memory kept at the top of the heap, and blocks that never go on it.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
HEAP_KEPT = 32 << 20
HEAP_BLOCK = 4 << 20

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def message_memory_bytes(config: Config) -> int:
    """What ready messages may take of memory. Where nothing is stored there is no end to it."""
    if config.memory:
        return 1 << 62
    if config.message_memory_bytes is not None:
        return config.message_memory_bytes
    return min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 2 // 5, MESSAGE_MEMORY_LIMIT)


class Store:
    """Where a node keeps what is durable. `metadata` and `definitions` are None where nothing is kept."""

    def __init__(self, config: Config) -> None:
        """Raises StorageFault, InUse, OSError."""
        self.journal: Journal = MemoryJournal()
        self.metadata: Metadata | None = None
        self.definitions: Definitions | None = None
        self.queues: dict[int, list[tuple[int, int]]] = {}
        self.next_queue = 1  # after all that the log names: without syncs it may know of more than the metadata
        self.body_bytes: dict[int, int] = {}
        self._disk: FolderDisk | None = None
        if config.memory:
            return
        folder = Path(config.data_dir)
        lock(folder)  # for as long as this process lives
        durable = config.sync == "fsync"
        self.metadata = Metadata(folder / "meta.sqlite", durable)
        self.definitions = self.metadata.load()
        self._disk = FolderDisk(folder / "log", durable)
        journal = SegmentJournal(self._disk, self.metadata)
        gc.disable()  # what is read makes no cycles; looking for some again and again takes longer than reading
        self.queues = journal.recover({queue.number for queue in self.definitions.queues})
        gc.enable()
        self.body_bytes = journal.recovered_bytes
        self.next_queue = journal.next_queue
        for line in journal.report:
            log.warning("log_damaged", what=line)
        self.journal = journal

    def free_bytes(self) -> int:
        """Of the disk; without end where nothing is kept."""
        return self._disk.free_bytes() if self._disk is not None else 1 << 62

    def close(self) -> None:
        """Nothing waits to be made durable any more."""
        if self.metadata is not None:
            self.journal.close()
            self.metadata.close()


def build_node(config: Config, clock: Clock, store: Store) -> Node:
    """A node with what was stored; a new one has the default virtual host and user, and nothing else."""
    users = Users(frozenset(config.loopback_users))
    node = Node(config.node, config.cluster_name, clock, store.journal, users, message_memory_bytes(config))
    definitions = store.definitions
    if definitions is None or definitions.empty:
        definitions = first_definitions(config.default_vhost, default_users(config))
        for change in definitions.changes():
            store.journal.change(change)
    restored = restore(node, definitions)
    for line in restored.lost:
        log.error("not_restored", what=line)
    for queue in restored.queues:
        queue.restore(store.queues.pop(queue.number, []), store.body_bytes.get(queue.number, 0))
    node.numbering.next = max(node.numbering.next, store.next_queue)
    node.observers.append(Recorder(node, restored.orphans))
    return node


def default_users(config: Config) -> list[StoredUser]:
    """Those of a node that has none yet; each may do all in the default virtual host."""
    accounts: list[tuple[str, str, tuple[str, ...]]] = [(config.default_user, config.default_pass, ("administrator",))]
    if config.anonymous_login_user not in (NO_LOGIN, config.default_user):
        accounts.append((config.anonymous_login_user, config.anonymous_login_pass, ()))
    return [StoredUser(name, hash_password(password, os.urandom(4)), tags) for name, password, tags in accounts]


def build_settings(config: Config) -> Settings:
    runs_on = f"Python {platform.python_version()}"
    anonymous = config.anonymous_login_user if config.anonymous_login_user != NO_LOGIN else None
    return Settings(
        server_properties(config.product, config.version, config.cluster_name, runs_on),
        mechanisms=tuple(config.mechanisms),
        anonymous_user=anonymous,
        channel_max=config.channel_max,
        frame_max=config.frame_max,
        heartbeat_s=config.heartbeat_s,
        initial_frame_max=config.initial_frame_max,
        max_message_size=config.max_message_size,
        connection_max=config.connection_max,
        consumer_max_per_channel=config.consumer_max_per_channel,
        default_consumer_prefetch=config.default_consumer_prefetch,
    )


def report(event: str, level: str, fields: dict[str, object]) -> None:
    """One line of the log, for rooms that do not know the logger."""
    getattr(log, level)(event, **fields)


def keep_heap() -> None:
    """Let glibc keep some freed memory. Every read is 256 KiB, and giving that back to have it mapped and zeroed again
    for the next one costs as much as all the rest of a long message (bench M: 1.6 times)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # another C library has no such option
        mallopt(M_TRIM_THRESHOLD, HEAP_KEPT)
        mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK)


async def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; the exit status."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    try:
        store = Store(config)
    except InUse as error:
        log.error("data_in_use", reason=str(error))
        return IN_USE_STATUS
    except (StorageFault, OSError) as error:
        log.error("cannot_open_data", data=config.data_dir, reason=str(error))
        return UNAVAILABLE
    node = build_node(config, LoopClock(loop), store)
    committer = Committer(
        store.journal,
        lambda: store.free_bytes() >= config.disk_free_limit_bytes,
        lambda full: server.set_alarm("low on disk" if full else ""),
        lost,
    )
    server = Server(node, build_settings(config), config.handshake_timeout_s, report, committer.commit_soon)
    bound: list[str] = []
    for address, (host, port) in zip(config.amqp, config.amqp_addresses, strict=True):
        try:
            bound += await server.listen(host, port)
        except OSError as error:
            log.error("cannot_listen", address=address, reason=os.strerror(error.errno or 0))
            await server.stop("shutdown")
            return UNAVAILABLE
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    storage = "memory" if config.memory else config.sync
    log.info("ready", node=config.node, amqp=bound, storage=storage, data=config.data_dir, pid=os.getpid())
    if storage != "fsync":
        log.warning("not_durable", storage=storage, means=UNSAFE[storage])
    await stopped.wait()
    log.info("stopping")
    await server.stop("broker forced connection closure with reason 'shutdown'")
    if not await committer.stop():
        log.error("not_stored", reason="the disk is full: what was not confirmed yet is lost")
        return FAILED
    store.close()
    log.info("stopped")
    return 0


def lost(error: Exception) -> None:
    """The journal could not be written or synced. What is on the disk is unknown, so nothing may be confirmed any more:
    the process ends here and now, and the next start reads what there is."""
    log.critical("storage_failed", reason=str(error))
    os._exit(FAILED)


def serve(config: Config) -> int:
    """Run the daemon in the foreground; the exit status."""
    if sys.platform != "win32":
        keep_heap()
        try:
            import uvloop
        except ImportError:
            log.warning("uvloop is not installed: the broker is slower on asyncio's own loop")
        else:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(run(config))
    return asyncio.run(run(config))
