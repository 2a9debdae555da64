"""Tables of arguments as JSON, and JSON as a table: as in definitions and the operators' API (operator.md 1.9).

JSON knows fewer types. Integers lose their width, which equivalence does not look at; a timestamp becomes an integer,
octets a string, a decimal a float. What JSON says comes back the same.
"""

from __future__ import annotations

from .errors import Invalid, SyntaxFault
from .field_table import MAX_DEPTH, Table, Value, check, value_of


def json_of_table(table: Table) -> dict[str, object]:
    """Of repeated fields the first."""
    fields: dict[str, object] = {}
    for key, value in table.items():
        fields.setdefault(key, json_of(value))
    return fields


def json_of(value: Value) -> object:
    """What is no UTF-8 has surrogate escapes; a float that JSON cannot say is null."""
    content = value[1]
    if isinstance(content, Table):
        return json_of_table(content)
    if isinstance(content, list):
        return [json_of(element) for element in content]
    if isinstance(content, bytes):
        return content.decode("utf-8", "surrogateescape")
    if isinstance(content, tuple):
        scale, digits = content
        return float(digits / 10**scale)
    if isinstance(content, float):
        return content if abs(content) < float("inf") else None
    return content


def table_of_json(value: object) -> Table:
    """`[]` is empty too: RabbitMQ has written no arguments that way. Raises Invalid for what fits no table."""
    if value == [] or value == {}:
        return Table.EMPTY
    if not isinstance(value, dict):
        raise Invalid("arguments should be a map")
    try:
        table = Table(Table.encode_items([(key, value_of_json(part, 1)) for key, part in value.items()]))
        check(table.raw)
    except SyntaxFault as error:
        raise Invalid(f"invalid arguments: {error.text}") from None
    except UnicodeEncodeError:
        raise Invalid("invalid arguments: not UTF-8") from None
    return table


def value_of_json(value: object, depth: int) -> Value:
    """Raises SyntaxFault, UnicodeEncodeError. `depth` is that of the table or list around it."""
    if isinstance(value, (dict, list)) and depth >= MAX_DEPTH:
        raise SyntaxFault(f"field table is nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return ("F", Table(Table.encode_items([(key, value_of_json(part, depth + 1)) for key, part in value.items()])))
    if isinstance(value, list):
        return ("A", [value_of_json(element, depth + 1) for element in value])
    if isinstance(value, int) and not isinstance(value, bool):
        return ("l", value)  # as RabbitMQ has all integers of JSON
    return value_of(value)
