"""The same requests to a RabbitMQ, where WARREN_PEER_API names its API, as http://guest:guest@127.0.0.1:15672/api."""

import base64
import json
import os
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.http import Api

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


def ask(method: str, path: str, body: object) -> tuple[int, bytes, str | None]:
    at = urlsplit(PEER)
    pair = base64.b64encode(f"{at.username}:{at.password}".encode()).decode()
    octets = None if body is None else json.dumps(body).encode()
    url = f"{at.scheme}://{at.hostname}:{at.port}{at.path}{path}"
    headers = {"Authorization": f"Basic {pair}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, octets, headers, method=method)) as answer:
            return answer.status, answer.read(), answer.headers.get("location")
    except urllib.error.HTTPError as error:
        return error.code, error.read(), None


@pytest.mark.skipif(not PEER, reason="no RabbitMQ is named")
def test_a_dialogue_about_objects_goes_as_with_rabbitmq(api: Api) -> None:
    for method, path, body in DIALOGUE:
        status, octets, location = ask(method, path, body)
        answer = api.request(method, path, body)
        assert (answer.status, answer.headers.get("location")) == (status, location), (method, path)
        if octets:
            assert answer.json == json.loads(octets), (method, path)
