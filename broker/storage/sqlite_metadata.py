"""Metadata: the durable definitions of the broker (core.metadata.records) in one SQLite file, over one connection.

Names are BLOBs, because clients may send any bytes, up to 255: UTF-8, and other bytes unchanged. Tables of arguments
are stored as they are encoded on the wire. Tags are a JSON array, the limits of a user a JSON object.

    vhosts             name, description, tags, default_queue_type, protected
    users              name, password_hash, tags, hashing_algorithm, limits
    permissions        user, vhost, configure, write, read
    topic_permissions  user, vhost, exchange, write, read
    parameters         vhost, component, name, value, user
    global_parameters  name, value
    exchanges          vhost, name, type, durable, auto_delete, internal, arguments, number, user
    queues             vhost, name, number, auto_delete, arguments
    bindings           vhost, source, kind, destination, routing_key, arguments

Each table also has `crc`, the CRC-32 of the other cells of a row: SQLite checks its pages, but not what is in a cell.

`queues.number` is AUTOINCREMENT: SQLite stores the highest number ever used, so none is used again after its queue is
deleted. `exchanges.number` is from the same sequence, or 0.

To change the schema, add a step to the end of _STEPS and never change one that was released. PRAGMA user_version counts
the steps that a file has taken; opening the file takes the others in one transaction. A file with more steps than there
are here was written by a later version, and is refused.

A transaction survives a killed process once it is applied, because it is in the write-ahead log. `sync` makes those
applied so far survive a power cut; SQLite itself, with synchronous=NORMAL, would do that only at its checkpoints. The
lock is exclusive and held until the file is closed, so no shared memory file is needed.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from binascii import crc32
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ..core.metadata.records import (
    Change,
    Definitions,
    Record,
    StoredBinding,
    StoredExchange,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredQueue,
    StoredTopicPermission,
    StoredUser,
    StoredVHost,
)
from ..system_errors import file_error
from .errors import StorageFault, Unavailable
from .folder_disk import sync_data, sync_folder
from .metadata import KEYS, LISTS, Metadata

Cell = TypeVar("Cell")

APPLICATION_ID = 0x5752524E  # "WRRN", marks our files among SQLite files

SQLITE_MAGIC = b"SQLite format 3\0"
WAL_HEAD_BYTES, WAL_FRAME_BYTES = 32, 24  # of the head of the write-ahead log, and of the head of each page in it

_STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE vhosts (name BLOB PRIMARY KEY, description BLOB, tags TEXT, default_queue_type BLOB,"
        " protected INTEGER, crc INTEGER)",
        "CREATE TABLE users (name BLOB PRIMARY KEY, password_hash BLOB, tags TEXT, hashing_algorithm BLOB, limits TEXT,"
        " crc INTEGER)",
        "CREATE TABLE permissions (user BLOB, vhost BLOB, configure BLOB, write BLOB, read BLOB, crc INTEGER,"
        " PRIMARY KEY (user, vhost))",
        "CREATE TABLE topic_permissions (user BLOB, vhost BLOB, exchange BLOB, write BLOB, read BLOB, crc INTEGER,"
        " PRIMARY KEY (user, vhost, exchange))",
        "CREATE TABLE parameters (vhost BLOB, component BLOB, name BLOB, value BLOB, user BLOB, crc INTEGER,"
        " PRIMARY KEY (vhost, component, name))",
        "CREATE TABLE global_parameters (name BLOB PRIMARY KEY, value BLOB, crc INTEGER)",
        "CREATE TABLE exchanges (vhost BLOB, name BLOB, type BLOB, durable INTEGER, auto_delete INTEGER,"
        " internal INTEGER, arguments BLOB, number INTEGER, user BLOB, crc INTEGER, PRIMARY KEY (vhost, name))",
        "CREATE TABLE queues (vhost BLOB, name BLOB, number INTEGER PRIMARY KEY AUTOINCREMENT, auto_delete INTEGER,"
        " arguments BLOB, crc INTEGER, UNIQUE (vhost, name))",
        "CREATE TABLE bindings (vhost BLOB, source BLOB, kind BLOB, destination BLOB, routing_key BLOB,"
        " arguments BLOB, crc INTEGER,"
        " PRIMARY KEY (vhost, source, kind, destination, routing_key, arguments))",
        f"PRAGMA application_id = {APPLICATION_ID}",
    ),
)
VERSION = len(_STEPS)
NUMBER_LIMIT = 1 << 31  # above the numbers of queues; the log has 32 bits for one

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
# Errors that say nothing of the content.
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


class _TableMapping:
    """The table of a record class: its columns are the slots of the class, and `key` names those of the primary key.

    `put` has the cells of all columns, and their checksum after them.
    """

    __slots__ = ("table", "columns", "key", "put", "delete")

    def __init__(self, table: str, columns: tuple[str, ...], key: tuple[str, ...]) -> None:
        self.table = table
        self.columns = columns
        self.key = key
        cells = ", ".join("?" * len(columns))
        self.put = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}, crc) VALUES ({cells}, ?)"
        self.delete = f"DELETE FROM {table} WHERE {' AND '.join([f'{column} = ?' for column in key])}"


_TABLES = {kind: _TableMapping(table, kind.__slots__, KEYS[kind]) for kind, table in LISTS.items()}


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
        self._unsynced = durable  # at first too: the process before may have been killed
        self._durable = durable
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
        """Report what the write-ahead log of a killed process has behind its last transaction that is whole.

        SQLite ends the log at the first frame with another checksum, as one that a power cut has torn, and does not say
        so. Frames of before the log was begun anew have other salts, both of them.
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
        definitions = Definitions()
        rows = self._rows
        try:
            definitions.vhosts = [
                StoredVHost(_text(name), _text(description), tuple(json.loads(tags)), _text(type_), protected == 1)
                for name, description, tags, type_, protected in rows(StoredVHost)
            ]
            definitions.users = [
                StoredUser(
                    _text(name),
                    _typed(bytes, password_hash),
                    tuple(json.loads(tags)),
                    _text(algorithm),
                    _typed(dict, json.loads(limits)),
                )
                for name, password_hash, tags, algorithm, limits in rows(StoredUser)
            ]
            definitions.permissions = [StoredPermission(*map(_text, row)) for row in rows(StoredPermission)]
            definitions.topic_permissions = [
                StoredTopicPermission(*map(_text, row)) for row in rows(StoredTopicPermission)
            ]
            definitions.parameters = [StoredParameter(*map(_text, row)) for row in rows(StoredParameter)]
            definitions.global_parameters = [
                StoredGlobalParameter(*map(_text, row)) for row in rows(StoredGlobalParameter)
            ]
            definitions.exchanges = [
                StoredExchange(
                    _text(vhost),
                    _text(name),
                    _text(type_),
                    durable == 1,
                    auto_delete == 1,
                    internal == 1,
                    _typed(bytes, arguments),
                    _typed(int, number),
                    _text(user),
                )
                for vhost, name, type_, durable, auto_delete, internal, arguments, number, user in rows(StoredExchange)
            ]
            definitions.queues = [
                StoredQueue(_text(vhost), _text(name), _typed(int, number), auto_delete == 1, _typed(bytes, arguments))
                for vhost, name, number, auto_delete, arguments in rows(StoredQueue)
            ]
            definitions.bindings = [
                StoredBinding(
                    _text(vhost),
                    _text(source),
                    _text(kind),
                    _text(destination),
                    _text(key),
                    _typed(bytes, arguments),
                )
                for vhost, source, kind, destination, key, arguments in rows(StoredBinding)
            ]
            row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'queues'").fetchone()
            highest = _typed(int, row[0]) if row is not None else 0
        except sqlite3.Error as error:
            raise fault(self._path, error) from error
        except (ValueError, TypeError, AttributeError, RecursionError) as error:  # a cell is not of our type
            raise StorageFault(f"{self._path}: damaged: {error}: {RESTORE}") from error
        definitions.next_queue = max(highest, 0, *definitions.numbers) + 1
        if definitions.next_queue > NUMBER_LIMIT:
            raise StorageFault(f"{self._path}: damaged: a number of {definitions.next_queue - 1}: {RESTORE}")
        return definitions

    def apply(self, changes: list[Change]) -> None:
        """Write all the changes, or none; to repeat this is harmless. After it, they survive a killed process.

        Raises OSError. After ENOSPC (disk full), EMFILE or ENOMEM (no descriptor, no memory) it may be tried again; EIO
        is final.
        """
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            for change in changes:
                record = change.record
                table = _TABLES[type(record)]
                if change.put:
                    cells = [_cell(getattr(record, column)) for column in table.columns]
                    execute(table.put, [*cells, _checksum(cells)])
                    if isinstance(record, StoredExchange) and record.number:
                        self._count_number(record.number)
                else:
                    execute(table.delete, [_cell(getattr(record, column)) for column in table.key])
                    if isinstance(record, StoredVHost):  # with its contents, which the core drops in many batches
                        for each in _TABLES.values():
                            if "vhost" in each.columns:
                                execute(f"DELETE FROM {each.table} WHERE vhost = ?", [_cell(record.name)])
            execute("COMMIT")
            self._unsynced = self._durable
        except MemoryError:  # of SQLite too
            self._roll_back()
            raise
        except sqlite3.Error as error:
            self._roll_back()
            # Errors that the module itself raises, on a closed connection for example, have no code.
            code = getattr(error, "sqlite_errorcode", 0)
            number = ERRNOS.get(code) or ERRNOS.get(code & PRIMARY_CODE, errno.EIO)
            raise OSError(number, str(error), str(self._path)) from error

    def _count_number(self, number: int) -> None:
        """Have the sequence of `queues.number` know a number that an exchange has taken."""
        execute = self._connection.execute
        if not execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'queues'", [number]).rowcount:
            execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('queues', ?)", [number])

    def sync(self) -> None:
        """Make the applied changes survive a power cut. Raises OSError, which is final."""
        if not self._unsynced:
            return
        if self._descriptor < 0 and self._wal.exists():
            self._descriptor = os.open(self._wal, os.O_RDWR | os.O_CLOEXEC)
        if self._descriptor >= 0:
            sync_data(self._descriptor)
            if not self._folder_synced:
                sync_folder(self._wal.parent)
                self._folder_synced = True
        self._unsynced = False

    def close(self) -> None:
        """Close the file; SQLite moves the write-ahead log into it and syncs it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._connection.close()

    def _roll_back(self) -> None:
        """Roll back, unless SQLite has done so itself. An error of this is dropped: the first error has the cause."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except (sqlite3.Error, MemoryError):
            pass

    def _rows(self, kind: type[Record]) -> Iterator[list[Any]]:
        """Yield the cells of each record. Raises ValueError for a row with another checksum."""
        table = _TABLES[kind]
        query = f"SELECT rowid, crc, {', '.join(table.columns)} FROM {table.table} ORDER BY rowid"
        for row, checksum, *cells in self._connection.execute(query):
            if checksum != _checksum(cells):
                raise ValueError(f"row {row} of {table.table}")
            yield cells


def _cell(value: object) -> bytes | str | int:
    """Return a field of a record as it is stored in a cell."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, (tuple, dict)):
        return json.dumps(value)
    if isinstance(value, int):
        return int(value)  # of a bool too
    assert isinstance(value, bytes)
    return value


def _checksum(cells: Sequence[object]) -> int:
    checksum = 0
    for cell in cells:
        data = cell if isinstance(cell, bytes) else repr(cell).encode()
        checksum = crc32(data, checksum ^ len(data))
    return checksum


def _typed(kind: type[Cell], cell: object) -> Cell:
    """Return a cell, or what was decoded from it, as of this type. Raises TypeError."""
    if not isinstance(cell, kind):
        raise TypeError(f"{type(cell).__name__} in place of {kind.__name__}")
    return cell


def _text(cell: bytes) -> str:
    return cell.decode("utf-8", "surrogateescape")
