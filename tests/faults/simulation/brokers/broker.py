"""A simulated broker: a disk, metadata and a clock that outlive its processes, and the process that runs now."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, NoReturn

from tests.faults.simulation.brokers.accounts import Ledger
from tests.faults.simulation.brokers.committer import SimulatedCommitter
from tests.faults.simulation.brokers.loop import SimulatedLoop
from tests.faults.simulation.brokers.remote_store import OwnDatabase, ProcessStore, RemoteDisk, RemoteStore
from tests.faults.simulation.brokers.writers import Exports, WriterProcess
from tests.faults.simulation.definitions import MemoryDefinitions
from tests.faults.simulation.disk import SimulatedDisk, Stopped
from tests.faults.simulation.node_process import BUDGET_BYTES, SEGMENT_BYTES, SimulatedStore
from tests.faults.simulation.postgresql import WAITS
from tests.support.federation import registry
from tests.support.in_process import no_tls
from warren.broker.app.build import build_node, build_settings
from warren.broker.app.postgresql_storage import RemoteStorage
from warren.broker.config import Config
from warren.broker.config.config import Federation
from warren.broker.core.vhost.vhost import VHost
from warren.broker.net.server import Server
from warren.broker.net.transport import Transport
from warren.broker.plugin_host.host import Host
from warren.broker.runtime.clock import LoopClock
from warren.broker.runtime.password_hashing import ThreadHashing
from warren.broker.runtime.resource_monitor import Resources
from warren.broker.storage.postgresql.errors import Refused
from warren.broker.storage.postgresql.metadata import PostgreSQLMetadata
from warren.federation.link import CONNECTION
from warren.federation.service import FederationService
from warren.plugins.message_log.export.writer_process import WriterEnded
from warren.plugins.message_log.service import MessageLogService

if TYPE_CHECKING:
    from tests.faults.simulation.brokers.network import Network

CHECKS_MS = (700, 2000)  # between two looks of a link at what it has upstream
IO_ERROR = "58030"  # PostgreSQL's
FAULTS = ("internal_error", "task_failed", "tasks_not_ended", "cannot_read_log", "log_damaged")
TYPES = registry()
import_module(CONNECTION)  # otherwise the first link of all does, in a thread: its world would have another run


class Exited(SystemExit):
    """The end of a process by itself, when it has stopped or its disk has failed."""


class Process:
    """A process of a broker, made of the parts that `warren serve` starts, on a loop of its own.

    serving   clients can connect
    attempts  of links that ended
    ended     nothing of it is seen any more
    remote    its store on PostgreSQL, if it has one
    """

    def __init__(self, broker: Broker, loop: SimulatedLoop, network: Network) -> None:
        self.broker = broker
        self.loop = loop
        self.serving = self.ended = False
        self.attempts = 0
        self.remote = ProcessStore(broker.remote, loop.name) if broker.remote is not None else None
        self.starting: asyncio.Task[None] | None = None
        self.stopping: asyncio.Task[None] | None = None
        self.stopped = False
        self._network = network

    async def start(self) -> None:
        broker, loop = self.broker, self.loop
        self.config = broker.config
        if self.remote is not None:
            broker.taken_over(self, *await self.remote.take_over())
        self.store = SimulatedStore(broker)
        hashing = ThreadHashing(loop, lambda: self.committer.commit_soon(), self._report)
        self.clock = LoopClock(loop, lambda: self.committer.commit_soon())
        self.node = build_node(self.config, self.clock, self.store, hashing, TYPES)
        self.node.scheduler.report = self._report
        resources = Resources(self.node.alarms, broker.disk.free_bytes, lambda: None, lambda: 1 << 20, 1 << 30)
        self.watch: RemoteStorage | None = None
        if self.remote is not None:
            self.watch = RemoteStorage(self.remote, self.node, self.config, self._lost)
        owned = self.watch.owned if self.watch is not None else lambda: True
        watch = (resources.disk_has_room, resources.disk_full, self._lost, self.node.commits.count, self._delayed)
        self.committer = SimulatedCommitter(loop, self.store.journal, *watch, owned)
        settings = build_settings(self.config)
        self.server = Server(self.node, settings, 10, self._report, self.committer.commit_soon)
        resources.watch(self.committer.check_disk)
        self.committer.commit_soon()
        self.host = Host(self.node, self.config, settings, self.server, resources, no_tls, [])
        if self.watch is not None:
            self.server.guard_output(self.watch)
            self.host.alone = self.watch.alone
        self.traffic_log = MessageLogService()
        if broker.exports is not None:
            loop.spawn = partial(WriterProcess, broker.exports, broker, loop)
            await self.traffic_log.start(self.host)
        self.ledger = Ledger(self.vhost)
        self.server.listeners.append(self._network.listen(loop, lambda: Transport(self.server)))
        self.federation = FederationService()
        self.host.services["federation"] = self.federation
        await self.federation.start(self.host)
        self.serving = True

    async def stop(self) -> None:
        """Stop cleanly, in the order of `warren serve`."""
        self.serving = False
        await self.federation.stop()
        await self.server.stop("shutdown")
        await self.committer.finish(self.node.finish)
        self.clock.stop()
        self.node.scheduler.stop()
        await self.traffic_log.stop()
        if not await self.committer.stop():  # the disk is full
            raise Exited
        self.store.journal.close()
        self.broker.metadata.sync()
        if self.watch is not None and self.remote is not None:
            self.watch.stop()
            self.remote.close()
        await self.server.supervisor.stop()
        self.stopped = True
        raise Exited

    def _report(self, event: str, level: str, fields: dict[str, object]) -> None:
        if self.ended:
            return  # its tasks fail when they are freed
        self.broker.trace(f"{self.broker.name} logs {event} {fields.get('reason', '')}")
        if event in ("federation_disconnected", "federation_not_connected"):
            self.attempts += 1
        if event in FAULTS and not self.loop.dead:
            error = fields.get("exc_info", AssertionError(f"{event} {fields}"))
            if isinstance(error, BaseException) and not isinstance(error, Stopped | WriterEnded):
                self.loop.errors.append(error)

    def _lost(self, error: Exception) -> NoReturn:
        self.loop.dead = True
        raise Exited

    def _delayed(self, error: OSError) -> None:
        if self.watch is not None and error.errno == errno.ENOTCONN and error.strerror != WAITS:
            self.watch.delayed()

    # For the world

    @property
    def vhost(self) -> VHost:
        return self.node.vhosts["/"]

    def act(self, change: Callable[[], object]) -> None:
        """Make a change as an operator."""

        def acting() -> None:
            with self.host.acting("guest"):
                change()

        self.loop.run_now(acting)

    @property
    def owns_store(self) -> bool:
        """Whether no other process has taken the store over, which this one may not know yet."""
        remote = self.broker.remote
        return self.remote is None or remote is None or self.remote.ownership.epoch == remote.server.state.epoch

    @property
    def all_stored(self) -> bool:
        """Whether a power cut would lose nothing that was done so far."""
        journal = self.node.journal
        return journal.ticket() <= journal.durable and not journal.unsynced()


class Broker:
    """A broker.

    process   None while it is down
    standby   waits for the store of the process, if any
    former    processes that have lost the store to another one, and still run
    """

    def __init__(
        self,
        name: str,
        random: Random,
        network: Network,
        trace: Callable[[str], None],
        exports: Exports | None,
        remote: RemoteStore | None,
    ) -> None:
        self.name = name
        self.remote = remote
        self.exports = exports
        self.disk: SimulatedDisk | RemoteDisk = SimulatedDisk(random)
        self.metadata: MemoryDefinitions | PostgreSQLMetadata = MemoryDefinitions()
        self.segment_bytes = random.choice(SEGMENT_BYTES)
        self.process: Process | None = None
        self.standby: Process | None = None
        self.former: list[Process] = []
        self.attempts = 0  # of links, in former processes
        self.wall_s = 0.0
        self.trace = trace
        self.config = Config(
            memory=False,
            node=f"{name}@test",
            cluster_name=name,
            loopback_users=(),
            message_memory_bytes=random.choice(BUDGET_BYTES),
            federation=Federation(internal_exchange_check_interval=random.choice(CHECKS_MS)),
        )
        if remote is not None:
            self.config = replace(self.config, storage=remote.config)
        self._random = random
        self._network = network
        self._calls_left: int | None = None  # of the disk, before `_error`
        self._error: int | None = None

    def start(self, loop: SimulatedLoop) -> None:
        if self.exports is not None:
            data = str(self.exports.folder)  # the exporter notes there that it has exported
            self.config = replace(self.config, message_log=self.exports.config(), data_dir=data)
        self.process = self._begun(loop)
        if self.remote is None:
            self.disk.before = partial(self._before, self.process)
        self._network.host_is_back(self.name)

    def start_standby(self, loop: SimulatedLoop) -> None:
        self.standby = self._begun(loop)

    def _begun(self, loop: SimulatedLoop) -> Process:
        loop.wall_s = self.wall_s
        process = Process(self, loop, self._network)
        process.starting = loop.create_task(process.start())
        process.starting.add_done_callback(partial(task_done, process))
        return process

    def taken_over(self, process: Process, disk: RemoteDisk, metadata: PostgreSQLMetadata) -> None:
        """A process owns the store now, and another one does not, or waits on."""
        if process is self.standby:
            before, self.process, self.standby = self.process, process, None
            self._network.host_is_back(self.name)  # it has the address of the owner now
            if before is not None and before.serving:
                before.loop.former_s = before.loop.now_s
                self.former.append(before)
                self.trace(f"{self.name} has a former owner of its store")
            else:
                self.standby = before
        self.disk, self.metadata = disk, metadata
        disk.before = partial(self._before, process)

    def heal(self) -> None:
        """Let the disk work from now on."""
        self._calls_left = None
        self.disk.limit_bytes = None
        if self.remote is not None:
            self.remote.server.calm()
            for database in self.remote.databases:
                database.reachable = True
            for process in self.processes():
                process.loop.asleep_s = min(process.loop.asleep_s, process.loop.now_s)

    def processes(self) -> list[Process]:
        """Return all processes that have not ended."""
        return [process for process in (self.process, self.standby, *self.former) if process is not None]

    def fail_after(self, calls: int, error: int | None) -> None:
        """Let the disk fail with this error at a later call; None: the process is killed there."""
        self._calls_left, self._error = calls, error

    def _before(self, process: Process, what: str, name: str) -> None:
        concurrent = self.remote is not None and what == "sync" and self._random.random() < 0.5
        if concurrent and process.serving:
            process.committer.work()  # of another thread
        if self._calls_left is None:
            return
        self._calls_left -= 1
        if self._calls_left >= 0:
            return
        if self._error is not None and what not in ("write", "sync"):
            return
        self._calls_left = None
        if self._error is not None and self.remote is not None:
            raise Refused(errno.errorcode[self._error], IO_ERROR)
        if self._error is not None:
            raise OSError(self._error, errno.errorcode[self._error], name)
        process.loop.dead = True
        raise Stopped

    def end(self, power: bool, silently: bool) -> None:
        """End the process at once. With a `power` cut, what was not synced may be lost."""
        assert self.process is not None
        process, self.process = self.process, None
        self.disk.stopped = True
        for writer in self.exports.of(self) if self.exports is not None else ():
            writer.leave()
            if power:
                writer.die()
        self.bury(process, silently)
        if isinstance(self.disk, SimulatedDisk):
            self.disk = self.disk.power_loss(self._random) if power else self.disk.crash()
        if isinstance(self.metadata, MemoryDefinitions) and power:
            self.metadata.power_loss(self._random)
        self._calls_left = None

    def bury(self, process: Process, silently: bool) -> None:
        """End a process at once; `silently`: its server and the other ends of its connections do not notice."""
        process.ended = True
        self.attempts += process.attempts
        self._network.host_ended(process.loop, silently)
        if process.remote is not None and self.remote is not None:
            database: OwnDatabase = process.remote.database
            database.stopped = True
            if not silently:
                self.remote.end_sessions(database)
        process.loop.bury()


def task_done(process: Process, task: asyncio.Task[None]) -> None:
    """End a process if it cannot start or stop: the disk has failed, or is full."""
    error = task.exception() if not task.cancelled() else None
    if isinstance(error, OSError):
        process.loop.dead = True
    elif error is not None and not isinstance(error, Exited) and not process.loop.dead:
        process.loop.errors.append(error)
