"""The database: the server of a store, over several sessions.

    commits   transactions of the owner, on worker threads, one session for each that may be under way
    reads     ranges of segments, for the loop, which never waits long: a read fails without an answer, and also if a
              lost session cannot be replaced at once
    watch     the advisory lock and the heartbeat of the owner (`ownership`)

A session that was lost is replaced by the next call of `connect`.

A commit waits for the disks of the server and of its standbys, and keeps its locks meanwhile, also on the row that
counts transactions, for which the next one would wait. So each is two transactions on one session: the operations,
which are committed in memory at first, and the BARRIER, which only writes a message to the WAL and waits. The WAL is in
order, so all earlier commits are as durable then. The next transaction begins when the first of the two has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from ..segment import DIGITS
from .errors import Fenced, Refused, Unreachable
from .operations import Operation, Statement, quoted, table_of

if TYPE_CHECKING:
    from .address import Address
    from .session import Row, Session

READS, WATCH = "reads", "watch"
COMMITS = tuple(f"commits {number}" for number in range(1, 4))  # with more, the processor of the server is the limit
LIMIT_S = 30.0  # of a query that is no commit
REPLACED_S = 0.1  # for a read to replace a session that the server has closed
LONGEST_BYTES = 1 << 30  # of a value of PostgreSQL
Records = list[tuple[str, str]]  # kind and text
NOT_NULL = "23502"
UNIQUE, DUPLICATE_TABLE = "23505", "42P07"
UNDEFINED_TABLE = "42P01"
SEGMENTS = (
    "SELECT substring(relname FROM 9) FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'"
    f" AND relname ~ '^segment_[0-9]{{1,{DIGITS}}}$'"
)
BARRIER: tuple[Statement, ...] = (("SELECT pg_logical_emit_message(true, 'warren', '')", ()),)


class Database(Protocol):
    """The port to a server, for the log, the metadata and the transactions.

    `sessions` is the number of transactions that may be under way at a time.
    """

    sessions: int = len(COMMITS)

    def commit(self, session: int, epoch: int, number: int, operations: Sequence[Operation]) -> None:
        """Commit the operations as the transaction with this number of the owner with this epoch.

        `session` is from 0 on. The transaction can be seen, and be lost with the memory of the server until `sync`.
        Raises Fenced if the epoch is over or the number is not the next, Refused after any other rollback, and
        Unreachable if the outcome is unknown.
        """

    def sync(self, session: int) -> None:
        """Wait until the last transaction of this session is as durable as the server's settings say.

        All with lower numbers are then, too. Raises Unreachable or Refused if that is unknown.
        """

    def owner(self) -> tuple[int, int]:
        """Return the epoch and the number of the last transaction, from a new session, and close the others.

        No other call may be under way. Raises Unreachable, Refused.
        """

    def segments(self) -> dict[int, int]:
        """Return the bytes of all segments, by number in ascending order. Raises Unreachable, Refused."""

    def checkpoint(self) -> bytes | None:
        """Return the checkpoint, or None. Raises Unreachable, Refused."""

    def records(self) -> Records:
        """Return kind and text of all records, in the order of their creation. Raises Unreachable, Refused."""

    def another(self) -> Database:
        """Return the same database with sessions of its own, for another thread."""
        raise NotImplementedError

    def moment(self, first: int) -> tuple[dict[int, int], bytes, Records]:
        """Return the bytes of the segments from number `first` on, the checkpoint and all records, of one moment.

        Raises Unreachable, Refused.
        """
        raise NotImplementedError

    def close(self) -> None: ...

    def read(self, number: int, offset: int, count: int) -> bytes:
        """Return the bytes of a segment from `offset` on; none of a dropped one. Raises Unreachable, Refused."""


class PostgreSQL(Database):
    """The database with an address. Thread-safe: each session serves one call at a time."""

    def __init__(self, address: Address, name: str) -> None:
        self.address = address
        self.name = name  # the application_name of its sessions
        self.read_s = LIMIT_S  # the time limit of `read`
        self.schema = quoted(address.schema)
        self._sessions: dict[str, Session] = {}
        self._busy = {purpose: threading.Lock() for purpose in (*COMMITS, READS, WATCH)}
        self._replacing: threading.Thread | None = None  # connects a new session for reads

    def connect(self, purpose: str) -> None:
        """Open the session if there is none; calls on it fail until then. Raises Unreachable, Refused."""
        from .session import Session

        if purpose in self._sessions:
            return
        session = Session(self.address, self.name)
        with self._busy[purpose]:
            if self._sessions.setdefault(purpose, session) is not session:
                session.close()  # another thread was faster

    def has(self, purpose: str) -> bool:
        return purpose in self._sessions

    def run(
        self, purpose: str, statements: Sequence[Statement], limit_s: float | None = LIMIT_S, binary: bool = False
    ) -> list[list[Row]]:
        """Execute statements as one transaction. The session is closed if it was lost. Raises Unreachable, Refused."""
        with self._using(purpose) as session:
            return session.run(statements, limit_s, binary)

    @contextmanager
    def _using(self, purpose: str) -> Iterator[Session]:
        """Context with the session, which no other thread uses meanwhile."""
        with self._busy[purpose]:
            session = self._sessions.get(purpose)
            if session is None:
                raise Unreachable("not connected to PostgreSQL")
            try:
                yield session
            except Unreachable:
                session.close()
                del self._sessions[purpose]
                raise

    def abandon(self, purposes: Iterable[str]) -> None:
        """End the calls that other threads make on these sessions, with Unreachable."""
        for purpose in purposes:
            session = self._sessions.get(purpose)
            if session is not None:
                session.abandon()

    def disconnect(self, purpose: str) -> None:
        with self._busy[purpose]:
            session = self._sessions.pop(purpose, None)
            if session is not None:
                session.close()

    def close(self) -> None:
        for purpose in self._busy:
            self.disconnect(purpose)

    def commit(self, session: int, epoch: int, number: int, operations: Sequence[Operation]) -> None:
        statements = [statement for operation in operations for statement in operation.statements(self.schema)]
        # The last statement, so that the row is locked only for the commit. It fails with NOT NULL for a former owner.
        counted = "CASE WHEN epoch = $1 AND commits = $2::bigint - 1 THEN $2::bigint END"
        unsynced = "set_config('synchronous_commit', 'off', true)"  # of this transaction alone
        statements.append((f"UPDATE {self.schema}.owner SET commits = {counted} RETURNING {unsynced}", (epoch, number)))
        purpose = COMMITS[session]
        self.connect(purpose)
        try:
            with self._using(purpose) as connection:
                connection.send(statements, BARRIER)
                connection.receive()
        except Refused as error:
            self.disconnect(purpose)  # the answer to the barrier is not received
            if error.sqlstate in (NOT_NULL, UNIQUE, DUPLICATE_TABLE):
                raise Fenced(str(error)) from error
            raise

    def sync(self, session: int) -> None:
        with self._using(COMMITS[session]) as connection:
            connection.receive()
        if connection.warning:
            # The wait for a standby may have been cancelled, and the transactions be on one machine only.
            raise Unreachable(f"a warning of the server: {connection.warning}")

    def owner(self) -> tuple[int, int]:
        for purpose in COMMITS:
            self.disconnect(purpose)
        self.connect(COMMITS[0])
        (row,) = self.run(COMMITS[0], [(f"SELECT epoch, commits FROM {self.schema}.owner", ())])[0]
        return int(row[0] or 0), int(row[1] or 0)

    def segments(self) -> dict[int, int]:
        self.connect(READS)
        numbers = numbers_of(self.run(READS, [(SEGMENTS, (self.schema,))])[0])
        return {number: self._size(number) for number in numbers}

    def _size(self, number: int) -> int:
        return number_in(self.run(READS, [(self._last_byte(number), ())], binary=True)[0])

    def _last_byte(self, number: int) -> str:
        table = table_of(self.schema, number)
        return f'SELECT "offset" + length(data) FROM {table} ORDER BY "offset" DESC LIMIT 1'

    def checkpoint(self) -> bytes | None:
        self.connect(READS)
        rows = self.run(READS, [(self._checkpoint(), ())], binary=True)[0]
        return joined(rows, 0) if rows else None

    def _checkpoint(self) -> str:
        return f'SELECT "offset", data FROM {self.schema}.checkpoint'

    def records(self) -> Records:
        self.connect(READS)
        return records_of(self.run(READS, [(self._records(), ())], binary=True)[0])

    def _records(self) -> str:
        return f"SELECT position, kind, record FROM {self.schema}.records"

    def another(self) -> PostgreSQL:
        return PostgreSQL(self.address, f"{self.name} backup")

    def moment(self, first: int) -> tuple[dict[int, int], bytes, Records]:
        """Read all in one transaction, and again if it sees other tables than those whose sizes it reads."""
        self.connect(READS)
        self.run(READS, [("SET default_transaction_isolation = 'repeatable read'", ())])
        wanted: list[int] = []
        while True:
            sizes = [self._last_byte(number) for number in wanted]
            statements: list[Statement] = [(SEGMENTS, (self.schema,))]
            statements += [(text, ()) for text in (self._checkpoint(), self._records(), *sizes)]
            names, saved, rows, *lengths = self.run(READS, statements, binary=True)
            numbers = [number for number in numbers_of(names) if number >= first]
            if numbers == wanted:
                found = dict(zip(wanted, map(number_in, lengths), strict=True))
                return found, joined(saved, 0), records_of(rows)
            wanted = numbers

    def read(self, number: int, offset: int, count: int) -> bytes:
        table = table_of(self.schema, number)
        end = offset + count
        text = (
            f'SELECT "offset", substring(data FROM least(greatest($1::bigint - "offset", 0), {LONGEST_BYTES})::int + 1'
            f' FOR least($2::bigint - greatest("offset", $1::bigint), {LONGEST_BYTES})::int)'
            f' FROM {table} WHERE "offset" < $2::bigint AND "offset" >='
            f' coalesce((SELECT max("offset") FROM {table} WHERE "offset" <= $1::bigint), 0)'
        )
        statements: list[Statement] = [(text, (offset, end))]
        try:
            try:
                rows = self.run(READS, statements, self.read_s, binary=True)[0]
            except Unreachable:
                if not self._replaced():
                    raise
                rows = self.run(READS, statements, self.read_s, binary=True)[0]
        except Refused as error:
            if error.sqlstate == UNDEFINED_TABLE:
                return b""
            raise
        data = joined(rows, offset)
        if len(data) < count:  # the last rows of the range are missing, or it ends behind the segment
            data += bytes(min(max(self._size(number) - offset - len(data), 0), count - len(data)))
        return data

    def _replaced(self) -> bool:
        """Open another session for reads, and return whether that succeeded within REPLACED_S.

        Another thread waits longer for a server or a network that does not answer; until then reads fail at once.
        """
        if self._replacing is not None and self._replacing.is_alive():
            return False
        self._replacing = threading.Thread(target=self._replace, name="store reads", daemon=True)
        self._replacing.start()
        self._replacing.join(REPLACED_S)
        return self.has(READS)

    def _replace(self) -> None:
        with suppress(Unreachable, Refused):  # the watch tries it again
            self.connect(READS)


def numbers_of(rows: list[Row]) -> list[int]:
    """Return the numbers of segments, in ascending order, that SEGMENTS has selected."""
    return sorted(int(row[0] or 0) for row in rows)


def number_in(rows: list[Row]) -> int:
    """Return the number in the binary format of the only row, or 0 without a row."""
    return int.from_bytes(rows[0][0] or b"", "big") if rows else 0


def records_of(rows: list[Row]) -> Records:
    """Return kind and text of records, in the order of their creation."""
    rows.sort(key=itemgetter(0))
    return [((kind or b"").decode(), (record or b"").decode()) for _, kind, record in rows]


def joined(rows: list[Row], offset: int) -> bytes:
    """Return the bytes of rows of a table, from `offset` on. The bytes of a missing row are zero, which is damage.

    They are sorted here: the server would sort many bytes in a file, for which a full disk has no room, and no broker
    could start to free it. An offset in the binary format sorts like the number.
    """
    data = bytearray()
    for position, part in sorted(rows, key=itemgetter(0)):
        at = max(int.from_bytes(position or b"", "big") - offset, 0)
        data += bytes(max(at - len(data), 0))
        data[at:] = part or b""
    return bytes(data)
