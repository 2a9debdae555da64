"""The composition root: builds the rooms from the configuration, starts them in order and stops them in reverse."""

from __future__ import annotations

import asyncio
import base64
import ctypes
import gc
import os
import platform
import signal
import sys
import time
from functools import partial
from pathlib import Path

import structlog

from .. import logs
from ..cli import distribution_version
from ..config import NO_LOGIN, Config, ConfigError, Sources, default_node
from ..control.call import Daemon
from ..control.server import Control
from ..core.access.passwords import Hashing, PasswordRules
from ..core.access.users import Users
from ..core.definitions.recorder import Recorder
from ..core.definitions.restore import restore
from ..core.exchanges.recovered import RecoveredMessages
from ..core.exchanges.registry import Registry
from ..core.messages.ports import Clock, Journal, RecoveredQueue
from ..core.metadata.records import Definitions, first_definitions
from ..core.node.node import Node
from ..core.node.queue_churn import QueueChurn
from ..core.policies.parameters import CLUSTER_ID
from ..core.telemetry.log_exchange import LOG, LogExchange
from ..hosting import services
from ..hosting.default_user import default_user
from ..hosting.host import Host, Service
from ..hosting.loading import BROKEN_PLUGIN, PluginError, load_exchange_types, load_services
from ..hosting.stable_hash import stable_hash
from ..net.server import Server
from ..runtime.clock import LoopClock
from ..runtime.committer import Committer
from ..runtime.garbage_collection import FullCollections, freeze_heap
from ..runtime.password_hashing import ThreadHashing
from ..runtime.resource_monitor import Resources
from ..runtime.supervisor import Supervisor
from ..session.settings import Settings, server_properties
from ..storage.disk import FolderDisk
from ..storage.errors import StorageFault
from ..storage.folder_lock import IN_USE_STATUS, InUse, lock
from ..storage.journal import Journal as SegmentJournal
from ..storage.memory_journal import MemoryJournal
from ..storage.metadata_store import Metadata
from .listeners import listen, socket_options, tls
from .start_screen import start_screen

UNSAFE = {"memory": "nothing survives a restart", "os": "confirmed messages may be lost when the machine stops"}
MESSAGE_MEMORY_LIMIT = 3 << 29  # 1.5 GiB: ten million messages of backlog then fit in two
FAILED = 74  # EX_IOERR: the journal could not be written
BAD_CONFIGURATION = 78  # EX_CONFIG
SOFTWARE = 70  # EX_SOFTWARE: a task failed that the node cannot do without
UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits: a port in use, an address that is not ours

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
        self.queues: dict[int, RecoveredQueue] = {}
        self.next_queue = 1  # after all that the log names: without syncs it may know of more than the metadata
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
        self.queues = journal.recover(self.definitions.numbers)
        gc.enable()
        self.next_queue = journal.next_queue
        for line in journal.report:
            log.warning("log_damaged", what=line)
        journal.reader.log = lambda line: log.error("cannot_read_log", what=line)
        self.journal = journal

    def free_bytes(self) -> int:
        """Of the disk; without end where nothing is kept."""
        return self._disk.free_bytes() if self._disk is not None else 1 << 62

    def close(self) -> None:
        """Nothing waits to be made durable any more."""
        if self.metadata is not None:
            self.journal.close()
            self.metadata.close()


def default_cluster_name(config: Config) -> str:
    """The cluster's name until an operator sets one: configured, or else the node's.

    Brokers of one machine that are given neither have the same node name, and would share the queues at an upstream,
    which are called after the cluster. So four digits of a hash follow, of the data folder's path or, in memory, of the
    listeners.
    """
    if config.cluster_name or config.node != default_node():
        return config.cluster_name or config.node
    place = str(config.listeners_tcp) if config.memory else os.path.realpath(config.data_dir)
    return f"{config.node}-{stable_hash(os.fsencode(place)) >> 48:04x}"


def build_node(
    config: Config, clock: Clock, store: Store, hashing: Hashing | None = None, registry: Registry | None = None
) -> Node:
    """A node with what was stored; a new one has the default virtual host and user, and nothing else, not even these
    where definitions are to be loaded."""
    users = Users(frozenset(config.loopback_users), hashing, password_rules(config), config.password_hashing)
    node = Node(
        config.node,
        default_cluster_name(config),
        clock,
        store.journal,
        users,
        message_memory_bytes(config),
        registry,
        config.default_vhost,
    )
    node.product, node.version = config.product, config.version
    node.default_queue_type = config.default_queue_type
    if config.log.exchange:
        node.system_exchanges.append(LOG)
    definitions = store.definitions or Definitions()
    if definitions.empty and not config.load_definitions:
        user = default_user(config, report)
        rights = config.default_permissions
        permission = (rights.configure, rights.write, rights.read)
        definitions = first_definitions(config.default_vhost, [user], permission)
        for change in definitions.changes():
            store.journal.change(change)
    restored = restore(node, definitions)
    # Limits come after what is restored: they hold for what is new.
    node.limits.queues = config.cluster_queue_limit
    node.limits.exchanges = config.cluster_exchange_limit
    node.limits.vhosts = config.vhost_max
    node.parameters.limits.update(config.runtime_parameter_limits)
    for loss in restored.lost:
        log.error("not_restored", what=loss.text)
    for queue in restored.queues:
        queue.restore(store.queues.pop(queue.number, RecoveredQueue()))
    for exchange in restored.exchanges:
        exchange.type.restore(RecoveredMessages(store.queues.pop(exchange.number, RecoveredQueue())))
    node.numbering.next = max(node.numbering.next, store.next_queue)
    node.observers.add(Recorder(node, restored.orphans), QueueChurn(node.churn))
    node.start_events()
    if CLUSTER_ID not in node.parameters.globals():
        unique = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        node.parameters.set_global(CLUSTER_ID, f"rabbitmq-cluster-id-{unique}")  # the form that tools look for
    node.pump()  # what was due, or is too much, while the broker was down
    return node


def load_definitions(node: Node, config: Config) -> bool:
    """Import what the configuration names, so that the first batch holds all of it; False, with a line of the log,
    where that cannot be done."""
    from ..core.definitions.files import DefinitionsError, load  # 10 ms that most starts need not spend

    try:
        skipped = load(node, Path(config.load_definitions), config.definitions_skip_if_unchanged)
    except DefinitionsError as error:
        log.error("cannot_load_definitions", reason=str(error))
        return False
    for line in skipped or ():
        log.warning("definitions", what=line)
    log.info("definitions_loaded" if skipped is not None else "definitions_unchanged", path=config.load_definitions)
    return True


def password_rules(config: Config) -> PasswordRules:
    """Of the two, the one that the configuration has chosen; else none."""
    chosen = config.credential_validator
    return PasswordRules(
        config.password_min_length if chosen == "min_password_length" else 0,
        config.password_regexp if chosen == "password_regexp" else "",
    )


def build_settings(config: Config) -> Settings:
    runs_on = f"Python {platform.python_version()}"
    anonymous = config.anonymous_login_user if config.anonymous_login_user != NO_LOGIN else None
    return Settings(
        server_properties(config.product, config.version, runs_on),
        mechanisms=config.mechanisms,
        anonymous_user=anonymous,
        anonymous_pass=config.anonymous_login_pass,
        channel_max=config.channel_max,
        frame_max=config.frame_max,
        heartbeat_s=config.heartbeat_s,
        initial_frame_max=config.initial_frame_max,
        max_message_size=config.max_message_size,
        connection_max=config.connection_max,
        channel_max_per_node=config.channel_max_per_node,
        consumer_max_per_channel=config.consumer_max_per_channel,
        default_consumer_prefetch=config.default_consumer_prefetch,
        consumer_timeout_ms=config.consumer_timeout_ms,
        transaction_max_bytes=config.transaction_max_bytes,
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


def ended(node: Node) -> int:
    """Count what has ended since the start, and is freed by a full collection."""
    churn = node.churn
    return churn.connection_closed + churn.channel_closed + churn.queue_deleted


def free_memory(collections: FullCollections) -> None:
    """Free what is in cycles, and give all of the heap that is free back to the system."""
    collections.collect_in_shortage(time.monotonic())
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


def set_watermarks(resources: Resources, config: Config) -> None:
    """A limit in octets counts before one that is a share of memory."""
    memory_bytes = config.vm_memory_high_watermark_bytes
    if memory_bytes is None:
        memory_bytes = resources.share(config.vm_memory_high_watermark)
    resources.set_vm_memory_high_watermark(memory_bytes)
    relative = config.disk_free_limit_relative
    resources.set_disk_free_limit(config.disk_free_limit_bytes if relative is None else resources.share(relative))


def reload(sources: Sources, daemon: Daemon) -> None:
    """Read again what can change without a restart: the configuration of the log, and certificates."""
    try:
        daemon.configure_log(sources.reload())
    except (ConfigError, OSError) as error:
        log.error("configuration_not_reloaded", reason=str(error))
    daemon.server.reload_certificates()


def open_store(config: Config) -> tuple[Registry, dict[str, Service], Store] | int:
    """The store, the exchange types for what is in it, and services; the exit status where there is one that cannot be
    had, which the log tells."""
    registry = Registry()
    try:
        load_exchange_types(registry)
        found = load_services()
    except PluginError as error:
        log.error("cannot_load_plugin", reason=str(error))
        return BROKEN_PLUGIN
    try:
        return registry, found, Store(config)
    except InUse as error:
        log.error("data_in_use", reason=str(error))
        return IN_USE_STATUS
    except (StorageFault, OSError) as error:
        log.error("cannot_open_data", data=config.data_dir, reason=str(error))
        return UNAVAILABLE


class Ending:
    """The end of the daemon: `begun` is set by a signal, by an operator, or by a task that the node cannot do without;
    `status` is the exit status then."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.begun = asyncio.Event()
        self.status = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.begin)

    def begin(self) -> None:
        self.begun.set()

    def fail(self) -> None:
        self.status = SOFTWARE
        self.begun.set()


async def run(config: Config, sources: Sources) -> int:
    """Serve until SIGTERM or SIGINT; the exit status."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    ending = Ending(loop)
    opened = open_store(config)
    if isinstance(opened, int):
        return opened
    registry, found, store = opened
    hashing = ThreadHashing(loop, lambda: committer.commit_soon(), report)
    node = build_node(config, LoopClock(loop, lambda: committer.commit_soon()), store, hashing, registry)
    if config.load_definitions and not load_definitions(node, config):
        return BAD_CONFIGURATION
    node.scheduler.report = report
    collections = FullCollections(report, partial(ended, node))
    free = partial(free_memory, collections)
    resources = Resources(node.alarms, store.free_bytes, free, memory_bytes=config.total_memory_bytes)
    watch = (resources.disk_has_room, resources.disk_full, lost, node.commits.count, delayed)
    committer = Committer(store.journal, *watch)
    timeout_s, settings = config.handshake_timeout_ms / 1000, build_settings(config)
    supervisor = Supervisor(report, ending.fail)
    server = Server(node, settings, timeout_s, report, committer.commit_soon, socket_options(config), supervisor)
    if config.log.exchange:
        logs.publish_to(LogExchange(node.system_exchange(LOG), loop.call_soon_threadsafe, committer.commit_soon).put)
    set_watermarks(resources, config)
    resources.watch(committer.look)
    committer.commit_soon()  # before anything that clients are told is stored: what was made so far
    host = Host(node, config, settings, server, resources, partial(tls, config, report), sources.files)
    daemon = Daemon(host, server, partial(listen, server, config), ending.begin, partial(restart_services, host))
    loop.add_signal_handler(signal.SIGHUP, reload, sources, daemon)
    bound = await listen(server, config)
    if bound is None or not await services.start(found, host):
        await server.stop("shutdown")
        return UNAVAILABLE
    supervisor.keep("event_loop_watch", server.turns.run)
    freeze_heap()
    supervisor.keep("garbage_collection", collections.run)
    control = Control(daemon)
    bound |= services.bound(host) | await control.open()
    announce(host, bound, round((loop.time() - begun_s) * 1000))
    await ending.begun.wait()
    log.info("stopping")
    logs.publish_to(None)
    resources.stop()
    await services.stop(host)
    await server.stop("broker forced connection closure with reason 'shutdown'")
    hashing.close()
    status = await close(node, committer, store, control)
    await supervisor.stop()  # last, as whoever waits for the end of the node does so at the control socket
    return status or ending.status


async def restart_services(host: Host) -> bool:
    """Start services that were stopped, made anew; False, with a line of the log, where one cannot start."""
    return await services.start(load_services(), host)


async def close(node: Node, committer: Committer, store: Store, control: Control) -> int:
    """Nobody is connected any more: store what is left; the exit status."""
    node.finish()
    if not await committer.stop():
        log.error("not_stored", reason="the disk is full: what was not confirmed yet is lost")
        return FAILED
    store.close()
    control.close()
    log.info("stopped")
    return 0


def announce(host: Host, bound: dict[str, list[str]], started_ms: int) -> None:
    """Log that the broker is ready, after `started_ms`, and show a person at the terminal what there is."""
    config, version = host.config, distribution_version()
    storage = "memory" if config.memory else config.sync
    data = "" if config.memory else str(Path(config.data_dir).absolute())
    facts = {"storage": storage, "data": data, "pid": os.getpid(), "version": version, "plugins": len(host.services)}
    log.info("ready", node=config.node, **bound, **facts)
    log.info("started", ms=started_ms)
    if config.log.console and sys.stderr.isatty():
        known = config.default_user if host.node.users.get(config.default_user) is not None else ""
        if known and config.default_user in config.loopback_users:
            known += ", from this machine only"
        print(start_screen(version, config.node, bound, known, data, storage), file=sys.stderr, flush=True)
    if storage != "fsync":
        log.warning("not_durable", storage=storage, means=UNSAFE[storage])


def lost(error: Exception) -> None:
    """The journal could not be written or synced. What is on the disk is unknown, so nothing may be confirmed any more:
    the process ends here and now, and the next start reads what there is."""
    log.critical("storage_failed", reason=str(error))
    os._exit(FAILED)


def delayed(error: OSError) -> None:
    """A batch of the journal is tried again, as the system has no descriptor or memory for it now."""
    log.error("storage_delayed", reason=str(error))


def serve(config: Config, sources: Sources) -> int:
    """Run the daemon in the foreground; the exit status."""
    if sys.platform != "win32":
        keep_heap()
        try:
            import uvloop
        except ImportError:
            log.warning("uvloop is not installed: the broker is slower on asyncio's own loop")
        else:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(run(config, sources))
    return asyncio.run(run(config, sources))
