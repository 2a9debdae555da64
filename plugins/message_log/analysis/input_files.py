"""The input: which files are accepted, and the tables as DataFrames with exactly the columns of schema.py.

A file is accepted or skipped as a whole. Files that are not Parquet, were not written by this export, have another
version of the schema, or have the name of an accepted file are skipped and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from ..file_format import compacted, schema
from .create_table import empty_table
from .hadoop_fs import FileInfo, Folders, NotParquet

READERS = 8  # footers that are read concurrently
TRUNCATED, FOREIGN, UNKNOWN_SCHEMA, DUPLICATE = "not_parquet", "foreign", "unknown_schema", "duplicate"
HOUR = re.compile(r"/dt=(\d{4}-\d\d-\d\d)/hour=(\d\d)/")

TYPES: dict[str, t.DataType] = {
    "timestamp": t.TimestampType(),
    "int64": t.LongType(),
    "int32": t.IntegerType(),
    "int16": t.ShortType(),
    "int8": t.ByteType(),
    "float64": t.DoubleType(),
    "float32": t.FloatType(),
    "bool": t.BooleanType(),
    "string": t.StringType(),
    "dictionary": t.StringType(),
    "map": t.MapType(t.StringType(), t.StringType()),
    "list": t.ArrayType(t.LongType()),
}


class DamagedFile(Exception):
    """An error of one line, for a file whose number of rows differs from its footer."""


class AcceptedFile(NamedTuple):
    """An accepted file, with what its footer says."""

    path: str
    records: int
    lost_records: int
    file_age_s: int | None = None  # the time for which its writer keeps a file open; None if unknown
    bytes: int = 0


class SkippedFile(NamedTuple):
    path: str
    reason: str
    bytes: int = 0


class TableFiles(NamedTuple):
    """The files of one table."""

    accepted: list[AcceptedFile]
    skipped: list[SkippedFile]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.accepted]

    def sizes(self) -> dict[str, int]:
        """Return the bytes of all files, the skipped ones too, by path."""
        sizes = {file.path: file.bytes for file in self.accepted}
        return sizes | {file.path: file.bytes for file in self.skipped}


def skipped_files(inputs: Mapping[str, TableFiles]) -> dict[str, int]:
    """Return the number of skipped files of all tables by reason."""
    return dict(sorted(Counter(file.reason for files in inputs.values() for file in files.skipped).items()))


def columns(table: str) -> t.StructType:
    """Return Spark's schema of a table. Nothing is inferred from files."""
    return t.StructType([t.StructField(name, TYPES[kind], True) for name, kind, _ in schema.TABLES[table]])


def any_file(path: str) -> bool:
    return True


def list_files(folders: Folders, folder: str, wanted: Callable[[str], bool] = any_file) -> dict[str, TableFiles]:
    """List the wanted files of all tables, by path. Raises OSError if the folder cannot be read.

    Snapshots are listed first: their events are in earlier files, which the later listings must contain.
    """
    top = folder.rstrip("/")
    listed = {
        table: folders.files(f"{top}/{table}") if folders.exists(f"{top}/{table}") else []
        for table in reversed(schema.TABLES)
    }
    replaced = replaced_files(folders, top, [file for files in listed.values() for file in files])
    return {
        table: check_files_of(folders, [file for file in listed[table] if wanted(file.path) and file not in replaced])
        for table in schema.TABLES
    }


def check_files_of(folders: Folders, files: list[FileInfo]) -> TableFiles:
    """Accept or skip each file of a table."""
    with ThreadPoolExecutor(READERS) as readers:
        verdicts = list(readers.map(lambda file: check_file(folders, file), files))
    accepted: dict[str, AcceptedFile] = {}
    skipped = []
    for file, result in zip(files, verdicts, strict=True):
        if isinstance(result, SkippedFile):
            skipped.append(result)
        elif file.name in accepted:
            skipped.append(SkippedFile(file.path, DUPLICATE, file.bytes))
        else:
            accepted[file.name] = result
    return TableFiles(list(accepted.values()), skipped)


def replaced_files(folders: Folders, folder: str, files: list[FileInfo]) -> set[FileInfo]:
    """Return the files that a compaction has replaced and not removed yet."""
    place = f"{folder}/{schema.MANIFEST}"
    if not files or not folders.exists(place):
        return set()
    manifests = [folders.text(file.path) for file in folders.files(place) if compacted.is_manifest(file.name)]
    relative = {file: "/".join(file.path.split("/")[-4:]) for file in files}
    replaced = compacted.replaced_paths(manifests, set(relative.values()))
    return {file for file in files if relative[file] in replaced}


def check_file(folders: Folders, file: FileInfo) -> AcceptedFile | SkippedFile:
    """Accept or skip a file, by its footer."""
    try:
        footer = folders.footer(file.path)
    except NotParquet:
        return SkippedFile(file.path, TRUNCATED, file.bytes)
    version = footer.metadata.get(schema.SCHEMA_KEY)
    if version is None or schema.parse_name(file.name) is None:
        return SkippedFile(file.path, FOREIGN, file.bytes)
    if version != str(schema.SCHEMA):
        return SkippedFile(file.path, UNKNOWN_SCHEMA, file.bytes)
    age_s = footer.metadata.get(schema.FILE_AGE_KEY)
    lost = int(footer.metadata.get(schema.LOST_KEY, "0"))
    return AcceptedFile(file.path, footer.records, lost, int(age_s) if age_s else None, file.bytes)


def local_records(folder: str, wanted: Callable[[str], bool] = any_file) -> int | None:
    """Return the number of events in the wanted files of a folder of this machine, by their footers.

    Returns None for a folder elsewhere. Works without Spark, whose settings depend on the number. Unreadable files
    count as empty.
    """
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    place = Path(folder.removeprefix("file://"))
    if not place.is_dir():
        return None
    records = 0
    for path in (place / schema.EVENTS).rglob("part-*.parquet"):
        if not wanted(str(path)):
            continue
        try:
            records += pq.read_metadata(path).num_rows
        except (OSError, ArrowException):
            continue
    return records


def read(spark: SparkSession, table: str, paths: list[str]) -> DataFrame:
    """Return the rows of these files."""
    reader = spark.read.schema(columns(table)).option("recursiveFileLookup", True)  # folders are no columns
    return reader.parquet(*paths) if paths else empty_table(spark, columns(table))


def missing_hours(files: Iterable[AcceptedFile]) -> list[str]:
    """Return the hours without a file, such as `2026-11-22 05`, between the first and the last hour with one."""
    from datetime import datetime, timedelta

    covered = sorted({datetime.fromisoformat(f"{m[1]}T{m[2]}") for f in files if (m := HOUR.search(f.path))})
    if not covered:
        return []
    span = int((covered[-1] - covered[0]) / timedelta(hours=1))
    hours = (covered[0] + timedelta(hours=number) for number in range(span))
    return [f"{hour:%Y-%m-%d %H}" for hour in hours if hour not in set(covered)]
