"""Bodies of requests: how long they may be, that they are JSON, and what has to be in them (spec/operator.md 1.1).

Tools are loose with types, so `"true"` is taken where a boolean is meant and `"5"` where an integer is. Keys that are
not known are ignored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Annotated, Any, get_args, get_origin

import msgspec

from .answers import bad

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

TOO_LONG = "Exceeded HTTP request body size limit"
TOO_LONG_HERE = "Payload size limit exceeded"  # where the route has a limit of its own
THREAD_FROM = 64 << 10  # bytes, beyond which JSON is decoded in a thread: more would hold the loop for milliseconds
NESTED_LIMIT = 100  # of JSON; what walks it later calls itself for each level, and a table of AMQP holds far less
NOT_JSON = "not_json"
LINE = 80  # characters, beyond which RabbitMQ writes a list on several lines
BOOLEANS = ("true", "false")
DOUBLE = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
EMPTY = (b"", b"null", b"undefined")


async def read(receive: Receive, length: str | None, limit: int, too_long: str) -> bytes:
    """All of it. Raises Refusal (400), for the reason `too_long`, once it is known to be longer than `limit` octets."""
    if length is not None and length.isdecimal() and int(length) > limit:
        raise bad(too_long)
    pieces, size, more = [], 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ConnectionResetError("the client has gone before the end of its request")
        piece = event.get("body", b"")
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise bad(too_long)
        more = event.get("more_body", False)
    return b"".join(pieces)


def decoded(octets: bytes) -> dict[str, Any]:
    """An object, empty where there is none. Raises Refusal (400)."""
    if octets.strip() in EMPTY:
        return {}
    try:
        value = msgspec.json.decode(octets)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise bad(NOT_JSON) from None
    if isinstance(value, str):
        raise bad(DOUBLE)
    if not isinstance(value, dict):
        raise bad(NOT_JSON)
    check_depth(value)
    return value


def check_depth(value: object) -> None:
    """Raises Refusal (400) for arrays and objects that are nested deeper than NESTED_LIMIT."""
    level = [value]
    for _ in range(NESTED_LIMIT):
        inner = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list)))
        level = [one for values in inner for one in values if isinstance(one, (dict, list))]
        if not level:
            return
    raise bad(f"JSON may be nested {NESTED_LIMIT} deep")


def converted(value: dict[str, Any], body: type[msgspec.Struct]) -> msgspec.Struct:
    """The body as an object of its class. Raises Refusal (400), whose reason is the one that RabbitMQ gives."""
    fields = msgspec.structs.fields(body)
    absent = [field.encode_name for field in fields if field.required and field.encode_name not in value]
    if absent:
        raise bad(missing_keys(absent))
    for field in fields:
        if field.encode_name in value:
            check_type(field.type, value[field.encode_name])
    try:
        return msgspec.convert(value, body, strict=False)
    except msgspec.ValidationError as error:
        raise bad(str(error)) from None


def missing_keys(names: list[str]) -> str:
    """The keys that a body lacks, as Erlang prints them."""
    terms = [f"{{key_missing,{name}}}" for name in names]
    line = f"[{','.join(terms)}]"
    return line if len(line) < LINE else "[" + ",\n ".join(terms) + "]"


def check_type(expected: Any, value: object) -> None:
    """Check a boolean or an integer, alone or where null may be. Raises Refusal (400)."""
    if isinstance(value, msgspec.UnsetType):
        return
    types = [get_args(one)[0] if get_origin(one) is Annotated else one for one in (get_args(expected) or (expected,))]
    if value is None and type(None) in types:
        return
    if bool in types and not (isinstance(value, bool) or value in BOOLEANS):
        raise bad(["not_boolean", value])
    if int in types and bool not in types and not is_integer(value):
        raise bad(["not_integer", value])


def is_integer(value: object) -> bool:
    if isinstance(value, str):
        return value.isascii() and value.removeprefix("-").isdecimal()
    return isinstance(value, int) and not isinstance(value, bool)
