"""Rows of report.json: the first rows of a table, with values for JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

LISTED = 200  # rows of one list of report.json; the tables have all rows
Values = dict[str, Any]


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
