"""The log in a database: a table for each segment, and one for the checkpoint.

Appended bytes gather until a sync, which commits them with all other operations that gathered meanwhile, including
those of the metadata (`transactions`). Only committed bytes can be read: the journal reads others from its buffers. A
transaction is whole or absent, so no end is torn.
"""

import errno
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from ..disk import Disk, Moment
from ..metadata import Metadata, RowsOfMoment
from .database import Database
from .errors import Refused, Unreachable
from .operations import Append, DropSegment, SaveCheckpoint
from .transactions import NOT_OWNER, UNREACHABLE, NoTransactions, Transactions

LATER = ("53", "57014", "55P03")  # classes and codes of SQLSTATE
IN_FLIGHT = 8  # batches of the journal: those sealed while every session has a transaction share the next one
READ_AHEAD = 1 << 20  # large, because the loop waits for each answer
ROUND_TRIP_BYTES = 256 << 10  # sent by a server near by in the time of a round trip
UNLIMITED_BYTES = 1 << 62  # the free space of the server is unknown: when its disk is full, a transaction fails


class PostgreSQLDisk(Disk):
    """The log in the tables of a database."""

    in_flight = IN_FLIGHT
    read_ahead = READ_AHEAD
    read_cost = ROUND_TRIP_BYTES

    def __init__(self, database: Database, transactions: Transactions) -> None:
        self.transactions = transactions
        self._database = database

    def segments(self) -> dict[int, int]:
        with reading():
            return self._database.segments()

    def read(self, number: int, offset: int, count: int) -> bytes:
        with reading():
            return self._database.read(number, offset, count) if count > 0 else b""

    def append(self, number: int, start: int, data: bytes | bytearray, slot: int) -> None:
        self.transactions.gather(Append(number, start, bytes(data)))

    def sync(self, slot: int) -> None:
        self.transactions.commit()

    def commit(self) -> None:
        self.transactions.commit()

    def drop(self, numbers: Iterable[int]) -> list[int]:
        """Drop the tables, each in a transaction of its own, which fails while something else uses it."""
        kept = []
        for number in numbers:
            try:
                self.transactions.run(DropSegment(number))
            except OSError as error:
                if error.errno == NOT_OWNER:
                    raise
                kept.append(number)
        return kept

    def load_checkpoint(self) -> bytes | None:
        with reading():
            return self._database.checkpoint()

    def save_checkpoint(self, data: bytes) -> None:
        self.transactions.run(SaveCheckpoint(data))

    def moment(self, lengths: dict[int, int], metadata: Metadata) -> Callable[[], Moment]:
        """Return a function that reads a moment of the server, which has all transactions that were certain before."""
        return partial(self._moment, lengths)

    def _moment(self, lengths: dict[int, int]) -> Moment:
        database = self._database.another()
        try:
            with reading():
                last, checkpoint, rows = database.moment(max(lengths, default=1))
        except OSError:
            database.close()
            raise
        log = PostgreSQLDisk(database, NoTransactions(database, 0, 0))
        return Moment(lengths | last, checkpoint, RowsInMemory(rows), log, database.close)

    def free_bytes(self) -> int:
        return UNLIMITED_BYTES

    def salt(self) -> int:
        return secrets.randbits(32)


class RowsInMemory(RowsOfMoment):
    """Rows that were read from the server."""

    def __init__(self, rows: list[tuple[str, str]]) -> None:
        self._rows = rows

    def rows(self) -> Iterator[tuple[str, str]]:
        return iter(self._rows)

    def close(self) -> None: ...


@contextmanager
def reading() -> Iterator[None]:
    """Raise the errors of a read as OSError: it may be tried again, unless the server has refused it.

    A lack of disk, memory or connections (SQLSTATE class 53) and a cancelled query are no refusal.
    """
    try:
        yield
    except (Unreachable, Refused) as error:
        may_work_later = isinstance(error, Unreachable) or error.sqlstate.startswith(LATER)
        raise OSError(UNREACHABLE if may_work_later else errno.EIO, f"PostgreSQL: {error}") from error
