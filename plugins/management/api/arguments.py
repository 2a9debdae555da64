"""Arguments of declarations, as JSON and as AMQP tables."""

from __future__ import annotations

from typing import Any

from warren.broker.amqp.table_json import table_of_json
from warren.broker.plugin import Table

from ...http.responses import bad

Arguments = dict[str, Any] | list[Any] | None


def table_of(arguments: Arguments) -> Table:
    """Return the arguments as an AMQP table. Raises HTTPError (400), Invalid."""
    if arguments is None:
        return Table.EMPTY
    if has_null(arguments):
        raise bad("null_not_allowed")
    return table_of_json(arguments)


def has_null(value: object) -> bool:
    """True if the value contains a null at any depth."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one is None:
            return True
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return False
