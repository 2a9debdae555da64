"""Request bodies: limits of size and time, JSON decoding and validation.

Clients are loose with types, so `"true"` is accepted as a boolean and `"5"` as an integer. Unknown keys are ignored.
"""

import asyncio
from typing import Annotated, Any, ClassVar, get_args, get_origin

import msgspec

from warren.broker.amqp.table_json import table_of_json
from warren.broker.core.definitions.files import too_many_digits
from warren.broker.core.metadata import validation
from warren.broker.core.metadata.validation import NESTED_LIMIT
from warren.broker.plugin import Invalid, Table

from ...http.asgi import Incoming
from ...http.limits import Quota
from ...http.responses import HTTPError, bad, not_now
from ...http.time_slices import once_a_turn

# In each WINDOW_S a client must send WINDOW_BYTES of a body, or its end: 273 bytes a second.
WINDOW_S = 15.0
WINDOW_BYTES = 4096
FORM_S = 5.0  # for the whole body of a request without login, a few hundred bytes
CLOSING = {"connection": "close"}  # instead of waiting for the rest of the body

TOO_LONG = "Exceeded HTTP request body size limit"
TOO_LONG_HERE = "Payload size limit exceeded"  # for a route with its own limit
SHORT_BYTES = 2048  # longer JSON is decoded and handled in a turn of its own: 64 KiB may take 4 ms
THREAD_FROM = 64 << 10  # bytes; longer JSON is decoded in a thread, because it would block the loop for milliseconds
VALUES_LIMIT = 5_000  # values in JSON, about: to decode them keeps the interpreter, in a thread too
BODY_NESTED_LIMIT = NESTED_LIMIT - 2  # a value is two levels deeper in definitions, which must be imported again
NOT_JSON = "not_json"
LONG_INTEGER = "Integer value out of range"  # the error of msgspec for an integer with more digits than int takes
OPENINGS = (b"{", b"[")  # of JSON with several values; the decoder needs no time for others
LINE = 80  # characters; RabbitMQ breaks a longer list into lines
BOOLEANS = ("true", "false")
DOUBLE = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
EMPTY = (b"", b"null", b"undefined")


async def read(incoming: Incoming, quota: Quota, limit: int, too_long: str, idle_s: float) -> bytes:
    """Return the whole body; while it is read, its bytes count against the quota of the user.

    `idle_s` is the longest pause between two pieces. Raises HTTPError: 400 with the reason `too_long`, 408 if the body
    arrives too slowly, 503 if the quota is used up; and ConnectionResetError if the client disconnects.
    """
    length, user = incoming.headers.get("content-length"), incoming.user  # empty before a login
    if length is not None and length.isdecimal() and int(length) > limit:
        raise bad(too_long)
    window_s = min(WINDOW_S, idle_s) if user else FORM_S
    pieces: list[bytes] = []
    size = window = 0
    more = True
    try:
        async with asyncio.timeout(window_s) as deadline:
            while more:
                event = await incoming.receive()
                if event["type"] == "http.disconnect":
                    raise ConnectionResetError("the client disconnected before the end of its request")
                piece = event.get("body", b"")
                if size + len(piece) > limit:
                    raise bad(too_long)
                if not quota.take(user, len(piece)):
                    raise not_now("too many bytes of request bodies are under way")
                pieces.append(piece)
                size += len(piece)
                window += len(piece)
                if window >= WINDOW_BYTES and user:
                    window = 0
                    deadline.reschedule(asyncio.get_running_loop().time() + window_s)
                more = event.get("more_body", False)
        return b"".join(pieces)
    except TimeoutError:
        raise HTTPError(408, "request_timeout", "the body did not come in time", CLOSING) from None
    finally:
        quota.release(user, size)


class CostlyBody(msgspec.Struct, dict=True):
    """A body that costs more than its decoding: `prepare` does the rest, in a thread if it is long.

    Its `__dict__` has what `prepare` keeps for the handler.
    """

    thread_from: ClassVar[int] = THREAD_FROM  # bytes of a long body
    long_field: ClassVar[str] = ""  # the one field that may be a long string

    def prepare(self) -> None:
        """Convert or check fields without the state of the broker. Raises HTTPError (400)."""
        raise NotImplementedError


async def parse(body: bytes, form: type[msgspec.Struct], turns: asyncio.Lock) -> msgspec.Struct:
    """Return a body as an instance of its struct. Raises HTTPError (400).

    `turns` is held so that only one long body is decoded in a turn of the loop, and one handled in the next.
    """
    if len(body) > (form.thread_from if issubclass(form, CostlyBody) else THREAD_FROM):
        value = await asyncio.to_thread(parsed, body, form)
        async with once_a_turn(turns):
            return value
    if len(body) <= SHORT_BYTES:
        return parsed(body, form)
    async with once_a_turn(turns):
        return parsed(body, form)


def parsed(body: bytes, form: type[msgspec.Struct]) -> msgspec.Struct:
    """Return a body as an instance of its struct. It uses no state of the broker. Raises HTTPError (400)."""
    if len(body) <= THREAD_FROM:
        fields = decode(body)
    elif issubclass(form, CostlyBody) and form.long_field:
        fields = decode_fields(body, form)
    else:
        if body.lstrip().startswith(OPENINGS):
            check_count(body)
        fields = decode(body)
    value = convert(fields, form)
    if isinstance(value, CostlyBody):
        value.prepare()
    return value


def check_count(body: bytes) -> None:
    """Raises HTTPError (400) for JSON with very many values, before any of them is made an object."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > VALUES_LIMIT:
        raise bad(f"JSON may have {VALUES_LIMIT} values")


def decode_fields(body: bytes, form: type[CostlyBody]) -> dict[str, Any]:
    """Return the fields of a long body. Only the long one may have very many commas. Raises HTTPError (400)."""
    names = [field.encode_name for field in msgspec.structs.fields(form)]
    raw = msgspec.defstruct("Raw", [(name, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for name in names])
    value: dict[str, Any] = {}
    try:
        fields = msgspec.json.decode(body, type=raw)
        for name in names:
            text = getattr(fields, name)
            if isinstance(text, msgspec.UnsetType):
                continue
            content = bytes(text)
            if name != form.long_field or not content.startswith(b'"'):
                check_count(content)
            value[name] = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error) from None
    check_depth(value, BODY_NESTED_LIMIT)
    return value


def decode(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; an empty body is an empty object. Raises HTTPError (400)."""
    if body.strip() in EMPTY:
        return {}
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error) from None
    if isinstance(value, str):
        raise bad(DOUBLE)
    if not isinstance(value, dict):
        raise bad(NOT_JSON)
    check_depth(value, BODY_NESTED_LIMIT)
    return value


def not_json(error: Exception) -> HTTPError:
    """Return the refusal of a body that cannot be decoded."""
    return bad(too_many_digits() if str(error).startswith(LONG_INTEGER) else NOT_JSON)


def check_depth(value: object, most: int = NESTED_LIMIT) -> None:
    """Raises HTTPError (400) if arrays and objects are nested deeper than that."""
    try:
        validation.check_depth(value, most)
    except Invalid as error:
        raise bad(error.text) from None


def convert(value: dict[str, Any], body: type[msgspec.Struct]) -> msgspec.Struct:
    """Return the body as an instance of its struct. Raises HTTPError (400) with RabbitMQ's reason."""
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
    """Return the missing keys of a body as Erlang prints them."""
    terms = [f"{{key_missing,{name}}}" for name in names]
    line = f"[{','.join(terms)}]"
    return line if len(line) < LINE else "[" + ",\n ".join(terms) + "]"


def check_type(expected: Any, value: object) -> None:
    """Check a boolean or an integer, which may be optional. Raises HTTPError (400)."""
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


# Arguments of declarations and headers of messages

Arguments = dict[str, Any] | list[Any] | None


def table_of(arguments: Arguments) -> Table:
    """Return the arguments as an AMQP table. Raises HTTPError (400), Invalid."""
    if arguments is None:
        return Table.EMPTY
    if has_null(arguments):
        raise bad("null_not_allowed")
    return table_of_json(arguments)


def has_null(value: object) -> bool:
    """True if the value contains a null at any depth."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one is None:
            return True
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return False
