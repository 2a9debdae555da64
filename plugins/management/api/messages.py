"""Routes that publish a message and get messages."""

import asyncio
import base64
import binascii
import codecs
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from warren.broker.amqp.table_json import json_of_table
from warren.broker.plugin import AMQPError, Properties, Queue, Unreadable
from warren.broker.session.management_channel import FetchedMessage

from ...http.auth import VHOST
from ...http.responses import HTTPError, Pieces, Response, bad, existing, json_of, ok
from ..framework.bodies import CostlyBody, table_of
from ..framework.pagination import Item
from ..framework.request import Request
from ..framework.router import route
from .queues import until_resumed

PUBLISH_BYTES = 5 << 20  # of a message to publish; decoding its JSON keeps the interpreter, in a thread too
MESSAGES_LIMIT = 5_000  # of one response; they are requeued in one turn of the loop
BODIES_BYTES = 16 << 20  # of the messages in one response; a single message may be larger
ANSWER_BYTES = 4 * BODIES_BYTES  # of JSON, in case the first messages are larger than the average
SLICE_MESSAGES = 20  # taken in one turn of the loop
GET_S = 30.0  # after which a get ends; a request that takes REQUEST_S is answered with an error
SLICE_BYTES = 192 << 10  # of a body encoded in one turn of the loop; a multiple of 3 for base64
NUMBERS = ("delivery_mode", "priority", "timestamp")
TEXTS = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type"),
    *("user_id", "app_id", "cluster_id"),
)
TAKEN, DROPPED = "ack_requeue_false", "reject_requeue_false"
GIVEN_BACK, FAILED = "ack_requeue_true", "reject_requeue_true"
ACK_MODES = (TAKEN, DROPPED, GIVEN_BACK, FAILED)


class Publish(CostlyBody):
    """A message. `prepare` replaces the payload by its bytes."""

    long_field = "payload"

    routing_key: str
    properties: dict[str, Any] | list[Any]
    payload: Any
    payload_encoding: str

    def prepare(self) -> None:
        self.payload = payload_of(self)


class Get(msgspec.Struct):
    ackmode: str
    count: Annotated[int, msgspec.Meta(ge=0)]
    encoding: str
    truncate: Annotated[int, msgspec.Meta(ge=0)] | None = None


# Publish


@route("POST", VHOST, "/exchanges/{vhost}/{exchange}/publish", body_limit=PUBLISH_BYTES)
async def publish(request: Request, body: Publish) -> Response[dict[str, bool]]:
    """Publish a message; `routed` is true if a queue matched."""
    name = request.exchange_name()
    existing(request.path_vhost().exchanges.get(name), "exchange_not_found")
    acting = request.host.acting
    with request.sliced_channel() as channel:
        try:
            with acting(request.user.name):
                properties = properties_of(body.properties)
                outcome = channel.publish(name, body.routing_key, properties, body.payload, in_slices=True)
        except AMQPError as error:
            raise bad(f"{error.code} {error.reply_text}") from None
        while channel.busy:
            await request.complete(request.host.jobs_go_on())
            with acting(request.user.name):
                outcome = channel.outcome()
    if outcome.refused:
        raise bad("rejected Unable to publish message. Check queue limits.")
    return ok({"routed": outcome.routed})


def payload_of(body: Publish) -> bytes:
    """Return the decoded payload. Raises HTTPError (400)."""
    if not isinstance(body.payload, str):
        raise bad("payload_not_string")
    if body.payload_encoding == "string":
        return body.payload.encode("utf-8", "surrogateescape")
    if body.payload_encoding != "base64":
        raise bad(["unsupported_encoding", body.payload_encoding])
    try:
        return base64.b64decode(body.payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad(["not_base64", body.payload]) from None


def properties_of(given: dict[str, Any] | list[Any]) -> Properties:
    """Return the properties; unknown keys are ignored. Raises HTTPError (400), AMQPError if one is too long."""
    properties = Properties()
    if not isinstance(given, dict):
        if given:
            raise bad("properties should be a map")
        return properties
    for names, kind, refusal in ((NUMBERS, int, "not_int"), (TEXTS, str, "not_string")):
        for name in names:
            if name in given:
                if type(given[name]) is not kind:
                    raise bad([refusal, name])
                setattr(properties, name, given[name])
    if "headers" in given:
        properties.headers = table_of(given["headers"])
    return properties


# Get


@route("POST", VHOST, "/queues/{vhost}/{queue}/get", durable=False)
async def get(request: Request, body: Get) -> Response[None]:
    """Get messages and settle them as `ackmode` says.

    Messages that were taken from the queue for good are returned, whatever ends the get after them.
    """
    if body.ackmode not in ACK_MODES:
        raise bad(f"ackmode should be one of {', '.join(ACK_MODES)}")
    if body.encoding not in ("auto", "base64"):
        raise bad("Unsupported encoding. Please use auto or base64.")
    await request.wait(request.unread.room())
    queue = existing(request.path_vhost().queues.get(request.path["queue"]), "queue_not_found")
    check_size(queue, body)
    parts: list[bytes] = []
    size = 0
    loop = asyncio.get_running_loop()
    until = loop.time() + GET_S
    with request.sliced_channel() as channel:
        for number in range(body.count):
            kept = bool(parts) and body.ackmode == TAKEN
            try:
                if number and number % SLICE_MESSAGES == 0:
                    await request.wait(asyncio.sleep(0))
                async with asyncio.timeout_at(until if kept else None):
                    await until_resumed(request, queue)
                request.authorize()  # as long messages are encoded in several turns
                request.unread.check()
                with request.host.acting(request.user.name):
                    taken = channel.get(queue.name, 1, no_ack=body.ackmode == TAKEN)
            except (AMQPError, HTTPError, TimeoutError) as error:
                if not parts or not (kept or isinstance(error, Unreadable)):
                    raise
                break  # the messages taken so far are returned
            if not taken:
                break
            before = len(parts)
            parts.append(b"[" if number == 0 else b",")
            for part in document_of(taken[0], body):
                parts.append(part)
                if len(part) >= SLICE_BYTES:
                    await request.complete(asyncio.sleep(0))
            size += sum(map(len, parts[before:]))
            request.unread.resize(size, refuse=False)
            if size > ANSWER_BYTES or body.ackmode == TAKEN and loop.time() > until:
                break
        if body.ackmode != TAKEN:
            request.authorize()
        with request.host.acting(request.user.name):
            if body.ackmode == DROPPED:
                channel.reject()
            elif body.ackmode != TAKEN:
                channel.give_back(failed=body.ackmode == FAILED)
    return Response(200, Pieces([*parts, b"]"] if parts else [b"[]"]))


def check_size(queue: Queue, asked: Get) -> None:
    """Raises HTTPError (400), before any message is taken, if the response would be too long.

    The sizes of messages on disk are not known in memory, so the average of the ready messages is used; if the first
    messages are much larger, the response ends with the message that passes ANSWER_BYTES.
    """
    if asked.count > MESSAGES_LIMIT:
        raise bad(f"count should be at most {MESSAGES_LIMIT}, actually was {asked.count}")
    count = min(asked.count, queue.ready)
    if count < 2:
        return
    each = queue.ready_bytes // queue.ready
    if asked.truncate is not None:
        each = min(each, asked.truncate)
    if count * each > BODIES_BYTES:
        raise bad(
            f"{count} messages of {each} bytes are more than the {BODIES_BYTES} bytes of an answer: "
            "get fewer at a time, or truncate them"
        )


def document_of(got: FetchedMessage, asked: Get) -> Iterator[bytes]:
    """Yield the JSON of a message in parts of about SLICE_BYTES at most."""
    message = got.message
    item = {
        "payload_bytes": message.body_bytes,
        "redelivered": got.redelivered,
        "exchange": message.address.exchange,
        "routing_key": message.address.routing_key,
        "message_count": got.left,
        "properties": json_of_properties(message.properties) or [],  # an empty list, as from Erlang
    }
    yield json_of(item)[:-1] + b',"payload":"'
    payload = message.body[: asked.truncate]
    encoding = "string" if asked.encoding == "auto" and is_text(payload) else "base64"
    if encoding == "string":
        decoder = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(payload), SLICE_BYTES):
            yield json_of(decoder.decode(payload[start : start + SLICE_BYTES]))[1:-1]
    else:
        for start in range(0, len(payload), SLICE_BYTES):
            yield binascii.b2a_base64(payload[start : start + SLICE_BYTES], newline=False)
    yield f'","payload_encoding":"{encoding}"}}'.encode()


def is_text(body: bytes) -> bool:
    """True if the payload is UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def json_of_properties(properties: Properties) -> Item:
    """Return the properties that are set."""
    item: Item = {name: getattr(properties, name) for name in (*NUMBERS, *TEXTS)}
    item["headers"] = json_of_table(properties.headers) if properties.headers is not None else None
    return {name: value for name, value in item.items() if value is not None}
