"""Metadata: vhosts, users, permissions, exchanges, queues and bindings, in one SQLite file over one connection.

Names are what clients sent, any octets but at most 255, so they are kept as BLOBs: UTF-8, with what is none as it came.
Tables of arguments are the octets of the wire. A user's tags are a JSON array.

    vhosts       name
    users        name, password_hash, tags
    permissions  user, vhost, configure, write, read
    exchanges    vhost, name, type, durable, auto_delete, internal, arguments
    queues       vhost, name, number, auto_delete, arguments
    bindings     vhost, source, kind, destination, routing_key, arguments

`queues.number` is AUTOINCREMENT, for which SQLite keeps the highest number there has ever been: none is given twice,
though the queue and all its rows are gone.

To change the schema, add a step to the end of _STEPS, never change one that was released: PRAGMA user_version counts
the steps that a file has gone through, and opening it takes the others, in one transaction. A file that has gone
through more of them than we know was written by a later version, and is refused.

The write-ahead log with synchronous=FULL costs one sync for each transaction, a rollback journal three or four. The
lock is exclusive and held until the end, which leaves out the shared memory file.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from pathlib import Path

from ..core.definitions import (
    Change,
    Definitions,
    Record,
    StoredBinding,
    StoredExchange,
    StoredPermission,
    StoredQueue,
    StoredUser,
    StoredVHost,
)
from .faults import StorageFault

APPLICATION_ID = 0x5752524E  # "WRRN", which tells our files from other SQLite files

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
)
VERSION = len(_STEPS)


class _Shelf:
    """The table of one kind of record: its columns are the record's slots, and the `key` finds it."""

    __slots__ = ("table", "columns", "key", "put", "delete")

    def __init__(self, table: str, columns: tuple[str, ...], *key: str) -> None:
        self.table = table
        self.columns = columns
        self.key = key
        self.put = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        self.delete = f"DELETE FROM {table} WHERE {' AND '.join([f'{column} = ?' for column in key])}"


_SHELVES: dict[type[Record], _Shelf] = {
    StoredVHost: _Shelf("vhosts", StoredVHost.__slots__, "name"),
    StoredUser: _Shelf("users", StoredUser.__slots__, "name"),
    StoredPermission: _Shelf("permissions", StoredPermission.__slots__, "user", "vhost"),
    StoredExchange: _Shelf("exchanges", StoredExchange.__slots__, "vhost", "name"),
    StoredQueue: _Shelf("queues", StoredQueue.__slots__, "number"),
    StoredBinding: _Shelf("bindings", StoredBinding.__slots__, *StoredBinding.__slots__),
}


class Metadata:
    """Opened and loaded by the loop's thread, then written by the worker alone, closed when that has ended.

    Where it is not `durable`, the last changes survive a killed process but not a power cut.
    """

    def __init__(self, path: Path, durable: bool = True) -> None:
        """Opens the file, made or brought to our version where need be. Raises StorageFault."""
        self._path = path
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # it holds the hashes of passwords
            self._connection = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
        except OSError as error:
            raise StorageFault(f"{path}: {error.strerror}") from error
        except sqlite3.Error as error:
            raise StorageFault(f"{path}: {error}") from error
        try:
            self._open(durable)
        except sqlite3.Error as error:
            self._connection.close()
            raise StorageFault(f"{path}: {error}") from error
        except StorageFault:
            self._connection.close()
            raise

    def _open(self, durable: bool) -> None:
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
        ask(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
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
            found.vhosts = [StoredVHost(_text(name)) for (name,) in rows(StoredVHost)]
            found.users = [
                StoredUser(_text(name), password_hash, tuple(json.loads(tags)))
                for name, password_hash, tags in rows(StoredUser)
            ]
            found.permissions = [StoredPermission(*map(_text, row)) for row in rows(StoredPermission)]
            found.exchanges = [
                StoredExchange(
                    _text(vhost), _text(name), _text(type_), durable == 1, auto_delete == 1, internal == 1, arguments
                )
                for vhost, name, type_, durable, auto_delete, internal, arguments in rows(StoredExchange)
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
        found.next_queue = highest[0] + 1 if highest is not None else 1
        return found

    def apply(self, changes: list[Change]) -> None:
        """Make all of them durable, or none; to do so again changes nothing.

        Raises OSError: with ENOSPC where the disk is full and it may be tried again; with EIO all else is final.
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
            ask("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            # Errors that sqlite3 raises of its own accord, on a closed connection for one, carry no code.
            full = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error), str(self._path)) from error

    def close(self) -> None:
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
    if isinstance(value, tuple):
        return json.dumps(value)
    assert isinstance(value, (bytes, int))
    return value


def _text(cell: bytes) -> str:
    return cell.decode("utf-8", "surrogateescape")
