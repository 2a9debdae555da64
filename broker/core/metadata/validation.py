"""Validation of the values of parameters: the keys that a value may have, and the value of each, reported as in
RabbitMQ.

Values are those of JSON: dict, list, str, int, float, bool and None. A rule returns a line that says what is wrong with
a value, or an empty string.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from ...amqp.errors import AccessRefused, Invalid
from ...amqp.field_table import TERM_LENGTH, term_of
from ...amqp.limits import RESERVED

LARGEST = (1 << 63) - 1
NESTED_LIMIT = 100  # levels of arrays and objects in JSON, as functions that walk it are recursive
SHOWN = 50  # elements of an array or object in an error
Rule = Callable[[str, object], str]


def term(value: object) -> str:
    """Return a JSON value as an Erlang term, such as `[{<<"max-length">>,-1}]` without the brackets.

    Of an array or object only the first SHOWN elements, and of everything about TERM_LENGTH characters.
    """
    return shown(term_pieces(value))


def fields_of(value: dict[str, object]) -> str:
    """Return the keys and values as a list of pairs, as an Erlang term."""

    def pieces() -> Iterator[str]:
        yield "["
        for index, (key, part) in enumerate(sorted(islice(value.items(), SHOWN))):
            yield ",{" if index else "{"
            yield from term_pieces(key)
            yield ","
            yield from term_pieces(part)
            yield "}"
        yield "]"

    return shown(pieces())


def shown(pieces: Iterator[str]) -> str:
    """Join the pieces that are shown, and make no others."""
    made: list[str] = []
    length = 0
    for piece in pieces:
        made.append(piece)
        length += len(piece)
        if length > TERM_LENGTH:
            break
    return "".join(made)


def term_pieces(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield "#{"
        for index, (key, part) in enumerate(islice(value.items(), SHOWN)):
            yield "," if index else ""
            yield from term_pieces(key)
            yield " => "
            yield from term_pieces(part)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for index, part in enumerate(value[:SHOWN]):
            yield "," if index else ""
            yield from term_pieces(part)
        yield "]"
    elif isinstance(value, str):
        yield term_of(("S", value[:TERM_LENGTH].encode("utf-8", "surrogatepass")))
    elif value is None:
        yield "null"
    else:
        yield term_of(("d" if isinstance(value, float) else "l", value))


def as_integer(value: object) -> int | None:
    """Return an integer, also for a number such as `5.0`; None for other values and larger numbers than 64 bits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if abs(value) <= LARGEST else None


def number(key: str, value: object) -> str:
    """Check for an integer or a fraction of any size."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return ""
    return f"{key} should be a number, actually was {term(value)}"


def integer(key: str, value: object) -> str:
    return "" if as_integer(value) is not None else f"{key} should be a number, actually was {term(value)}"


def text(key: str, value: object) -> str:
    return "" if isinstance(value, str) else f"{key} should be binary, actually was {term(value)}"


def boolean(key: str, value: object) -> str:
    return "" if isinstance(value, bool) else f"{key} should be boolean, actually was {term(value)}"


def one_of(*names: str) -> Rule:
    def rule(key: str, value: object) -> str:
        if isinstance(value, str) and value in names:
            return ""
        return f"{key} should be one of {term(list(names))}, actually was {term(value)}"

    return rule


def check_text(what: str, value: str, most: int, least: int = 0) -> None:
    """Check that a text can be stored and exported: `least` to `most` bytes of UTF-8, and no lone surrogate.

    A path of HTTP or JSON may have them. The names of AMQP methods are UTF-8 as well (0-9-1, 4.2.5.3).

    Raises Invalid.
    """
    try:
        length = len(value.encode("utf-8")) if len(value) <= most else len(value)
    except UnicodeEncodeError:
        raise Invalid(f"{what} is not UTF-8") from None
    if not least <= length <= most:
        raise Invalid(f"{what} has {least} to {most} octets")


def check_depth(value: object, most: int = NESTED_LIMIT) -> None:
    """Check that arrays and objects of JSON are nested no deeper. Raises Invalid."""
    levels: list[Iterator[object]] = [iter([value])]
    while levels:  # never with a copy of a long array, which the garbage collector would traverse at once
        for one in levels[-1]:
            if isinstance(one, (dict, list)):
                if len(levels) > most:
                    raise Invalid(f"JSON may be nested {most} deep")
                levels.append(iter(one.values() if isinstance(one, dict) else one))
                break
        else:
            levels.pop()


def shape_errors(name: str, value: object, rules: dict[str, Rule], mandatory: tuple[str, ...] = ()) -> list[str]:
    """Return lines for all that is wrong with the value of the parameter with this name."""
    if not isinstance(value, dict):
        return [f"Unrecognised terms {term(value)} in {name}"]
    lines = []
    for key, rule in rules.items():
        if key in value:
            lines.append(rule(key, value[key]))
        elif key in mandatory:
            lines.append(f'Key "{key}" not found in {name}')
    unknown = {key: part for key, part in value.items() if key not in rules}
    if unknown:
        lines.append(f"Unrecognised terms {fields_of(unknown)} in {name}")
    return [line for line in lines if line]


def check_prefix(kind: str, name: str) -> None:
    """Check the name of a new queue or exchange (`kind`). Raises AccessRefused (403)."""
    if name.startswith(RESERVED):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_not_default(exchange: str) -> None:
    """Check the name of an exchange to declare, delete or bind. Raises AccessRefused (403)."""
    if not exchange:
        raise AccessRefused("operation not permitted on the default exchange")
