"""Arguments of what a request declares."""

from __future__ import annotations

from typing import Any

from broker.plugin import Table, table_of_json

from .answers import bad

Arguments = dict[str, Any] | list[Any] | None


def table_of(arguments: Arguments) -> Table:
    """Raises Refusal (400), Invalid."""
    if arguments is None:
        return Table.EMPTY
    if isinstance(arguments, dict) and None in arguments.values():
        raise bad("null_not_allowed")
    return table_of_json(arguments)
