"""Bodies of requests: how long they may be, that they are JSON, and what has to be in them (spec/operator.md 1.1).

Tools are loose with types, so `"true"` is taken where a boolean is meant and `"5"` where an integer is. Keys that are
not known are ignored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from .answers import bad

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

TOO_LONG = "Exceeded HTTP request body size limit"
TOO_LONG_HERE = "Payload size limit exceeded"  # where the route has a limit of its own
NOT_JSON = "not_json"
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
    return value


def converted(value: dict[str, Any], body: type[msgspec.Struct]) -> msgspec.Struct:
    """Raises Refusal (400), whose reason names what is missing as RabbitMQ does."""
    for field in msgspec.structs.fields(body):
        if field.required and field.encode_name not in value:
            raise bad(f"[{{key_missing,{field.encode_name}}}]")
    try:
        return msgspec.convert(value, body, strict=False)
    except msgspec.ValidationError as error:
        raise bad(str(error)) from None
