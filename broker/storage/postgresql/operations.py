"""The operations of a transaction: changes to the log and to the records of the metadata, as SQL.

A segment of the log is a table of its own, so that its removal leaves nothing for vacuum:

    segment_NUMBER    offset, data           the bytes of one segment, in rows of at most ROW_BYTES
    checkpoint        offset, data           the bytes of the checkpoint, in such rows
    records           kind, key, vhost, record, position

An offset is that of the row's first byte in the segment. The tables are the only list of segments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

ROW_BYTES = 1 << 20  # of a row; longer writes become several rows
Value = int | str | bytes
Statement = tuple[str, Sequence[Value]]


def quoted(name: str) -> str:
    """Return a name of PostgreSQL as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def table_of(schema: str, number: int) -> str:
    """Return the table of a segment."""
    return f"{schema}.segment_{number}"


class Operation(Protocol):
    """A change of a transaction."""

    def statements(self, schema: str) -> list[Statement]:
        """Return the statements of this operation; `schema` is quoted."""


@dataclass(frozen=True, slots=True)
class Append(Operation):
    """Bytes are added to the end of a segment, which is created with the first ones."""

    number: int
    offset: int
    data: bytes

    def statements(self, schema: str) -> list[Statement]:
        table = table_of(schema, self.number)
        creating: list[Statement] = [
            (f'CREATE TABLE {table} ("offset" bigint PRIMARY KEY, data bytea NOT NULL)', ()),
            # kept out of line and uncompressed, so that a part of a row can be read
            (f"ALTER TABLE {table} ALTER data SET STORAGE EXTERNAL", ()),
        ]
        return [*(creating if not self.offset else []), *rows(table, self.offset, self.data)]


@dataclass(frozen=True, slots=True)
class DropSegment(Operation):
    """The table of a segment is dropped, unless something else uses it at that moment, such as a backup."""

    number: int

    def statements(self, schema: str) -> list[Statement]:
        return [
            ("SELECT set_config('lock_timeout', '10ms', true)", ()),
            (f"DROP TABLE IF EXISTS {table_of(schema, self.number)}", ()),
        ]


@dataclass(frozen=True, slots=True)
class SaveCheckpoint(Operation):
    """The checkpoint is replaced."""

    data: bytes

    def statements(self, schema: str) -> list[Statement]:
        table = f"{schema}.checkpoint"
        return [(f"DELETE FROM {table}", ()), *rows(table, 0, self.data)]


def rows(table: str, offset: int, data: bytes) -> list[Statement]:
    """Return the statements that add bytes from `offset` on."""
    text = f'INSERT INTO {table} ("offset", data) VALUES ($1, $2)'
    return [(text, (offset + at, data[at : at + ROW_BYTES])) for at in range(0, len(data), ROW_BYTES)]


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
