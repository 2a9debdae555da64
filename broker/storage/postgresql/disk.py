"""The files of the log in a database.

Writes gather until something is synced, and are committed with all that gathered meanwhile, the metadata included
(`transactions`). There is one owner, so names and lengths of files are known without asking the server, and what was
written can be opened before it is committed. Only what is committed can be read: the journal reads the rest from its
buffers.
"""

from __future__ import annotations

import errno
import secrets
import threading

from ..disk import Disk, File
from .database import Database, StoredFile
from .errors import Refused, Unreachable
from .operations import Append, CreateFile, Cut, RemoveFile, RenameFile
from .transactions import UNREACHABLE, Transactions

IN_FLIGHT = 8  # batches of the journal: what was sealed while every session had a transaction becomes the next one
UNLIMITED_BYTES = 1 << 62  # the server's disk is its own affair: when it is full, a transaction fails


class TableFile(File):
    """A file of the log, in a table."""

    def __init__(self, disk: PostgreSQLDisk, number: int) -> None:
        self._disk = disk
        self._number = number
        self.size = disk.sizes.get(number, 0)

    def write(self, data: bytes | bytearray) -> None:
        if data:
            self._disk.transactions.gather(Append(self._number, self.size, bytes(data)))
            self.size += len(data)
            self._disk.sizes[self._number] = self.size

    def sync(self) -> None:
        self._disk.transactions.commit()

    def read(self, offset: int, count: int) -> bytes:
        return self._disk.read(self._number, offset, count)

    def truncate(self, size: int) -> None:
        self._disk.transactions.gather(Cut(self._number, size))
        self._disk.sizes[self._number] = self.size = size

    def close(self) -> None: ...


class PostgreSQLDisk(Disk):
    """The files of a log, each a table in a database.

    sizes  bytes of each file by number, those not yet committed included
    """

    in_flight = IN_FLIGHT

    def __init__(self, database: Database, transactions: Transactions) -> None:
        """Read the names and lengths of the files. Raises OSError."""
        self.transactions = transactions
        self._database = database
        files: list[StoredFile] = []
        tables: list[int] = []
        try:
            files, tables = database.files(), database.tables()
        except (Unreachable, Refused) as error:
            raise unreadable(error) from error
        self._changing = threading.Lock()
        self._numbers = {file.name: file.number for file in files}
        self.sizes = {file.number: file.size for file in files}
        self._next = max(tables, default=0) + 1
        self._garbage = sorted(set(tables) - set(self._numbers.values()))  # tables of removed files

    def open(self, name: str, create: bool) -> File:
        with self._changing:
            if create and name in self._numbers:
                raise FileExistsError(errno.EEXIST, "it exists", name)
            if create:
                number, self._next = self._next, self._next + 1
                self.transactions.gather(CreateFile(number, name))
                self._numbers[name], self.sizes[number] = number, 0
            if name not in self._numbers:
                raise FileNotFoundError(errno.ENOENT, "there is none", name)
            return TableFile(self, self._numbers[name])

    def names(self) -> list[str]:
        with self._changing:
            return sorted(self._numbers)

    def remove(self, name: str) -> None:
        with self._changing:
            self._remove(name)

    def rename(self, old: str, new: str) -> None:
        with self._changing:
            if old not in self._numbers:
                raise FileNotFoundError(errno.ENOENT, "there is none", old)
            if new in self._numbers:
                self._remove(new)
            self.transactions.gather(RenameFile(old, new))
            self._numbers[new] = self._numbers.pop(old)

    def _remove(self, name: str) -> None:
        number = self._numbers.pop(name, None)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, "there is none", name)
        self.transactions.gather(RemoveFile(name))
        del self.sizes[number]
        self._garbage.append(number)

    def sync_folder(self) -> None:
        """Commit, and drop the tables of files that were removed until now."""
        with self._changing:
            garbage, self._garbage = self._garbage, []
        try:
            self.transactions.commit()
        except OSError:
            with self._changing:
                self._garbage += garbage
            raise
        kept = self.transactions.drop(garbage)
        with self._changing:
            self._garbage += kept

    def commit(self) -> None:
        self.transactions.commit()

    def read(self, number: int, offset: int, count: int) -> bytes:
        if number not in self.sizes or count <= 0:
            return b""  # it was removed, and no message in it is wanted
        try:
            return self._database.read(number, offset, count)
        except (Unreachable, Refused) as error:
            raise unreadable(error) from error

    def free_bytes(self) -> int:
        return UNLIMITED_BYTES

    def salt(self) -> int:
        return secrets.randbits(32)


def unreadable(error: Unreachable | Refused) -> OSError:
    """Return the error of a read as the log knows it: one that may be tried again, unless the server has refused it.

    A server that lacks disk, memory or connections (SQLSTATE class 53) has refused nothing.
    """
    may_work_later = isinstance(error, Unreachable) or error.sqlstate.startswith("53")
    return OSError(UNREACHABLE if may_work_later else errno.EIO, f"PostgreSQL: {error}")
