"""The merge of the small files of a boot and an hour into larger ones, while brokers write and others read.

No interruption of a compaction loses a row or counts it twice (`file_format.compacted`). The next compaction completes
it.
"""

import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warren.broker.config import MessageLogExport

from ..export.boot_files import describe_file
from ..export.manifest import Manifest, RemovedFile, ReplacedFiles
from ..export.parquet_file import Part, temporary_path
from ..file_format import compacted, schema
from ..file_format.arrow_schema import fits, is_known, number_in

GRACE = timedelta(hours=1)  # after the end of an hour, in which a writer may still finish files of it
FILE_BYTES = 128 << 20  # the maximum in a merged file
FILE_ROWS = 2_000_000  # the maximum in a merged file, because all are in memory together
GROUP_ROWS = 1 << 18  # of a row group, which is sorted by queue; groups follow each other in the order of rows
LOCK = ".compact.lock"
NUMBERS = ((schema.LOST_KEY, 0), (schema.FILE_AGE_KEY, MessageLogExport().file_age_s))  # of a footer, with defaults

_BY_ROW = [("row", "ascending")]
_ORDER = {schema.EVENTS: _BY_ROW, schema.METRICS: [("mono_ns", "ascending")], schema.QUEUE_STATS: _BY_ROW}


class Busy(Exception):
    """An error of one line: another compaction of this export is running."""


@dataclass(frozen=True, slots=True, eq=False)
class SmallFile:
    """A file that may be merged with others of the same boot."""

    path: Path
    name: schema.PartName
    size: int  # bytes
    footer: pq.FileMetaData


class Result(NamedTuple):
    """The numbers of files before and after a compaction, and of rows in them; `refused` are files that stay."""

    before: int
    after: int
    rows: int
    refused: tuple[str, ...] = ()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other compactions away. Raises Busy, OSError."""
    place = folder / schema.MANIFEST
    place.mkdir(exist_ok=True)
    descriptor = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Busy(f"{folder}: another compaction is running") from None
    finally:
        os.close(descriptor)


def compact(folder: Path, now: datetime) -> Result:
    """Merge the files of all hours that ended GRACE ago, without those that no writer has written. Raises OSError."""
    complete_earlier(folder)
    before = after = rows = 0
    refused: list[Path] = []
    for table in schema.TABLES:
        for place in [hour for day in entries(folder / table, "dt=*") for hour in entries(day, "hour=*")]:
            hour = hour_of(place)
            if hour is None or hour > now - GRACE - timedelta(hours=1):
                continue
            for files in groups(small_files(folder, table, place, refused)):
                read = read_all(files, refused)
                whole = joined(table, read, refused)
                if whole is not None:
                    merge(folder, table, list(read), whole)
                    rows, before, after = rows + len(whole), before + len(read), after + 1
    return Result(before, after, rows, tuple(path.relative_to(folder).as_posix() for path in refused))


def entries(place: Path, pattern: str) -> list[Path]:
    """Return what matches in a folder, or nothing without one. Raises OSError, unlike `glob`, if it cannot be read."""
    try:
        return sorted(path for path in place.iterdir() if path.match(pattern))
    except (FileNotFoundError, NotADirectoryError):
        return []


def hour_of(place: Path) -> datetime | None:
    try:
        return datetime.strptime(f"{place.parent.name} {place.name}", "dt=%Y-%m-%d hour=%H").replace(tzinfo=UTC)
    except ValueError:
        return None


def small_files(folder: Path, table: str, place: Path, refused: list[Path]) -> list[SmallFile]:
    """Return the small files of an hour, none through links, which may lead out of the export.

    Files that no writer has written are added to `refused`.
    """
    files: list[SmallFile] = []
    if not place.resolve().is_relative_to(folder.resolve()):
        return files
    for path in entries(place, "part-*.parquet"):
        name, status = schema.parse_name(path.name), path.lstat()
        footer = footer_of(table, path) if name is not None and S_ISREG(status.st_mode) else None
        if name is None or footer is None:
            refused.append(path)
        elif status.st_size <= FILE_BYTES // 2:
            files.append(SmallFile(path, name, status.st_size, footer))
    return files


def footer_of(table: str, path: Path) -> pq.FileMetaData | None:
    """Return the footer of a file of a table, or None if no writer has written it, or it cannot be read."""
    try:
        footer = pq.read_metadata(path)
        sound = is_known(footer) and fits(table, footer) and has_dictionaries(table, footer)
    except (pa.ArrowException, OSError):
        return None
    sound &= footer.num_rows > 0 and all(number_in(footer, *number) is not None for number in NUMBERS)
    return footer if sound else None


def has_dictionaries(table: str, footer: pq.FileMetaData) -> bool:
    """Return whether the columns that are dictionaries in files of a writer are so here: others cannot be joined."""
    kinds = {column.name: column.type for column in schema.TABLES[table]}
    fields = footer.schema.to_arrow_schema()
    return all(kinds.get(each.name) != "dictionary" or pa.types.is_dictionary(each.type) for each in fields)


def groups(files: Iterable[SmallFile]) -> Iterator[list[SmallFile]]:
    """Yield the files to be merged: two or more of one boot, within the limits of a file."""
    ordered = sorted(files, key=lambda file: file.name)
    for _, of_boot in groupby(ordered, key=lambda file: file.name.boot):
        group: list[SmallFile] = []
        for file in of_boot:
            if group and (
                sum(each.size for each in group) + file.size > FILE_BYTES
                or sum(each.footer.num_rows for each in group) + file.footer.num_rows > FILE_ROWS
            ):
                if len(group) > 1:
                    yield group
                group = []
            group.append(file)
        if len(group) > 1:
            yield group


def read_all(files: Iterable[SmallFile], refused: list[Path]) -> dict[SmallFile, pa.Table]:
    """Return the rows of files; those that are damaged are added to `refused`."""
    read = {}
    for file in files:
        try:
            read[file] = pq.ParquetFile(file.path).read()
        except (pa.ArrowException, OSError):
            refused.append(file.path)
    return read


def joined(table: str, read: Mapping[SmallFile, pa.Table], refused: list[Path]) -> pa.Table | None:
    """Return the rows of two files or more in their order, or None if there are fewer, or their columns differ."""
    try:
        whole = pa.concat_tables(read.values(), promote_options="default").unify_dictionaries()
        return whole.sort_by(_ORDER[table]) if len(read) > 1 else None
    except pa.ArrowException:
        refused += [file.path for file in read]
        return None


def merge(folder: Path, table: str, files: list[SmallFile], whole: pa.Table) -> None:
    """Replace files by one with all their rows. Raises OSError."""
    lost, age_s = (max(number_in(file.footer, *number) or 0 for file in files) for number in NUMBERS)
    kept = {key: value for key, value in files[-1].footer.metadata.items() if key != b"ARROW:schema"}
    target = whole.schema.with_metadata(kept)
    first_us = pc.min(whole["ts_us"]).cast(pa.int64()).as_py()
    name = str(files[0].name._replace(last=files[-1].name.last))
    # Of the folder of the first file: a row may be of the hour before, as a file begins with the hour of its first row.
    path = files[0].path.with_name(name)
    relative = [file.path.relative_to(folder).as_posix() for file in files]
    manifest = Manifest(folder, f"{compacted.PREFIX}{secrets.token_hex(8)}{compacted.SUFFIX}")
    manifest.add(ReplacedFiles(relative, path.relative_to(folder).as_posix()))
    part = Part(folder, table, name, target, first_us, path.parent)
    with ExitStack() as unfinished:
        unfinished.callback(part.abandon)
        for start in range(0, len(whole), GROUP_ROWS):
            group = whole.slice(start, GROUP_ROWS)
            if table == schema.EVENTS:
                group = group.take(by_queue(group))
            part.write({column: group[column].combine_chunks() for column in group.column_names})
        finished = part.finish(lost, age_s)
        unfinished.pop_all()
    manifest.add(finished)
    remove(folder, manifest, relative)


def by_queue(group: pa.Table) -> pa.Array:
    """Return the indices of the rows in the order of queues, as the exporter writes them: similar rows are smaller."""
    names = ("vhost", "queue")  # dictionaries, which cannot be sorted
    keys = pa.table({**{name: group[name].cast(pa.string()) for name in names}, "row": group["row"]})
    return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])


def remove(folder: Path, manifest: Manifest, paths: Iterable[str]) -> None:
    """Remove replaced files."""
    there = [path for path in paths if (folder / path).exists()]
    if there:
        manifest.add(*[RemovedFile(path, schema.COMPACTED) for path in there])
        for path in there:
            (folder / path).unlink(missing_ok=True)


def complete_earlier(folder: Path) -> None:
    """Complete interrupted compactions, and discard those without a file."""
    for path in entries(folder / schema.MANIFEST, f"{compacted.PREFIX}*{compacted.SUFFIX}"):
        text = path.read_text("utf-8", "replace") if path.is_file() else "\n"  # another kind of file has no lines
        if "\n" not in text:
            path.unlink()  # the compaction was killed before its first line
            continue
        manifest = Manifest(folder, path.name)
        for by, replaced in compacted.replacements(text).items():
            if not (folder / by).resolve().is_relative_to(folder.resolve()):
                continue  # a link leads out of the export
            if not (folder / by).exists():
                if all((folder / each).exists() for each in replaced):
                    temporary_path(folder / by).unlink(missing_ok=True)
                    path.unlink()  # nothing was made, nothing removed
                continue
            if '"sha256"' not in text:
                manifest.add(describe_file(folder, by))
            remove(folder, manifest, replaced)
