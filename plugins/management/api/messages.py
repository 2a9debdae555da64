"""Messages: publish one to an exchange, get some out of a queue (spec/operator.md 1.8)."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

import msgspec

from broker.plugin import AMQPError, Got, Properties, json_of_table

from ..access import VHOST
from ..answers import Answer, bad, found, not_found
from ..arguments import table_of
from ..lists import Item
from ..request import Request
from ..routes import Route

NUMBERS = ("delivery_mode", "priority", "timestamp")
TEXTS = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type"),
    *("user_id", "app_id", "cluster_id"),
)
TAKEN, DROPPED = "ack_requeue_false", "reject_requeue_false"
GIVEN_BACK, FAILED = "ack_requeue_true", "reject_requeue_true"
ACK_MODES = (TAKEN, DROPPED, GIVEN_BACK, FAILED)


class Publish(msgspec.Struct):
    routing_key: str
    properties: dict[str, Any] | list[Any]
    payload: Any
    payload_encoding: str


class Get(msgspec.Struct):
    ackmode: str
    count: Annotated[int, msgspec.Meta(ge=0)]
    encoding: str
    truncate: Annotated[int, msgspec.Meta(ge=0)] | None = None


# Publish


def publish(request: Request) -> Answer:
    """Publish a message; `routed` says whether a queue was to have it."""
    body: Publish = request.body
    name = request.exchange_name()
    if name not in request.here().exchanges:
        raise not_found("exchange_not_found")
    payload = payload_of(body)
    try:
        outcome = request.channel().publish(name, body.routing_key, properties_of(body.properties), payload)
    except AMQPError as error:
        raise bad(f"{error.code} {error.reply_text}") from None
    if outcome.refused:
        raise bad("rejected Unable to publish message. Check queue limits.")
    return found({"routed": outcome.routed})


def payload_of(body: Publish) -> bytes:
    """Raises Refusal (400)."""
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
    """Raises Refusal (400); AMQPError where one is too long or too large. What is no property is not looked at."""
    properties = Properties()
    if not isinstance(given, dict):
        if given:
            raise bad("properties should be a map")
        return properties
    for name in NUMBERS:
        if name in given:
            if type(given[name]) is not int:
                raise bad(["not_int", name])
            setattr(properties, name, given[name])
    for name in TEXTS:
        if name in given:
            if not isinstance(given[name], str):
                raise bad(["not_string", name])
            setattr(properties, name, given[name])
    if "headers" in given:
        properties.headers = table_of(given["headers"])
    return properties


# Get


def get(request: Request) -> Answer:
    """Get messages, and say what is to become of them."""
    body: Get = request.body
    if body.ackmode not in ACK_MODES:
        raise bad(f"ackmode should be one of {', '.join(ACK_MODES)}")
    if body.encoding not in ("auto", "base64"):
        raise bad("Unsupported encoding. Please use auto or base64.")
    name = request.path["queue"]
    if name not in request.here().queues:
        raise not_found("queue_not_found")
    channel = request.channel()
    messages = channel.get(name, body.count, body.ackmode == TAKEN)
    documents = [described(got, body) for got in messages]
    if body.ackmode == DROPPED:
        channel.reject()
    elif body.ackmode != TAKEN:
        channel.give_back(failed=body.ackmode == FAILED)
    return found(documents)


def described(got: Got, asked: Get) -> Item:
    message = got.message
    payload, encoding = payload_as(message.body[: asked.truncate], asked.encoding)
    return {
        "payload_bytes": message.body_bytes,
        "redelivered": got.redelivered,
        "exchange": message.address.exchange,
        "routing_key": message.address.routing_key,
        "message_count": got.left,
        "properties": json_of_properties(message.properties),
        "payload": payload,
        "payload_encoding": encoding,
    }


def payload_as(octets: bytes, encoding: str) -> tuple[str, str]:
    """`auto` is text wherever it can be."""
    if encoding == "auto":
        try:
            return octets.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(octets).decode("ascii"), "base64"


def json_of_properties(properties: Properties) -> Item:
    """Those that are set."""
    item: Item = {name: getattr(properties, name) for name in (*NUMBERS, *TEXTS)}
    item["headers"] = json_of_table(properties.headers) if properties.headers is not None else None
    return {name: value for name, value in item.items() if value is not None}


ROUTES = (
    Route("POST", "/exchanges/{vhost}/{exchange}/publish", VHOST, publish, Publish),
    Route("POST", "/queues/{vhost}/{queue}/get", VHOST, get, Get),
)
