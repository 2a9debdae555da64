"""A simulated PostgreSQL server with a synchronous standby, and the sessions of brokers with it.

A commit may succeed, be lost before the server had it, succeed although the answer is lost, or stay under way: then it
is decided later, at the latest when somebody else needs the row of the owner. A sync may be cut off before or after the
standby has all. A failover, or a crash and restart, loses all sessions, and any of the last commits that were not
synced: the server then has what was synced, and maybe more.

What is simulated is what the statements of `Database` do, not SQL: the tests with a real server show that these agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from tests.faults.simulation.disk import Stopped
from warren.broker.storage.postgresql.database import Database
from warren.broker.storage.postgresql.disk import PostgreSQLDisk
from warren.broker.storage.postgresql.errors import Fenced, Refused, Unreachable
from warren.broker.storage.postgresql.operations import (
    Append,
    DeleteRecord,
    DropSegment,
    Operation,
    PutRecord,
    SaveCheckpoint,
)
from warren.broker.storage.postgresql.transactions import UNREACHABLE, Transactions

WAITS = "it waits for another worker"


@dataclass(frozen=True)
class State:
    """The committed contents of a server. `segments` are bytes by number."""

    epoch: int = 0
    commits: int = 0
    segments: dict[int, bytes] = field(default_factory=dict)
    checkpoint: bytes | None = None
    records: dict[tuple[str, bytes], str] = field(default_factory=dict)

    def after(self, operations: Sequence[Operation]) -> State:
        """Return the contents after these operations. Raises Fenced where a unique index is violated."""
        segments, checkpoint, records = dict(self.segments), self.checkpoint, dict(self.records)
        for operation in operations:
            if isinstance(operation, Append):
                if not operation.offset and operation.number in segments:
                    raise Fenced("the table exists")
                data = segments[operation.number] if operation.offset else b""
                if operation.offset < len(data):
                    raise Fenced("the offset exists")
                assert operation.offset == len(data), "a segment has a hole"
                segments[operation.number] = data + operation.data
            elif isinstance(operation, DropSegment):
                segments.pop(operation.number, None)
            elif isinstance(operation, SaveCheckpoint):
                checkpoint = operation.data
            elif isinstance(operation, PutRecord):
                records[operation.kind, operation.key] = operation.record
            elif isinstance(operation, DeleteRecord):
                records.pop((operation.kind, operation.key), None)
            else:
                raise AssertionError(f"not simulated: {operation}")
        return State(self.epoch, self.commits, segments, checkpoint, records)


class SimulatedServer:
    """The server of all brokers.

    faults       probability of each fault of a commit
    slowness     of syncs, from 0 to 1: how much happens during one
    limit_bytes  that the segments may have, or None
    """

    FAULTS = ("lost", "no answer", "late", "failover")
    SYNC_FAULTS = ("lost", "no answer", "failover")

    def __init__(self, random: Random, trace: Callable[[str], None]) -> None:
        self.random = random
        self.faults = 0.0
        self.slowness = random.choice((0.0, 0.5, 0.8))
        self.limit_bytes: int | None = None
        self.state = State()
        self.generation = 0  # of sessions; those of earlier ones are lost
        self._trace = trace
        self._safe = self.state  # what the standby has for certain
        self._unsafe: list[State] = []  # after each commit since
        self._late: list[tuple[int, int, list[Operation]]] = []
        self._away = 0  # attempts to connect that will fail

    @property
    def used_bytes(self) -> int:
        return sum(map(len, self.state.segments.values()))

    def calm(self) -> None:
        """End all faults."""
        self.faults, self.limit_bytes, self._away = 0.0, None, 0

    def take_over(self) -> tuple[int, int]:
        """Raise the epoch, whoever owns the store; return it and the number of the last transaction."""
        self._away = 0
        self.raise_epoch(self.state.epoch + 1)
        return self.state.epoch, self.state.commits

    def raise_epoch(self, epoch: int) -> None:
        """Let a new owner have the store, for certain."""
        self._decide()
        self.state = self._safe = replace(self.state, epoch=epoch)
        self._unsafe.clear()
        self._trace(f"epoch {self.state.epoch} after transaction {self.state.commits}")

    def fail_over(self) -> None:
        """Lose the primary; its standby may have more than is certain."""
        before = self.state.commits
        self.state = self._safe = self.random.choice([self._safe, *self._unsafe])
        self._unsafe.clear()
        self._late.clear()
        self.generation += 1
        self._away = self.random.choice((0, 1, 3))
        undone = f", {before - self.state.commits} undone" if self.state.commits < before else ""
        self._trace(f"failover to transaction {self.state.commits} of epoch {self.state.epoch}{undone}")

    def connect(self) -> None:
        """Open a session. Raises Unreachable."""
        if self.faults and not self.random.randrange(40):
            self.fail_over()
        if self._away:
            self._away -= 1
            raise Unreachable("no session")

    def commit(self, epoch: int, number: int, operations: list[Operation]) -> None:
        fault = self.random.choice(self.FAULTS) if self.random.random() < self.faults else ""
        self._trace(f"transaction {number} of epoch {epoch}, {len(operations)} operations {fault}")
        if fault == "lost":
            self._lose()
        if fault == "late":
            self._late.append((epoch, number, operations))
            self._lose()
        if fault == "failover":
            self.fail_over()
            self._lose()
        self._decide()
        if any(isinstance(operation, DropSegment) for operation in operations) and not self.random.randrange(4):
            raise Refused("a backup reads it", "55P03")
        size = sum(len(each.data) for each in operations if isinstance(each, Append | SaveCheckpoint))
        if size and self.limit_bytes is not None and self.used_bytes + size > self.limit_bytes:
            raise Refused("no room", "53100")
        if self._unsafe:
            self._trace(f"  while {len(self._unsafe)} before it are not certain")
        self._apply(epoch, number, operations)
        if fault == "no answer":
            self._lose()

    def sync(self, state: State) -> None:
        """Make certain what was committed in this state, unless later ones are."""
        fault = self.random.choice(self.SYNC_FAULTS) if self.random.random() < self.faults else ""
        self._trace(f"sync of transaction {state.commits} {fault}")
        if fault == "failover":
            self.fail_over()
        if fault in ("lost", "failover"):
            self._lose()
        if state in self._unsafe:
            del self._unsafe[: self._unsafe.index(state) + 1]
            self._safe = state
        if fault == "no answer":
            self._lose()

    def _lose(self) -> None:
        self._away = self.random.choice((0, 0, 1, 5))
        raise Unreachable("lost")

    def _decide(self) -> None:
        """Commit or abort what is under way; nobody waits for its standby."""
        late, self._late = self._late, []
        for epoch, number, operations in late:
            if self.random.random() < 0.5:
                try:
                    self._apply(epoch, number, operations)
                    self._trace(f"late transaction {number} of epoch {epoch}")
                except Fenced:
                    pass

    def _apply(self, epoch: int, number: int, operations: Sequence[Operation]) -> None:
        if (epoch, number) != (self.state.epoch, self.state.commits + 1):
            raise Fenced("not null")
        self.state = replace(self.state.after(operations), commits=number)
        self._unsafe.append(self.state)


class SimulatedDatabase(Database):
    """The sessions of one broker. After `stopped` every call raises Stopped, as the process is gone."""

    def __init__(self, server: SimulatedServer) -> None:
        self.server = server
        self.stopped = False
        self.before: Callable[[str, str], None] | None = None
        self.stop_after: int | None = None  # commits
        self._open: dict[int, int] = {}  # generations of sessions
        self._committed: dict[int, State] = {}  # after the last commit of each session

    def call(self, what: str) -> None:
        if self.stopped:
            raise Stopped
        if self.before is not None:
            self.before(what, "")

    def commit(self, session: int, epoch: int, number: int, operations: Sequence[Operation]) -> None:
        self.call("sync")
        if session not in self._open:
            self.server.connect()
            self._open[session] = self.server.generation
        if self.stop_after is not None:
            self.stop_after -= 1
        if self.stop_after == -1:
            self.stopped = True
            if self.server.random.random() < 0.5:
                raise Stopped
        with self._session(session):
            self.server.commit(epoch, number, list(operations))
        self._committed[session] = self.server.state
        if self.stopped:
            raise Stopped

    def sync(self, session: int) -> None:
        self.call("sync")
        while self.server.random.random() < self.server.slowness:
            self.call("sync")  # others begin meanwhile
        with self._session(session):
            self.server.sync(self._committed[session])
        if self.stopped:
            raise Stopped

    @contextmanager
    def _session(self, session: int) -> Iterator[None]:
        """Context with a session, which was lost if the server was, and is lost if an answer is."""
        try:
            if self._open[session] != self.server.generation:
                raise Unreachable("the session is lost")
            yield
        except Unreachable:
            del self._open[session]
            raise

    def forget_sessions(self) -> None:
        """The server has ended the sessions: what they call next fails."""
        self._open = dict.fromkeys(self._open, -1)

    def owner(self) -> tuple[int, int]:
        self.call("owner")
        self._open.clear()
        self.server.connect()
        self._open[0] = self.server.generation
        return self.server.state.epoch, self.server.state.commits

    def segments(self) -> dict[int, int]:
        self.call("names")
        return {number: len(data) for number, data in sorted(self.server.state.segments.items())}

    def checkpoint(self) -> bytes | None:
        self.call("read")
        return self.server.state.checkpoint

    def records(self) -> list[tuple[str, str]]:
        return [(kind, text) for (kind, _), text in self.server.state.records.items()]

    def another(self) -> Database:
        return OtherSessions(self)

    def moment(self, first: int) -> tuple[dict[int, int], bytes, list[tuple[str, str]]]:
        lengths = {number: length for number, length in self.segments().items() if number >= first}
        return lengths, self.server.state.checkpoint or b"", self.records()

    def read(self, number: int, offset: int, count: int) -> bytes:
        self.call("read")
        return self.server.state.segments.get(number, b"")[offset : offset + count]


class OtherSessions(SimulatedDatabase):
    """Sessions of another thread of the same process, which reads."""

    def __init__(self, owner: SimulatedDatabase) -> None:
        super().__init__(owner.server)
        self._owner = owner

    def call(self, what: str) -> None:
        self._owner.call(what)


class SimulatedTransactions(Transactions):
    """Transactions of workers that are no threads: each works within a call of another one, and cannot wait for it."""

    settling = False

    def _wait(self, possible: Callable[[], bool]) -> None:
        if self.settling or not possible():
            raise OSError(UNREACHABLE, WAITS)

    def _settle(self) -> None:
        self.settling = True
        try:
            super()._settle()
        finally:
            self.settling = False


class SimulatedTables(PostgreSQLDisk):
    """The log of one broker, with what the simulated processes use of a simulated disk."""

    def __init__(self, database: SimulatedDatabase, transactions: Transactions) -> None:
        super().__init__(database, transactions)
        self.database = database

    @property
    def before(self) -> Callable[[str, str], None] | None:
        return self.database.before

    @before.setter
    def before(self, before: Callable[[str, str], None] | None) -> None:
        self.database.before = before

    @property
    def limit_bytes(self) -> int | None:
        return self.database.server.limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit: int | None) -> None:
        self.database.server.limit_bytes = limit

    @property
    def used_bytes(self) -> int:
        return self.database.server.used_bytes

    def salt(self) -> int:
        return self.database.server.random.getrandbits(32)
