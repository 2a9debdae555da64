"""Routes for topic permissions: the routing keys of topic exchanges that users may write and read."""

from __future__ import annotations

from collections.abc import AsyncIterator

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


async def of_user(request: Request, user: User, vhost: str | None = None) -> AsyncIterator[Row]:
    """Yield the topic permissions of a user in slices, but for those in deleted virtual hosts."""
    vhosts = request.node.vhosts
    async for (at, exchange), given in request.in_slices(list(user.topic_permissions.items())):
        if vhost in (None, at) and at in vhosts:
            yield user, at, exchange, given


async def of_users(request: Request, vhost: str | None = None) -> Listing[Row]:
    users = request.in_slices(request.node.users.unsorted())
    rows = [row async for user in users async for row in of_user(request, user, vhost)]
    return Listing(rows, topic_permission_view, order=place)


async def list_topic_permissions(request: Request) -> Listing[Row]:
    """List the topic permissions of all users."""
    return await of_users(request)


def place(row: Row) -> tuple[str, str, str]:
    return row[1], row[0].name, row[2]


async def list_topic_permissions_of_user(request: Request) -> Listing[Row]:
    """List the topic permissions of one user."""
    rows = [row async for row in of_user(request, find_user(request))]
    return Listing(rows, topic_permission_view, order=place)


async def list_topic_permissions_in_vhost(request: Request) -> Listing[Row]:
    """List the topic permissions in one virtual host."""
    return await of_users(request, request.path_vhost().name)


async def get_topic_permissions(request: Request) -> Listing[Row]:
    """List the topic permissions of a user in a virtual host."""
    rows = [row async for row in of_user(request, find_user(request), request.path_vhost().name)]
    if not rows:
        raise missing()
    return Listing(rows, topic_permission_view, order=place)


def put_topic_permission(request: Request) -> Response:
    """Set the topic permission of a user for an exchange."""
    user, vhost = check_place(request)
    given: TopicPatterns = request.body
    existed = (vhost, given.exchange) in user.topic_permissions
    request.node.users.set_topic_permission(user.name, vhost, given.exchange, given.write, given.read)
    return put(existed)


async def delete_topic_permissions(request: Request) -> Response:
    """Clear the topic permissions of a user in a virtual host, or the one for an exchange."""
    known, user, vhost = request.node.users, find_user(request), request.path_vhost().name
    exchange = request.exchange_name() if "exchange" in request.path else None
    if not any(at == vhost and exchange in (None, each) for at, each in user.topic_permissions):
        raise missing()
    if exchange is not None:
        with request.acting():
            known.clear_topic_permission(user.name, vhost, exchange)
    else:
        await request.carry_out(known.drop_topic_permissions(user, vhost))
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
