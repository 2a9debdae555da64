"""Tables from rows of the driver, by Arrow: Spark would convert a list in Python, on its executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

ARROW: dict[type[t.DataType], pa.DataType] = {
    t.StringType: pa.string(),
    t.BooleanType: pa.bool_(),
    t.ShortType: pa.int16(),
    t.IntegerType: pa.int32(),
    t.LongType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.TimestampType: pa.timestamp("us", "UTC"),
}


def create_table(spark: SparkSession, columns: Mapping[str, t.DataType], rows: Sequence[Sequence[Any]]) -> DataFrame:
    """Return rows as a table. Times without a zone are those of this machine, as Spark collects them."""
    arrays = [
        pa.array([aware(row[place]) for row in rows], ARROW[type(kind)]) for place, kind in enumerate(columns.values())
    ]
    fields = [t.StructField(name, kind) for name, kind in columns.items()]
    return spark.createDataFrame(pa.table(arrays, names=list(columns)), t.StructType(fields))


def empty_table(spark: SparkSession, columns: t.StructType) -> DataFrame:
    """Return a table without rows, whose columns may have any type. Queries over it need no job of Spark."""
    table: Any = to_arrow_schema(columns, timezone="UTC").empty_table()
    return spark.createDataFrame(table, columns)


def aware(value: Any) -> Any:
    return value.astimezone() if isinstance(value, datetime) else value
