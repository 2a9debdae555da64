"""The stored facts of hours and days: those whose files are the same are not reduced again.

    hours/<hour>/record.json     the files of the hour, with their checksums, and the ranges of rows that were checked
    hours/<hour>/<slice>.parquet a slice of the facts of its files (`facts.divide`), with a row group for each fact

An hour is the folder of files below their table. Those more than a day older than the newest one are joined to days,
which are merged from the facts of their hours. Late files, compactions, the retention and kills need no code of their
own: an hour or day whose list of files differs is reduced again, one without a record has never been completed, and the
facts of one that has no files any more are removed, so a report is always about the files that are there. A run of a
later time closes journeys that began in earlier hours, since what is open meets in each run.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ..file_format import schema
from ..file_format.folder import Folder
from .engine import Engine
from .facts import Facts
from .input import HOUR, Input, LogFile
from .reduction import CheckedRange, Ranges

HOURS, RECORD = "hours", "record.json"
VERSION = 6  # of facts; those of another version are made again
SLICE_BYTES = 16 << 20  # of files of events, for which there is a slice
SLICES = 32  # at most
DAY = timedelta(days=1)
STORED = pa.schema([("name", pa.string()), ("facts", pa.large_binary())])


class Record(msgspec.Struct):
    """The sources of the stored facts of an hour.

    files   the checksums of its files by path
    ranges  for each boot with files in the hour: node, boot, and the checked range
    slices  the number of slices into which its facts are divided
    stored  the checksums of the stored files by name
    """

    files: dict[str, str]
    ranges: list[tuple[str, str, int, int]]
    slices: int
    version: int = VERSION
    stored: dict[str, int] = {}


def hour_of(path: str) -> str:
    """Return the folder of a file below that of its table, as one name."""
    return "-".join(path.split("/")[1:-1])


def time_of(path: str) -> datetime:
    """Return the hour in the path of a file that was accepted."""
    found = HOUR.search(path)
    assert found is not None
    return datetime.fromisoformat(f"{found[1]}T{found[2]}")


def grouped(files: Iterable[LogFile]) -> dict[str, list[LogFile]]:
    """Return files by their hour, or by their day if that ended a day before the newest hour."""
    files = sorted(files, key=lambda file: hour_of(file.path))
    newest = max((time_of(file.path) for file in files), default=datetime.min)
    found: dict[str, list[LogFile]] = {}
    for file in files:
        at = time_of(file.path)
        is_old = at.date() < (newest - DAY).date()
        found.setdefault(f"day={at:%Y-%m-%d}" if is_old else hour_of(file.path), []).append(file)
    return found


def by_hour(files: Iterable[LogFile]) -> dict[str, list[LogFile]]:
    found: dict[str, list[LogFile]] = {}
    for file in files:
        found.setdefault(hour_of(file.path), []).append(file)
    return found


def slices_of(files: Iterable[LogFile]) -> int:
    """Return the number of slices for some files, a power of 2, so that it divides that for more files."""
    size = sum(file.bytes for file in files)
    return min(1 << (size // SLICE_BYTES).bit_length(), SLICES)


def sums_of(engine: Engine, folder: Folder, files: Input) -> dict[str, str]:
    """Return the checksums of the files of events. Those that no manifest lists are read."""
    listed = {file.path: files.manifests.files.get(file.path) for file in files.of(schema.EVENTS)}
    unlisted = [path for path, entry in listed.items() if entry is None]
    read = dict(zip(unlisted, engine.map(folder.sha256, unlisted), strict=True))
    return read | {path: entry.sha256 for path, entry in listed.items() if entry is not None}


def record_of(files: list[LogFile], sums: Mapping[str, str], ranges: Ranges) -> Record:
    """Return the sources of the facts of some files."""
    keys = {schema.boot_key(schema.file_name(*name, 0)): name for name in ranges}
    boots = {keys[key]: rows_of(files, key) for key in {boot_of(file) for file in files} if key in keys}
    bounds = sorted((*boot, *clip(ranges[boot], rows)) for boot, rows in boots.items())
    return Record({file.path: sums[file.path] for file in files}, bounds, slices_of(files))


def boot_of(file: LogFile) -> str:
    return schema.boot_key(file.path)


def rows_of(files: Iterable[LogFile], boot: str) -> range:
    """Return the rows that the files of a boot may have: from the first one on, as many as there are."""
    of_boot = [file for file in files if boot_of(file) == boot]
    first = min((file.first_row or 0 for file in of_boot), default=0)
    last = max(((file.first_row or 0) + file.records for file in of_boot), default=0)
    return range(first, last)


def clip(checked: CheckedRange, rows: range) -> tuple[int, int]:
    """Return a checked range as far as it matters for some rows: what lies beyond them does not."""
    return max(min(checked.from_row, rows.stop), rows.start), max(min(checked.to_row, rows.stop), rows.start)


def kept(engine: Engine, place: Folder, wanted: Mapping[str, Record]) -> set[str]:
    """Return the hours whose stored facts are those that are wanted."""
    stored = set(place.names(HOURS))
    names = [name for name in wanted if name in stored]
    made = engine.map(partial(sound_record, place), names)
    return {
        name
        for name, record in zip(names, made, strict=True)
        if record is not None and msgspec.structs.replace(record, stored={}) == wanted[name]
    }


def sound_record(place: Folder, hour: str) -> Record | None:
    """Return the record of an hour whose stored files are as they were written, or None."""
    record = read_record(place, hour)
    try:
        sound = record is not None and all(
            place.crc(f"{HOURS}/{hour}/{name}") == crc for name, crc in record.stored.items()
        )
    except OSError:
        return None
    return record if sound else None


def verified(place: Folder) -> dict[str, str]:
    """Return the checksums of files that were compared with the manifest before, by path."""
    made = [read_record(place, hour) for hour in place.names(HOURS)]
    return {path: text for record in made if record is not None for path, text in record.files.items()}


def read_record(place: Folder, hour: str) -> Record | None:
    """Return a record, or None if there is none or it is damaged."""
    try:
        return msgspec.json.decode(place.read_text(f"{HOURS}/{hour}/{RECORD}"), type=Record)
    except (msgspec.MsgspecError, OSError):
        return None


def write_record(place: Folder, hour: str, record: Record, stored: dict[str, int]) -> None:
    """Write the record of an hour, of which all files are stored, with their checksums."""
    content = msgspec.json.encode(msgspec.structs.replace(record, stored=stored))
    place.replace(f"{HOURS}/{hour}/{RECORD}", content)


def forget(place: Folder, hour: str) -> None:
    """Remove the record of an hour, whose facts will be written."""
    place.remove(f"{HOURS}/{hour}/{RECORD}")


def retain(place: Folder, wanted: Collection[str]) -> None:
    """Remove the facts of hours that are not wanted any more."""
    for name in set(place.names(HOURS)) - set(wanted):
        forget(place, name)
        place.remove(f"{HOURS}/{name}")


def slice_path(hour: str, number: int) -> str:
    return f"{HOURS}/{hour}/{number:02}.parquet"


def save(place: Folder, path: str, facts: Facts) -> None:
    """Store facts in one file."""
    rows = {"name": list(facts), "facts": [as_bytes(table) for table in facts.values()]}
    place.write(path, pa.table(rows, STORED), row_group_size=1)


def load(place: Folder, path: str, names: Collection[str] | None = None) -> Facts:
    """Return facts that were stored, those of some names or all."""
    with place.open(path) as opened:
        file = pq.ParquetFile(opened)
        stored = file.read(["name"])["name"].to_pylist() if file.num_row_groups else []
        return dict(read_facts(file, [place for place, name in enumerate(stored) if names is None or name in names]))


def read_facts(file: pq.ParquetFile, places: Iterable[int]) -> Iterator[tuple[str, pa.Table]]:
    for place in places:
        row = file.read_row_group(place)
        yield row["name"][0].as_py(), pa.ipc.open_stream(row["facts"][0].as_buffer()).read_all()


def as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())
