"""No body of a request holds the loop, whatever JSON a user with any tag sends in it."""

import pytest

from tests.support.http import Api, request
from tests.support.speed import within
from warren.plugins.management.api import routes
from warren.plugins.management.api.definitions import post_definitions
from warren.plugins.management.api.messages import PUBLISH_BYTES

from .meter import TURN_MS, Meter

PUBLISH = "/exchanges/%2F/amq.default/publish"
TEXT = b'"routing_key": "q", "payload_encoding": "string"'
SHAPES = {"arrays": b"[],", "objects": b"{},", "numbers": b"1,", "nested": b"[", "fields": b'"k":1,'}


def filled(head: bytes, piece: bytes, tail: bytes, size: int) -> bytes:
    return head + piece * ((size - len(head) - len(tail)) // len(piece)) + tail


def body(shape: str, field: bytes, size: int, more: bytes = b"") -> bytes:
    """An object in which this field is very long."""
    piece = SHAPES[shape]
    if shape == "fields":
        return filled(b"{" + more + b'"' + field + b'": {', piece, b'"k":1}}', size)
    return filled(b"{" + more + b'"' + field + b'": [', piece, b"1]}", size)


REQUESTS: list[tuple[str, str, bytes, bytes, int]] = [
    ("PUT", "/queues/%2F/q", b"arguments", b"", 64 << 10),
    ("PUT", "/exchanges/%2F/x", b"arguments", b'"type": "topic",', 64 << 10),
    ("PUT", "/queues/%2F/q", b"unknown", b"", 64 << 10),
    ("PUT", "/policies/%2F/p", b"definition", b'"pattern": "",', 1 << 20),
    ("PUT", "/parameters/federation-upstream/%2F/u", b"value", b"", 1 << 20),
    ("PUT", "/parameters/federation-upstream-set/%2F/u", b"value", b"", 1 << 20),
    ("PUT", "/global-parameters/p", b"value", b"", 1 << 20),
    ("POST", PUBLISH, b"properties", TEXT + b', "payload": "",', PUBLISH_BYTES),
    ("POST", PUBLISH, b"payload", TEXT + b', "properties": {},', PUBLISH_BYTES),
    ("POST", PUBLISH, b"unknown", TEXT + b', "properties": {}, "payload": "",', PUBLISH_BYTES),
]


def longest_ms(api: Api, meter: Meter, method: str, path: str, content: bytes) -> float:
    async def send() -> None:
        response = await request(api.application, method, path, content)
        assert response.status in (200, 201, 204, 400), response.body

    return meter.longest_ms(send)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("method", "path", "field", "more", "size"), REQUESTS, ids=lambda value: str(value)[:40])
def test_a_long_body_holds_no_turn(
    api: Api, meter: Meter, shape: str, method: str, path: str, field: bytes, more: bytes, size: int
) -> None:
    for length in (size, 64 << 10):
        assert within(longest_ms(api, meter, method, path, body(shape, field, length, more)), TURN_MS)


@pytest.mark.parametrize("piece", [b"x", "é".encode(), b"\\u00e9", b"\\n"])
@pytest.mark.parametrize("encoding", [b"string", b"base64"])
def test_a_long_payload_holds_no_turn(api: Api, meter: Meter, piece: bytes, encoding: bytes) -> None:
    head = b'{"properties": {}, "routing_key": "q", "payload_encoding": "' + encoding + b'", "payload": "'
    assert within(longest_ms(api, meter, "POST", PUBLISH, filled(head, piece, b'"}', PUBLISH_BYTES)), TURN_MS)


def test_only_administrators_send_bodies_as_long_as_the_configuration_allows() -> None:
    long = [route for route in routes().all if route.body is not None and route.body_limit is None]
    assert {route.handler for route in long} >= {post_definitions}
    assert {repr(route.guard) for route in long} == {repr(next(iter(long)).guard)}
