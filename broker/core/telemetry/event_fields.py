"""What the broker tells of itself, as headers of a message: of any value something, and of all no more than fits."""

from __future__ import annotations

import json

from ...amqp.field_table import MAX_DEPTH, Table, Value, term_of, type_name, value_of
from ...amqp.limits import SHORT_STRING

NUMBERS = range(-(1 << 63), 1 << 63)
DEEPEST = MAX_DEPTH - 1  # values within values, in a table that is one itself
# Of headers: with the other properties they are one frame, which cannot be split and must fit the frame_max that
# clients have unless they ask for less.
HEADERS_LIMIT_BYTES = 126 << 10


def typed(value: object, depth: int = 0) -> Value:
    """Numbers are long however small; what no table can hold is text. Tables hold fields in turn."""
    if isinstance(value, bool):
        return ("t", value)
    if isinstance(value, int):
        return ("l", value) if value in NUMBERS else ("S", str(value).encode())
    if isinstance(value, str):
        return ("S", octets(value))
    if isinstance(value, (list, tuple, dict)) and depth == DEEPEST:
        return ("S", json.dumps(value).encode())
    if isinstance(value, (list, tuple)):
        return ("A", [typed(each, depth + 1) for each in value])
    if isinstance(value, dict):
        items = [(shortened(str(key)), typed(each, depth + 1)) for key, each in value.items()]
        return ("F", Table(Table.encode_items(items)))
    return value_of(value)


def octets(text: str) -> bytes:
    """UTF-8, with what came as none as it came; half a surrogate pair, which JSON can name, is a question mark."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def shortened(text: str) -> str:
    """As much of it as a short string holds, which a key of a table and a routing key are."""
    return octets(text)[:SHORT_STRING].decode("utf-8", "surrogateescape")


def bounded(fields: dict[str, Value], limit_bytes: int = HEADERS_LIMIT_BYTES) -> Table:
    """The table of these fields; where they are too much together, without the longest of them."""
    table = Table.of(fields)
    if len(table.raw) <= limit_bytes:
        return table
    sizes = {key: len(Table.of({key: value}).raw) for key, value in fields.items()}
    total = sum(sizes.values())
    while total > limit_bytes:
        longest = max(sizes, key=lambda key: sizes[key])
        total -= sizes.pop(longest)
    return Table.of({key: value for key, value in fields.items() if key in sizes})


def terms(table: Table) -> list[str]:
    """Arguments as RabbitMQ shows them here, such as `{<<"x-max-length">>,signedint,5}`."""
    shown = []
    for key, value in table.items():
        name = term_of(("S", key.encode("utf-8", "surrogateescape")))
        shown.append(f"{{{name},{type_name(value)},{term_of(value)}}}")
    return shown
