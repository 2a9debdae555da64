"""Requests to the HTTP API: over a socket to any server, or in this process through the whole application.

`HTTPClient` does the first, `Api` the second; both return a `Response`.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import gzip
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from warren.broker.config import HTTPListener, SSLOptions
from warren.plugins.http.asgi import Incoming
from warren.plugins.http.lazy_listener import HTTPApp, HTTPListeners
from warren.plugins.management.dispatcher import application
from warren.plugins.management.framework.state import ManagementState
from warren.plugins.management.stats.sampler import Sampler

from .in_process import InProcessPeer, new_host

PATIENCE_S = 60.0


@asynccontextmanager
async def serving(api: Api, served: str | Callable[[], ASGIApp], **keys: Any) -> AsyncIterator[int]:
    """Serve a text or an application at a port of this machine, which is returned; `keys` are those of the listener."""
    make = served if callable(served) else lambda: PlainTextResponse(served)
    listeners, nowhere = HTTPListeners(api.host, HTTPApp("greeter", "http/greeting", "json", make)), HTTPListener()
    await listeners.open(HTTPListener(port=0, **keys), nowhere, SSLOptions(), nowhere)
    (listening,) = api.host.listening()
    yield listening.port
    await listeners.close()


class Response:
    """A response. `headers` have lower case names; `body` is not compressed any more."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:1000]!r}"

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def error(self) -> tuple[int, str, Any]:
        """Status, error and reason."""
        return self.status, self.json["error"], self.json["reason"]


class Requests:
    """Requests by method. `path` is what follows /api; `more` are further arguments of `request`."""

    request: Callable[..., Response]

    def get(self, path: str, **more: Any) -> Response:
        return self.request("GET", path, **more)

    def put(self, path: str, body: object = None, **more: Any) -> Response:
        return self.request("PUT", path, {} if body is None else body, **more)

    def post(self, path: str, body: object = None, **more: Any) -> Response:
        return self.request("POST", path, {} if body is None else body, **more)

    def delete(self, path: str, **more: Any) -> Response:
        return self.request("DELETE", path, **more)

    def publish(self, queue: str, *payloads: str, **properties: Any) -> None:
        """Publish messages with these properties to a queue of the virtual host `/`."""
        for payload in payloads:
            body = {"routing_key": queue, "properties": properties, "payload": payload, "payload_encoding": "string"}
            assert self.post("/exchanges/%2F/amq.default/publish", body).json == {"routed": True}

    def messages(self, queue: str, count: int = 100) -> Any:
        """Return messages of a queue of the virtual host `/`, which stay there."""
        body = {"count": count, "ackmode": "ack_requeue_true", "encoding": "auto"}
        return self.post(f"/queues/%2F/{queue}/get", body).json


class HTTPClient(Requests):
    """Requests to a server that listens on `address`, with TLS if there is a context, each by a connection of its own.

    A path is what follows `base`.
    """

    def __init__(self, address: str, base: str = "/api", tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self._base = base
        self._tls = tls

    def connect(self) -> http.client.HTTPConnection:
        """A connection, for tests of the connection itself."""
        if self._tls is not None:
            return http.client.HTTPSConnection(self.address, timeout=PATIENCE_S, context=self._tls)
        return http.client.HTTPConnection(self.address, timeout=PATIENCE_S)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        user: str | None = "guest",
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """A body that is not bytes is sent as JSON; the password is the name unless given. Raises OSError."""
        sent = request_headers(user, password, headers)
        encoded = None if body is None else request_body(body)
        if encoded is not None and not isinstance(body, bytes):
            sent.setdefault("content-type", "application/json")
        with closing(self.connect()) as connection:
            connection.request(method, self._base + path, encoded, sent)
            response = connection.getresponse()
            received = {name.lower(): text for name, text in response.getheaders()}
            return Response(response.status, received, response.read())


def basic(user: str, password: str | None = None) -> str:
    """The header `authorization` of a user, whose password is the name unless given."""
    pair = f"{user}:{user if password is None else password}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def request_headers(
    user: str | None = "guest", password: str | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """These headers with lower case names, and the credentials of the user, if any, where they are not among them."""
    sent = {name.lower(): text for name, text in (headers or {}).items()}
    if user is not None:
        sent.setdefault("authorization", basic(user, password))
    return sent


def request_body(body: object) -> bytes:
    """The bytes of a body: as they are, nothing for None, and JSON for everything else."""
    return body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()


def asgi_scope(
    method: str,
    path: str,
    body: object = None,
    user: str | None = "guest",
    password: str | None = None,
    headers: Mapping[str, str] | None = None,
    address: str = "127.0.0.1",
    scheme: str = "http",
) -> tuple[dict[str, Any], bytes]:
    """A request from that address as ASGI has it, and its body. A body that is not bytes is sent as JSON.

    The path is one of the HTTP API, or one that begins with /metrics.
    """
    sent, encoded = request_headers(user, password, headers), request_body(body)
    sent.setdefault("content-length", str(len(encoded)))
    raw_path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "scheme": scheme,
        "method": method,
        "raw_path": ("" if raw_path.startswith("/metrics") else "/api").encode() + raw_path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), text.encode()) for name, text in sent.items()],
        "client": (address, 50000),
        "server": ("127.0.0.1", 15672),
    }
    return scope, encoded


async def never(event: object = None) -> Any:
    raise AssertionError("nothing is received or sent")


def incoming_of(receive: Callable[[], Awaitable[dict[str, Any]]] = never, user: str = "") -> Incoming:
    """A request of that user, who has logged in unless it is empty."""
    incoming = Incoming(asgi_scope("GET", "/")[0], receive, never)
    incoming.user = user
    return incoming


async def call_application(
    application: Any, scope: dict[str, Any], body: bytes, before: Callable[[], None] = lambda: None
) -> Response:
    """Return the response of an ASGI application; `before` is called when it asks for the body."""
    events: list[Any] = []

    taken = False

    async def receive() -> dict[str, Any]:
        nonlocal taken
        if taken:  # the client stays until it is answered
            await asyncio.get_running_loop().create_future()
        taken = True
        before()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(event: Any) -> None:
        events.append(event)

    await application(scope, receive, send)
    headers = {name.decode(): text.decode() for name, text in events[0]["headers"]}
    return Response(events[0]["status"], headers, b"".join(event.get("body", b"") for event in events[1:]))


def request(
    application: Any, method: str, path: str, body: object = None, address: str = "127.0.0.1"
) -> Awaitable[Response]:
    """The response to a request of the user guest."""
    return call_application(application, *asgi_scope(method, path, body, address=address))


class Api(Requests):
    """The HTTP API of a broker in this process, without sockets: of `peer`, or of a broker of its own.

    `management` are keys of `management.*` with other values than the default ones.
    """

    def __init__(self, peer: InProcessPeer | None = None, **management: Any) -> None:
        self.peer = peer or InProcessPeer()
        if management:
            self.peer.settings(management=dataclasses.replace(self.peer.config.management, **management))
        self.host = new_host(self.peer.node, self.peer.config, self.peer.server)
        self.state = ManagementState(self.host)
        self._changes: list[Callable[[], object]] = []
        self.application = application(self.host, self.state)

    def sample(self) -> None:
        """Take a sample of all counters."""
        more, watermarks = self.state.more_samples, self.state.watermarks
        sampler = Sampler(self.host.node, self.state.samples, self.host.connections, more=more, watermarks=watermarks)
        list(sampler.sample_all(self.peer.clock.now_ms()))

    def while_waiting(self, change: Callable[[], object]) -> None:
        """Call this once, while the body of the next request that has one is awaited."""
        self._changes.append(change)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        user: str | None = "guest",
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
        scheme: str = "http",
    ) -> Response:
        """A body that is not bytes is sent as JSON; the password is the name unless given."""
        scope, encoded = asgi_scope(method, path, body, user, password, headers, address, scheme)
        response = asyncio.run(call_application(self.application, scope, encoded, self._change))
        self.peer.settle()
        return response

    def _change(self) -> None:
        while self._changes:
            self._changes.pop()()

    def close(self) -> None:
        self.peer.close()
