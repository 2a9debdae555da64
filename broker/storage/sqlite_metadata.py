"""The metadata in one SQLite file, over one connection: a table of records (`metadata`).

Each row also has `crc`, the CRC-32 of its other cells: SQLite checks its pages, but not what is in a cell.

To change the schema, add a step to the end of _STEPS and never change one that was released. PRAGMA user_version counts
the steps of a file; opening the file takes the missing ones in one transaction. A file with more steps was written by a
later version, and is refused.

A transaction survives a killed process once it is applied, because it is in the write-ahead log. `sync` makes the
applied ones survive a power cut; SQLite itself, with synchronous=NORMAL, would do that only at its checkpoints. The
lock is exclusive and held until the file is closed, so no shared memory file is needed.
"""

import errno
import os
import sqlite3
from binascii import crc32
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..core.metadata.records import Change, Definitions
from ..system_errors import file_error
from .errors import StorageFault, Unavailable
from .folder_disk import sync_data, sync_folder
from .metadata import Metadata, MetadataRows, RowChange, RowsOfMoment

APPLICATION_ID = 0x5752524E  # "WRRN", marks our files among SQLite files

SQLITE_MAGIC = b"SQLite format 3\0"
WAL_HEAD_BYTES, WAL_FRAME_BYTES = 32, 24  # of the head of the write-ahead log, and of the head of each page in it

_STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE records (position INTEGER PRIMARY KEY, vhost TEXT NOT NULL, kind TEXT NOT NULL,"
        " key TEXT NOT NULL, record TEXT NOT NULL, crc INTEGER NOT NULL, UNIQUE (vhost, kind, key))",
        f"PRAGMA application_id = {APPLICATION_ID}",
    ),
)
VERSION = len(_STEPS)
_PUT = (
    "INSERT INTO records (vhost, kind, key, record, crc) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (vhost, kind, key) DO UPDATE SET record = excluded.record, crc = excluded.crc"
)
_DELETE = "DELETE FROM records WHERE vhost = ? AND kind = ? AND key = ?"
_DELETE_VHOST = "DELETE FROM records WHERE vhost = ?"

PRIMARY_CODE = 0xFF  # mask of the primary code in SQLite's extended result codes
# Errors of a transaction that may be tried again. The database is open already, so CANTOPEN means that there is no
# descriptor for another file.
ERRNOS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_CANTOPEN: errno.EMFILE,
    sqlite3.SQLITE_NOMEM: errno.ENOMEM,
    sqlite3.SQLITE_IOERR_NOMEM: errno.ENOMEM,
}
RESTORE = "restore the file, and its -wal if there was one, from a backup"
# What to do after errors of SQLite, by primary code; SQLITE_ERROR is a table or column that is missing.
REMEDIES = {
    sqlite3.SQLITE_NOTADB: RESTORE,
    sqlite3.SQLITE_CORRUPT: RESTORE,
    sqlite3.SQLITE_ERROR: RESTORE,
    sqlite3.SQLITE_BUSY: "stop the program that uses it",
    sqlite3.SQLITE_IOERR: "it cannot be read: check the disk, and the log of the system",
    sqlite3.SQLITE_CANTOPEN: "check its folder, and the file -wal beside it",
    sqlite3.SQLITE_FULL: "free some space",
}
# Errors that say nothing about the content.
UNREAD = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)


def is_full(error: BaseException | None) -> bool:
    """Whether an error of SQLite is that of a full disk."""
    return isinstance(error, sqlite3.Error) and error.sqlite_errorcode & PRIMARY_CODE == sqlite3.SQLITE_FULL


def fault(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> StorageFault:
    """Return the fault of a file that SQLite refuses or cannot read, with what to do about it."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & PRIMARY_CODE
    remedy = REMEDIES.get(code, "")
    kind = Unavailable if code in UNREAD else StorageFault
    return kind(f"{path}: {error}" + (f": {remedy}" if remedy else ""))


class SQLiteMetadata(Metadata):
    """The open metadata file.

    The loop's thread opens and loads it, then only the worker writes it; it is closed after the worker has ended.
    Without `durable`, `sync` does nothing, and the last changes may not survive a power cut. Errors name `shown`, for a
    copy that the operator does not know.
    """

    def __init__(self, path: Path, durable: bool = True, shown: Path | None = None) -> None:
        """Open the file, and create or upgrade it if needed. Raises StorageFault."""
        self._path = shown or path
        self._wal = Path(f"{path}-wal")
        self.unsynced = durable  # at first too: the process before may have been killed
        self._durable = durable
        self._rows = MetadataRows()
        self._descriptor = -1  # of the write-ahead log, once it exists: a sync must not need a free descriptor
        self._folder_synced = False  # once is enough: the write-ahead log exists until the file is closed
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # it holds the hashes of passwords
            try:
                head = os.read(descriptor, 20)
            finally:
                os.close(descriptor)
            if head.startswith(SQLITE_MAGIC) and head[18:] not in (b"\1\1", b"\2\2"):  # SQLite waits for a lock then
                raise StorageFault(f"{self._path}: damaged: its head, at offset 18: {RESTORE}")
            self._connection = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
        except OSError as error:
            kind = StorageFault if isinstance(error, IsADirectoryError) else Unavailable
            raise kind(file_error(error, str(path))) from error
        except sqlite3.Error as error:
            raise fault(self._path, error) from error
        try:
            self._open()
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter for a text of SQLite with damaged names in it
            self._connection.close()
            raise fault(self._path, error) from error
        except StorageFault:
            self._connection.close()
            raise

    def _open(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        version = int(execute("PRAGMA user_version").fetchone()[0])
        ours = execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        if not ours and (version or execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]):
            raise StorageFault(f"{self._path}: this is not the metadata of a broker")
        if version > VERSION:
            raise StorageFault(
                f"{self._path}: written by a later version of the broker (schema {version}, this one knows {VERSION})"
            )
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        self._find_torn_end()
        damage = execute("PRAGMA integrity_check(1)").fetchone()[0]  # indexes too
        if damage != "ok":
            raise StorageFault(f"{self._path}: damaged: {' '.join(damage.split())}: {RESTORE}")
        if version < VERSION:
            execute("BEGIN IMMEDIATE")
            for step in _STEPS[version:]:
                for statement in step:
                    execute(statement)
            execute(f"PRAGMA user_version = {VERSION}")
            execute("COMMIT")

    def _find_torn_end(self) -> None:
        """Report frames of the write-ahead log of a killed process that follow its last whole transaction.

        SQLite silently ends the log at the first frame with a wrong checksum, such as one that a power cut has torn. In
        frames from before a restart of the log both salts differ.
        """
        try:
            frames = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
        except sqlite3.OperationalError as error:
            if is_full(error):
                return
            raise
        frame_bytes = WAL_FRAME_BYTES + self._connection.execute("PRAGMA page_size").fetchone()[0]
        end = WAL_HEAD_BYTES + max(frames, 0) * frame_bytes
        with suppress(FileNotFoundError), self._wal.open("rb") as file:
            salts = file.read(WAL_HEAD_BYTES)[16:24]
            for at in range(end, os.fstat(file.fileno()).st_size, frame_bytes):
                file.seek(at + 8)
                if file.read(4) == salts[:4] or file.read(4) == salts[4:]:
                    self.report = (f"{self._wal.name}: a torn end from offset {end} on is not used",)
                    return

    def load(self) -> Definitions:
        """Return all records, of each class in the order of their creation. Raises StorageFault."""
        try:
            return self._rows.definitions(records(self._connection))
        except sqlite3.Error as error:
            raise fault(self._path, error) from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StorageFault(f"{self._path}: damaged: {error}: {RESTORE}") from error

    def moment(self) -> RowsOfMoment:
        """Copy the file to a temporary one, which SQLite deletes itself."""
        try:
            copy = sqlite3.connect("", check_same_thread=False)
            try:
                self._connection.backup(copy)
            except sqlite3.Error:
                copy.close()
                raise
        except sqlite3.Error as error:
            raise StorageFault(f"{self._path}: not copied to a temporary file (TMPDIR): {error}") from error
        return SQLiteRows(copy, self._path)

    def apply(self, changes: list[Change]) -> None:
        """Write all the changes, or none; to repeat this is harmless. After it, they survive a killed process.

        Raises OSError. After ENOSPC (disk full), EMFILE or ENOMEM (no descriptor, no memory) it may be tried again; EIO
        is final.
        """
        stored = self._rows.stored
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for change in self._rows.changes(changes):
                self._change(change)
            self._connection.execute("COMMIT")
            self.unsynced = self._durable
        except MemoryError:  # of SQLite too
            self._roll_back(stored)
            raise
        except sqlite3.Error as error:
            self._roll_back(stored)
            # Errors that the module itself raises, on a closed connection for example, have no code.
            code = getattr(error, "sqlite_errorcode", 0)
            number = ERRNOS.get(code) or ERRNOS.get(code & PRIMARY_CODE, errno.EIO)
            raise OSError(number, str(error), str(self._path)) from error

    def _change(self, change: RowChange) -> None:
        kind, key, vhost, record = change
        if record is not None:
            self._connection.execute(_PUT, (vhost, kind, key, record, _checksum(vhost, kind, key, record)))
        elif kind:
            self._connection.execute(_DELETE, (vhost, kind, key))
        else:
            self._connection.execute(_DELETE_VHOST, (vhost,))

    def sync(self) -> None:
        """Make the applied changes survive a power cut. Raises OSError, which is final."""
        if not self.unsynced:
            return
        if self._descriptor < 0 and self._wal.exists():
            self._descriptor = os.open(self._wal, os.O_RDWR | os.O_CLOEXEC)
        if self._descriptor >= 0:
            sync_data(self._descriptor)
            if not self._folder_synced:
                sync_folder(self._wal.parent)
                self._folder_synced = True
        self.unsynced = False

    def close(self) -> None:
        """Close the file; SQLite moves the write-ahead log into it and syncs it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._connection.close()

    def _roll_back(self, stored: int) -> None:
        """Roll back, unless SQLite has done so itself. An error of this is dropped: the first error has the cause."""
        self._rows.stored = stored
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except (sqlite3.Error, MemoryError):
            pass


class SQLiteRows(RowsOfMoment):
    """The rows of a copy of the file at `path`, which the operator knows."""

    def __init__(self, copy: sqlite3.Connection, path: Path) -> None:
        self._copy = copy
        self._path = path

    def rows(self) -> Iterator[tuple[str, str]]:
        try:
            yield from records(self._copy)
        except sqlite3.Error as error:
            raise fault(self._path, error) from error
        except ValueError as error:
            raise StorageFault(f"{self._path}: damaged: {error}: {RESTORE}") from error

    def close(self) -> None:
        self._copy.close()


def records(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Yield kind and record of each row. Raises ValueError for a row with another checksum, and sqlite3.Error."""
    query = "SELECT position, vhost, kind, key, record, crc FROM records ORDER BY position"
    for position, vhost, kind, key, record, checksum in connection.execute(query):
        if checksum != _checksum(vhost, kind, key, record):
            raise ValueError(f"row {position} of records")
        yield kind, record


def _checksum(*cells: str) -> int:
    return crc32("\0".join(cells).encode())
