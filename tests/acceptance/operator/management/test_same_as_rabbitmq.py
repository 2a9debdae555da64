"""The same requests to a RabbitMQ, if WARREN_PEER_API names one, such as http://guest:guest@127.0.0.1:15672/api."""

import os
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.http import Api, HTTPClient

PEER = os.environ.get("WARREN_PEER_API", "")
QUEUE, EXCHANGE = "/queues/%2F/like-q", "/exchanges/%2F/like-e"
BINDING = "/bindings/%2F/e/like-e/q/like-q"
PUBLISH = "/exchanges/%2F/amq.default/publish"
MESSAGE = {"properties": {"headers": {"a": 1}}, "routing_key": "like-q", "payload": "x", "payload_encoding": "string"}
DIALOGUE: list[tuple[str, str, Any]] = [
    ("PUT", QUEUE, {"durable": True}),
    ("PUT", QUEUE, {"durable": False}),
    ("PUT", QUEUE, {"durable": True}),
    ("PUT", EXCHANGE, {"type": "topic"}),
    ("PUT", EXCHANGE, {"type": "fanout"}),
    ("PUT", "/exchanges/%2F/like-x", {"type": "nope"}),
    ("PUT", "/queues/%2F/amq.like", {}),
    ("POST", BINDING, {"routing_key": "a~b c/d"}),
    ("GET", f"{BINDING}/a%257Eb%2Bc%252Fd", None),
    ("POST", "/bindings/%2F/e/amq.default/q/like-q", {}),
    ("DELETE", "/bindings/%2F/e/amq.default/q/like-q/like-q", None),
    ("POST", PUBLISH, MESSAGE),
    ("POST", PUBLISH, MESSAGE | {"payload": 5}),
    ("POST", PUBLISH, {key: value for key, value in MESSAGE.items() if key != "payload"}),
    ("POST", f"{QUEUE}/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    ("GET", f"{QUEUE}/bindings", None),
    ("DELETE", f"{QUEUE}?if-empty=true", None),
    ("DELETE", f"{QUEUE}/contents", None),
    ("DELETE", f"{EXCHANGE}?if-unused=true", None),
    ("DELETE", EXCHANGE, None),
    ("DELETE", EXCHANGE, None),
    ("DELETE", QUEUE, None),
    ("GET", QUEUE, None),
]


@pytest.mark.skipif(not PEER, reason="no RabbitMQ is named")
def test_a_dialogue_about_objects_is_as_with_rabbitmq(api: Api) -> None:
    url = urlsplit(PEER)
    peer = HTTPClient(f"{url.hostname}:{url.port}", url.path)
    for method, path, body in DIALOGUE:
        expected = peer.request(method, path, body, url.username, url.password)
        answer = api.request(method, path, body)
        status, location = expected.status, expected.headers.get("location")
        assert (answer.status, answer.headers.get("location")) == (status, location), (method, path)
        if expected.body:
            assert answer.json == expected.json, (method, path)
