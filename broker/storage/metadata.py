"""Metadata: the durable definitions of the broker (core.metadata.records), as rows of a table.

    kind    the list of `Definitions` that has the record
    key     the fields that identify the record among those of its kind, as a JSON array
    vhost   the name of its virtual host as JSON, or an empty text
    record  all its fields, as a JSON array

JSON has bytes as base64, and bytes of names that are not UTF-8 as escapes of lone surrogates. The row of the kind
HIGHEST has the highest number that a queue or an exchange ever had, so that no number is used again.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple, Protocol, get_origin, get_type_hints

from ..core.metadata import records
from ..core.metadata.records import Change, Definitions, Record

HIGHEST = "highest_number"
NUMBER_LIMIT = 1 << 31  # above the numbers of queues; the log has 32 bits for one
# The attribute of Definitions with the records of a class, and the fields that identify a record there
TABLES: dict[type[Record], tuple[str, tuple[str, ...]]] = {
    records.StoredVHost: ("vhosts", ("name",)),
    records.StoredUser: ("users", ("name",)),
    records.StoredPermission: ("permissions", ("user", "vhost")),
    records.StoredTopicPermission: ("topic_permissions", ("user", "vhost", "exchange")),
    records.StoredParameter: ("parameters", ("vhost", "component", "name")),
    records.StoredGlobalParameter: ("global_parameters", ("name",)),
    records.StoredExchange: ("exchanges", ("vhost", "name")),
    records.StoredQueue: ("queues", ("number",)),
    records.StoredBinding: ("bindings", records.StoredBinding.__slots__),
}
KINDS = {kind: type_ for type_, (kind, _) in TABLES.items()}


class RowsOfMoment(Protocol):
    """The rows of the table at one moment, for one thread."""

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield kind and record of each row, in the order of their creation. Raises StorageFault."""

    def close(self) -> None: ...


class Metadata(Protocol):
    """The stored definitions. The loop's thread loads them, then only the workers write them."""

    report: Sequence[str] = ()  # a line for each part that was found damaged or torn, and is not used
    unsynced: bool = False  # whether a power cut may lose applied changes until `sync`

    def load(self) -> Definitions:
        """Return all records, of each class in the order of their creation. Raises StorageFault."""

    def apply(self, changes: list[Change]) -> None:
        """Write all the changes, or none; to repeat this is harmless.

        Raises OSError. After ENOSPC (disk full), EMFILE or ENOMEM (no descriptor, no memory) it may be tried again; EIO
        is final.
        """

    def sync(self) -> None:
        """Make the applied changes survive a power cut, now or with the log. Raises OSError, which is final."""

    def moment(self) -> RowsOfMoment:
        """Return the rows as they are now. Raises StorageFault, MemoryError."""

    def close(self) -> None: ...


class RowChange(NamedTuple):
    """A change to the table. A row without a `record` is deleted, and without a `kind` all rows of the virtual host."""

    kind: str
    key: str
    vhost: str
    record: str | None


class MetadataRows:
    """The rows of a table with metadata. `stored` is the number in the row HIGHEST.

    That row is written when something is deleted: until then the records themselves have the highest number.
    """

    def __init__(self) -> None:
        self.stored = 0
        self._highest = 0

    def definitions(self, rows: Iterable[tuple[str, str]]) -> Definitions:
        """Return the records of rows, of which each has kind and record.

        Raises ValueError, TypeError, KeyError, AttributeError or RecursionError for a row that is damaged.
        """
        definitions = Definitions()
        for kind, text in rows:
            if kind == HIGHEST:
                self.stored = int(text)
            else:
                getattr(definitions, kind).append(record_of(KINDS[kind], text))
        self._highest = max([self.stored, *definitions.numbers])
        if self._highest >= NUMBER_LIMIT:
            raise ValueError(f"a number of {self._highest}")
        definitions.next_queue = self._highest + 1
        return definitions

    def changes(self, changes: list[Change]) -> Iterator[RowChange]:
        """Yield the changes to rows."""
        deletes = False
        for change in changes:
            record = change.record
            kind, fields = TABLES[type(record)]
            key = cells_of(record, fields)
            vhost = getattr(record, "vhost", None)
            text = cells_of(record, record.__slots__) if change.put else None
            yield RowChange(kind, key, "" if vhost is None else _encoded(vhost), text)
            if isinstance(record, records.StoredQueue | records.StoredExchange):
                self._highest = max(self._highest, record.number)
            if isinstance(record, records.StoredVHost) and not change.put:
                # with its contents, which the core drops in many batches
                yield RowChange("", "", _encoded(record.name), None)
            deletes = deletes or not change.put
        if deletes and self._highest > self.stored:
            self.stored = self._highest
            yield RowChange(HIGHEST, "", "", str(self.stored))


def cells_of(record: Record, names: tuple[str, ...]) -> str:
    """Return the fields of these names as a JSON array."""
    return f"[{','.join([_encoded(getattr(record, name)) for name in names])}]"


def _encoded(cell: object) -> str:
    if isinstance(cell, str):
        return encode_basestring_ascii(cell)
    return f'"{b64encode(cell).decode()}"' if isinstance(cell, bytes) else json.dumps(cell)


def _decoder(type_: object) -> Callable[[Any], Any] | None:
    """Return how a field of this type is made of its JSON, or None if JSON has the type."""
    if type_ is bytes:
        return lambda cell: b64decode(cell, validate=True)
    return tuple if get_origin(type_) is tuple else None


# The places of the fields that JSON lacks, by class, and how they are made.
_DECODERS = {
    type_: [(at, decode) for at, type_of in enumerate(get_type_hints(type_).values()) if (decode := _decoder(type_of))]
    for type_ in TABLES
}


def record_of(type_: type[Record], text: str) -> Record:
    """Return the record with these fields; the last ones may be missing, and have their defaults then.

    Raises ValueError, TypeError or RecursionError for a damaged row.
    """
    cells = json.loads(text)
    if not isinstance(cells, list):
        raise TypeError(f"no list of fields: {type(cells).__name__}")
    for at, decode in _DECODERS[type_]:
        if at < len(cells):
            cells[at] = decode(cells[at])
    return type_(*cells)
