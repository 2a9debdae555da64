"""The operations of a transaction: changes to the files of the log and to the records of the metadata, as SQL.

A file of the log is a table of its own, so that its removal leaves nothing for vacuum:

    files                           name, number           the files of the log; `number` names the table
    file_NUMBER                     offset, data           the bytes of one file, in rows of at most ROW_BYTES
    records                         kind, key, vhost, record, position

An offset is where its row begins in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ROW_BYTES = 1 << 20  # of a row of a file; longer writes become several rows
Value = int | str | bytes
Statement = tuple[str, Sequence[Value]]


def quoted(name: str) -> str:
    """Return a name of PostgreSQL as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def table_of(schema: str, number: int) -> str:
    """Return the table of a file."""
    return f"{schema}.file_{number}"


class Operation:
    """Base class of operations."""

    __slots__ = ()

    def statements(self, schema: str) -> list[Statement]:
        """Return the statements of this operation; `schema` is quoted."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class CreateFile(Operation):
    number: int
    name: str

    def statements(self, schema: str) -> list[Statement]:
        table = table_of(schema, self.number)
        return [
            (f'CREATE TABLE {table} ("offset" bigint PRIMARY KEY, data bytea NOT NULL)', ()),
            # kept out of line and uncompressed, so that a part of a row can be read
            (f"ALTER TABLE {table} ALTER data SET STORAGE EXTERNAL", ()),
            (f"INSERT INTO {schema}.files (name, number) VALUES ($1, $2)", (self.name, self.number)),
        ]


@dataclass(frozen=True, slots=True)
class Append(Operation):
    number: int
    offset: int
    data: bytes

    def statements(self, schema: str) -> list[Statement]:
        text = f'INSERT INTO {table_of(schema, self.number)} ("offset", data) VALUES ($1, $2)'
        starts = range(0, len(self.data), ROW_BYTES)
        return [(text, (self.offset + at, self.data[at : at + ROW_BYTES])) for at in starts]


@dataclass(frozen=True, slots=True)
class Cut(Operation):
    """The end of a file from `size` on is removed."""

    number: int
    size: int

    def statements(self, schema: str) -> list[Statement]:
        table = table_of(schema, self.number)
        return [
            (f'DELETE FROM {table} WHERE "offset" >= $1', (self.size,)),
            (
                f'UPDATE {table} SET data = substring(data FOR ($1::bigint - "offset")::int)'
                f' WHERE "offset" = (SELECT max("offset") FROM {table}) AND "offset" + length(data) > $1::bigint',
                (self.size,),
            ),
        ]


@dataclass(frozen=True, slots=True)
class RemoveFile(Operation):
    """The file is removed; its table stays until DropTable."""

    name: str

    def statements(self, schema: str) -> list[Statement]:
        return [(f"DELETE FROM {schema}.files WHERE name = $1", (self.name,))]


@dataclass(frozen=True, slots=True)
class RenameFile(Operation):
    """The file gets a name that no other has."""

    old: str
    new: str

    def statements(self, schema: str) -> list[Statement]:
        return [(f"UPDATE {schema}.files SET name = $2 WHERE name = $1", (self.old, self.new))]


@dataclass(frozen=True, slots=True)
class DropTable(Operation):
    """The table of a removed file is dropped, unless something else uses it at that moment, such as a backup."""

    number: int

    def statements(self, schema: str) -> list[Statement]:
        return [
            ("SELECT set_config('lock_timeout', '100ms', true)", ()),
            (f"DROP TABLE IF EXISTS {table_of(schema, self.number)}", ()),
        ]


@dataclass(frozen=True, slots=True)
class PutRecord(Operation):
    """A record is created or replaced. `key` is a digest of what identifies it among those of its kind."""

    kind: str
    key: bytes
    vhost: str
    record: str

    def statements(self, schema: str) -> list[Statement]:
        text = (
            f"INSERT INTO {schema}.records (kind, key, vhost, record) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (kind, key) DO UPDATE SET record = EXCLUDED.record"
        )
        return [(text, (self.kind, self.key, self.vhost, self.record))]


@dataclass(frozen=True, slots=True)
class DeleteRecord(Operation):
    kind: str
    key: bytes

    def statements(self, schema: str) -> list[Statement]:
        return [(f"DELETE FROM {schema}.records WHERE kind = $1 AND key = $2", (self.kind, self.key))]


@dataclass(frozen=True, slots=True)
class DeleteVHost(Operation):
    """All records of a virtual host are deleted."""

    vhost: str

    def statements(self, schema: str) -> list[Statement]:
        return [(f"DELETE FROM {schema}.records WHERE vhost = $1", (self.vhost,))]
