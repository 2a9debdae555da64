"""The composition root: starts the parts of the broker in order, and stops them in reverse."""

from __future__ import annotations

import asyncio
import errno
import faulthandler
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from .. import compilation, logs
from ..config import Config, ConfigError, Sources
from ..config.config import DEFAULT_PASS
from ..core.exchanges.built_in import new_registry
from ..core.exchanges.exchange_type import Registry
from ..core.jobs.scheduler import TURN_COST
from ..core.node.node import Node
from ..core.telemetry.log_exchange import LOG, LogExchange
from ..net.connection_limits import raise_descriptor_limit
from ..net.server import Server
from ..net.transport import Transport
from ..operator.default_user import has_default_password
from ..operator.feature_flags import missing_plugins
from ..operator.local_socket import LocalSocket
from ..plugin_host import services
from ..plugin_host.host import Host, Service, watermarks
from ..plugin_host.loading import BROKEN_PLUGIN, PluginError, load_exchange_types, load_services
from ..product import distribution_version
from ..runtime.clock import LoopClock
from ..runtime.commit_thread import Committer
from ..runtime.garbage_collection import FullCollections, collect_young, freeze_heap
from ..runtime.password_hashing import ThreadHashing
from ..runtime.process_memory import free_memory, keep_heap, resident_bytes
from ..runtime.resource_monitor import Resources
from ..runtime.supervisor import Supervisor
from ..runtime.systemd import Systemd
from ..storage.disk import RESERVE_BYTES
from ..storage.errors import ConfirmedLost, StorageFault
from ..storage.folder_lock import IN_USE_STATUS, InUse
from ..system_errors import NO_MEMORY, RAISE_LIMIT, file_error
from .build import build_node, build_settings, load_definitions
from .data_folder import DataFolder
from .listeners import listen, socket_options, tls
from .open_storage import Store
from .start_screen import start_screen

if TYPE_CHECKING:
    from .postgresql_storage import RemoteStorage

FAILED = 74  # EX_IOERR: the journal could not be written
NOT_OWNER = 75  # EX_TEMPFAIL: another broker has taken the store over
CONFIRMED_LOST = 76  # EX_PROTOCOL: PostgreSQL lacks transactions that were confirmed
BAD_CONFIGURATION = 78  # EX_CONFIG
SOFTWARE = 70  # EX_SOFTWARE: a vital task failed
DESCRIPTORS_LEAST = 64  # open files: some 20 are open before the first client comes, and RESERVED_LEAST are kept
DESCRIPTORS_FEW = 1024  # the usual limit of a shell; below it the operator should know
UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits: a port in use, an address that is not ours
DURABLE = {"memory": "--data in place of --memory stores them", "os": "--sync fsync has confirms wait for the disk"}
DIGITS = 640  # of a number in JSON: the least that Python can be told

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DaemonParts:
    """The parts of the daemon that a program may replace: `warren serve` does not, that of `warren.testing` does."""

    clock: type[LoopClock] = LoopClock  # of the node
    transport: type[Transport] = Transport  # of its connections
    services: Mapping[str, Service] = field(default_factory=dict)  # beside those of the entry points, by name


async def keep_reloading(asked: asyncio.Event, host: Host, server: Server, systemd: Systemd) -> None:
    """Reload each time that `asked` is set, until cancelled."""
    while True:
        await asked.wait()
        asked.clear()
        systemd.reloading()
        try:
            await reload(host)
        finally:  # an error of the configuration must not leave certificates in use that have expired
            server.reload_certificates()
            systemd.reloaded()


async def reload(host: Host) -> None:
    """Reload the configuration, and follow what can change without a restart: the keys of the log."""
    from ..config.printing import changes  # here, because it is rarely needed

    before = host.running_config()
    try:
        config = await asyncio.to_thread(host.control.read_config)  # its files and regular expressions may be long
        host.control.log.configure(config.log)
    except (ConfigError, OSError) as error:
        reason = file_error(error) if isinstance(error, OSError) else str(error)
        log.error("configuration_not_reloaded", reason=reason)
    else:
        changed = changes(before, config)
        applied = "; ".join(str(change) for change in changed if change.reloads)
        waiting = ", ".join(change.key for change in changed if not change.reloads)
        log_event = log.warning if waiting else log.info
        log_event("configuration_reloaded", changes=applied, needs_restart=waiting)


def enough_descriptors(descriptors: int) -> bool:
    """Return whether a broker can run with so many open files; log it if not."""
    if descriptors < DESCRIPTORS_LEAST:
        log.error("too_few_descriptors", descriptors=descriptors, needed=DESCRIPTORS_LEAST, advice=RAISE_LIMIT)
    return descriptors >= DESCRIPTORS_LEAST


def load_plugins() -> tuple[Registry, dict[str, Service]] | int:
    """Load exchange types and services. On failure log it and return the exit status."""
    registry = new_registry()
    try:
        load_exchange_types(registry)
        return registry, load_services()
    except PluginError as error:
        log.error("cannot_load_plugin", reason=str(error))
        return BROKEN_PLUGIN


async def open_store(
    config: Config, folder: DataFolder, found: dict[str, Service], ending: Ending, systemd: Systemd
) -> Store | int:
    """Open the store; on PostgreSQL wait until no other broker owns it. On failure log it and return the exit status.

    A broker that was asked to end while it waited returns 0.
    """
    try:
        folder.lock()
        remote = None
        if config.storage.url:
            from .postgresql_storage import open_remote  # here: psycopg is an extra
            from .standby import Standby

            remote = open_remote(config)
            if not await Standby(remote, config, found, ending.begun, systemd).wait():
                remote.close()
                log.info("stopped")
                return ending.status
        return Store(config, remote)
    except InUse as error:
        log.error("data_in_use", reason=str(error))
        return IN_USE_STATUS
    except ConfirmedLost as error:
        lost(error)
        return CONFIRMED_LOST
    except (StorageFault, OSError, ValueError, MemoryError) as error:
        data = "" if config.storage.url else str(folder.path)
        reason = file_error(error, data) if isinstance(error, OSError) else str(error)
        reason = NO_MEMORY if isinstance(error, MemoryError) else reason
        log.error("cannot_open_data", data=data, reason=reason)
        return UNAVAILABLE


class Ending:
    """Shutdown of the daemon, by a signal, an operator, or the failure of a vital task.

    `begun` is set when it begins; `status` is the exit status.
    """

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


async def run(config: Config, sources: Sources, parts: DaemonParts, folder: DataFolder) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit status."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    ending = Ending(loop)
    systemd = Systemd(os.environ, logs.report)
    descriptors = raise_descriptor_limit()
    if not enough_descriptors(descriptors):
        return UNAVAILABLE
    if systemd.watchdog_s:
        faulthandler.enable()  # the watchdog's SIGABRT then shows where the loop hangs
    plugins = load_plugins()
    if isinstance(plugins, int):
        return plugins
    registry, found = plugins
    store = await open_store(config, folder, found, ending, systemd)
    if isinstance(store, int):
        return store
    if store.remote is not None:
        found = load_services()  # those of the standby have ended
    found |= parts.services
    hashing = ThreadHashing(loop, lambda: committer.commit_soon(), logs.report)
    clock = parts.clock(loop, lambda: committer.commit_soon())
    node = build_node(config, clock, store, hashing, registry)
    if config.load_definitions and not load_definitions(node, config):
        store.close()
        return BAD_CONFIGURATION
    node.scheduler.report = logs.report
    collections = FullCollections(logs.report)
    free = partial(free_memory, collections)
    longest_bytes = config.max_message_size - RESERVE_BYTES
    resources = Resources(node.alarms, store.free_bytes, free, resident_bytes, config.total_memory_bytes, longest_bytes)
    remote = watch_remote(store, node, config)
    delay = partial(delayed, remote)

    def disk_has_room() -> bool:
        return resources.disk_has_room(store.journal.unwritten_bytes())

    def disk_full(full: bool) -> None:
        resources.disk_full(full)
        store.disk_full(full)

    watch = (disk_has_room, disk_full, lost, node.commits.count, delay)
    committer = Committer(store.journal, *watch, remote.owned if remote is not None else lambda: True)
    timeout_s, settings = config.handshake_timeout_ms / 1000, build_settings(config)
    supervisor = Supervisor(logs.report, ending.fail)
    options = socket_options(config)
    server = Server(node, settings, timeout_s, logs.report, committer.commit_soon, options, supervisor, parts.transport)
    if descriptors < DESCRIPTORS_FEW:
        most = settings.descriptor_connections
        log.warning("few_descriptors", descriptors=descriptors, connections=most, advice=RAISE_LIMIT)
    if config.log.exchange:
        logs.publish_to(LogExchange(node.system_exchange(LOG), loop.call_soon_threadsafe, committer.commit_soon).put)
    server.alarm_facts = partial(resources.facts, store.status().place)
    memory_bytes, disk_bytes = watermarks(config, resources)
    resources.set_vm_memory_high_watermark(memory_bytes)
    resources.set_disk_free_limit(disk_bytes)
    resources.watch(committer.check_disk)
    committer.commit_soon()  # the definitions made so far, before any client is served
    host = Host(node, config, settings, server, resources, partial(tls, config, logs.report), sources.files)
    if remote is not None:
        node.replication.status = remote.status
        server.guard_output(remote)
        host.alone = remote.alone
    collections.has_transients = host.imports.has_document
    control = host.control
    control.listen, control.stop, control.read_config = partial(listen, server, config), ending.begin, sources.load
    control.start_services, control.stop_services = partial(restart_services, host), partial(services.stop, host)
    reload_asked = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, reload_asked.set)
    around = await services.start_around(found, host)
    unserved = node.journal.ticket()
    bound = await listen(server, config) if around else None
    if bound is None or not await services.start(found, host):
        await server.stop("shutdown")
        await services.stop(host)
        if node.journal.ticket() != unserved:
            folder.keep()  # what clients have stored since it listens may be confirmed
        await give_up(committer, store, remote)
        return UNAVAILABLE
    folder.keep()
    supervisor.keep("event_loop_watch", server.turns.run)
    supervisor.keep("reload", partial(keep_reloading, reload_asked, host, server, systemd))
    freeze_heap()
    supervisor.keep("garbage_collection", collections.run)
    supervisor.keep("young_garbage_collection", collect_young)
    local = LocalSocket(config, logs.report, supervisor, partial(services.serve_local, found.values(), host))
    bound |= services.bound(host) | local.open()
    announce(host, bound, round((loop.time() - begun_s) * 1000))
    supervisor.keep("systemd_watchdog", systemd.watch)
    systemd.ready(f"serving clients at {', '.join([*bound.get('amqp', []), *bound.get('amqps', [])])}")
    logs.gather(loop)
    await ending.begun.wait()
    logs.gather(None)
    log.info("stopping")
    systemd.stopping()
    logs.publish_to(None)
    resources.stop()
    await services.stop_inner(host)
    await server.stop("broker forced connection closure with reason 'shutdown'")
    hashing.close()
    await committer.finish(partial(node.finish, TURN_COST))
    clock.stop()
    node.scheduler.stop()
    await services.stop(host)
    status = await close(committer, store, local, remote)
    await supervisor.stop()
    return status or ending.status


async def give_up(committer: Committer, store: Store, remote: RemoteStorage | None) -> None:
    """Close the store of a start that failed."""
    stored = await committer.stop()
    if remote is not None:
        remote.stop()
    if stored:
        with suppress(OSError):
            store.close()


async def restart_services(host: Host) -> bool:
    """Start new instances of services that were stopped; log the failure and return False if one cannot start."""
    return await services.start(load_services(), host)


async def close(committer: Committer, store: Store, local: LocalSocket, remote: RemoteStorage | None) -> int:
    """Store the rest after all connections are closed, and return the exit status."""
    stored = await committer.stop()
    if remote is not None:
        remote.stop()  # not before: without heartbeats the last batch would not count as stored
    if not stored:
        log.error(
            "not_stored",
            reason="the disk is full, or the store cannot be reached: all that was not yet confirmed is lost",
        )
        return FAILED
    status = 0
    try:
        local.unlink()
    except OSError as error:
        log.warning("no_control_socket", reason=str(error))  # the next start replaces the file
    try:
        store.close()
    except OSError as error:
        log.critical("storage_failed", reason=str(error))
        status = FAILED
    await local.close()  # last: clients that wait for the stop of the node notice their connections close
    log.info("stopped")
    return status


def announce(host: Host, bound: dict[str, list[str]], started_ms: int) -> None:
    """Log that the broker is ready, `started_ms` after its start, and print the start screen on a terminal."""
    config, version, storage = host.config, distribution_version(), host.storage()
    data = "" if config.memory else str(Path(config.data_dir).absolute())
    facts = {
        "storage": storage.kind,
        "guarantee": storage.guarantee,
        "data": data,
        "pid": os.getpid(),
        "version": version,
        "build": compilation.BUILD,
        "plugins": len(host.services),
    }
    (log.warning if compilation.CHANGED else log.info)("build", build=compilation.BUILD, reason=compilation.REASON)
    log.info("ready", node=config.node, **bound, **facts)
    log.info("started", ms=started_ms)
    missing = missing_plugins({*host.plugins(), *host.known_plugins()})
    if missing:
        log.warning("configuration", what=f"enabled plugins: {', '.join(missing)}: Warren does not have what they do")
    if config.log.console and sys.stderr.isatty():
        user = host.node.users.get(config.default_user)
        known = secret_of = user.name if user is not None else ""
        if user is not None and has_default_password(user):
            known += f" with the password {DEFAULT_PASS}"
            secret_of = ""
        if known and config.default_user in config.loopback_users:
            known += ", from this machine only"
        prefix = config.management.path_prefix
        screen = start_screen(version, config.node, bound, known, data, storage, prefix, host.not_listening, secret_of)
        print(screen, file=sys.stderr, flush=True)
    if storage.kind in ("os", "memory"):
        log.warning("not_durable", storage=storage.kind, means=storage.warning, advice=DURABLE[storage.kind])


def watch_remote(store: Store, node: Node, config: Config) -> RemoteStorage | None:
    """Watch a store on PostgreSQL; None for any other."""
    if store.remote is None:
        return None
    from .postgresql_storage import RemoteStorage

    return RemoteStorage(store.remote, node, config, lost)


def lost(error: Exception) -> None:
    """End the process at once after the journal could not be written or synced, or another broker has it.

    The state of the disk is unknown, so nothing may be confirmed any more; the next start recovers the journal.
    """
    if isinstance(error, OSError) and error.errno == errno.ESTALE:
        log.critical("not_owner", reason=error.strerror)
        os._exit(NOT_OWNER)
    if isinstance(error, ConfirmedLost):
        log.critical(
            "confirmed_messages_lost",
            server_has=error.stored,
            confirmed=error.confirmed,
            reason="PostgreSQL lacks transactions that were confirmed: a broker that starts now goes on without them",
        )
        os._exit(CONFIRMED_LOST)
    log.critical("storage_failed", reason=str(error))
    os._exit(FAILED)


def delayed(remote: RemoteStorage | None, error: OSError) -> None:
    """Log that a batch of the journal is tried again, for lack of a descriptor, of memory, or of the server."""
    log.error("storage_delayed", reason=str(error))
    if remote is not None and error.errno == errno.ENOTCONN:
        remote.delayed()


def serve(config: Config, sources: Sources, parts: DaemonParts | None = None) -> int:
    """Run the daemon in the foreground, of these parts or its usual ones, and return the exit status."""
    parts = parts or DaemonParts()
    folder = DataFolder(config, sources)
    sys.set_int_max_str_digits(DIGITS)  # longer numbers take time as the square of their length
    try:
        if sys.platform != "win32":
            keep_heap()
            try:
                import uvloop
            except ImportError:
                log.warning("uvloop is not installed: the broker is slower on asyncio's own loop")
            else:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    return runner.run(run(config, sources, parts, folder))
        return asyncio.run(run(config, sources, parts, folder))
    except MemoryError:  # at the start; connections and jobs report their own
        log.critical("cannot_open_data", data=config.data_dir, reason=NO_MEMORY)
        return UNAVAILABLE
    finally:
        logs.gather(None)
        folder.clean()
