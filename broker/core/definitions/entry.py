"""An entry of a definitions document: its fields by type, and errors that name the entry."""

from itertools import chain

from ...amqp.errors import AMQPError, Invalid, OperatorError
from ...amqp.field_table import Table
from ...amqp.limits import SHORT_STRING
from ...amqp.names import strip_line_ends
from ...amqp.table_json import table_of_json
from ..metadata.validation import boolean, check_text, term, text

TEXT_LIMIT = 65_536
VALUES_LIMIT, ENTRY_BYTES = 33_000, 1_350_000  # values and bytes of text of an entry: more than a request can set
LONG_ENTRY = 1_000  # values of an entry that is checked in two steps
BITS = 3  # of a digit, about: the time of a long integer is in proportion to the square of its digits
FRACTION_BYTES = 125_000  # of fractions, whose digits take the longest to find: more than a request can set as well
WHOLE_FRACTION = 1e16  # below it the digits of a whole one are found in less than half the time: it counts half
ANY_TEXT = ("utf-8", "surrogatepass")
SHOWN = 1_000  # characters of a name in an error
FLAGS = {"true": True, "false": False}  # some tools write them as strings

# section -> the fields that identify an entry, and their names in errors
PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "users": (("name", "user"),),
    "vhosts": (("name", "vhost"),),
    "permissions": (("vhost", "vhost"), ("user", "user")),
    "topic_permissions": (("vhost", "vhost"), ("user", "user"), ("exchange", "exchange")),
    "parameters": (("vhost", "vhost"), ("component", "component"), ("name", "key")),
    "global_parameters": (("name", "key"),),
    "policies": (("vhost", "vhost"), ("name", "policy")),
    "exchanges": (("vhost", "vhost"), ("name", "exchange")),
    "queues": (("vhost", "vhost"), ("name", "queue")),
    "bindings": (
        ("vhost", "vhost"),
        ("source", "source"),
        ("destination", "destination"),
        ("routing_key", "routing key"),
    ),
}


class DefinitionEntry:
    """An entry of a definitions document. A field that is null counts as missing.

    Its methods raise Invalid for a field of another type.
    """

    __slots__ = ("section", "fields")

    def __init__(self, section: str, value: object) -> None:
        self.section = section
        if not isinstance(value, dict):
            raise Invalid(f"{section} should be a list of maps, has {term(value)}")
        self.fields: dict[str, object] = value

    def refused(self, error: OperatorError | AMQPError) -> Invalid:
        """Return the error with the identity of the entry."""
        named = [(what, self.fields.get(key)) for key, what in PLACES[self.section]]
        place = " / ".join([f'{what}: "{name[:SHOWN]}"' for what, name in named if isinstance(name, str)])
        return Invalid(f"{error.text.rstrip()} ({place})" if place else error.text)

    def check_size(self) -> int:
        """Check that the entry has at most VALUES_LIMIT values, ENTRY_BYTES of text and digits, and FRACTION_BYTES.

        Returns the number of values. Raises Invalid.
        """
        values = size = fractions = 0
        pending: list[dict[str, object] | list[object]] = [self.fields]
        while pending:
            inner = pending.pop()
            values += len(inner)
            if values > VALUES_LIMIT:
                raise Invalid(f"an entry of {self.section} may have {VALUES_LIMIT} values")
            for part in chain(inner, inner.values()) if isinstance(inner, dict) else inner:
                if isinstance(part, str):
                    size += len(part) if part.isascii() or len(part) > ENTRY_BYTES else len(part.encode(*ANY_TEXT))
                elif isinstance(part, int):
                    size += part.bit_length() // BITS
                elif isinstance(part, (dict, list)):
                    pending.append(part)
                elif isinstance(part, float):
                    length = len(repr(part))
                    size += length
                    fractions += length // 2 if part.is_integer() and abs(part) < WHOLE_FRACTION else length
                    if fractions > FRACTION_BYTES:
                        raise Invalid(f"an entry of {self.section} may have {FRACTION_BYTES} bytes of fractions")
                if size > ENTRY_BYTES:
                    raise Invalid(f"an entry of {self.section} may have {ENTRY_BYTES} bytes of text")
        return values

    def value(self, key: str) -> object:
        if key not in self.fields:
            raise Invalid(f'Key "{key}" not found in {self.section}')
        return self.fields[key]

    def text(self, key: str, default: str | None = None, most: int = SHORT_STRING) -> str:
        value = self.value(key) if default is None else self.fields.get(key)
        return validate_text(key, default if value is None and default is not None else value, most)

    def object_name(self, key: str) -> str:
        """Return the name of a queue or an exchange. Raises Invalid for line ends, which no client can send."""
        name = self.text(key)
        if strip_line_ends(name) != name:
            raise Invalid(f"{key} has line ends, which are no part of names of queues and exchanges")
        return name

    def flag(self, key: str, default: bool) -> bool:
        value = self.fields.get(key)
        if value is None:
            return default
        if isinstance(value, str):
            value = FLAGS.get(value, value)
        line = boolean(key, value)
        if line:
            raise Invalid(line)
        return value is True

    def map(self, key: str) -> dict[str, object]:
        """Return a map, empty if the field is missing."""
        value = map_of(self.fields.get(key) or {})
        if not isinstance(value, dict):
            raise Invalid(f"{key} should be a map, actually was {term(value)}")
        return value

    def tags(self, most: int = SHORT_STRING) -> tuple[str, ...]:
        """Return the tags, from a list or from a text with commas, as older brokers wrote them."""
        value = self.fields.get("tags") or []
        if isinstance(value, str):
            value = [tag.strip() for tag in value.split(",") if tag.strip()]
        if not isinstance(value, list):
            raise Invalid(f"tags should be a list, actually was {term(value)}")
        return tuple([validate_text("tags", tag, most) for tag in value])

    def arguments(self) -> Table:
        return table_of_json(self.fields.get("arguments") or {})


def map_of(value: object) -> object:
    """Return the map that RabbitMQ has written as a list of pairs, as 3.10 does; any other value unchanged."""
    if not isinstance(value, list):
        return value
    pairs = [pair for pair in value if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)]
    return dict(pairs) if len(pairs) == len(value) else value


def validate_text(key: str, value: object, most: int) -> str:
    """Return a text that can be stored. Raises Invalid."""
    if not isinstance(value, str):
        raise Invalid(text(key, value))
    check_text(key, value, most)
    return value


def entries(document: dict[str, object], section: str) -> list[object]:
    """Return the entries of a section. Raises Invalid."""
    found = document.get(section, [])
    if not isinstance(found, list):
        raise Invalid(f"{section} should be a list, actually was {term(found)}")
    return found
