"""The input: the files of an export, what their footers say, and how they differ from the manifests (`schema`).

A file is accepted or skipped as a whole. The manifests reveal accidents: files that were deleted, cut, changed or
added. They reveal no forgery by someone who can write to the folder, who can write the manifests as well.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ..file_format import compacted, schema
from ..file_format.arrow_schema import fits, is_known, number_in, statistics_of
from ..file_format.folder import Folder, Vanished
from ..file_format.printable import HAS, IS, count
from .beginnings import Name
from .boots import FILE_AGE_S, BootEnd, Count
from .engine import Engine

HOUR = re.compile(r"(?:^|/)dt=(\d{4}-\d\d-\d\d)/hour=(\d\d)/")
NOT_PARQUET, FOREIGN, UNKNOWN_SCHEMA, DUPLICATE = "not_parquet", "foreign", "unknown_schema", "duplicate"
REASONS = {
    NOT_PARQUET: (IS, "damaged or not Parquet"),
    FOREIGN: (IS, "not of an export"),
    UNKNOWN_SCHEMA: (HAS, "a version of the schema that this Warren does not read"),
    DUPLICATE: (HAS, "the name of another file"),
}
DAMAGE = (msgspec.MsgspecError, RecursionError)
"""The errors of a manifest or a state that no writer has written."""


class Entry(msgspec.Struct, frozen=True):
    """A line of a manifest: a finished file, or a removed one."""

    path: str = ""
    table: str = ""
    bytes: Count = 0
    rows: Count = 0
    first_row: Count | None = None
    last_row: Count | None = None
    sha256: str = ""
    removed: str = ""


class State(msgspec.Struct, frozen=True):
    """The part of a node's state that says which boot is its newest."""

    node: str
    boot: BootEnd


@dataclass
class Manifests:
    """All manifests of a folder, and the states of its nodes. With `only`, other finished files are ignored.

    files     the finished files, by path
    removed   paths of files that were taken away on purpose
    replaced  paths of files that do not count once the file of a compaction is there, by its path
    boots     the boots that have a manifest (`schema.boot_key`), with the row after their last finished one
    newest    the newest boot of each node, by node and boot, of the states
    nodes     the nodes that have a state, as the names of their files begin
    damaged   manifests and states that cannot be read, or not in all lines
    """

    files: dict[str, Entry] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    replaced: dict[str, list[str]] = field(default_factory=dict)
    boots: dict[str, int] = field(default_factory=dict)
    newest: dict[Name, BootEnd] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    damaged: list[str] = field(default_factory=list)
    only: Collection[str] | None = None

    def add_state(self, name: str, text: str) -> None:
        """Add the state of one node."""
        self.nodes.add(f"part-{schema.safe_name(unquote(name.removesuffix('.json')))}-")
        try:
            state = msgspec.json.decode(text, type=State)
        except DAMAGE:
            self.damaged.append(name)
            return
        self.newest[state.node, state.boot.boot_id] = state.boot

    def add(self, name: str, text: str) -> None:
        """Add the lines of one manifest. An incomplete last line is one that is being written.

        A writer removes only files of its node, and a compaction those that it replaces.
        """
        replaced = compacted.replacements(text) if compacted.is_manifest(name) else {}
        self.replaced |= replaced
        removable = {path for paths in replaced.values() for path in paths}
        node = None
        if not compacted.is_manifest(name):
            self.boots.setdefault(name.removesuffix(".jsonl"), 0)
            node = name.rpartition("-")[0]
        for line in text[: text.rfind("\n") + 1].splitlines():
            try:
                entry = msgspec.json.decode(line, type=Entry)
            except DAMAGE:
                if name not in self.damaged:
                    self.damaged.append(name)
                continue
            if entry.removed in removable or schema.boot_key(entry.removed).rpartition("-")[0] == node:
                self.removed.add(entry.removed)
            elif entry.path and (self.only is None or entry.path in self.only):
                self.files[entry.path] = entry
                boot, end = schema.boot_key(entry.path), entry.last_row + 1 if entry.last_row is not None else 0
                self.boots[boot] = max(self.boots.get(boot, 0), end)

    def expected(self, present: Iterable[str]) -> dict[str, Entry]:
        """Return the finished files that should be there, given the paths of those that are."""
        here = set(present)
        gone = {path for by, paths in self.replaced.items() if by in here for path in paths} | self.removed
        return {path: entry for path, entry in self.files.items() if path not in gone}


class LogFile(NamedTuple):
    """An accepted file of a table, with what its footer says. `first_row` is null for tables other than events."""

    path: str
    table: str
    bytes: int
    records: int
    lost_records: int
    file_age_s: int
    first_row: int | None


class SkippedFile(NamedTuple):
    path: str
    reason: str
    bytes: int


@dataclass
class Input:
    """The files of an export.

    files     the accepted ones, by path in the folder
    skipped   the others
    missing, changed  entries of manifests whose files are not there, or are not as they were written
    unlisted  files of a boot with a manifest that does not list them
    listed_us the time of the listing
    """

    folder: str
    files: list[LogFile]
    skipped: list[SkippedFile]
    manifests: Manifests
    listed_us: int
    missing: list[Entry] = field(default_factory=list)
    changed: list[Entry] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)

    def of(self, table: str) -> list[LogFile]:
        return [file for file in self.files if file.table == table]

    def lost_records(self) -> dict[str, int]:
        """Return the greatest count of lost records in the footers of each boot's files."""
        return self._greatest("lost_records")

    def file_ages_s(self) -> dict[str, int]:
        """Return for how long the writer of each boot keeps a file open."""
        return self._greatest("file_age_s")

    def _greatest(self, name: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for file in self.files:
            key = schema.boot_key(file.path)
            found[key] = max(found.get(key, 0), getattr(file, name))
        return found

    def reasons(self) -> list[str]:
        """Return why the input is not complete."""
        skipped = Counter(file.reason for file in self.skipped)
        paths = {file.reason: file.path for file in reversed(self.skipped)}  # the first one of each
        reasons = [
            f"{count(skipped[reason], 'skipped file', verb)} {text} (such as {paths[reason]})"
            for reason, (verb, text) in REASONS.items()
            if reason in skipped
        ]
        keys = {schema.boot_key(file.path) for file in self.files}
        unproven = sorted(keys - self.manifests.boots.keys())
        if unproven:
            boots = count(len(unproven), "boot", HAS)
            reasons.append(f"{boots} no manifest, so missing files are not noticed (such as {unproven[0]})")
        stateless = [key for key in sorted(keys - set(unproven)) if not key.startswith(tuple(self.manifests.nodes))]
        if stateless:
            boots = count(len(stateless), "boot", HAS)
            reasons.append(f"{boots} no state of the node, so a later boot is not missed (such as {stateless[0]})")
        if self.unlisted:
            reasons.append(f"{count(len(self.unlisted), 'file', IS)} in no manifest (such as {self.unlisted[0]})")
        if self.manifests.damaged:
            files = count(len(self.manifests.damaged), "manifest or state file", IS)
            reasons.append(f"{files} damaged (such as {self.manifests.damaged[0]})")
        return reasons


def read_input(
    engine: Engine, folder: Folder, wanted: Callable[[str], bool] = bool, verified: Mapping[str, str] | None = None
) -> Input:
    """List the wanted files, by path, read their footers, and compare them with the manifests. Raises OSError.

    `verified` has checksums of files, by path, that need not be read again. Manifests are read before the files are
    listed, and again if they differ, since writers may go on meanwhile: files that are finished later do not count.
    Snapshots are listed before events: the events before a snapshot are finished before it, and must not be missing.
    """
    manifests = early = read_manifests(folder)
    listings = [folder.listing(table) for table in reversed(schema.TABLES)]
    sizes = {path: size for listing in listings for path, size in listing.files.items() if wanted(path)}
    listed_us = time.time_ns() // 1000
    if sizes.keys() != {path for path in manifests.expected(sizes) if wanted(path)}:
        manifests = read_manifests(folder, sizes.keys() | early.files.keys())
        manifests.newest, manifests.nodes = early.newest, early.nodes
    expected = {path: entry for path, entry in manifests.expected(sizes).items() if wanted(path)}
    replaced = {path for by, paths in manifests.replaced.items() if by in sizes for path in paths}
    counted = {path: size for path, size in sizes.items() if path not in replaced}
    files, skipped = unique(engine.map(partial(check_file, folder), list(counted.items())))
    skipped += [SkippedFile(path, NOT_PARQUET, 0) for listing in listings for path in listing.others if wanted(path)]
    found = Input(folder.name, files, skipped, manifests, listed_us)
    found.missing = [entry for path, entry in expected.items() if path not in sizes]
    present = [entry for path, entry in expected.items() if path in sizes]
    found.changed = changed(engine, folder, present, sizes, verified or {})
    named = manifests.files.keys() | manifests.replaced.keys()
    of_manifests = [file.path for file in files if schema.boot_key(file.path) in manifests.boots]
    found.unlisted = sorted(path for path in of_manifests if path not in named)
    return found


def read_manifests(folder: Folder, only: Collection[str] | None = None) -> Manifests:
    manifests = Manifests(only=only)
    of_boots, of_nodes = folder.listing(schema.MANIFEST), folder.listing(schema.STATE)
    manifests.damaged += [*of_boots.others, *of_nodes.others]
    for path in of_boots.files:
        if path.endswith(".jsonl"):
            manifests.add(path.rpartition("/")[2], folder.read_text(path))
    for path in of_nodes.files:
        if path.endswith(".json"):
            manifests.add_state(path.rpartition("/")[2], folder.read_text(path))
    return manifests


def unique(checked: Iterable[LogFile | SkippedFile]) -> tuple[list[LogFile], list[SkippedFile]]:
    """Return the accepted files, only the first one of each name, and the skipped ones."""
    accepted: dict[str, LogFile] = {}
    skipped = []
    for file in checked:
        name = f"{file.path.partition('/')[0]}/{file.path.rpartition('/')[2]}"
        if isinstance(file, SkippedFile):
            skipped.append(file)
        elif name in accepted:
            skipped.append(SkippedFile(file.path, DUPLICATE, file.bytes))
        else:
            accepted[name] = file
    return list(accepted.values()), skipped


def check_file(folder: Folder, listed: tuple[str, int]) -> LogFile | SkippedFile:
    """Accept or skip a file, given by path and bytes, by its name and its footer."""
    path, size = listed
    try:
        with folder.open(path) as file:
            footer = pq.read_metadata(file)
            has_columns = fits(path.partition("/")[0], footer)
    except Vanished:
        raise
    except (pa.ArrowException, OSError):
        return SkippedFile(path, NOT_PARQUET, size)
    if (
        schema.SCHEMA_KEY.encode() not in (footer.metadata or {})
        or schema.parse_name(path.rpartition("/")[2]) is None
        or not has_hour(path)
    ):
        return SkippedFile(path, FOREIGN, size)
    if not is_known(footer):
        return SkippedFile(path, UNKNOWN_SCHEMA, size)
    lost, age_s = number_in(footer, schema.LOST_KEY, 0), number_in(footer, schema.FILE_AGE_KEY, FILE_AGE_S)
    if not has_columns or lost is None or age_s is None:
        return SkippedFile(path, FOREIGN, size)
    table = path.partition("/")[0]
    first_row = min(least(footer, "row"), default=None) if table == schema.EVENTS else None
    return LogFile(path, table, size, footer.num_rows, lost, age_s, first_row)


def has_hour(path: str) -> bool:
    """Return whether the folder of a file is that of an hour."""
    found = HOUR.search(path)
    try:
        return found is not None and bool(datetime.fromisoformat(f"{found[1]}T{found[2]}"))
    except ValueError:
        return False


def least(footer: pq.FileMetaData, name: str) -> Iterator[int]:
    """Yield the least value of a column in each row group that has statistics of it."""
    for statistics in statistics_of(footer, name):
        if statistics.has_min_max:
            yield statistics.min


def changed(
    engine: Engine, folder: Folder, entries: Iterable[Entry], sizes: Mapping[str, int], verified: Mapping[str, str]
) -> list[Entry]:
    """Return the entries whose files are not as they were written."""
    entries = list(entries)
    unread = [entry.path for entry in entries if sizes[entry.path] == entry.bytes and entry.path not in verified]
    sums = {**verified, **dict(zip(unread, engine.map(folder.sha256, unread), strict=True))}
    return [entry for entry in entries if sizes[entry.path] != entry.bytes or sums[entry.path] != entry.sha256]
