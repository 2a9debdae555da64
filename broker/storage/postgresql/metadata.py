"""The definitions of the broker in a database: a row for each record, with its fields as a JSON object.

Text is stored as UTF-8, other bytes of names as JSON's escapes of lone surrogates, and fields of bytes as base64. The
row NEXT_QUEUE has the highest number that a queue or an exchange ever had.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import fields
from hashlib import sha256
from typing import Any

from ...core.metadata.records import Change, Definitions, Record, StoredExchange, StoredQueue, StoredVHost
from ..errors import StorageFault
from ..metadata import KEYS, LISTS, Metadata
from .database import Database
from .errors import Refused, Unreachable
from .operations import DeleteRecord, DeleteVHost, PutRecord
from .transactions import Transactions

HIGHEST = "highest_number"
KINDS = {lists: kind for kind, lists in LISTS.items()}


class PostgreSQLMetadata(Metadata):
    """The metadata in a database. Changes are committed with the log, and `sync` has nothing to add."""

    def __init__(self, database: Database, transactions: Transactions) -> None:
        self._database = database
        self._transactions = transactions
        self._highest = 0

    def load(self) -> Definitions:
        definitions = Definitions()
        try:
            for kind, text in self._database.records():
                value = json.loads(text)
                if kind == HIGHEST:
                    self._highest = int(value)
                else:
                    getattr(definitions, kind).append(record_of(KINDS[kind], value))
        except (Unreachable, Refused) as error:
            raise StorageFault(f"PostgreSQL: {error}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StorageFault(f"damaged: {error}") from error
        self._highest = max([self._highest, *definitions.numbers])
        definitions.next_queue = self._highest + 1
        return definitions

    def apply(self, changes: list[Change]) -> None:
        operations: list[PutRecord | DeleteRecord | DeleteVHost] = []
        highest = self._highest
        for change in changes:
            record = change.record
            kind, key = LISTS[type(record)], key_of(record)
            vhost = getattr(record, "vhost", None)
            if change.put:
                operations.append(PutRecord(kind, key, "" if vhost is None else json.dumps(vhost), text_of(record)))
                if isinstance(record, StoredQueue | StoredExchange):
                    highest = max(highest, record.number)
            else:
                operations.append(DeleteRecord(kind, key))
                if isinstance(record, StoredVHost):  # with its contents, which the core drops in many batches
                    operations.append(DeleteVHost(json.dumps(record.name)))
        if highest > self._highest:
            operations.append(PutRecord(HIGHEST, b"", "", str(highest)))
            self._highest = highest
        self._transactions.gather(*operations)

    def sync(self) -> None: ...

    def close(self) -> None: ...


def key_of(record: Record) -> bytes:
    """Return a digest of what identifies the record; field tables may be longer than an index takes."""
    values = [_cell(getattr(record, name)) for name in KEYS[type(record)]]
    return sha256(json.dumps(values).encode()).digest()


def text_of(record: Record) -> str:
    return json.dumps({field.name: _cell(getattr(record, field.name)) for field in fields(record)})


def record_of(kind: type[Record], value: dict[str, Any]) -> Record:
    """Return the record with these fields; missing ones have their defaults. Raises ValueError, TypeError, KeyError."""
    cells = {field.name: value[field.name] for field in fields(kind) if field.name in value}
    for name, cell in cells.items():
        if isinstance(cell, list):
            cells[name] = tuple(cell)
        elif isinstance(cell, dict) and cell.keys() == {"base64"}:
            cells[name] = b64decode(cell["base64"], validate=True)
    return kind(**cells)


def _cell(value: object) -> object:
    return {"base64": b64encode(value).decode("ascii")} if isinstance(value, bytes) else value
