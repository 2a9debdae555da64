"""The search for the rows of one message in all brokers' logs, by Parquet's statistics and filters.

A message is found by its message_id, its identity (of `fed_in` and `fed_out`), or its number in a boot. It has a number
in each boot, so the search follows it: to its copies and to the message it is a copy of (`source_seq`), and over links
(`identity`), until it finds nothing new.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs

from ..file_format import compacted, schema
from ..file_format.arrow_schema import ARROW, fits, is_known
from ..file_format.folder import Folder
from ..file_format.printable import count

LISTINGS = 5  # attempts, while compactions remove listed files
MESSAGES = 100  # the maximum of messages that are followed, because a message_id need not be unique
DIGITS = 18  # of the number of a message, at most
UNSEEN = ("schema", "mono_ns", "sample_rate")  # columns that no reader of the result needs

_COLUMNS = ARROW | {"dictionary": pa.string()}  # few rows are read
SCHEMA = pa.schema([(column.name, _COLUMNS[column.type]) for column in schema.EVENT_COLUMNS])

NUMBER = ("node", "boot_id", "msg_seq")

Row = dict[str, Any]


class Number(NamedTuple):
    """The identification of a message within one boot of a broker."""

    node: str
    boot_id: str
    seq: int


class Trace(NamedTuple):
    """The rows of a message and of its copies; `complete` is False if there are more than MESSAGES of them."""

    rows: list[Row]
    files: int
    skipped: list[str]
    complete: bool


class NoExport(Exception):
    """An error of one line: there is no log to read."""


class Log:
    """The events of all brokers below one folder, which is a path or a URL such as s3://bucket/folder.

    Files of another version of the export are skipped. If a compaction has replaced listed files meanwhile, they are
    listed anew. Raises NoExport, OSError, ValueError.
    """

    def __init__(self, folder: str) -> None:
        where = Folder(folder)
        self.name, files = where.name, where.system
        fragments = self._fragments(where)
        for _ in range(LISTINGS - 1):
            if all(file.type != pa_fs.FileType.NotFound for file in files.get_file_info(self.skipped)):
                break
            fragments = self._fragments(where)
        self.skipped += where.listing(schema.EVENTS).others
        self.files = len(fragments)
        if not fragments:
            skipped = count(len(self.skipped), "skipped file")
            raise NoExport(f"{self.name}: no export of a broker ({skipped}): name the folder of one with --input")
        self._dataset = ds.FileSystemDataset(fragments, SCHEMA, ds.ParquetFileFormat(), files)

    def _fragments(self, folder: Folder) -> list[ds.ParquetFileFragment]:
        """Return the files with events; set `skipped` to those that cannot be read."""
        paths = [path for path in folder.files(schema.EVENTS) if is_part(path.rpartition("/")[2])]
        names = [f"{folder.place}/{path}" for path in without_replaced(folder, paths)]
        self.skipped: list[str] = []
        fragments = []
        form = ds.ParquetFileFormat()
        for name in names:
            fragment = form.make_fragment(name, folder.system)
            try:
                known = is_known(fragment.metadata) and fits(schema.EVENTS, fragment.metadata)
            except (pa.ArrowException, OSError):
                known = False
            if known:
                fragments.append(fragment)
            else:
                self.skipped.append(name)
        return fragments

    def numbers(self, name: str) -> set[Number]:
        """Return the messages with this message_id or identity, or the one that BOOT/NUMBER names."""
        condition = (pc.field("message_id") == name) | (pc.field("identity") == name)
        boot_id, _, seq = name.rpartition("/")
        if boot_id and seq.isdecimal() and len(seq) <= DIGITS:
            condition |= (pc.field("msg_seq") == int(seq)) & (pc.field("boot_id") == boot_id)
        return self._numbers(condition)

    def copies(self, of: Iterable[Number]) -> set[Number]:
        """Return the copies of these messages."""
        return self._numbers(self._are("source_seq", of))

    def with_identities(self, identities: Iterable[str]) -> set[Number]:
        """Return the messages with these identities, at both ends of links."""
        return self._numbers(pc.field("identity").isin(list(identities)))

    def rows(self, numbers: Iterable[Number]) -> list[Row]:
        """Return all rows of these messages."""
        columns = [name for name in SCHEMA.names if name not in UNSEEN]
        rows: list[Row] = self._dataset.to_table(columns, self._are("msg_seq", numbers)).to_pylist()
        return rows

    def _numbers(self, condition: pc.Expression) -> set[Number]:
        table = self._dataset.to_table(list(NUMBER), condition)
        return set(map(Number._make, zip(*[table[name].to_pylist() for name in NUMBER], strict=True)))

    @staticmethod
    def _are(column: str, numbers: Iterable[Number]) -> pc.Expression:
        """Return the condition that a column has the number of one of these messages, with bounds for statistics."""
        by_boot: dict[tuple[str, str], list[int]] = {}
        for node, boot_id, seq in numbers:
            by_boot.setdefault((node, boot_id), []).append(seq)
        condition = pc.scalar(False)
        field = pc.field(column)
        for (node, boot_id), seqs in by_boot.items():
            near = (field >= min(seqs)) & (field <= max(seqs))
            condition |= near & field.isin(seqs) & (pc.field("boot_id") == boot_id) & (pc.field("node") == node)
        return condition


def find(log: Log, name: str) -> Trace:
    """Find a message by its message_id, its identity, or BOOT/NUMBER, and all messages that it became."""
    known: set[Number] = set()
    fresh = log.numbers(name)
    rows: list[Row] = []
    identities: set[str] = set()
    complete = True
    while fresh:
        if len(known) + len(fresh) > MESSAGES:
            complete = False
            fresh = set(sorted(fresh)[: MESSAGES - len(known)])
        known |= fresh
        new_rows = log.rows(fresh)
        rows += new_rows
        following = {number_of(row, "source_seq") for row in new_rows if row["source_seq"]}
        following |= log.copies(fresh)
        met = {row["identity"] for row in new_rows if row["identity"]} - identities
        if met:
            identities |= met
            following |= log.with_identities(met)
        fresh = following - known if complete else set()
    return Trace(rows, log.files, log.skipped, complete)


def number_of(row: Row, column: str = "msg_seq") -> Number:
    return Number(row["node"], row["boot_id"], row[column])


def without_replaced(folder: Folder, paths: list[str]) -> list[str]:
    """Return the paths of files without those that a compaction has replaced and not removed yet."""
    manifests = [
        folder.read_text(path)
        for path in folder.files(schema.MANIFEST)
        if compacted.is_manifest(path.rpartition("/")[2])
    ]
    replaced = compacted.replaced_paths(manifests, set(paths))
    return [path for path in paths if path not in replaced]


def is_part(name: str) -> bool:
    return name.startswith("part-") and name.endswith(".parquet")


def order(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each message in their order: a message before its copies, the first broker before the next."""
    messages: dict[Number, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["boot_id"], row["row"])):
        messages.setdefault(number_of(row), []).append(row)

    def first(number: Number) -> datetime:
        at: datetime = messages[number][0]["ts_us"]
        return at

    parents = {number: parent(number, messages) for number in messages}
    placed: set[Number] = set()

    def family(number: Number) -> Iterator[list[Row]]:
        if number in placed:
            return
        placed.add(number)
        yield messages[number]
        for child in sorted((each for each in messages if parents[each] == number), key=first):
            yield from family(child)

    for number in sorted(messages, key=lambda each: (parents[each] is not None, first(each))):
        yield from family(number)


def parent(number: Number, messages: dict[Number, list[Row]]) -> Number | None:
    """Return the origin of a message: the message that it is a copy of, or the one that a link took."""
    rows = messages[number]
    copies = [row for row in rows if row["source_seq"]]
    if copies:
        copied = number_of(copies[0], "source_seq")
        return copied if copied in messages else None
    arrival = next((row for row in rows if row["event"] == schema.FED_IN), None)
    if arrival is None:
        return None
    here = (arrival["link"], arrival["identity"])
    for other, theirs in messages.items():
        taken = [row for row in theirs if row["event"] == schema.FED_OUT]
        if other != number and here in [(row["link"], row["identity"]) for row in taken]:
            return other
    return None
