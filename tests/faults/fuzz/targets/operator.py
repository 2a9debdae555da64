"""The input of operators and HTTP clients: configuration, definitions, requests, regular expressions."""

import json

from h11 import (
    NEED_DATA,
    PAUSED,
    SERVER,
    Connection,
    ConnectionClosed,
    Data,
    EndOfMessage,
    RemoteProtocolError,
    Request,
)

from tests.support.checkout import ROOT
from tests.support.definitions import DEFINITIONS
from tests.support.hashing import FakeHashing
from tests.support.http import Api
from tests.support.session import new_node
from warren.broker.amqp.errors import OperatorError
from warren.broker.config import Config, ConfigError, rabbitmq_conf, toml
from warren.broker.config.builder import ConfigBuilder
from warren.broker.core.definitions.exporter import export_definitions
from warren.broker.core.definitions.importer import import_definitions
from warren.broker.core.metadata.patterns import Pattern, query_pattern
from warren.plugins.http.h11_input import StrictBuffer
from warren.plugins.http.responses import HTTPError
from warren.plugins.management.framework.bodies import decode

from .target import Target, Turn, pieces

START_MS = 500.0  # before the broker serves anybody
SEARCH_MS = 1000.0  # as in test_patterns.py
NAMES = ("", "a" * 255, "ab" * 127, "a" * 254 + "!")
BOTH = {b"content-length", b"transfer-encoding"}
METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS")


def read_configuration(data: bytes, turn: Turn) -> None:
    """A file in either format is a configuration or an error of one line."""
    text = data.decode("utf-8", "replace")
    for settings in (lambda: rabbitmq_conf.parse(text, "file", {}), lambda: toml.parse(text, "file")):
        builder = ConfigBuilder()
        try:
            builder.add_all(settings())
            builder.config(Config())
        except ConfigError as error:
            assert "\n" not in str(error)
        turn()


def read_definitions(data: bytes, turn: Turn) -> None:
    """A document is imported as a whole or refused; what was imported can be exported and imported again."""
    node = new_node(hashing=FakeHashing())
    turn()
    try:
        import_definitions(node, decode(data))
    except (OperatorError, HTTPError):
        return
    document = json.loads(json.dumps(export_definitions(node)))
    import_definitions(new_node(), document)


def read_head(data: bytes, turn: Turn) -> None:
    """A request that is accepted has lines that end with CR LF, and names its length once."""
    connection = Connection(SERVER)
    connection._receive_buffer = StrictBuffer()
    fed = b""
    for part in pieces(data):
        try:
            connection.receive_data(part)
            fed += part
            while (event := connection.next_event()) not in (NEED_DATA, PAUSED):
                if isinstance(event, Request):
                    names = {name for name, _ in event.headers}
                    assert not names >= BOTH
                    head = fed.lstrip(b"\r\n").partition(b"\r\n\r\n")[0]
                    assert head.count(b"\n") == head.count(b"\r\n")
                elif not isinstance(event, Data | EndOfMessage) or isinstance(event, ConnectionClosed):
                    return
                elif isinstance(event, EndOfMessage):
                    return  # the bytes of the next request are not told from these
        except RemoteProtocolError:
            return
        turn()


def serve_request(data: bytes, turn: Turn) -> None:
    """A request of an administrator is answered, and never with 500.

    Its first byte is the method; the rest of the first line is the path with its query, all else the body.
    """
    line, _, body = data.partition(b"\n")
    method = METHODS[line[0] % len(METHODS)] if line else "GET"
    api = Api()
    api.peer.node.users.hashing = FakeHashing()
    turn()
    path = line[1:].decode("ascii", "replace").replace("\ufffd", "%FF").lstrip("/")
    response = api.request(method, f"/{path}", body)
    assert response.status < 500 or response.status == 503, (response.status, response.body)
    if "json" in response.headers.get("content-type", "") and response.body:
        _ = response.json
    assert api.request("GET", "/definitions").status == 200


def search_names(data: bytes, turn: Turn) -> None:
    """A pattern is refused, or compiles and searches within its bounds."""
    text = data.decode("utf-8", "replace")
    for kind in (Pattern, query_pattern):
        try:
            pattern = kind(text)
        except OperatorError:
            continue
        for name in NAMES:
            pattern.matches(name)


def request(method: str, path: str, body: object = None) -> bytes:
    return (
        bytes((METHODS.index(method),)) + path.encode() + b"\n" + (b"" if body is None else json.dumps(body).encode())
    )


CONFIGURATION = Target(
    "configuration",
    read_configuration,
    [
        b"listeners.tcp.1 = 127.0.0.1:5672\nheartbeat = 60 # s\nlog.console.level = 'info'",
        b"vm_memory_high_watermark.absolute = 2GB",
        b'[listeners.tcp]\n1 = 5672\n[default_user_tags]\nadministrator = true\n[log]\nconsole.level = "info"',
        b"a = " + b"[" * 3000,
        b"[a" + b".a" * 1900 + b"]\nb = 1",
        b"heartbeat = 0x" + b"f" * 4000,
        *[line.lstrip(b"# ") for line in (ROOT / "docker/rabbitmq.conf.example").read_bytes().splitlines()][3:60:8],
    ],
    turn_ms=START_MS,
)
DOCUMENT = Target("definitions", read_definitions, [json.dumps(DEFINITIONS, separators=(",", ":")).encode()], 8192)
HEADS = Target(
    "http_heads",
    read_head,
    [
        b"\0GET /api/queues?page=1 HTTP/1.1\r\nhost: a\r\nauthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n",
        b"\1\5PUT /api/vhosts/v HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}",
        b"\2\2\1POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ],
)
REQUESTS = Target(
    "http_requests",
    serve_request,
    [
        request("GET", "/queues?page=1&page_size=5&name=a.*&use_regex=true&sort=name&sort_reverse=true&columns=name"),
        request("GET", "/nodes/node?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5"),
        request("PUT", "/queues/%2F/q", {"durable": True, "arguments": {"x-max-length": 5, "x-message-ttl": 100}}),
        request("PUT", "/exchanges/%2F/e", {"type": "topic", "auto_delete": "true", "arguments": {}}),
        request("POST", "/bindings/%2F/e/amq.topic/e/amq.fanout", {"routing_key": "a.#", "arguments": {"x": [1.5]}}),
        request("POST", "/exchanges/%2F/amq.default/publish",
                {"properties": {"headers": {"a": 1}, "delivery_mode": 2}, "routing_key": "q", "payload": "YQ==",
                 "payload_encoding": "base64"}),
        request("POST", "/queues/%2F/q/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
        request("PUT", "/policies/%2F/p", {"pattern": "^a", "definition": {"max-length": 5}, "apply-to": "queues"}),
        request("PUT", "/parameters/federation-upstream/%2F/u", {"value": {"uri": "amqp://a", "max-hops": 2}}),
        request("PUT", "/users/u", {"password": "p", "tags": "administrator"}),
        request("PUT", "/permissions/%2F/guest", {"configure": ".*", "write": "", "read": "a"}),
        request("PUT", "/vhost-limits/%2F/max-queues", {"value": 5}),
        request("PUT", "/vhosts/v", {"description": "d", "tags": ["a"], "default_queue_type": "classic"}),
        request("POST", "/definitions", {"queues": [{"name": "q", "vhost": "/", "durable": True}]}),
        request("DELETE", "/bindings/%2F/e/amq.topic/q/q/a.%23~abc"),
    ],
    1024,
)  # fmt: skip
PATTERNS = Target(
    "patterns",
    search_names,
    [rb"^(a|b)+\.[[:alpha:]]{2,9}$", rb"(?i)a*?(?=b)\p{L}[^\]x]\Qa.b\E", b"(a+)+!"],
    256,
    SEARCH_MS,
)
