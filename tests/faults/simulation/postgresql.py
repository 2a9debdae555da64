"""A simulated PostgreSQL server with a synchronous standby, and the sessions of brokers with it.

A commit may succeed, be lost before the server had it, succeed although the answer is lost, be committed on the primary
alone, or stay under way: then it is decided later, at the latest when somebody else needs the row of the owner. After a
failover the server has what the standby had: all that was answered, and maybe more.

What is simulated is what the statements of `Database` do, not SQL: the tests with a real server show that these agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.faults.simulation.disk import Stopped
from warren.broker.storage.postgresql.database import Database, StoredFile
from warren.broker.storage.postgresql.disk import PostgreSQLDisk
from warren.broker.storage.postgresql.errors import Fenced, Refused, Unreachable
from warren.broker.storage.postgresql.operations import (
    Append,
    CreateFile,
    Cut,
    DeleteRecord,
    DropTable,
    Operation,
    PutRecord,
    RemoveFile,
    RenameFile,
)
from warren.broker.storage.postgresql.transactions import Transactions


@dataclass(frozen=True)
class State:
    """The committed contents of a server. `tables` have the bytes of files by number."""

    epoch: int = 0
    commits: int = 0
    files: dict[str, int] = field(default_factory=dict)
    tables: dict[int, bytes] = field(default_factory=dict)
    records: dict[tuple[str, bytes], str] = field(default_factory=dict)

    def after(self, operations: Sequence[Operation]) -> State:
        """Return the contents after these operations. Raises Fenced where a unique index is violated."""
        files, tables, records = dict(self.files), dict(self.tables), dict(self.records)
        for operation in operations:
            if isinstance(operation, CreateFile):
                if operation.number in tables or operation.name in files:
                    raise Fenced("the table exists")
                files[operation.name], tables[operation.number] = operation.number, b""
            elif isinstance(operation, Append):
                data = tables[operation.number]
                if operation.offset < len(data):
                    raise Fenced("the offset exists")
                assert operation.offset == len(data), "a file has a hole"
                tables[operation.number] = data + operation.data
            elif isinstance(operation, Cut):
                tables[operation.number] = tables[operation.number][: operation.size]
            elif isinstance(operation, RemoveFile):
                del files[operation.name]
            elif isinstance(operation, RenameFile):
                assert operation.new not in files
                files[operation.new] = files.pop(operation.old)
            elif isinstance(operation, DropTable):
                assert operation.number not in files.values(), "the table of a file is dropped"
                tables.pop(operation.number, None)
            elif isinstance(operation, PutRecord):
                records[operation.kind, operation.key] = operation.record
            elif isinstance(operation, DeleteRecord):
                records.pop((operation.kind, operation.key), None)
            else:
                raise AssertionError(f"not simulated: {operation}")
        return State(self.epoch, self.commits, files, tables, records)


class SimulatedServer:
    """The server of all brokers.

    faults       probability of each fault of a commit
    limit_bytes  that the tables may have, or None
    """

    FAULTS = ("lost", "no answer", "late", "not replicated")

    def __init__(self, random: Random, trace: Callable[[str], None]) -> None:
        self.random = random
        self.faults = 0.0
        self.limit_bytes: int | None = None
        self.state = State()
        self._trace = trace
        self._safe = self.state  # what the standby has for certain
        self._late: list[tuple[int, int, list[Operation]]] = []
        self._away = 0  # attempts to connect that will fail

    @property
    def used_bytes(self) -> int:
        return sum(map(len, self.state.tables.values()))

    def calm(self) -> None:
        """End all faults."""
        self.faults, self.limit_bytes, self._away = 0.0, None, 0

    def take_over(self) -> tuple[int, int]:
        """Raise the epoch, whoever owns the store; return it and the number of the last transaction."""
        self._away = 0
        self._decide()
        self._safe = self.state = replace(self.state, epoch=self.state.epoch + 1)
        self._trace(f"epoch {self.state.epoch} after transaction {self.state.commits}")
        return self.state.epoch, self.state.commits

    def fail_over(self) -> None:
        """Lose the primary; its standby may have more than is certain."""
        if self.random.random() < 0.5:
            self.state = self._safe
        self._safe = self.state
        self._late.clear()
        self._away = self.random.choice((0, 1, 3))
        self._trace(f"failover to transaction {self.state.commits} of epoch {self.state.epoch}")

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
        self._decide()
        size = sum(len(operation.data) for operation in operations if isinstance(operation, Append))
        if size and self.limit_bytes is not None and self.used_bytes + size > self.limit_bytes:
            raise Refused("no room", "53100")
        self._apply(epoch, number, operations)
        if fault == "not replicated":
            self._lose()
        self._safe = self.state
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


class SimulatedDatabase(Database):
    """The sessions of one broker. After `stopped` every call raises Stopped, as the process is gone."""

    def __init__(self, server: SimulatedServer) -> None:
        self.server = server
        self.stopped = False
        self.before: Callable[[str, str], None] | None = None
        self.stop_after: int | None = None  # commits

    def call(self, what: str) -> None:
        if self.stopped:
            raise Stopped
        if self.before is not None:
            self.before(what, "")

    def commit(self, epoch: int, number: int, operations: Sequence[Operation]) -> None:
        self.call("sync")
        if self.stop_after is not None:
            self.stop_after -= 1
        if self.stop_after == -1:
            self.stopped = True
            if self.server.random.random() < 0.5:
                raise Stopped
        self.server.commit(epoch, number, list(operations))
        if self.stopped:
            raise Stopped

    def owner(self) -> tuple[int, int]:
        self.call("owner")
        self.server.connect()
        return self.server.state.epoch, self.server.state.commits

    def files(self) -> list[StoredFile]:
        self.call("names")
        state = self.server.state
        return [StoredFile(name, number, len(state.tables[number])) for name, number in state.files.items()]

    def tables(self) -> list[int]:
        return list(self.server.state.tables)

    def records(self) -> list[tuple[str, str]]:
        return [(kind, text) for (kind, _), text in self.server.state.records.items()]

    def read(self, number: int, offset: int, count: int) -> bytes:
        self.call("read")
        return self.server.state.tables.get(number, b"")[offset : offset + count]


class SimulatedTables(PostgreSQLDisk):
    """The disk of one broker, with what the simulated processes use of a simulated disk."""

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
