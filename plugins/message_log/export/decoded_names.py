"""The values of a pipe's codes, and Arrow columns of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from .pipe_format import ADDRESS, ADDRESSES, ORIGIN, ORIGINS, QUEUE, QUEUES, WORD, WORDS

NULL_WHERE_EMPTY = ("upstream", "link")
FIELDS = {ORIGINS: ORIGIN, QUEUES: QUEUE, ADDRESSES: ADDRESS, WORDS: WORD}


class Tables:
    """The values by code, for each field of each table; None for code 0."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all codes, because they will be assigned anew."""
        self._values: dict[tuple[int, str], list[Any]] = {
            (table, field): [None] for table, fields in FIELDS.items() for field in fields
        }

    def add(self, entries: Iterable[list[Any]]) -> None:
        """Add entries, each the number of its table and its fields."""
        for table, *values in entries:
            for field, value in zip(FIELDS[table], values, strict=True):
                self._values[table, field].append(None if field in NULL_WHERE_EMPTY and value == "" else value)

    def values(self, table: int, field: str) -> list[Any]:
        return self._values[table, field]


def dictionary(values: list[str | None], codes: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> pa.Array:
    """Return a dictionary column of the values of codes, each repeated. Its dictionary has only values that occur."""
    if not codes.any() and values[0] is None:
        return pa.nulls(int(counts.sum()), pa.dictionary(pa.int32(), pa.string()))
    used, places = np.unique(codes, return_inverse=True)
    positions: dict[str, int] = {}
    indices = np.empty(len(used), np.int32)
    for place, code in enumerate(used.tolist()):
        value = values[code]
        indices[place] = -1 if value is None else positions.setdefault(value, len(positions))
    each = indices[places]
    unknown = np.repeat(each < 0, counts) if (indices < 0).any() else None
    rows = pa.array(np.repeat(each, counts), mask=unknown)
    return pa.DictionaryArray.from_arrays(rows, pa.array(list(positions), pa.string()), safe=False)


def constant(value: str, count: int) -> pa.Array:
    """Return a column of one repeated text."""
    rows = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(rows, pa.array([value], pa.string()), safe=False)
