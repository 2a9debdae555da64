"""Field tables, typed and lossless. A leaf: it imports no room.

A table is kept as the bytes it came in and goes out as the same bytes; it is decoded at the first question. Values are
pairs of the type letter and a Python value, because equivalence of arguments and the headers exchange tell types apart
that Python does not.

`check` is the door: bytes from a peer pass it once, before they become a Table. It does not recurse, so no nesting can
exhaust the stack; what passed it has bounded depth and size.
"""

import struct
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import ClassVar, Final

from .errors import SyntaxFault
from .limits import SHORT_STRING

MAX_DEPTH: Final = 16  # tables and arrays inside each other, the outermost counted: far above what clients nest
MAX_ENTRIES: Final = 1024  # in all, nested ones too: decoding more would hold up the loop for milliseconds

Value = tuple[str, object]
"""Type letter and value.

t bool; b B s u I i l L and T (seconds) int; f d float; D (scale, int); S x bytes; A list[Value]; F Table; V None.
`L` is read signed, as RabbitMQ reads it.
"""

INTEGERS: Final = frozenset("bBsuIilL")
FLOATS: Final = frozenset("fd")
OCTETS: Final = frozenset("Sx")

_TABLE: Final = ord("F")
_ARRAY: Final = ord("A")
_FORMATS: Final = {letter: struct.Struct(">" + code) for letter, code in zip("bBsuIilLfdT", "bBhHiIqqfdQ", strict=True)}
_DECIMAL: Final = struct.Struct(">BI")
_WIDTHS: Final = {ord(letter): form.size for letter, form in _FORMATS.items()} | {ord("t"): 1, ord("V"): 0, ord("D"): 5}
_SIZED: Final = frozenset(b"SxAF")  # these carry a length of four octets
_STRING: Final = ord("S")
_NESTED: Final = (_TABLE, _ARRAY)
_FIXED: Final = frozenset(_WIDTHS)
_LENGTH: Final = struct.Struct(">I").unpack_from
# By type letter, the octets of the letter and what has a fixed size behind it; 0 where there is no such type.
_STEPS: Final = tuple(5 if letter in _SIZED else 1 + _WIDTHS.get(letter, -1) for letter in range(256))

_TYPE_NAMES: Final = {
    "t": "bool", "b": "byte", "B": "unsignedbyte", "s": "short", "u": "unsignedshort", "I": "signedint",
    "i": "unsignedint", "l": "long", "L": "long", "f": "float", "d": "double", "D": "decimal", "S": "longstr",
    "A": "array", "T": "timestamp", "F": "table", "V": "void", "x": "binary",
}  # fmt: skip


class Table:
    """A field table. Immutable. Equal when the bytes are.

    `raw` is without the length in front. Every question raises SyntaxFault (502) where the bytes are no table; nested
    tables are decoded when they are asked in turn.
    """

    __slots__ = ("_index", "_items", "raw")

    EMPTY: ClassVar["Table"]

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._items: list[tuple[str, Value]] | None = None
        self._index: dict[str, Value] | None = None

    @staticmethod
    def of(fields: Mapping[str, object]) -> "Table":
        """The table of Python values, or of Values where the type matters."""
        return Table(Table.encode_items([(key, value_of(value)) for key, value in fields.items()]))

    @staticmethod
    def encode_items(items: Iterable[tuple[str, Value]]) -> bytes:
        """The bytes of a table, without its length. SyntaxFault for a key over 255 octets or a value out of range."""
        pieces = []
        for key, value in items:
            name = key.encode("utf-8", "surrogateescape")
            if len(name) > SHORT_STRING:
                raise SyntaxFault(f"field name of {len(name)} octets does not fit a short string")
            pieces.append(bytes((len(name),)) + name + _encoded(value))
        return b"".join(pieces)

    @property
    def framed(self) -> bytes:
        """The table as it stands in a frame: its length in four octets, then `raw`."""
        return len(self.raw).to_bytes(4, "big") + self.raw

    def items(self) -> list[tuple[str, Value]]:
        """All fields as they came, repeated keys too. The list is the table's own: do not change it."""
        if self._items is None:
            raw = self.raw
            self._items = [(key, _decoded(raw, at, end, 1)) for key, _, at, end in self._spans()]
        return self._items

    def get(self, key: str) -> Value | None:
        """The value of the first field of this name."""
        index = self._index
        if index is None:
            if key.encode("utf-8", "surrogateescape") not in self.raw:
                return None  # the usual answer to a search for CC or BCC, given without decoding
            index = {}
            for name, value in self.items():
                index.setdefault(name, value)
            self._index = index
        return index.get(key)

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
        """A long string as text, with surrogate escapes where it is not UTF-8; None when absent or another type."""
        value = self.get(key)
        if value is None or value[0] != "S":
            return None
        assert isinstance(value[1], bytes)
        return value[1].decode("utf-8", "surrogateescape")

    def integer(self, key: str) -> int | None:
        """An integer of any width; None when absent or another type."""
        value = self.get(key)
        if value is None or value[0] not in INTEGERS:
            return None
        assert isinstance(value[1], int)
        return value[1]

    def flag(self, key: str) -> bool | None:
        """A boolean; None when absent or another type."""
        value = self.get(key)
        if value is None or value[0] != "t":
            return None
        return value[1] is True

    def without(self, keys: Iterable[str]) -> "Table":
        """This table without the fields of these names; the others keep their bytes."""
        unwanted = frozenset(keys)
        raw = self.raw
        return Table(b"".join([raw[start:end] for key, start, _, end in self._spans() if key not in unwanted]))

    def with_items(self, items: list[tuple[str, Value]]) -> "Table":
        """This table with these fields at its end, in place of any of the same names; the others keep their bytes."""
        return Table(self.without([key for key, _ in items]).raw + Table.encode_items(items))

    def key(self) -> bytes:
        """Identity as binding arguments: the fields sorted by name, the first of equal names alone."""
        fields: dict[str, bytes] = {}
        for key, start, _, end in self._spans():
            fields.setdefault(key, self.raw[start:end])
        return b"".join([fields[key] for key in sorted(fields)])

    def _spans(self) -> list[tuple[str, int, int, int]]:
        """Per field: its name, where it starts, where its type letter stands, where it ends."""
        raw = self.raw
        limit = len(raw)
        spans = []
        start = 0
        while start < limit:
            at = _named(raw, start, limit)
            end = _end(raw, at, limit)
            spans.append((raw[start + 1 : at].decode("utf-8", "surrogateescape"), start, at, end))
            start = end
        return spans


Table.EMPTY = Table(b"")


def check(raw: bytes, at: int = 0, end: int = -1) -> None:
    """Refuse bytes that are no table, or one too deep or too large, with SyntaxFault (502). No length in front.

    The table stands between `at` and `end`, by default all of `raw`. HOT: bench L, for each publish with headers.
    """
    if end < 0:
        end = len(raw)
    enclosing: list[tuple[int, bool]] = []  # of each table or array around this one, its end and whether it is a table
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
            after = _end(raw, at, end)
        if after > end:
            raise SyntaxFault(f"field table is truncated in a value of type {chr(kind)}")
        if kind in _NESTED:
            if len(enclosing) + 2 > MAX_DEPTH:
                raise SyntaxFault(f"field table is nested more than {MAX_DEPTH} deep")
            enclosing.append((end, is_table))
            at, end, is_table = at + 5, after, kind == _TABLE
        else:
            at = after


def value_of(value: object) -> Value:
    """The Value of a Python value: bool t, int I or l, float d, str and bytes S, list A, dict and Table F, None V.

    A pair with a type letter in front is a Value already.
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
    """Equivalence of two arguments: integers and decimals by number, f and d by number, else type and value (6.1)."""
    if a is None or b is None:
        return a is b
    if (a[0] in INTEGERS or a[0] == "D") and (b[0] in INTEGERS or b[0] == "D"):
        return _number(a) == _number(b)
    if a[0] in FLOATS and b[0] in FLOATS:
        return a[1] == b[1] or (a[1] != a[1] and b[1] != b[1])  # a NaN is what it was declared as
    return a == b


def equal_header(bound: Value, sent: Value) -> bool:
    """Whether a header of a message satisfies an argument of a headers binding.

    V asks only that the header is there. A bound timestamp takes an equal timestamp, and an equal integer as RabbitMQ
    does; a bound integer takes no timestamp.
    """
    wanted, found = bound[0], sent[0]
    if wanted == "V":
        return True
    if wanted in INTEGERS or wanted == "T":
        return (found in INTEGERS or found == wanted) and bound[1] == sent[1]
    if wanted in OCTETS:
        return found in OCTETS and bound[1] == sent[1]
    if wanted in FLOATS:
        return found in FLOATS and bound[1] == sent[1]
    return bound == sent


def type_name(value: Value | None) -> str:
    """RabbitMQ's name of the type, as error texts show it; `none` for an absent argument."""
    return "none" if value is None else _TYPE_NAMES[value[0]]


def text_of(value: Value | None) -> str:
    """The value as error texts show it: strings bare, all else as an Erlang term, `none` for an absent argument."""
    if value is None:
        return "none"
    if isinstance(value[1], bytes):
        return value[1].decode("utf-8", "replace")
    return term_of(value)


def term_of(value: Value, depth: int = 1) -> str:
    """The value as Erlang writes it, such as `<<"ANY">>`, `{2,314}` or `[{signedint,1}]`."""
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
        if all(32 <= octet < 127 for octet in content):
            return '<<"' + content.decode("ascii").replace("\\", "\\\\").replace('"', '\\"') + '">>'
        return "<<" + ",".join([str(octet) for octet in content]) + ">>"
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


def _named(raw: bytes, at: int, limit: int) -> int:
    """Past the name that starts here: where the type letter stands, which must be there."""
    at += 1 + raw[at]
    if at >= limit:
        raise SyntaxFault("field table is truncated in a field name")
    return at


def _end(raw: bytes, at: int, limit: int) -> int:
    """Where the value ends whose type letter stands at `at`."""
    step = _STEPS[raw[at]]
    if not step:
        raise SyntaxFault(f"field table has a value of unknown type {raw[at]}")
    end = at + step
    if raw[at] in _SIZED and end <= limit:
        end += int.from_bytes(raw[at + 1 : end], "big")
    if end > limit:
        raise SyntaxFault(f"field table is truncated in a value of type {chr(raw[at])}")
    return end


def _decoded(raw: bytes, at: int, end: int, depth: int) -> Value:
    """The value between its type letter and its end, which `_end` has found."""
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
        after = _end(raw, at, end)
        elements.append(_decoded(raw, at, after, depth + 1))
        at = after
    return ("A", elements)


def _encoded(value: Value) -> bytes:
    """Type letter and value as they stand in a table. SyntaxFault where the value is not one of its type."""
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
        content = b"".join([_encoded(element) for element in content])
    elif letter not in OCTETS:
        raise SyntaxFault(f"no field of type {letter!r}: {content!r}")
    if not isinstance(content, bytes):
        raise SyntaxFault(f"no {_TYPE_NAMES[letter]}: {content!r}")
    return letter.encode() + len(content).to_bytes(4, "big") + content


def _number(value: Value) -> Fraction | int:
    """The number that an integer or a decimal stands for."""
    content = value[1]
    if isinstance(content, tuple):
        scale, digits = content
        return Fraction(digits, 10**scale)
    assert isinstance(content, int)
    return content
