"""Field tables, typed and lossless.

A table keeps the bytes that it was received in and is sent as the same bytes; it is decoded when it is first read.
Values are pairs of a type letter and a Python value, because equivalence of arguments and the headers exchange
distinguish types that Python does not.

`check` validates bytes from a peer before they become a Table, and limits depth and size. It does not recurse, so no
nesting can exhaust the stack.
"""

import struct
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final

from .errors import SyntaxFault
from .limits import SHORT_STRING

MAX_DEPTH: Final = 16  # nested tables and arrays, the outermost included: far above what clients use
MAX_ENTRIES: Final = 1024  # nested ones included: decoding more would block the loop for milliseconds
TERM_LENGTH: Final = 10_000  # characters of a string in an error
BYTE_LENGTH: Final = 4  # characters of a byte of a string that is not printed as text
SEARCH_SHIFT: Final = 10  # to copy and search 1,024 bytes costs 1
FIELDS_SHIFT: Final = 5  # to skip the fields in 32 bytes costs 1
FIELDS_COST: Final = MAX_ENTRIES >> 3  # to skip all fields, at most
SEARCHES: Final = 2  # fields that are read without decoding the others
NAMES: Final = 64  # of fields of the broker's own that are kept encoded

Value = tuple[str, object]
"""A type letter and a Python value.

t bool; b B s u I i l L and T (seconds) int; f d float; D (scale, int); S x bytes; A list[Value]; F Table; V None.
`L` is read signed, as RabbitMQ reads it.
"""

INTEGERS: Final = frozenset("bBsuIilL")
FLOATS: Final = frozenset("fd")
STRINGS: Final = frozenset("Sx")

_TABLE: Final = ord("F")
_ARRAY: Final = ord("A")
_FORMATS: Final = {letter: struct.Struct(">" + code) for letter, code in zip("bBsuIilLfdT", "bBhHiIqqfdQ", strict=True)}
_DECIMAL: Final = struct.Struct(">BI")
_WIDTHS: Final = {ord(letter): form.size for letter, form in _FORMATS.items()} | {ord("t"): 1, ord("V"): 0, ord("D"): 5}
_SIZED: Final = frozenset(b"SxAF")  # these begin with a length of four bytes
_STRING: Final = ord("S")
_NESTED: Final = (_TABLE, _ARRAY)
_FIXED: Final = frozenset(_WIDTHS)
_LENGTH: Final = struct.Struct(">I").unpack_from
# By type letter: bytes of the letter and of the value or its length; 0 for an unknown type.
_STEPS: Final = tuple(5 if letter in _SIZED else 1 + _WIDTHS.get(letter, -1) for letter in range(256))

_TYPE_NAMES: Final = {
    "t": "bool", "b": "byte", "B": "unsignedbyte", "s": "short", "u": "unsignedshort", "I": "signedint",
    "i": "unsignedint", "l": "long", "L": "long", "f": "float", "d": "double", "D": "decimal", "S": "longstr",
    "A": "array", "T": "timestamp", "F": "table", "V": "void", "x": "binary",
}  # fmt: skip


class Table:
    """An immutable field table; equal if the bytes are.

    `raw` is without the length in front. Every method that reads fields raises SyntaxFault (502) if the bytes are no
    table. Nested tables are decoded when they are read themselves.
    """

    __slots__ = ("_decoded", "_index", "_indexed", "_items", "_skipped", "raw")

    EMPTY: ClassVar["Table"]

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._items: list[tuple[str, Value]] | None = None
        self._index: dict[str, Value | None] | None = None  # by name, of those that were searched
        self._indexed = False  # all fields are in the index
        self._decoded = 0  # values
        self._skipped = 0  # the cost of the fields that the longest search or copy has skipped

    @staticmethod
    def of(fields: Mapping[str, object]) -> "Table":
        """Return the table of Python values, or of Values where the type matters."""
        return Table(Table.encode_items([(key, value_of(value)) for key, value in fields.items()]))

    @staticmethod
    def encode_items(items: Iterable[tuple[str, Value]]) -> bytes:
        """Return the bytes of a table without its length.

        Raises SyntaxFault for a key above 255 bytes or a value out of range.
        """
        pieces = []
        for key, value in items:
            name = key.encode("utf-8", "surrogateescape")
            if len(name) > SHORT_STRING:
                raise SyntaxFault(f"field name of {len(name)} bytes does not fit a short string")
            pieces.append(bytes((len(name),)) + name + _encode(value))
        return b"".join(pieces)

    @property
    def framed(self) -> bytes:
        """The table as encoded in a frame: its length in four bytes, then `raw`."""
        return len(self.raw).to_bytes(4, "big") + self.raw

    def items(self) -> list[tuple[str, Value]]:
        """Return all fields in order, repeated keys included. The list is the table's own: do not change it."""
        if self._items is None:
            raw = self.raw
            self._items = [(key, _decode(raw, at, end, 1)) for key, _, at, end in self._spans()]
            arrays = [value for _, value in self._items if value[0] == "A"]
            self._decoded = len(self._items) + sum([_count(array) - 1 for array in arrays])
        return self._items

    def get(self, key: str) -> Value | None:
        """Return the value of the first field with this name, or None.

        Other fields are decoded when a third name is searched.
        """
        index = self._index
        if index is not None:
            if key in index:
                return index[key]
            if self._indexed:
                return None
        name = key.encode("utf-8", "surrogateescape")
        if name not in self.raw:
            return None  # the usual result for CC and BCC
        if index is None:
            index = self._index = {}
        if self._items is None and len(index) < SEARCHES:
            at, end = self._search(name)
            value = index[key] = _decode(self.raw, at, end, 1) if end else None
            if value is not None:
                self._decoded += _count(value)
            return value
        for field, content in self.items():
            index.setdefault(field, content)
        self._indexed = True
        return index.get(key)

    def encoded(self, key: str) -> bytes:
        """Return type letter and value of the first field with this name as they are encoded, or empty bytes."""
        name = key.encode("utf-8", "surrogateescape")
        at, end = self._search(name)
        return self.raw[at:end]

    def _search(self, name: bytes) -> tuple[int, int]:
        """Return type letter and end of the first field with this name, or zeros; the fields before it are skipped."""
        raw = self.raw
        if len(name) > SHORT_STRING:
            return 0, 0
        field = bytes((len(name),)) + name
        at, limit = 0, len(raw)
        place = raw.find(field)  # of the field, unless that is a part of another one
        while place >= 0:
            while at < place:
                at += 1 + raw[at]
                if at >= limit:
                    raise SyntaxFault("field table is truncated in a field name")
                kind = raw[at]
                after = at + _STEPS[kind]
                if kind == _STRING and after <= limit:
                    at = after + _LENGTH(raw, at + 1)[0]
                else:
                    at = after if kind in _FIXED else value_end(raw, at, limit)
            if at == place:
                at = _name_end(raw, at, limit)
                break
            place = raw.find(field, at)
        self._skipped = max(self._skipped, cost_of_skipping(at))
        return (at, value_end(raw, at, limit)) if place >= 0 else (0, 0)

    @property
    def read_cost(self) -> int:
        """The processor time that reading has taken, in microseconds, about: of decoded values, and of all bytes.

        What takes as long each time, such as `encoded`, counts once.
        """
        return self._decoded + self._skipped + (len(self.raw) >> SEARCH_SHIFT)

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        return len(self.items())

    def __bool__(self) -> bool:
        return len(self.raw) > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"Table({self.raw!r})"

    def text(self, key: str) -> str | None:
        """Return a long string as text; None if absent or of another type. Invalid UTF-8 becomes surrogate escapes."""
        value = self.get(key)
        if value is None or value[0] != "S":
            return None
        assert isinstance(value[1], bytes)
        return value[1].decode("utf-8", "surrogateescape")

    def integer(self, key: str) -> int | None:
        """Return an integer of any width; None if absent or of another type."""
        value = self.get(key)
        if value is None or value[0] not in INTEGERS:
            return None
        assert isinstance(value[1], int)
        return value[1]

    def flag(self, key: str) -> bool | None:
        """Return a boolean; None if absent or of another type."""
        value = self.get(key)
        if value is None or value[0] != "t":
            return None
        return value[1] is True

    def without(self, keys: Iterable[str]) -> "Table":
        """Return this table without the named fields; the others keep their bytes.

        Linear in bytes in the usual case, that the fields are absent or the first one: then no other is looked at.
        """
        if not self.raw:
            return self
        unwanted = frozenset(keys)
        names = [encoded_name(key) for key in unwanted]
        table = self
        for name in names:
            if table.raw.startswith(name):
                end = len(table.raw)
                table = Table(table.raw[value_end(table.raw, _name_end(table.raw, 0, end), end) :])
        raw = table.raw
        if not any(name in raw for name in names):
            return table
        spans = table._spans()
        self._skipped = max(self._skipped, len(spans))
        return Table(b"".join([raw[start:end] for key, start, _, end in spans if key not in unwanted]))

    def with_items(self, items: list[tuple[str, Value]]) -> "Table":
        """Return this table with `items` at its end in place of fields with the same names; others keep their bytes."""
        return Table(self.without([key for key, _ in items]).raw + Table.encode_items(items))

    def key(self) -> bytes:
        """Return the identity of binding arguments: the fields sorted by name, only the first of equal names."""
        fields: dict[str, bytes] = {}
        for key, start, _, end in self._spans():
            fields.setdefault(key, self.raw[start:end])
        return b"".join([fields[key] for key in sorted(fields)])

    def _spans(self) -> list[tuple[str, int, int, int]]:
        """Return name, start, offset of the type letter, and end of each field."""
        raw = self.raw
        limit = len(raw)
        spans = []
        start = 0
        while start < limit:
            at = _name_end(raw, start, limit)
            end = value_end(raw, at, limit)
            spans.append((raw[start + 1 : at].decode("utf-8", "surrogateescape"), start, at, end))
            start = end
        return spans


Table.EMPTY = Table(b"")


def check(raw: bytes, at: int = 0, end: int = -1) -> None:
    """Validate a table without its length, between `at` and `end`, by default all of `raw`.

    Raises SyntaxFault (502) for bytes that are no table, or one too deep or too large. HOT: bench L, for each publish
    with headers.
    """
    if end < 0:
        end = len(raw)
    enclosing: list[tuple[int, bool]] = []  # end of each table or array around this one, and whether it is a table
    is_table = True
    entries = 0
    while True:
        if at == end:
            if not enclosing:
                return
            end, is_table = enclosing.pop()
            continue
        entries += 1
        if entries > MAX_ENTRIES:
            raise SyntaxFault(f"field table has more than {MAX_ENTRIES} entries")
        if is_table:
            at += 1 + raw[at]
            if at >= end:
                raise SyntaxFault("field table is truncated in a field name")
        kind = raw[at]
        after = at + _STEPS[kind]
        if kind == _STRING and after <= end:
            after += _LENGTH(raw, at + 1)[0]
        elif kind not in _FIXED:
            after = value_end(raw, at, end)
        if after > end:
            raise SyntaxFault(f"field table is truncated in a value of type {chr(kind)}")
        if kind in _NESTED:
            if len(enclosing) + 2 > MAX_DEPTH:
                raise SyntaxFault(f"field table is nested more than {MAX_DEPTH} deep")
            enclosing.append((end, is_table))
            at, end, is_table = at + 5, after, kind == _TABLE
        else:
            at = after


def fixed_value(encoded: bytes) -> Value | None:
    """Return the value with these bytes (`Table.encoded`), or None if its type has no fixed length."""
    return _decode(encoded, 0, len(encoded), 1) if encoded[0] in _FIXED else None


def cost_of_skipping(size: int) -> int:
    """Return the cost of skipping all fields in so many bytes (`jobs.scheduler`)."""
    return min(size >> FIELDS_SHIFT, FIELDS_COST)


@lru_cache(NAMES)
def encoded_name(key: str) -> bytes:
    """Return the name of a field of the broker's own as it is in a table."""
    name = key.encode("utf-8", "surrogateescape")
    return bytes((len(name),)) + name


def value_spans(raw: bytes, at: int, end: int) -> list[tuple[int, int]]:
    """Return start and end of the values that may change without a change of structure, of a table that passed `check`.

    Nested tables and arrays are structure.
    """
    spans: list[tuple[int, int]] = []
    while at < end:
        at = _name_end(raw, at, end)
        after = value_end(raw, at, end)
        if raw[at] not in _NESTED:
            spans.append((at + (5 if chr(raw[at]) in STRINGS else 1), after))
        at = after
    return spans


def value_of(value: object) -> Value:
    """Return a Python value as a Value: bool t, int I or l, float d, str and bytes S, list A, dict and Table F, None V.

    A pair that begins with a type letter is returned unchanged.
    """
    if value is None:
        return ("V", None)
    if isinstance(value, bool):
        return ("t", value)
    if isinstance(value, int):
        return ("I" if -(1 << 31) <= value < 1 << 31 else "l", value)
    if isinstance(value, float):
        return ("d", value)
    if isinstance(value, str):
        return ("S", value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bytes):
        return ("S", value)
    if isinstance(value, list):
        return ("A", [value_of(element) for element in value])
    if isinstance(value, dict):
        return ("F", Table.of(value))
    if isinstance(value, Table):
        return ("F", value)
    if isinstance(value, tuple) and len(value) == 2 and value[0] in _TYPE_NAMES:
        return (value[0], value[1])
    raise SyntaxFault(f"no field type for a value of {type(value).__name__}")


def same(a: Value | None, b: Value | None) -> bool:
    """Whether two arguments are equivalent: integers and decimals by number, f and d by number, others if equal."""
    if a is None or b is None:
        return a is b
    if (a[0] in INTEGERS or a[0] == "D") and (b[0] in INTEGERS or b[0] == "D"):
        return _number(a) == _number(b)
    if a[0] in FLOATS and b[0] in FLOATS:
        return a[1] == b[1] or (a[1] != a[1] and b[1] != b[1])  # a NaN is equivalent to a NaN
    return a == b


def type_name(value: Value | None) -> str:
    """Return RabbitMQ's name of the type for error texts; `none` for an absent argument."""
    return "none" if value is None else _TYPE_NAMES[value[0]]


def text_of(value: Value | None) -> str:
    """Format a value for error texts: strings bare, others as Erlang terms, `none` for an absent argument."""
    if value is None:
        return "none"
    if isinstance(value[1], bytes):
        return value[1].decode("utf-8", "replace")
    return term_of(value)


def term_of(value: Value, depth: int = 1) -> str:
    """Format a value as an Erlang term, such as `<<"ANY">>`, `{2,314}` or `[{signedint,1}]`.

    Of a string it shows about TERM_LENGTH characters.
    """
    content = value[1]
    if content is None:
        return "undefined"
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, float):
        mantissa, letter, exponent = repr(content).partition("e")
        if not letter:
            return mantissa
        return f"{mantissa}{'' if '.' in mantissa else '.0'}e{int(exponent)}"
    if isinstance(content, bytes):
        content = content[:TERM_LENGTH]
        if content.isascii() and content.decode("ascii").isprintable():
            return '<<"' + content.decode("ascii").replace("\\", "\\\\").replace('"', '\\"') + '">>'
        return "<<" + ",".join([str(byte) for byte in content[: TERM_LENGTH // BYTE_LENGTH]]) + ">>"
    if isinstance(content, tuple):
        return "{" + ",".join([str(part) for part in content]) + "}"
    if depth >= MAX_DEPTH:
        return "[...]"
    if isinstance(content, list):
        return "[" + ",".join([f"{{{type_name(part)},{term_of(part, depth + 1)}}}" for part in content]) + "]"
    if isinstance(content, Table):
        fields = []
        for key, part in content.items():
            name = term_of(("S", key.encode("utf-8", "surrogateescape")))
            fields.append(f"{{{name},{type_name(part)},{term_of(part, depth + 1)}}}")
        return "[" + ",".join(fields) + "]"
    return str(content)


def _name_end(raw: bytes, at: int, limit: int) -> int:
    """Return the end of the field name at `at`, where a type letter must follow."""
    at += 1 + raw[at]
    if at >= limit:
        raise SyntaxFault("field table is truncated in a field name")
    return at


def value_end(raw: bytes, at: int, limit: int) -> int:
    """Return the end of the value whose type letter is at `at`."""
    step = _STEPS[raw[at]]
    if not step:
        raise SyntaxFault(f"field table has a value of unknown type {raw[at]}")
    end = at + step
    if raw[at] in _SIZED and end <= limit:
        end += int.from_bytes(raw[at + 1 : end], "big")
    if end > limit:
        raise SyntaxFault(f"field table is truncated in a value of type {chr(raw[at])}")
    return end


def _decode(raw: bytes, at: int, end: int, depth: int) -> Value:
    """Decode the value from its type letter at `at` to its end."""
    letter = chr(raw[at])
    form = _FORMATS.get(letter)
    if form is not None:
        return (letter, form.unpack_from(raw, at + 1)[0])
    if letter == "S" or letter == "x":
        return (letter, raw[at + 5 : end])
    if letter == "t":
        return ("t", raw[at + 1] != 0)
    if letter == "F":
        return ("F", Table(raw[at + 5 : end]))
    if letter == "D":
        return ("D", _DECIMAL.unpack_from(raw, at + 1))
    if letter == "V":
        return ("V", None)
    if depth >= MAX_DEPTH:
        raise SyntaxFault(f"field table is nested more than {MAX_DEPTH} deep")
    elements: list[Value] = []
    at += 5
    while at < end:
        after = value_end(raw, at, end)
        elements.append(_decode(raw, at, after, depth + 1))
        at = after
    return ("A", elements)


def _count(value: Value) -> int:
    """Return the number of values in a value: 1, and those in an array."""
    content = value[1]
    return 1 + sum([_count(each) for each in content]) if isinstance(content, list) else 1


def _encode(value: Value) -> bytes:
    """Encode a value with its type letter. Raises SyntaxFault if the value does not fit the type."""
    letter, content = value
    try:
        if letter in _FORMATS:
            return letter.encode() + _FORMATS[letter].pack(content)
        if letter == "t":
            return b"t\x01" if content else b"t\x00"
        if letter == "V":
            return b"V"
        if letter == "D" and isinstance(content, tuple):
            return b"D" + _DECIMAL.pack(*content)
    except (OverflowError, struct.error) as error:
        raise SyntaxFault(f"no {_TYPE_NAMES[letter]}: {content!r}") from error
    if letter == "F" and isinstance(content, Table):
        return b"F" + content.framed
    if letter == "A" and isinstance(content, list):
        content = b"".join([_encode(element) for element in content])
    elif letter not in STRINGS:
        raise SyntaxFault(f"no field of type {letter!r}: {content!r}")
    if not isinstance(content, bytes):
        raise SyntaxFault(f"no {_TYPE_NAMES[letter]}: {content!r}")
    return letter.encode() + len(content).to_bytes(4, "big") + content


def _number(value: Value) -> Fraction | int:
    """Return the numeric value of an integer or a decimal."""
    content = value[1]
    if isinstance(content, tuple):
        scale, digits = content
        return Fraction(digits, 10**scale)
    assert isinstance(content, int)
    return content
