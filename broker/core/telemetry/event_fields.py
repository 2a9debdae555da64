"""Headers of events and traced messages: conversion of Python values to fields, within limits of size."""

import json

from ...amqp.field_table import MAX_DEPTH, Table, Value, term_of, type_name, value_of
from ...amqp.limits import SHORT_STRING

NUMBERS = range(-(1 << 63), 1 << 63)
DEEPEST = MAX_DEPTH - 1  # nesting of values; the table that contains them is one level itself
# Limit of headers: all properties are one frame, which cannot be split and must fit the default frame_max of clients.
HEADERS_LIMIT_BYTES = 126 << 10


def field_value(value: object, depth: int = 0) -> Value:
    """Convert a Python value to a field: integers to `l`, dictionaries to tables, values of other types to text."""
    if isinstance(value, bool):
        return ("t", value)
    if isinstance(value, int):
        return ("l", value) if value in NUMBERS else ("S", str(value).encode())
    if isinstance(value, str):
        return ("S", encode_text(value))
    if isinstance(value, (list, tuple, dict)) and depth == DEEPEST:
        return ("S", json.dumps(value).encode())
    if isinstance(value, (list, tuple)):
        return ("A", [field_value(each, depth + 1) for each in value])
    if isinstance(value, dict):
        items = [(cut_short(str(key)), field_value(each, depth + 1)) for key, each in value.items()]
        return ("F", Table(Table.encode_items(items)))
    return value_of(value)


def encode_text(text: str) -> bytes:
    """Encode as UTF-8; escaped bytes as they were received, a lone surrogate, which JSON may contain, as `?`."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def cut_short(text: str) -> str:
    """Cut a text to the length of a short string."""
    return encode_text(text)[:SHORT_STRING].decode("utf-8", "surrogateescape")


def fit_to_limit(fields: dict[str, Value], limit_bytes: int = HEADERS_LIMIT_BYTES) -> Table:
    """Return the table of these fields without the longest ones, as far as needed to fit the limit."""
    table = Table.of(fields)
    if len(table.raw) <= limit_bytes:
        return table
    sizes = {key: len(Table.of({key: value}).raw) for key, value in fields.items()}
    total = sum(sizes.values())
    while total > limit_bytes:
        longest = max(sizes, key=lambda key: sizes[key])
        total -= sizes.pop(longest)
    return Table.of({key: value for key, value in fields.items() if key in sizes})


def format_arguments(table: Table) -> list[str]:
    """Return the arguments as RabbitMQ formats them in events, such as `{<<"x-max-length">>,signedint,5}`."""
    shown = []
    for key, value in table.items():
        name = term_of(("S", key.encode("utf-8", "surrogateescape")))
        shown.append(f"{{{name},{type_name(value)},{term_of(value)}}}")
    return shown
