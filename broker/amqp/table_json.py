"""Conversion of field tables to JSON and back, as in definitions and the HTTP API.

JSON has fewer types. Integers lose their width, which equivalence ignores; a timestamp becomes an integer, bytes a
string, a decimal a float. JSON that becomes a table comes back the same.
"""

from .errors import Invalid, SyntaxFault
from .field_table import MAX_DEPTH, MAX_ENTRIES, Table, Value, check, value_of


def json_of_table(table: Table) -> dict[str, object]:
    """Return a table as JSON, with the first of repeated fields."""
    fields: dict[str, object] = {}
    for key, value in table.items():
        fields.setdefault(key, json_of(value))
    return fields


def json_of(value: Value) -> object:
    """Return a value as JSON: bytes that are not UTF-8 as surrogate escapes, infinite floats and NaN as null."""
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
    """Return JSON as a table. Raises Invalid. `[]` is an empty table too, as RabbitMQ has written it."""
    if value == [] or value == {}:
        return Table.EMPTY
    if not isinstance(value, dict):
        raise Invalid("arguments should be a map")
    try:
        check_size(value)
        table = Table(Table.encode_items([(key, value_of_json(part, 1)) for key, part in value.items()]))
        check(table.raw)
    except SyntaxFault as error:
        raise Invalid(f"invalid arguments: {error.text}") from None
    except UnicodeEncodeError:
        raise Invalid("invalid arguments: not UTF-8") from None
    return table


def check_size(value: object) -> None:
    """Raise SyntaxFault for more values than a table may have, before any of them is encoded."""
    count = 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (dict, list)):
            count += len(one)
            if count > MAX_ENTRIES:
                raise SyntaxFault(f"field table has more than {MAX_ENTRIES} entries")
            waiting += one.values() if isinstance(one, dict) else one


def value_of_json(value: object, depth: int) -> Value:
    """Return JSON as a value; `depth` is that of the table or list around it.

    Raises SyntaxFault, UnicodeEncodeError.
    """
    if isinstance(value, (dict, list)) and depth >= MAX_DEPTH:
        raise SyntaxFault(f"field table is nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return ("F", Table(Table.encode_items([(key, value_of_json(part, depth + 1)) for key, part in value.items()])))
    if isinstance(value, list):
        return ("A", [value_of_json(element, depth + 1) for element in value])
    if isinstance(value, int) and not isinstance(value, bool):
        return ("l", value)  # the type of all JSON integers in RabbitMQ
    return value_of(value)
