"""The store of a simulated broker on a simulated PostgreSQL server with its standby, which outlive its processes.

A process waits until it owns the store, by the lock of the owner before or once the lease has passed, and then watches
it, as `warren serve` does. The statements of `Ownership` are answered by what they do, as those of transactions are.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.faults.simulation.disk import Stopped
from tests.faults.simulation.postgresql import (
    SimulatedDatabase,
    SimulatedServer,
    SimulatedTables,
    SimulatedTransactions,
)
from warren.broker.app import postgresql_storage
from warren.broker.app.standby import LOOK_S
from warren.broker.config.config import Storage
from warren.broker.storage.postgresql.durability import Guarantee
from warren.broker.storage.postgresql.errors import Refused, Unreachable
from warren.broker.storage.postgresql.metadata import PostgreSQLMetadata
from warren.broker.storage.postgresql.operations import Operation, Statement
from warren.broker.storage.postgresql.ownership import BEAT_S, EPOCHS, LIMIT_S, Beats, Ownership
from warren.broker.storage.postgresql.store import PostgreSQLStore
from warren.broker.storage.postgresql.watch import Watch

RETRY_S = (3, 30, 30)
LEASE_S = (3, 10)
LACKING = "53300"  # PostgreSQL's error for too many connections
Row = list[bytes | None]


@dataclass
class Beat:
    """The row with the heartbeat of the owner. `server` is the start of the server process when it held its lock."""

    epoch: int = 0
    node: str = ""
    beaten_s: float | None = None
    server: int = -1
    confirmed: int = 0


class OwnDatabase(SimulatedDatabase):
    """The sessions of one process, which may commit with the epoch of its `ownership` only.

    reachable  whether the process reaches the server
    name       the application_name of its sessions
    watching   the server process that the session of the watch is with, or None
    """

    schema = "warren"

    def __init__(self, store: RemoteStore) -> None:
        super().__init__(store.server)
        self.reachable = True
        self.name = ""
        self.ownership: Ownership | None = None
        self.watching: int | None = None
        self._store = store
        store.databases.append(self)

    def call(self, what: str) -> None:
        super().call(what)
        if not self.reachable and (what != "read" or self._store.reads_fail):
            raise Unreachable("no answer")

    def commit(self, session: int, epoch: int, number: int, operations: Sequence[Operation]) -> None:
        assert self.ownership is not None and epoch == self.ownership.epoch, f"a broker commits with epoch {epoch}"
        super().commit(session, epoch, number, operations)

    def read(self, number: int, offset: int, count: int) -> bytes:
        if self._store.reads_fail and self.server.random.random() < self.server.faults / 10:
            raise Refused("too many connections", LACKING)
        return super().read(number, offset, count)

    # What `Ownership` and `Watch` use

    def has(self, purpose: str) -> bool:
        return self.watching is not None

    def connect(self, purpose: str) -> None:
        self._reach()
        self.watching = self.server.generation

    def abandon(self, purposes: object) -> None: ...

    def run(self, purpose: str, statements: Sequence[Statement], limit_s: float | None) -> list[list[Row]]:
        self._reach()
        if self.watching != self.server.generation:
            self.watching = None
            raise Unreachable("the session is lost")
        return [self._store.answer(self, text, parameters) for text, parameters in statements]

    def close(self) -> None:
        self._store.end_sessions(self)

    def _reach(self) -> None:
        """Raise Unreachable without a server. Not counted as a call that may fail."""
        if self.stopped:
            raise Stopped
        if not self.reachable or self.server.faults == 1.0:
            self.watching = None
            raise Unreachable("no answer")


class RemoteDisk(SimulatedTables):
    """The disk of one process. After `stopped` it does nothing any more."""

    @property
    def stopped(self) -> bool:
        return self.database.stopped

    @stopped.setter
    def stopped(self, stopped: bool) -> None:
        self.database.stopped = stopped


class SimulatedWatch(Watch):
    """The watch of a process, whose thread is a timer of the loop. It waits for a server that does not answer."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(BEAT_S, self._turn)

    def stop(self) -> None:
        self._timer.cancel()

    def _turn(self) -> None:
        try:
            reason = self._beat()
        except Exception as error:
            self._lost(error)
            return
        waits_s = LIMIT_S / 2 if reason else 0.0
        self._loop.call_later(waits_s, self._changed, reason)
        self._timer = self._loop.call_later(waits_s + BEAT_S, self._turn)


class ProcessStore(PostgreSQLStore):
    """The store as one process sees it."""

    def __init__(self, store: RemoteStore, node: str) -> None:
        self.database: Any = OwnDatabase(store)
        self.guarantee = Guarantee("")
        self.ownership = self.database.ownership = Ownership(self.database, "store", node, store.config.lease_s)
        self._beats = Beats(self.ownership)  # not started, as recovery takes no time here
        self._store = store

    async def take_over(self) -> tuple[RemoteDisk, PostgreSQLMetadata]:
        """Wait until this process owns the store, and return its disk and metadata."""
        while True:
            try:
                if self.ownership.acquire() is None:
                    break
            except (Unreachable, Refused):
                pass
            await asyncio.sleep(LOOK_S)
        store, ownership, database = self._store, self.ownership, self.database
        database.name = ownership.name(ownership.epoch)
        store.trace(f"{ownership._node} owns the store after transaction {ownership.commits}")
        self.transactions = SimulatedTransactions(
            database, ownership.epoch, ownership.commits, store.config.retry_s, store.now_s
        )
        return RemoteDisk(database, self.transactions), PostgreSQLMetadata(database, self.transactions)


class RemoteStore:
    """The server of one broker, its locks and its row with the heartbeat.

    databases   the sessions of all processes so far
    reads_fail  also for lack of connections; not in worlds that export, as no snapshot counts what was not read
    """

    def __init__(
        self, random: Random, now_s: Callable[[], float], trace: Callable[[str], None], reads_fail: bool
    ) -> None:
        self.reads_fail = reads_fail
        self.server = SimulatedServer(random, trace)
        self.trace = trace
        self.now_s = now_s
        self.config = Storage(retry_s=random.choice(RETRY_S), lease_s=random.choice(LEASE_S))
        self.beat = Beat()
        self.databases: list[OwnDatabase] = []
        self._locks: dict[int, tuple[OwnDatabase, int]] = {}  # by number, whose session with which server process

    def replace(self) -> None:
        """Let another broker, which ends at once, take the store over."""
        self.server.take_over()
        self.beat = Beat(self.server.state.epoch, "another", self.now_s(), self.server.generation)

    def end_sessions(self, database: OwnDatabase) -> None:
        """End the sessions of a process."""
        self._unlock(database)
        database.watching = None
        database.forget_sessions()

    def _unlock(self, database: OwnDatabase) -> None:
        self._locks = {number: held for number, held in self._locks.items() if held[0] is not database}

    def _lock(self, database: OwnDatabase, number: int) -> bool:
        holder = self._locks.get(number)
        if holder is not None and holder[0] is not database and holder[1] == self.server.generation:
            return False
        self._locks[number] = database, self.server.generation
        return True

    def answer(self, database: OwnDatabase, text: str, parameters: Sequence[Any]) -> list[Row]:
        """Return the rows of a statement of `Ownership`, or of `durability.read`."""
        beat, state = self.beat, self.server.state
        if "pg_try_advisory_lock($1, (owner" in text:
            age_s = None if beat.beaten_s is None else str(self.now_s() - beat.beaten_s).encode()
            locked = self._lock(database, state.epoch % EPOCHS)
            known = beat.server == self.server.generation
            counts = [str(count).encode() for count in (state.commits, beat.confirmed)]
            return [[str(state.epoch).encode(), beat.node.encode(), age_s, truth(locked), truth(known), *counts]]
        if text.startswith("SELECT extract"):
            return [[None if beat.beaten_s is None else str(self.now_s() - beat.beaten_s).encode()]]
        if text.startswith("SELECT pg_try_advisory_lock"):
            return [[truth(self._lock(database, parameters[1]))]]
        if "pg_advisory_unlock_all" in text:
            self._unlock(database)
        elif "pg_terminate_backend" in text:
            for other in self.databases:
                if other.name == parameters[0]:
                    self.end_sessions(other)
        elif ".owner SET epoch" in text:
            epoch, raised = parameters
            if state.epoch != epoch:
                return []
            self.server.raise_epoch(raised)
            return [[str(self.server.state.commits).encode()]]
        elif ".beat SET epoch" in text:
            epoch, raised, node = parameters
            if beat.epoch == epoch:
                self.beat = Beat(raised, node, self.now_s(), self.server.generation, beat.confirmed)
        elif "beaten = NULL" in text:
            if beat.epoch == parameters[0]:
                beat.beaten_s = None
        elif "beaten = clock_timestamp()" in text:
            if beat.epoch != parameters[0] or state.epoch != parameters[0]:
                return []
            beat.beaten_s, beat.confirmed = self.now_s(), max(beat.confirmed, min(parameters[1], state.commits))
            if not text.startswith("WITH lock"):
                return [[b"t"]]
            held = self._lock(database, parameters[3])
            beat.server = self.server.generation if held else beat.server
            return [[truth(held)]]
        elif text.startswith("SELECT commits"):
            return [[str(state.commits).encode()]]
        elif "current_setting" in text:
            return [[b"on", b"FIRST 1 (standby)", b"on"]]
        elif "pg_stat_replication" in text:
            return [[b"sync"]]
        else:
            assert "set_config" in text, f"not simulated: {text}"
        return []


def truth(value: bool) -> bytes:
    return b"t" if value else b"f"


@contextmanager
def watched(random: Random) -> Iterator[None]:
    """Context in which stores are watched by timers, and epochs follow from the seed."""
    before = postgresql_storage.Watch, secrets.randbelow
    postgresql_storage.Watch, secrets.randbelow = SimulatedWatch, random.randrange  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        postgresql_storage.Watch, secrets.randbelow = before  # type: ignore[misc]
