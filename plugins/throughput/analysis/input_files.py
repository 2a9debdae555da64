"""What is read: which files count, and the tables as DataFrames with the columns of schema.py and no others.

A file is taken whole or not at all. What is no Parquet file, or was not written by this export, or has a schema that
this job does not know, is skipped and counted; a file that appears twice, by its name, is taken once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from .. import schema
from .hadoop_fs import Folders, Found, NotParquet

READERS = 8  # footers read at once
TRUNCATED, FOREIGN, UNKNOWN_SCHEMA, DUPLICATE = "not_parquet", "foreign", "unknown_schema", "duplicate"
NAME = re.compile(r"part-.+-\d{6,}\.parquet")
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


class Damaged(Exception):
    """A file has other rows than its footer says: one line that names it."""


class Taken(NamedTuple):
    """A file that counts, and how many rows its footer promises."""

    path: str
    records: int
    lost_records: int


class Skipped(NamedTuple):
    path: str
    reason: str


class Intake(NamedTuple):
    """Of one table: what is read and what is not."""

    taken: list[Taken]
    skipped: list[Skipped]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.taken]

    def reasons(self) -> dict[str, int]:
        return dict(sorted(Counter(file.reason for file in self.skipped).items()))


def columns(table: str) -> t.StructType:
    """Spark's own schema of a table. Nothing is inferred from files."""
    return t.StructType([t.StructField(name, TYPES[kind], True) for name, kind, _ in schema.TABLES[table]])


def look(folders: Folders, folder: str, table: str) -> Intake:
    """Reads the footer of every file of the table. Raises OSError where the folder cannot be read."""
    place = f"{folder.rstrip('/')}/{table}"
    if not folders.exists(place):
        return Intake([], [])
    files = folders.files(place)
    with ThreadPoolExecutor(READERS) as readers:
        verdicts = list(readers.map(lambda file: verdict(folders, file), files))
    taken: dict[str, Taken] = {}
    skipped = []
    for file, result in zip(files, verdicts, strict=True):
        if isinstance(result, Skipped):
            skipped.append(result)
        elif file.name in taken:
            skipped.append(Skipped(file.path, DUPLICATE))
        else:
            taken[file.name] = result
    return Intake(list(taken.values()), skipped)


def verdict(folders: Folders, file: Found) -> Taken | Skipped:
    """Whether the file is taken."""
    try:
        footer = folders.footer(file.path)
    except NotParquet:
        return Skipped(file.path, TRUNCATED)
    version = footer.metadata.get(schema.SCHEMA_KEY)
    if version is None or not NAME.fullmatch(file.name):
        return Skipped(file.path, FOREIGN)
    if version != str(schema.SCHEMA):
        return Skipped(file.path, UNKNOWN_SCHEMA)
    return Taken(file.path, footer.records, int(footer.metadata.get(schema.LOST_KEY, "0")))


def read(spark: SparkSession, table: str, paths: list[str]) -> DataFrame:
    """The rows of these files."""
    reader = spark.read.schema(columns(table)).option("recursiveFileLookup", True)  # else folders become columns
    return reader.parquet(*paths) if paths else spark.createDataFrame([], columns(table))


def missing_hours(taken: Iterable[Taken]) -> list[str]:
    """Hours, as `2026-11-22 05`, of which there is no file between the first that has one and the last."""
    from datetime import datetime, timedelta

    there = sorted({datetime.fromisoformat(f"{m[1]}T{m[2]}") for f in taken if (m := HOUR.search(f.path))})
    if not there:
        return []
    span = int((there[-1] - there[0]) / timedelta(hours=1))
    hours = (there[0] + timedelta(hours=number) for number in range(span))
    return [f"{hour:%Y-%m-%d %H}" for hour in hours if hour not in set(there)]
