"""Metadata: what the broker was told to have (core.definitions), in one SQLite file over one connection.

Names are what clients sent, any octets but at most 255, so they are kept as BLOBs: UTF-8, with what is none as it came.
Tables of arguments are the octets of the wire. Tags are a JSON array, the limits of a user a JSON object.

    vhosts             name, description, tags, default_queue_type, protected
    users              name, password_hash, tags, hashing_algorithm, limits
    permissions        user, vhost, configure, write, read
    topic_permissions  user, vhost, exchange, write, read
    parameters         vhost, component, name, value
    global_parameters  name, value
    exchanges          vhost, name, type, durable, auto_delete, internal, arguments, number
    queues             vhost, name, number, auto_delete, arguments
    bindings           vhost, source, kind, destination, routing_key, arguments

`queues.number` is AUTOINCREMENT, for which SQLite keeps the highest number there has ever been: none is given twice,
though the queue and all its rows are gone. `exchanges.number` is of the same count, 0 where it is none; an exchange
that is gone leaves no trace of it here, but the log goes on from what it has seen (`Journal.next_queue`).

To change the schema, add a step to the end of _STEPS, never change one that was released: PRAGMA user_version counts
the steps that a file has gone through, and opening it takes the others, in one transaction. A file that has gone
through more of them than we know was written by a later version, and is refused.

A transaction is in the write-ahead log, safe from a killed process, when it is applied; `sync` makes all that were safe
from a power cut, which SQLite itself, with synchronous=NORMAL, would leave to the checkpoint that empties the log. The
lock is exclusive and held until the end, which leaves out the shared memory file.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from pathlib import Path

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
from .disk import sync_data, sync_folder
from .errors import StorageFault

APPLICATION_ID = 0x5752524E  # "WRRN", which tells our files from other SQLite files

SHA256 = "rabbit_password_hashing_sha256"  # the one algorithm there was before a user had a column for it

_STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE vhosts (name BLOB PRIMARY KEY)",
        "CREATE TABLE users (name BLOB PRIMARY KEY, password_hash BLOB, tags TEXT)",
        "CREATE TABLE permissions (user BLOB, vhost BLOB, configure BLOB, write BLOB, read BLOB,"
        " PRIMARY KEY (user, vhost))",
        "CREATE TABLE exchanges (vhost BLOB, name BLOB, type BLOB, durable INTEGER, auto_delete INTEGER,"
        " internal INTEGER, arguments BLOB, PRIMARY KEY (vhost, name))",
        "CREATE TABLE queues (vhost BLOB, name BLOB, number INTEGER PRIMARY KEY AUTOINCREMENT, auto_delete INTEGER,"
        " arguments BLOB, UNIQUE (vhost, name))",
        "CREATE TABLE bindings (vhost BLOB, source BLOB, kind BLOB, destination BLOB, routing_key BLOB,"
        " arguments BLOB, PRIMARY KEY (vhost, source, kind, destination, routing_key, arguments))",
        f"PRAGMA application_id = {APPLICATION_ID}",
    ),
    (
        "ALTER TABLE vhosts ADD COLUMN description BLOB NOT NULL DEFAULT x''",
        "ALTER TABLE vhosts ADD COLUMN tags TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE vhosts ADD COLUMN default_queue_type BLOB NOT NULL DEFAULT x''",
        "ALTER TABLE vhosts ADD COLUMN protected INTEGER NOT NULL DEFAULT 0",
        f"ALTER TABLE users ADD COLUMN hashing_algorithm BLOB NOT NULL DEFAULT x'{SHA256.encode().hex()}'",
        "ALTER TABLE users ADD COLUMN limits TEXT NOT NULL DEFAULT '{}'",
        "CREATE TABLE topic_permissions (user BLOB, vhost BLOB, exchange BLOB, write BLOB, read BLOB,"
        " PRIMARY KEY (user, vhost, exchange))",
        "CREATE TABLE parameters (vhost BLOB, component BLOB, name BLOB, value BLOB,"
        " PRIMARY KEY (vhost, component, name))",
        "CREATE TABLE global_parameters (name BLOB PRIMARY KEY, value BLOB)",
    ),
    ("ALTER TABLE exchanges ADD COLUMN number INTEGER NOT NULL DEFAULT 0",),
    ("ALTER TABLE parameters ADD COLUMN user BLOB NOT NULL DEFAULT x''",),
)
VERSION = len(_STEPS)

PRIMARY_CODE = 0xFF  # of SQLite's result codes; what is above it says more
# What an error of a transaction means where it is not that the disk is lost. The database is open already, so what
# cannot be opened is a file for which there is no descriptor.
ERRNOS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_CANTOPEN: errno.EMFILE,
    sqlite3.SQLITE_NOMEM: errno.ENOMEM,
    sqlite3.SQLITE_IOERR_NOMEM: errno.ENOMEM,
}


class _TableMapping:
    """The table of one kind of record: its columns are the record's slots, and the `key` finds it."""

    __slots__ = ("table", "columns", "key", "put", "delete")

    def __init__(self, table: str, columns: tuple[str, ...], *key: str) -> None:
        self.table = table
        self.columns = columns
        self.key = key
        self.put = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        self.delete = f"DELETE FROM {table} WHERE {' AND '.join([f'{column} = ?' for column in key])}"


_SHELVES: dict[type[Record], _TableMapping] = {
    StoredVHost: _TableMapping("vhosts", StoredVHost.__slots__, "name"),
    StoredUser: _TableMapping("users", StoredUser.__slots__, "name"),
    StoredPermission: _TableMapping("permissions", StoredPermission.__slots__, "user", "vhost"),
    StoredTopicPermission: _TableMapping(
        "topic_permissions", StoredTopicPermission.__slots__, "user", "vhost", "exchange"
    ),
    StoredParameter: _TableMapping("parameters", StoredParameter.__slots__, "vhost", "component", "name"),
    StoredGlobalParameter: _TableMapping("global_parameters", StoredGlobalParameter.__slots__, "name"),
    StoredExchange: _TableMapping("exchanges", StoredExchange.__slots__, "vhost", "name"),
    StoredQueue: _TableMapping("queues", StoredQueue.__slots__, "number"),
    StoredBinding: _TableMapping("bindings", StoredBinding.__slots__, *StoredBinding.__slots__),
}


class Metadata:
    """Opened and loaded by the loop's thread, then written by the worker alone, closed when that has ended.

    Where it is not `durable`, `sync` does nothing: the last changes may not survive a power cut.
    """

    def __init__(self, path: Path, durable: bool = True) -> None:
        """Opens the file, made or brought to our version where need be. Raises StorageFault."""
        self._path = path
        self._wal = Path(f"{path}-wal")
        self._unsynced = durable  # also by the process before, which may have been killed
        self._durable = durable
        self._descriptor = -1  # of the write-ahead log, once it is there: a sync must not need a free descriptor
        self._named = False  # in the folder, for good: the file of the write-ahead log is there until the end
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # it holds the hashes of passwords
            self._connection = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
        except OSError as error:
            raise StorageFault(f"{path}: {error.strerror}") from error
        except sqlite3.Error as error:
            raise StorageFault(f"{path}: {error}") from error
        try:
            self._open()
        except sqlite3.Error as error:
            self._connection.close()
            raise StorageFault(f"{path}: {error}") from error
        except StorageFault:
            self._connection.close()
            raise

    def _open(self) -> None:
        ask = self._connection.execute
        ask("PRAGMA locking_mode = EXCLUSIVE")
        version = int(ask("PRAGMA user_version").fetchone()[0])
        ours = ask("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        if not ours and (version or ask("SELECT count(*) FROM sqlite_schema").fetchone()[0]):
            raise StorageFault(f"{self._path}: this is not the metadata of a broker")
        if version > VERSION:
            raise StorageFault(
                f"{self._path}: written by a later version of the broker (schema {version}, this one knows {VERSION})"
            )
        ask("PRAGMA journal_mode = WAL")
        ask("PRAGMA synchronous = NORMAL")
        damage = ask("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise StorageFault(f"{self._path}: damaged: {' '.join(damage.split())}")
        if version < VERSION:
            ask("BEGIN IMMEDIATE")
            for step in _STEPS[version:]:
                for statement in step:
                    ask(statement)
            ask(f"PRAGMA user_version = {VERSION}")
            ask("COMMIT")

    def load(self) -> Definitions:
        """All there is, of each kind in the order in which it was made. Raises StorageFault."""
        found = Definitions()
        rows = self._rows
        try:
            found.vhosts = [
                StoredVHost(_text(name), _text(description), tuple(json.loads(tags)), _text(type_), protected == 1)
                for name, description, tags, type_, protected in rows(StoredVHost)
            ]
            found.users = [
                StoredUser(_text(name), password_hash, tuple(json.loads(tags)), _text(algorithm), json.loads(limits))
                for name, password_hash, tags, algorithm, limits in rows(StoredUser)
            ]
            found.permissions = [StoredPermission(*map(_text, row)) for row in rows(StoredPermission)]
            found.topic_permissions = [StoredTopicPermission(*map(_text, row)) for row in rows(StoredTopicPermission)]
            found.parameters = [StoredParameter(*map(_text, row)) for row in rows(StoredParameter)]
            found.global_parameters = [StoredGlobalParameter(*map(_text, row)) for row in rows(StoredGlobalParameter)]
            found.exchanges = [
                StoredExchange(
                    _text(vhost),
                    _text(name),
                    _text(type_),
                    durable == 1,
                    auto_delete == 1,
                    internal == 1,
                    arguments,
                    kept,
                )
                for vhost, name, type_, durable, auto_delete, internal, arguments, kept in rows(StoredExchange)
            ]
            found.queues = [
                StoredQueue(_text(vhost), _text(name), number, auto_delete == 1, arguments)
                for vhost, name, number, auto_delete, arguments in rows(StoredQueue)
            ]
            found.bindings = [
                StoredBinding(_text(vhost), _text(source), _text(kind), _text(destination), _text(key), arguments)
                for vhost, source, kind, destination, key, arguments in rows(StoredBinding)
            ]
            highest = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'queues'").fetchone()
        except sqlite3.Error as error:
            raise StorageFault(f"{self._path}: {error}") from error
        except (ValueError, TypeError, AttributeError) as error:  # a cell is not of the type that we put there
            raise StorageFault(f"{self._path}: damaged: {error}") from error
        found.next_queue = max(highest[0] if highest is not None else 0, 0, *found.numbers) + 1
        return found

    def apply(self, changes: list[Change]) -> None:
        """Write all of them, or none; to do so again changes nothing. A killed process loses them no more.

        Raises OSError: with ENOSPC where the disk is full, with EMFILE or ENOMEM where there is no descriptor or no
        memory, and it may be tried again; with EIO all else is final.
        """
        ask = self._connection.execute
        try:
            ask("BEGIN IMMEDIATE")
            for change in changes:
                record = change.record
                shelf = _SHELVES[type(record)]
                if change.put:
                    ask(shelf.put, [_cell(getattr(record, column)) for column in shelf.columns])
                else:
                    ask(shelf.delete, [_cell(getattr(record, column)) for column in shelf.key])
                    if isinstance(record, StoredVHost):  # with all that is in it, which is dropped in many batches
                        for each in _SHELVES.values():
                            if "vhost" in each.columns:
                                ask(f"DELETE FROM {each.table} WHERE vhost = ?", [_cell(record.name)])
            ask("COMMIT")
            self._unsynced = self._durable
        except sqlite3.Error as error:
            self._roll_back()
            # Errors that sqlite3 raises of its own accord, on a closed connection for one, carry no code.
            code = getattr(error, "sqlite_errorcode", 0)
            number = ERRNOS.get(code) or ERRNOS.get(code & PRIMARY_CODE, errno.EIO)
            raise OSError(number, str(error), str(self._path)) from error

    def sync(self) -> None:
        """What was applied survives a power cut as well. Raises OSError, which is final."""
        if not self._unsynced:
            return
        if self._descriptor < 0 and self._wal.exists():
            self._descriptor = os.open(self._wal, os.O_RDWR | os.O_CLOEXEC)
        if self._descriptor >= 0:
            sync_data(self._descriptor)
            if not self._named:
                sync_folder(self._wal.parent)
                self._named = True
        self._unsynced = False

    def close(self) -> None:
        """With all in its place: SQLite syncs what it moves there from the write-ahead log."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._connection.close()

    def _roll_back(self) -> None:
        """SQLite has ended the transaction itself after some errors. Where this fails too, the first error says why."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass

    def _rows(self, kind: type[Record]) -> sqlite3.Cursor:
        shelf = _SHELVES[kind]
        return self._connection.execute(f"SELECT {', '.join(shelf.columns)} FROM {shelf.table} ORDER BY rowid")


def _cell(value: object) -> bytes | str | int:
    """A field of a record as it stands in its row."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, (tuple, dict)):
        return json.dumps(value)
    assert isinstance(value, (bytes, int))
    return value


def _text(cell: bytes) -> str:
    return cell.decode("utf-8", "surrogateescape")
