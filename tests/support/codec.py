"""An encoder of AMQP 0-9-1, also of what is not legal.

pamqp knows the methods and their fields; what it refuses to write (odd names, a chosen integer width, bytes that are
not UTF-8) is written here without its checks. Python values become the field types that most clients use; `Typed`
picks any other.
"""

import struct
from collections.abc import Mapping
from typing import Any

from pamqp import base, commands, header

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = b"\xce"
FRAME_OVERHEAD = 8  # type, channel, size and the end octet
BEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"

_FIXED = {"t": ">?", "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q",
          "f": ">f", "d": ">d", "T": ">Q"}  # fmt: skip
_METHOD_FIELD = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}
PROPERTY_NAMES = ("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id",
                  "reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id",
                  "cluster_id")  # fmt: skip

KINDS: dict[int, type[base.Frame]] = commands.INDEX_MAPPING
# By method, the types of its fields in their order
FIELD_TYPES = {index: {name: kind.amqp_type(name) for name in kind.__slots__} for index, kind in KINDS.items()}


class Typed:
    """A field value with its type letter chosen; `D` takes (scale, unscaled value)."""

    def __init__(self, letter: str, value: Any = None) -> None:
        self.letter = letter
        self.value = value

    def encode(self) -> bytes:
        return self.letter.encode() + self._value()

    def _value(self) -> bytes:
        match self.letter:
            case "V":
                return b""
            case "S" | "x":
                return long_string(self.value)
            case "D":
                return struct.pack(">Bi", *self.value)
            case "F":
                return table(self.value)
            case "A":
                return long_string(b"".join(field(item) for item in self.value))
        return struct.pack(_FIXED[self.letter], self.value)


def encode_text(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def short_string(text: str | bytes) -> bytes:
    raw = encode_text(text)
    return bytes((len(raw),)) + raw


def long_string(text: str | bytes) -> bytes:
    raw = encode_text(text)
    return struct.pack(">I", len(raw)) + raw


def field(value: Any) -> bytes:
    """A field value with its type letter in front."""
    if isinstance(value, Typed):
        return value.encode()
    if isinstance(value, bool):
        return Typed("t", value).encode()
    if isinstance(value, int):
        return Typed("I" if -(2**31) <= value < 2**31 else "l", value).encode()
    if isinstance(value, float):
        return Typed("d", value).encode()
    if value is None:
        return Typed("V").encode()
    letters: dict[type, str] = {str: "S", bytes: "x", dict: "F", list: "A"}
    return Typed(letters[type(value)], value).encode()


def pairs(values: Mapping[str, Any]) -> bytes:
    """The inside of a field table, as an AMQPLAIN response is."""
    return b"".join(short_string(key) + field(value) for key, value in values.items())


def table(values: Mapping[str, Any] | bytes | None) -> bytes:
    """A field table. Bytes are taken as its inside."""
    return long_string(values if isinstance(values, bytes) else pairs(values or {}))


def frame(kind: int, channel: int, payload: bytes, end: bytes = FRAME_END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def method_payload(kind: type[base.Frame], fields: Mapping[str, Any]) -> bytes:
    """A method's ids and arguments; a field not named is zero, empty or false."""
    types = FIELD_TYPES[kind.index]
    unknown = fields.keys() - types.keys()
    assert not unknown, f"{kind.name} has no {unknown}"
    out = [struct.pack(">I", kind.index)]
    bits: list[bool] = []
    for name, field_type in types.items():
        value = fields.get(name)
        if field_type == "bit":
            bits.append(bool(value))
            continue
        if bits:
            out.append(_packed(bits))
            bits = []
        out.append(_argument(field_type, value))
    out.append(_packed(bits))
    return b"".join(out)


def _packed(bits: list[bool]) -> bytes:
    return bytes((sum(1 << place for place, bit in enumerate(bits) if bit),)) if bits else b""


def _argument(field_type: str, value: Any) -> bytes:
    if field_type in _METHOD_FIELD:
        return struct.pack(_METHOD_FIELD[field_type], value or 0)
    if field_type == "table":
        return table(value)
    return (short_string if field_type == "shortstr" else long_string)(value or b"")


def method_frame(channel: int, kind: type[base.Frame], fields: Mapping[str, Any]) -> bytes:
    return frame(METHOD, channel, method_payload(kind, fields))


def property_bytes(properties: Mapping[str, Any] | bytes | None) -> bytes:
    """Property flags and values. Bytes are taken as they are."""
    if isinstance(properties, bytes):
        return properties
    given = properties or {}
    flags, values = 0, b""
    for place, name in enumerate(PROPERTY_NAMES):
        if name not in given:
            continue
        flags |= 1 << (15 - place)
        value = given[name]
        match name:
            case "headers":
                values += table(value)
            case "delivery_mode" | "priority":
                values += bytes((value,))
            case "timestamp":
                values += struct.pack(">Q", value)
            case _:
                values += short_string(value)
    return struct.pack(">H", flags) + values


def header_frame(channel: int, body_bytes: int, properties: Mapping[str, Any] | bytes | None = None,
                 class_id: int = 60, weight: int = 0) -> bytes:  # fmt: skip
    head = struct.pack(">HHQ", class_id, weight, body_bytes)
    return frame(HEADER, channel, head + property_bytes(properties))


def body_frames(channel: int, body: bytes, frame_max: int) -> bytes:
    """The body in as few frames as frame_max (bytes, 0 = no limit) allows."""
    size = frame_max - FRAME_OVERHEAD if frame_max else max(len(body), 1)
    return b"".join(frame(BODY, channel, body[at : at + size]) for at in range(0, len(body), size))


def decode_method(payload: bytes) -> base.Frame:
    method = KINDS[int.from_bytes(payload[:4], "big")]()
    method.unmarshal(payload[4:])
    return method


def decode_properties(payload: bytes) -> commands.Basic.Properties:
    """The properties of a content header frame's payload."""
    content = header.ContentHeader()
    content.unmarshal(payload)
    return content.properties
