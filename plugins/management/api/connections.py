"""Routes for connections."""

import asyncio
from typing import Any

from warren.broker.plugin import User
from warren.broker.session.connection import Connection

from ...http.auth import ANY, OWN, VHOST
from ...http.responses import Response, done, missing, ok
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route
from ..views.connection import OF_TLS, ConnectionIdentity, ConnectionView, connection_identity, connection_view
from ..views.stats import RequestStats

REASON = "Closed via management plugin"
CLOSED_AT_ONCE = 100  # closing them takes some milliseconds


@route("GET", ANY, "/connections")
@route("GET", VHOST, "/vhosts/{vhost}/connections")
def list_connections(request: Request) -> Listing[ConnectionView]:
    """List the connections that the user may see, or those of them to one virtual host."""
    stats = RequestStats(request)
    return Listing(open_connections(request), lambda one: connection_view(stats, one), lambda one: one.name)


@route("GET", OWN, "/connections/username/{user}")
def list_of_user(request: Request) -> Listing[ConnectionIdentity]:
    """List the connections of one user."""
    user = user_of(request)
    own = [one for one in open_connections(request) if user is not None and one.user is user]
    return Listing(own, connection_identity, lambda one: one.name)


@route("GET", OWN, "/connections/{name}")
async def get_connection(request: Request) -> Response[ConnectionView]:
    """Return one connection."""
    item: Any = connection_view(RequestStats(request), await connection_of(request))
    return ok(item | {name: item[name] or "" for name in OF_TLS})


@route("DELETE", OWN, "/connections/{name}")
async def delete_connection(request: Request) -> Response[None]:
    """Close a connection, with the text of the header X-Reason."""
    connection = await connection_of(request)
    with request.acting():
        request.host.close_connection(connection, reason_of(request))
    return done()


@route("DELETE", OWN, "/connections/username/{user}")
async def delete_of_user(request: Request) -> Response[None]:
    """Close all connections of one user, in slices."""
    user = user_of(request)
    own = [one for one in request.host.connections() if user is not None and one.user is user]
    for start in range(0, len(own), CLOSED_AT_ONCE):
        if start:
            await request.complete(asyncio.sleep(0))
        with request.acting():
            for connection in own[start : start + CLOSED_AT_ONCE]:
                request.host.close_connection(connection, reason_of(request))
    return done()


def reason_of(request: Request) -> str:
    """Return X-Reason as UTF-8; headers have been decoded as Latin-1."""
    return request.incoming.headers.get("x-reason", "").encode("latin-1").decode("utf-8", "replace") or REASON


def open_connections(request: Request) -> list[Connection]:
    """Return the connections that have opened the virtual host in the path, or any if the path has none."""
    vhost = request.vhost
    opened = (one for one in request.connections() if one.vhost is not None and vhost in (None, one.vhost))
    return sorted(opened, key=lambda one: one.name)


async def connection_of(request: Request) -> Connection:
    """Return the connection in the path, which is searched for in slices. Raises HTTPError (401, 404)."""
    async for connection in request.in_slices(request.host.connections()):
        if connection.name == request.path["name"] and connection.vhost is not None:
            request.check_owner(connection.user)
            return connection
    raise missing()


def user_of(request: Request) -> User | None:
    """Return the user in the path, or None. Raises HTTPError (401)."""
    user = request.node.users.get(request.path["user"])
    request.check_owner(user)
    return user
