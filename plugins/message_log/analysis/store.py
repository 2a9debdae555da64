"""The stored facts of hours: an hour whose files are the same is not reduced again.

    hours/<hour>/record.json     the files of the hour, with their checksums, and the ranges of rows that were checked
    hours/<hour>/traffic.parquet the seconds of the hour
    hours/<hour>/<part>.parquet  what is open of its files, divided by message
    hours/<hour>/facts.parquet   its other facts

An hour is the folder of files below their table. Late files, compactions, the retention and kills need no code of their
own: an hour whose list of files differs is reduced again, and one without a record has never been completed. A run of
a later time closes journeys that began in earlier hours, since what is open meets in each run.
"""

from collections.abc import Iterable, Mapping

import msgspec
import pyarrow as pa

from ..file_format import schema
from .facts import Facts
from .folder import Folder
from .input import Input, LogFile
from .reduction import CheckedRange, Ranges

RECORD, TRAFFIC, FACTS = "record.json", "traffic.parquet", "facts.parquet"
VERSION = 2  # of facts; those of another version are made again


class Record(msgspec.Struct):
    """The sources of the stored facts of an hour.

    files   the checksums of its files by path, or their sizes if no manifest lists them
    ranges  for each boot with files in the hour: node, boot, and the checked range
    parts   the number of parts into which open facts are divided
    stored  the checksums of the stored files by name
    """

    files: dict[str, str]
    ranges: list[tuple[str, str, int, int]]
    parts: int
    version: int = VERSION
    stored: dict[str, int] = {}


def hour_of(path: str) -> str:
    """Return the folder of a file below that of its table, as one name."""
    return "-".join(path.split("/")[1:-1])


def by_hour(files: Iterable[LogFile]) -> dict[str, list[LogFile]]:
    """Return files by their hour, in the order of hours."""
    found: dict[str, list[LogFile]] = {}
    for file in sorted(files, key=lambda file: hour_of(file.path)):
        found.setdefault(hour_of(file.path), []).append(file)
    return found


def records(folder: Folder, files: Input, ranges: Ranges, parts: int) -> dict[str, Record]:
    """Return the sources of each hour's facts. Files that no manifest lists are read for their checksums."""
    keys = {schema.boot_key(schema.file_name(*name, 0)): name for name in ranges}
    found = {}
    for hour, of_hour in by_hour(files.of(schema.EVENTS)).items():
        listed = {file.path: files.manifests.files.get(file.path) for file in of_hour}
        sums = {path: entry.sha256 if entry is not None else folder.sha256(path) for path, entry in listed.items()}
        boots = {keys[key]: rows_of(of_hour, key) for key in map(boot_of, of_hour) if key in keys}
        bounds = sorted((*boot, *clip(ranges[boot], rows)) for boot, rows in boots.items())
        found[hour] = Record(sums, bounds, parts)
    return found


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


def kept(place: Folder, wanted: Mapping[str, Record]) -> set[str]:
    """Return the hours whose stored facts are those that are wanted."""
    stored = {path: size for path, size in place.files("hours").items() if path.endswith(RECORD)}
    found = set()
    for hour, record in wanted.items():
        path = f"hours/{hour}/{RECORD}"
        made = read_record(place, path) if path in stored else None
        if made is not None and msgspec.structs.replace(made, stored={}) == record and is_sound(place, hour, made):
            found.add(hour)
    return found


def verified(place: Folder) -> dict[str, str]:
    """Return the checksums of files that were compared with the manifest before, by path."""
    paths = [path for path in place.files("hours") if path.endswith(f"/{RECORD}")]
    made = [read_record(place, path) for path in paths]
    return {path: text for record in made if record is not None for path, text in record.files.items()}


def is_sound(place: Folder, hour: str, record: Record) -> bool:
    """Return whether the stored files of an hour are as they were written."""
    try:
        return all(place.crc(f"hours/{hour}/{name}") == crc for name, crc in record.stored.items())
    except OSError:
        return False


def read_record(place: Folder, path: str) -> Record | None:
    """Return a record, or None if it is damaged."""
    try:
        return msgspec.json.decode(place.read_text(path), type=Record)
    except (msgspec.MsgspecError, OSError):
        return None


def write_record(place: Folder, path: str, record: Record, names: Iterable[str]) -> None:
    """Write the record of an hour, of which all files are stored."""
    stored = {name: place.crc(f"{path}/{name}") for name in names}
    place.write_bytes(f"{path}/{RECORD}", msgspec.json.encode(msgspec.structs.replace(record, stored=stored)))


def save(place: Folder, path: str, facts: Facts) -> None:
    """Store facts in one file."""
    rows = {"name": list(facts), "facts": [as_bytes(table) for table in facts.values()]}
    place.write(path, pa.table(rows, pa.schema({"name": pa.string(), "facts": pa.large_binary()}.items())))


def load(place: Folder, path: str) -> Facts:
    """Return facts that were stored."""
    rows = place.read(path, pa.schema({"name": pa.string(), "facts": pa.large_binary()}.items()))
    pairs = zip(rows["name"].to_pylist(), rows["facts"].to_pylist(), strict=True)
    return {name: pa.ipc.open_stream(data).read_all() for name, data in pairs}


def as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())
