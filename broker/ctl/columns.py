"""Columns of lists: by name, what is read from each object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from .answers import USAGE, Refused, Rows

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], object]]


def listed(columns: Columns[T], wanted: list[str], default: tuple[str, ...], objects: Iterable[T]) -> Rows:
    """Raises Refused (64) where a column is asked for that there is not."""
    names = [name for argument in wanted for name in argument.replace(",", " ").split()] or list(default)
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise Refused(USAGE, f"Info key(s) {','.join(unknown)} are not supported", argument=True)
    readers = [columns[name] for name in names]
    return Rows(names, ([read(one) for read in readers] for one in objects))
