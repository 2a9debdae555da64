"""A broker with very many objects of each kind, and the requests of the HTTP API about them."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.http import Api, asgi_scope
from tests.support.prepared import IT, prepare, readable
from warren.broker.amqp.field_table import Table
from warren.broker.core.access.passwords import SHA256, hash_password
from warren.plugins.management.api.trace import trace
from warren.plugins.management.api.warren import stream_events, stream_log
from warren.plugins.management.framework.router import Route

from .broker import fill
from .meter import MANY

FEW = MANY // 10  # of what takes long to make, and of which nobody has more
STREAMS = (stream_events, stream_log, trace)


def crowded(folder: Path) -> Api:
    """Return the API of a broker with an object for each route, and very many others.

    These are queues with a binding of the same exchange each, users, exchanges, and messages of one queue.
    """
    api = Api()
    prepare(api, folder)
    node = api.peer.node
    vhost = node.vhosts["/"]
    for number in range(MANY):
        queue = vhost.declare_queue(f"q{number}")
        vhost.bind(IT, queue, f"k{number % FEW}", Table.EMPTY)
    password_hash = hash_password("x", os.urandom(4), SHA256)
    for number in range(FEW):
        node.users.add(f"u{number}", password_hash, (), SHA256)
        node.users.set_permission(f"u{number}", "/", "", "", "")
        vhost.declare_exchange(f"x{number}", "fanout")
    fill(api.peer, IT, MANY)
    return api


def readable_and_finite() -> list[Route]:
    """Return a route of each handler that reads and comes to an end."""
    by_handler = {route.handler: route for route in reversed(readable())}
    return [route for handler, route in by_handler.items() if handler not in STREAMS]


class Reader:
    """A client that reads from an application. `pieces` are the parts of the body of the last answer."""

    def __init__(self, application: Any) -> None:
        self.statuses: list[int] = []  # of all answers
        self.pieces: list[bytes] = []
        self._application = application

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    async def read(self, path: str, user: str = "guest", headers: Mapping[str, str] | None = None) -> None:
        scope, _ = asgi_scope("GET", path, user=user, headers=headers)
        await self._application(scope, stay, self._take)

    async def _take(self, event: Any) -> None:
        if "status" in event:
            self.statuses.append(event["status"])
            self.pieces = []
        else:
            self.pieces.append(event["body"])


async def stay() -> dict[str, Any]:
    """The client waits for the end of its answer."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError
