"""The tables of one run, below a folder, and their first rows as lists for report.json.

Tables that may be as large as the log are written by Spark, the others by this process.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .hadoop_fs import Folders

LISTED = 200  # the maximum of rows in a list of report.json; the tables have all rows
Values = dict[str, Any]
Columns = dict[str, pa.DataType]


def first_rows(table: DataFrame, order: tuple[str, ...], limit: int = LISTED) -> list[Values]:
    """Return the first rows in this order, with values for JSON."""
    return [values(row) for row in table.orderBy(*sorting(order)).limit(limit).collect()]


def sorting(order: tuple[str, ...]) -> list[Column]:
    """Return sort columns; a name with `-` is sorted in descending order."""
    return [F.desc_nulls_last(name[1:]) if name.startswith("-") else F.asc_nulls_first(name) for name in order]


def values(row: Row) -> Values:
    return {name: plain(value) for name, value in row.asDict().items()}


def plain(value: Any) -> Any:
    """Return a value for JSON: times as text in UTC, NaN as null."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, float) and value != value:
        return None
    return value


class WrittenTable:
    """A table that was written: as rows of this process, or as a DataFrame if it may be as large as the log."""

    def __init__(self, spark: SparkSession, table: pa.Table | DataFrame, columns: StructType | None = None) -> None:
        self._spark = spark
        self._table = table
        self._columns = columns

    def first(self, order: Sequence[str], limit: int = LISTED) -> list[Values]:
        """Return the first rows in this order, with values for JSON; a name with `-` is in descending order."""
        if isinstance(self._table, DataFrame):
            return first_rows(self._table, tuple(order), limit)
        rows = self._first(order, limit).to_pylist()
        return [{name: plain(value) for name, value in row.items()} for row in rows]

    def first_frame(self, order: Sequence[str], limit: int) -> DataFrame:
        """Return the first rows in this order, for a query."""
        if isinstance(self._table, DataFrame):
            return self._table.orderBy(*sorting(tuple(order))).limit(limit)
        return self._spark.createDataFrame(self._first(order, limit))

    @cached_property
    def frame(self) -> DataFrame:
        """The table for further queries, which do not compute it again."""
        if isinstance(self._table, DataFrame):
            return self._table
        return self._spark.createDataFrame(self._table, self._columns)

    @cached_property
    def count(self) -> int:
        """The number of rows."""
        return self._table.count() if isinstance(self._table, DataFrame) else self._table.num_rows

    def _first(self, order: Sequence[str], limit: int) -> pa.Table:
        table: pa.Table = self._table
        places = list(range(table.num_rows))
        for name in reversed(order):
            column = table[name.removeprefix("-")].to_pylist()
            places.sort(key=lambda place: (column[place] is not None, column[place]), reverse=name.startswith("-"))
        return table.take(pa.array(places[:limit], pa.int64()))


class Tables:
    """The writer of the tables below `folder`. With `small`, all tables fit into this process."""

    def __init__(self, spark: SparkSession, folder: str, small: bool, log: Callable[[str], None]) -> None:
        self._spark = spark
        self._folders = Folders(spark)
        self._folder = folder
        self._small = small
        self._log = log

    def write(self, name: str, table: DataFrame, bounded: bool = False) -> WrittenTable:
        """Write a table, which is computed once; `bounded`: by the numbers of queues, users and nodes."""
        self._log(name)
        if bounded or self._small:
            rows = table.toArrow()
            self._put(name, rows)
            return WrittenTable(self._spark, rows, table.schema)
        place = self._place(name)
        table.write.parquet(place)
        return WrittenTable(self._spark, self._spark.read.schema(table.schema).parquet(place))

    def write_rows(self, name: str, rows: list[Values], columns: Columns) -> WrittenTable:
        """Write rows of this process."""
        self._log(name)
        table = pa.Table.from_pylist(rows, pa.schema(list(columns.items())))
        self._put(name, table)
        return WrittenTable(self._spark, table)

    def _put(self, name: str, rows: pa.Table) -> None:
        content = io.BytesIO()
        pq.write_table(rows, content, compression="zstd")
        self._folders.write_bytes(f"{self._place(name)}/part-00000.parquet", content.getvalue())

    def _place(self, name: str) -> str:
        return f"{self._folder}/tables/{name}"


def keyed(rows: list[Values], *names: str) -> dict[tuple[Any, ...], list[Values]]:
    """Return the rows by the values of these columns."""
    groups: dict[tuple[Any, ...], list[Values]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups
