"""The HTTP API of a broker in this process: requests go through the whole application, and no socket."""

import asyncio
import base64
import gzip
import http.client
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from warren.broker.app.build import build_settings
from warren.broker.hosting.host import Host
from warren.broker.net.tls import TLS
from warren.broker.runtime.resource_monitor import Resources
from warren.plugins.management.application import application
from warren.plugins.management.context import State

from .in_process import InProcessPeer

PATIENCE_S = 60.0
UNTIL_S = 20.0


class Response:
    """`headers` have lower case names; `body` is not compressed any more."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, Any]:
        """Status, error and reason."""
        return self.status, self.json["error"], self.json["reason"]


def scope_of(
    method: str,
    path: str,
    body: object = None,
    user: str | None = "guest",
    password: str | None = None,
    headers: Mapping[str, str] | None = None,
    address: str = "127.0.0.1",
) -> tuple[dict[str, Any], bytes]:
    """A request as ASGI has it, and its body. A body that is not octets is sent as JSON."""
    sent = {name.lower(): text for name, text in (headers or {}).items()}
    if user is not None:
        pair = f"{user}:{user if password is None else password}"
        sent.setdefault("authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    octets = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    sent.setdefault("content-length", str(len(octets)))
    raw_path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "raw_path": b"/api" + raw_path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), text.encode()) for name, text in sent.items()],
        "client": (address, 50000),
        "server": ("127.0.0.1", 15672),
    }
    return scope, octets


async def answered(
    application: Any, scope: dict[str, Any], octets: bytes, before: Callable[[], None] = lambda: None
) -> Response:
    """What the application says; `before` is called when it wants the body."""
    events: list[Any] = []

    taken = False

    async def receive() -> dict[str, Any]:
        nonlocal taken
        if taken:  # the client stays until it is answered
            await asyncio.get_running_loop().create_future()
        taken = True
        before()
        return {"type": "http.request", "body": octets, "more_body": False}

    async def send(event: Any) -> None:
        events.append(event)

    await application(scope, receive, send)
    headers = {name.decode(): text.decode() for name, text in events[0]["headers"]}
    return Response(events[0]["status"], headers, b"".join(event.get("body", b"") for event in events[1:]))


def request(
    application: Any, method: str, path: str, body: object = None, address: str = "127.0.0.1"
) -> Awaitable[Response]:
    """The response to a request of the user guest."""
    return answered(application, *scope_of(method, path, body, address=address))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that no event tells of."""
    async with asyncio.timeout(UNTIL_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def asked(address: str, method: str, path: str, body: object = None, user: str = "guest") -> tuple[int, str]:
    """Of a server that listens there: status and body of the answer. The password is the name. Raises OSError."""
    credentials = base64.b64encode(f"{user}:{user}".encode()).decode()
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    try:
        octets = None if body is None else json.dumps(body)
        connection.request(method, path, octets, {"Authorization": f"Basic {credentials}"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


class Api:
    """Of a broker of its own, `peer`, unless one is given. Users are guest unless a request names another."""

    def __init__(self, peer: InProcessPeer | None = None) -> None:
        self.peer = peer or InProcessPeer()
        node, config = self.peer.node, self.peer.config
        resources = Resources(node.alarms, lambda: 1 << 40, lambda: None, lambda: 1 << 20, 1 << 30)

        def no_tls(options: object) -> TLS:
            raise ValueError("no certificates here")

        self.host = Host(node, config, build_settings(config), self.peer.server, resources, no_tls, [])
        self.state = State(self.host)
        self._changes: list[Callable[[], object]] = []
        self.application = application(self.host, self.state)

    def while_waiting(self, change: Callable[[], object]) -> None:
        """Do this once, while the body of the next request that has one is awaited."""
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
    ) -> Response:
        """`path` comes after /api. A body that is not octets is sent as JSON. The password is the name unless given."""
        scope, octets = scope_of(method, path, body, user, password, headers, address)
        response = asyncio.run(answered(self.application, scope, octets, self._change))
        self.peer.settle()
        return response

    def _change(self) -> None:
        while self._changes:
            self._changes.pop()()

    def get(self, path: str, **more: Any) -> Response:
        return self.request("GET", path, **more)

    def put(self, path: str, body: object = None, **more: Any) -> Response:
        return self.request("PUT", path, {} if body is None else body, **more)

    def post(self, path: str, body: object = None, **more: Any) -> Response:
        return self.request("POST", path, {} if body is None else body, **more)

    def delete(self, path: str, **more: Any) -> Response:
        return self.request("DELETE", path, **more)

    def close(self) -> None:
        self.peer.close()
