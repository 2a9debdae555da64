"""A broker with very many objects of each kind, and the requests of the HTTP API about them."""

import asyncio
import os
from typing import Any

from tests.support.http import Api, asgi_scope
from warren.broker.amqp.field_table import Table
from warren.broker.core.access.passwords import SHA256, hash_password
from warren.plugins.http.auth import LOCAL
from warren.plugins.management.api import routes
from warren.plugins.management.api.trace import trace
from warren.plugins.management.api.warren import stream_events, stream_log
from warren.plugins.management.framework.router import Route

from .broker import fill

OBJECTS = 100_000
MESSAGES = 100_000
FEW = 10_000  # of what takes long to make, and of which nobody has more
STREAMS = (stream_events, stream_log, trace)
VALUES = {
    "vhost": "%2F", "name": "q0", "queue": "q0", "exchange": "amq.topic", "source": "amq.topic", "destination": "q0",
    "e": "amq.topic", "q": "q0", "user": "guest", "username": "guest", "node": "rabbit@localhost", "props": "k0",
}  # fmt: skip


def crowded() -> Api:
    """Queues with a binding each, users, and one queue with many messages."""
    api = Api()
    node = api.peer.node
    vhost = node.vhosts["/"]
    for number in range(OBJECTS):
        queue = vhost.declare_queue(f"q{number}")
        vhost.bind("amq.topic", queue, f"k{number % FEW}", Table.EMPTY)
    password_hash = hash_password("x", os.urandom(4), SHA256)
    for number in range(FEW):
        node.users.add(f"u{number}", password_hash, (), SHA256)
        node.users.set_permission(f"u{number}", "/", "", "", "")
        vhost.declare_exchange(f"x{number}", "fanout")
    fill(api.peer, "q0", MESSAGES)
    return api


def readable() -> list[Route]:
    """A route of each handler that a user reaches and that comes to an end."""
    by_handler = {route.handler: route for route in reversed(routes().all) if route.method == "GET"}
    return [route for route in by_handler.values() if route.handler not in STREAMS and route.guard is not LOCAL]


class Reader:
    """A client of the API, which `keeps` the bodies of answers or does not: those about a crowd are long."""

    def __init__(self, api: Api, keeps: bool = False) -> None:
        self.status = 0
        self.body = b""
        self._application = api.application
        self._keeps = keeps

    async def read(self, path: str) -> None:
        scope, _ = asgi_scope("GET", path)
        await self._application(scope, stay, self._take)

    async def _take(self, event: Any) -> None:
        if "status" in event:
            self.status, self.body = event["status"], b""
        elif self._keeps:
            self.body += event["body"]


async def stay() -> dict[str, Any]:
    """The client waits for the end of its answer."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def path_of(route: Route) -> str:
    return "/" + "/".join(VALUES.get(part.strip(":{}"), part) if part[:1] in ":{" else part for part in route.segments)
