"""Columns of lists: a function by name that reads the value from an object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from .answers import CommandError, Rows
from .exit_status import USAGE

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], object]]


def select_columns(columns: Columns[T], wanted: list[str], default: tuple[str, ...], objects: Iterable[T]) -> Rows:
    """Return the columns asked for, or else the default ones. Raises CommandError (64) for an unknown column."""
    names = [name for argument in wanted for name in argument.replace(",", " ").split()] or list(default)
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise CommandError(USAGE, f"Info key(s) {','.join(unknown)} are not supported", argument=True)
    readers = [columns[name] for name in names]
    return Rows(names, ([read(one) for read in readers] for one in objects))
