"""Bodies of requests: how long they may be, that they are JSON, and what has to be in them.

Tools are loose with types, so `"true"` is taken where a boolean is meant and `"5"` where an integer is. Keys that are
not known are ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Annotated, Any, get_args, get_origin

import msgspec

from ..http.responses import HTTPError, bad, not_now
from .quota import Quota

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

# Each WINDOW_S have to bring WINDOW_BYTES of a body, or its end: 273 bytes a second, slower than any line of today.
WINDOW_S = 15.0
WINDOW_BYTES = 4096
FORM_S = 5.0  # for a whole body whose sender has not logged in, which is a few hundred bytes
CLOSING = {"connection": "close"}  # else the rest of the body would be waited for

TOO_LONG = "Exceeded HTTP request body size limit"
TOO_LONG_HERE = "Payload size limit exceeded"  # where the route has a limit of its own
THREAD_FROM = 64 << 10  # bytes, beyond which JSON is decoded in a thread: more would hold the loop for milliseconds
NESTED_LIMIT = 100  # of JSON; what walks it later calls itself for each level, and a table of AMQP holds far less
NOT_JSON = "not_json"
LINE = 80  # characters, beyond which RabbitMQ writes a list on several lines
BOOLEANS = ("true", "false")
DOUBLE = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
EMPTY = (b"", b"null", b"undefined")


class Reader:
    """Reads one body: how long it may be and may take, and where its bytes are counted. `user` is empty before a login.

    `idle_s` is the longest pause between two pieces of it.
    """

    __slots__ = ("_idle_s", "_limit", "_quota", "_too_long", "_user")

    def __init__(self, quota: Quota, user: str, limit: int, too_long: str, idle_s: float) -> None:
        self._quota = quota
        self._user = user
        self._limit = limit
        self._too_long = too_long
        self._idle_s = idle_s

    async def read(self, receive: Receive, length: str | None) -> bytes:
        """The whole body; its bytes count while they are gathered.

        Raises HTTPError: 400 where it is too long, 408 where it comes too slowly, 503 where others have the room;
        ConnectionResetError where the client leaves.
        """
        if length is not None and length.isdecimal() and int(length) > self._limit:
            raise bad(self._too_long)
        window_s = min(WINDOW_S, self._idle_s) if self._user else FORM_S
        try:
            async with asyncio.timeout(window_s) as deadline:
                return await self._gather(receive, deadline, window_s)
        except TimeoutError:
            raise HTTPError(408, "request_timeout", "the body did not come in time", CLOSING) from None

    async def _gather(self, receive: Receive, deadline: asyncio.Timeout, window_s: float) -> bytes:
        pieces: list[bytes] = []
        size = window = 0
        more = True
        try:
            while more:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise ConnectionResetError("the client has gone before the end of its request")
                piece = event.get("body", b"")
                if size + len(piece) > self._limit:
                    raise bad(self._too_long)
                if not self._quota.take(self._user, len(piece)):
                    raise not_now("too many bytes of request bodies are under way")
                pieces.append(piece)
                size += len(piece)
                window += len(piece)
                if window >= WINDOW_BYTES and self._user:
                    window = 0
                    deadline.reschedule(asyncio.get_running_loop().time() + window_s)
                more = event.get("more_body", False)
            return b"".join(pieces)
        finally:
            self._quota.give_back(self._user, size)


def decoded(octets: bytes) -> dict[str, Any]:
    """An object, empty where there is none. Raises HTTPError (400)."""
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
    """Raises HTTPError (400) for arrays and objects that are nested deeper than NESTED_LIMIT."""
    level = [value]
    for _ in range(NESTED_LIMIT):
        inner = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list)))
        level = [one for values in inner for one in values if isinstance(one, (dict, list))]
        if not level:
            return
    raise bad(f"JSON may be nested {NESTED_LIMIT} deep")


def converted(value: dict[str, Any], body: type[msgspec.Struct]) -> msgspec.Struct:
    """The body as an object of its class. Raises HTTPError (400), whose reason is the one that RabbitMQ gives."""
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
    """Check a boolean or an integer, alone or where null may be. Raises HTTPError (400)."""
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
