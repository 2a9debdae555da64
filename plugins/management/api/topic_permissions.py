"""Routes for topic permissions: the routing keys of topic exchanges that users may write and read."""

from __future__ import annotations

import msgspec

from warren.broker.core.access.permissions import TopicPermission
from warren.broker.plugin import User

from ...http.auth import ADMIN
from ...http.responses import Response, done, missing, put
from ..framework.pagination import Item, Listing
from ..framework.request import Request
from ..framework.router import Route
from .permissions import check_place
from .users import find_user


class TopicPatterns(msgspec.Struct):
    exchange: str
    write: str
    read: str


Row = tuple[User, str, str, TopicPermission]  # user, virtual host, exchange, permission


def topic_permission_view(row: Row) -> Item:
    user, vhost, exchange, given = row
    return {"user": user.name, "vhost": vhost, "exchange": exchange, "write": given.write, "read": given.read}


def of_user(user: User, vhost: str | None = None) -> list[Row]:
    return [
        (user, at, exchange, given)
        for (at, exchange), given in sorted(user.topic_permissions.items())
        if vhost in (None, at)
    ]


async def list_topic_permissions(request: Request) -> Listing[Row]:
    """List the topic permissions of all users."""
    rows = [row async for user in request.in_slices(request.node.users.unsorted()) for row in of_user(user)]
    return Listing(rows, topic_permission_view, order=place)


def place(row: Row) -> tuple[str, str, str]:
    return row[1], row[0].name, row[2]


def list_topic_permissions_of_user(request: Request) -> Listing[Row]:
    """List the topic permissions of one user."""
    return Listing(of_user(find_user(request)), topic_permission_view)


async def list_topic_permissions_in_vhost(request: Request) -> Listing[Row]:
    """List the topic permissions in one virtual host."""
    vhost = request.path_vhost().name
    rows = [row async for user in request.in_slices(request.node.users.unsorted()) for row in of_user(user, vhost)]
    return Listing(rows, topic_permission_view, order=place)


def rows_of(request: Request) -> list[Row]:
    """Return the topic permissions in the path. Raises HTTPError (404) if there are none."""
    rows = of_user(find_user(request), request.path_vhost().name)
    if "exchange" in request.path:
        rows = [row for row in rows if row[2] == request.exchange_name()]
    if not rows:
        raise missing()
    return rows


def get_topic_permissions(request: Request) -> Listing[Row]:
    """List the topic permissions of a user in a virtual host."""
    return Listing(rows_of(request), topic_permission_view)


def put_topic_permission(request: Request) -> Response:
    """Set the topic permission of a user for an exchange."""
    user, vhost = check_place(request)
    given: TopicPatterns = request.body
    existed = (vhost, given.exchange) in user.topic_permissions
    request.node.users.set_topic_permission(user.name, vhost, given.exchange, given.write, given.read)
    return put(existed)


def delete_topic_permissions(request: Request) -> Response:
    """Clear the topic permissions of a user in a virtual host, or the one for an exchange."""
    for user, vhost, exchange, _ in rows_of(request):
        request.node.users.clear_topic_permission(user.name, vhost, exchange)
    return done()


ROUTES = (
    Route("GET", "/topic-permissions", ADMIN, list_topic_permissions),
    Route("GET", "/topic-permissions/{vhost}/{user}", ADMIN, get_topic_permissions),
    Route("PUT", "/topic-permissions/{at}/{user}", ADMIN, put_topic_permission, TopicPatterns),
    Route("DELETE", "/topic-permissions/{vhost}/{user}", ADMIN, delete_topic_permissions),
    Route("DELETE", "/topic-permissions/{vhost}/{user}/{exchange}", ADMIN, delete_topic_permissions),
    Route("GET", "/users/{user}/topic-permissions", ADMIN, list_topic_permissions_of_user),
    Route("GET", "/vhosts/{vhost}/topic-permissions", ADMIN, list_topic_permissions_in_vhost),
)
