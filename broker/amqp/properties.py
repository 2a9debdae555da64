"""The fourteen basic properties of a content header.

`raw` is property flags and values, the payload of a content header after the body size; messages keep these bytes
unchanged. `check` validates bytes from a peer. The functions after it read or replace one property of valid bytes and
leave all others unchanged.
"""

from typing import ClassVar, Final

from . import field_table as table
from .errors import SyntaxFault
from .field_table import Table
from .limits import SHORT_STRING

CONTENT_TYPE: Final = 1 << 15
CONTENT_ENCODING: Final = 1 << 14
HEADERS: Final = 1 << 13
DELIVERY_MODE: Final = 1 << 12
PRIORITY: Final = 1 << 11
CORRELATION_ID: Final = 1 << 10
REPLY_TO: Final = 1 << 9
EXPIRATION: Final = 1 << 8
MESSAGE_ID: Final = 1 << 7
TIMESTAMP: Final = 1 << 6
TYPE: Final = 1 << 5
USER_ID: Final = 1 << 4
APP_ID: Final = 1 << 3
CLUSTER_ID: Final = 1 << 2

_UNKNOWN: Final = 1 << 1  # the only flag of the first word without a property
_CONTINUED: Final = 1  # another word of flags follows
_ONE_BYTE: Final = DELIVERY_MODE | PRIORITY
_STRINGS: Final = frozenset(1 << bit for bit in range(2, 16)) - {HEADERS, DELIVERY_MODE, PRIORITY, TIMESTAMP}
_COMBINATIONS_LIMIT: Final = 256
_combinations: dict[int, tuple[int, ...]] = {}
_last_headers: Final = [Table.EMPTY]


class Properties:
    """The decoded properties; absent ones are None. Bytes that are not UTF-8 become surrogate escapes."""

    FIELDS: ClassVar[tuple[str, ...]] = (
        "app_id",
        "cluster_id",
        "content_encoding",
        "content_type",
        "correlation_id",
        "delivery_mode",
        "expiration",
        "headers",
        "message_id",
        "priority",
        "reply_to",
        "timestamp",
        "type",
        "user_id",
    )
    __slots__ = FIELDS

    def __init__(
        self,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Table | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: str | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.headers = headers
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.expiration = expiration
        self.message_id = message_id
        self.timestamp = timestamp
        self.type = type
        self.user_id = user_id
        self.app_id = app_id
        self.cluster_id = cluster_id

    @staticmethod
    def decode(raw: bytes) -> "Properties":
        """Decode all properties, the headers to an undecoded Table.

        Raises SyntaxFault (502) if `raw` is truncated, too long or has unknown flags.
        """
        flags, at = _flags(raw)
        reader = _Reader(raw, at)
        own = Properties()
        own.content_type = reader.text() if flags & CONTENT_TYPE else None
        own.content_encoding = reader.text() if flags & CONTENT_ENCODING else None
        own.headers = reader.table() if flags & HEADERS else None
        own.delivery_mode = reader.number(1) if flags & DELIVERY_MODE else None
        own.priority = reader.number(1) if flags & PRIORITY else None
        own.correlation_id = reader.text() if flags & CORRELATION_ID else None
        own.reply_to = reader.text() if flags & REPLY_TO else None
        own.expiration = reader.text() if flags & EXPIRATION else None
        own.message_id = reader.text() if flags & MESSAGE_ID else None
        own.timestamp = reader.number(8) if flags & TIMESTAMP else None
        own.type = reader.text() if flags & TYPE else None
        own.user_id = reader.text() if flags & USER_ID else None
        own.app_id = reader.text() if flags & APP_ID else None
        own.cluster_id = reader.text() if flags & CLUSTER_ID else None
        if reader.at != len(raw):
            raise SyntaxFault("content header is longer than its properties")
        return own

    def encode(self) -> bytes:
        """Return flags and values. Raises SyntaxFault for a text above 255 bytes or a number out of range."""
        flags = 0
        values = []
        for flag, value in (
            (CONTENT_TYPE, self.content_type),
            (CONTENT_ENCODING, self.content_encoding),
            (HEADERS, self.headers),
            (DELIVERY_MODE, self.delivery_mode),
            (PRIORITY, self.priority),
            (CORRELATION_ID, self.correlation_id),
            (REPLY_TO, self.reply_to),
            (EXPIRATION, self.expiration),
            (MESSAGE_ID, self.message_id),
            (TIMESTAMP, self.timestamp),
            (TYPE, self.type),
            (USER_ID, self.user_id),
            (APP_ID, self.app_id),
            (CLUSTER_ID, self.cluster_id),
        ):
            if value is not None:
                flags |= flag
                values.append(_encode(flag, value))
        return flags.to_bytes(2, "big") + b"".join(values)


def check(raw: bytes) -> int:
    """Validate property bytes, and return the delivery mode, or 0 if it is absent.

    Raises SyntaxFault (502) if they are malformed or the headers are too deep or too large. HOT: bench L, for each
    publish whose properties differ from those of the last one.
    """
    flags, at = _flags(raw)
    limit = len(raw)
    mode = 0
    try:
        for bit in _present(flags):
            if bit in _STRINGS:
                at += 1 + raw[at]
            elif bit == DELIVERY_MODE:
                mode = raw[at]
                at += 1
            elif bit == HEADERS:
                start = at + 4
                at = start + int.from_bytes(raw[at:start], "big")
                if at > limit or start > limit:
                    break
                table.check(raw, start, at)
            else:
                at += 8 if bit == TIMESTAMP else 1
    except IndexError:
        at = limit + 1
    if at > limit:
        raise SyntaxFault("content header is truncated")
    if at < limit:
        raise SyntaxFault("content header is longer than its properties")
    return mode


def value_spans(raw: bytes) -> list[tuple[int, int]]:
    """Return start and end of the values that may change without a change of structure or delivery mode.

    Short strings without their lengths, priority, timestamp, and values of the headers table; `raw` has passed `check`.
    """
    flags, at = _flags(raw)
    spans: list[tuple[int, int]] = []
    for bit in _present(flags):
        start, at = at, _end(raw, bit, at)
        if bit in _STRINGS:
            spans.append((start + 1, at))
        elif bit == HEADERS:
            spans += table.value_spans(raw, start + 4, at)
        elif bit != DELIVERY_MODE:
            spans.append((start, at))
    return spans


def _present(flags: int) -> tuple[int, ...]:
    """Return the flags of the present properties in order. Few combinations are in use, so these are cached."""
    present = _combinations.get(flags)
    if present is None:
        present = tuple(1 << bit for bit in range(15, 1, -1) if flags & 1 << bit)
        if len(_combinations) < _COMBINATIONS_LIMIT:
            _combinations[flags] = present
    return present


def delivery_mode(raw: bytes) -> int:
    """Return the delivery mode: 2 for persistent, 0 if it is absent."""
    at = _byte_at(raw, DELIVERY_MODE)
    return raw[at] if at else 0


def priority(raw: bytes) -> int | None:
    """Return the priority or None, without decoding the properties before it."""
    at = _byte_at(raw, PRIORITY)
    return raw[at] if at else None


def timestamp(raw: bytes) -> int | None:
    """Return the timestamp or None, without decoding other properties."""
    if not has(raw, TIMESTAMP):
        return None
    start, end = _span(raw, TIMESTAMP)
    return int.from_bytes(raw[start:end], "big")


def has(raw: bytes, flag: int) -> bool:
    """Whether any of these properties is present."""
    return (raw[0] << 8 | raw[1]) & flag != 0


def headers(raw: bytes) -> Table | None:
    """Return the headers or None, without decoding other properties.

    The last table stays decoded, because several exchanges may read it for one message.
    """
    if not has(raw, HEADERS):
        return None
    start, end = _span(raw, HEADERS)
    fields = raw[start + 4 : end]
    last = _last_headers[0]
    if fields != last.raw:
        last = _last_headers[0] = Table(fields)
    return last


def text(raw: bytes, flag: int) -> str | None:
    """Return a property that is a short string, such as EXPIRATION or USER_ID, or None."""
    if not has(raw, flag):
        return None
    start, end = _span(raw, flag)
    return raw[start + 1 : end].decode("utf-8", "surrogateescape")


def replace(raw: bytes, flag: int, value: str | int | Table | None) -> bytes:
    """Return the properties with one replaced, or removed if `value` is None. All others keep their bytes."""
    start, end = _span(raw, flag)
    present = raw[0] << 8 | raw[1]
    if value is None:
        return (present & ~flag).to_bytes(2, "big") + raw[2:start] + raw[end:]
    return (present | flag).to_bytes(2, "big") + raw[2:start] + _encode(flag, value) + raw[end:]


def with_first_field(raw: bytes, key: str, value: table.Value) -> bytes:
    """Return the properties with a field at the front of the headers, in place of fields with the same name.

    Linear in bytes if there is none, or only one at the front. No other field is decoded.
    """
    start, end = _span(raw, HEADERS)
    at = min(start + 4, end)
    name = table.encoded_name(key)
    if raw.startswith(name, at, end):
        at = table.value_end(raw, at + len(name), end)
    view = memoryview(raw)
    others = view[at:end] if raw.find(name, at, end) < 0 else memoryview(Table(raw[at:end]).without((key,)).raw)
    field = Table.encode_items([(key, value)])
    flags = (raw[0] << 8 | raw[1]) | HEADERS
    length = len(field) + len(others)
    return b"".join((flags.to_bytes(2, "big"), view[2:start], length.to_bytes(4, "big"), field, others, view[end:]))


class _Reader:
    """A cursor that takes values one after the other. Raises SyntaxFault at a truncated one."""

    __slots__ = ("at", "raw")

    def __init__(self, raw: bytes, at: int) -> None:
        self.raw = raw
        self.at = at

    def take(self, count: int) -> bytes:
        start = self.at
        self.at = start + count
        if self.at > len(self.raw):
            raise SyntaxFault("content header is truncated")
        return self.raw[start : self.at]

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def text(self) -> str:
        return self.take(self.number(1)).decode("utf-8", "surrogateescape")

    def table(self) -> Table:
        return Table(self.take(self.number(4)))


def _flags(raw: bytes) -> tuple[int, int]:
    """Return the first word of flags and the offset of the values. Further words, for no property, must be empty."""
    if len(raw) < 2:
        raise SyntaxFault("content header has no property flags")
    flags = word = raw[0] << 8 | raw[1]
    at = 2
    if flags & _UNKNOWN:
        raise SyntaxFault("content header has an unknown property")
    while word & _CONTINUED:
        if len(raw) < at + 2:
            raise SyntaxFault("content header is truncated in its property flags")
        word = raw[at] << 8 | raw[at + 1]
        at += 2
        if word & ~_CONTINUED:
            raise SyntaxFault("content header has an unknown property")
    return flags, at


def _end(raw: bytes, flag: int, at: int) -> int:
    """Return the end of a property whose value starts at `at`."""
    limit = len(raw)
    if flag & _ONE_BYTE:
        end = at + 1
    elif flag == HEADERS:
        end = at + 4
        if end <= limit:
            end += int.from_bytes(raw[at:end], "big")
    elif flag == TIMESTAMP:
        end = at + 8
    else:
        end = at + 1 + raw[at] if at < limit else at + 1
    if end > limit:
        raise SyntaxFault("content header is truncated")
    return end


def _span(raw: bytes, flag: int) -> tuple[int, int]:
    """Return start and end of a property's value; if it is absent, both are where it would start."""
    flags, at = _flags(raw)
    before = CONTENT_TYPE
    while before != flag:
        if flags & before:
            at = _end(raw, before, at)
        before >>= 1
    return at, _end(raw, flag, at) if flags & flag else at


def _byte_at(raw: bytes, flag: int) -> int:  # HOT: load A, for each message published
    """Return the offset of delivery mode or priority, or 0 if it is absent."""
    flags = raw[0] << 8 | raw[1]
    if not flags & flag:
        return 0
    if flags & _CONTINUED:
        return _span(raw, flag)[0]
    at = 2
    if flags & CONTENT_TYPE:
        at += 1 + raw[at]
    if flags & CONTENT_ENCODING:
        at += 1 + raw[at]
    if flags & HEADERS:
        at += 4 + int.from_bytes(raw[at : at + 4], "big")
    if flag == PRIORITY and flags & DELIVERY_MODE:
        at += 1
    return at


def _encode(flag: int, value: str | int | Table) -> bytes:
    """Encode a value of a content header."""
    if isinstance(value, Table):
        return value.framed
    if isinstance(value, str):
        encoded = value.encode("utf-8", "surrogateescape")
        if len(encoded) > SHORT_STRING:
            raise SyntaxFault(f"property of {len(encoded)} bytes does not fit a short string")
        return bytes((len(encoded),)) + encoded
    width = 1 if flag & _ONE_BYTE else 8
    if not 0 <= value < 1 << 8 * width:
        raise SyntaxFault(f"property {value} does not fit {width} bytes")
    return value.to_bytes(width, "big")
