"""The parsers of AMQP: frames, field tables, properties, methods and SASL responses."""

from collections.abc import Callable

from pamqp import commands

from tests.support import codec
from warren.broker.amqp import properties
from warren.broker.amqp.errors import (
    AMQPError,
    CommandInvalid,
    FrameError,
    Invalid,
    ResourceFault,
    SyntaxFault,
    UnexpectedFrame,
)
from warren.broker.amqp.field_table import Table, check
from warren.broker.amqp.table_json import json_of_table, table_of_json
from warren.broker.wire import method_decoder, sasl
from warren.broker.wire.frame_reader import FrameReader

from .target import Target, Turn, pieces

FRAME_MAX, BODY_MAX = 300, 600
FRAME_ERRORS = (FrameError, UnexpectedFrame, SyntaxFault, CommandInvalid, ResourceFault)
KEPT_FACTOR, KEPT_MORE = 2, 1 << 16  # bytes that a reader may keep of what was fed

PUBLISH = codec.method_frame(1, commands.Basic.Publish, {"exchange": "e", "routing_key": "k"})
TABLE = codec.pairs({"a": 1, "b": [True, "text", {"c": 1.5}], "x-match": "all", "v": None})


def read_frames(data: bytes, turn: Turn) -> None:
    """The same events and the same error, however the input is cut; kept bytes are bounded."""
    events = []
    for parts in (pieces(data), [b"".join(pieces(data))]):
        reader = FrameReader(FRAME_MAX, BODY_MAX, frozenset((1, 2)))
        seen: list[object] = []
        for part in parts:
            reader.feed(part)
            try:
                while (event := reader.next()) is not None:
                    contents = getattr(event, "contents", None) or [getattr(event, "payload", b"")]
                    seen += [b"".join(contents)]
            except AMQPError as error:
                assert isinstance(error, FRAME_ERRORS)
                seen.append((type(error), error.class_id, error.method_id))
                break
            turn()
            if len(parts) > 1:  # otherwise a read is as long as the sender likes
                kept = sum(map(len, reader._parts)) + reader._kept_bytes
                assert kept <= KEPT_FACTOR * (FRAME_MAX + reader.unfinished_max) + KEPT_MORE
        contents = b"".join(each for each in seen if isinstance(each, bytes))
        events.append((contents, seen[-1] if seen and isinstance(seen[-1], tuple) else None))
    assert events[0] == events[1]


def read_table(data: bytes, turn: Turn) -> None:
    """An accepted table can be read in every way, converted to JSON and back, and encoded again."""
    try:
        check(data)
    except SyntaxFault:
        return
    table = Table(data)
    assert len(table) == len(table.items())
    assert Table.encode_items(table.items()) == data or b"t" in data  # a bool may be any byte
    table.key()
    repr(table)
    turn()
    try:
        table_of_json(json_of_table(table))
    except Invalid:  # as it has more bytes than a table may have
        pass


def read_properties(data: bytes, turn: Turn) -> None:
    """Accepted properties can be read and replaced, and have the same bytes once decoded and encoded."""
    try:
        properties.check(data)
    except (SyntaxFault, FrameError):
        return
    decoded = properties.Properties.decode(data)
    properties.check(decoded.encode())
    assert properties.delivery_mode(data) == (decoded.delivery_mode or 0)
    properties.priority(data)
    properties.value_spans(data)
    headers = properties.headers(data)
    if headers is not None:
        headers.items()


def read_method(data: bytes, turn: Turn) -> None:
    """A payload is a method or a documented error with its ids."""
    index = int.from_bytes(data[:4].ljust(4, b"\0"), "big")
    try:
        method, table = method_decoder.decode(index, data.ljust(4, b"\0"))
    except AMQPError as error:
        assert isinstance(error, SyntaxFault | CommandInvalid | FrameError)
        assert (error.class_id, error.method_id) == (index >> 16, index & 0xFFFF)
        assert isinstance(error, CommandInvalid) == (index not in commands.INDEX_MAPPING)
    else:
        assert method.index == index or index == method_decoder.ACCESS_REQUEST
        table.items()


def read_sasl(data: bytes, turn: Turn) -> None:
    """A response is a user name and a password, or a syntax error."""
    parsers: tuple[Callable[[bytes], tuple[str, bytes]], ...] = (sasl.plain, sasl.amqplain)
    for parse in parsers:
        try:
            user, password = parse(data)
            user.encode("utf-8", "surrogateescape")
            assert isinstance(password, bytes)
        except SyntaxFault:
            pass


def methods() -> list[bytes]:
    return [codec.method_payload(kind, {}) for kind in commands.INDEX_MAPPING.values()]


FRAMES = Target(
    "frames",
    read_frames,
    [
        b"\0" + PUBLISH + codec.header_frame(1, 4) + codec.frame(3, 1, b"body") + codec.BEAT,
        b"\2\7\1" + PUBLISH + codec.header_frame(1, 4) + codec.frame(3, 1, b"bo") + codec.frame(3, 1, b"dy"),
        b"\1\4" + codec.method_frame(1, commands.Basic.Ack, {"delivery_tag": 1}) * 3,
    ],
)
TABLES = Target("tables", read_table, [TABLE, b""])
PROPERTIES = Target(
    "properties", read_properties, [codec.property_bytes({"headers": {"a": 1}, "delivery_mode": 2, "message_id": "m"})]
)
METHODS = Target("methods", read_method, methods(), 1024)
SASL = Target("sasl", read_sasl, [b"\0guest\0guest", codec.pairs({"LOGIN": "guest", "PASSWORD": "guest"})], 512)
