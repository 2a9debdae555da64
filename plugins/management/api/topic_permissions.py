"""Routes for topic permissions: the routing keys of topic exchanges that users may write and read."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from warren.broker.core.access.permissions import TopicPermission
from warren.broker.plugin import Node, User

from ...http.auth import ADMIN
from ...http.responses import Response, done, missing, put
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import Route
from .permissions import check_place
from .users import compiled, find_user


class TopicPatterns(msgspec.Struct):
    exchange: str
    write: str
    read: str


class TopicPermissionView(msgspec.Struct):
    """The routing keys of a topic exchange that a user may write and read."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


Row = tuple[User, str, str, TopicPermission]  # user, virtual host, exchange, permission


def topic_permission_view(row: Row) -> TopicPermissionView:
    user, vhost, exchange, given = row
    return TopicPermissionView(user.name, vhost, exchange, given.write, given.read)


def of_user(node: Node, user: User, vhost: str | None = None) -> Iterator[Row]:
    """Yield the topic permissions of a user, but for those in deleted virtual hosts. They may change meanwhile."""
    for at in list(user.topic_permissions) if vhost is None else [vhost]:
        if at in node.vhosts:
            there = user.topic_permissions.get(at, {})
            for exchange in list(there):  # without an object for each
                given = there.get(exchange)
                if given is not None:
                    yield user, at, exchange, given


async def of_users(request: Request, vhost: str | None = None) -> Listing[TopicPermissionView]:
    node = request.node
    users = request.in_slices(node.users.unsorted())
    rows = [row async for user in users async for row in request.in_slices(of_user(node, user, vhost))]
    return Listing(rows, topic_permission_view, order=place)


async def list_topic_permissions(request: Request) -> Listing[TopicPermissionView]:
    """List the topic permissions of all users."""
    return await of_users(request)


def place(row: Row) -> tuple[str, str, str]:
    return row[1], row[0].name, row[2]


async def list_topic_permissions_of_user(request: Request) -> Listing[TopicPermissionView]:
    """List the topic permissions of one user."""
    rows = [row async for row in request.in_slices(of_user(request.node, find_user(request)))]
    return Listing(rows, topic_permission_view, order=place)


async def list_topic_permissions_in_vhost(request: Request) -> Listing[TopicPermissionView]:
    """List the topic permissions in one virtual host."""
    return await of_users(request, request.path_vhost().name)


async def get_topic_permissions(request: Request) -> Listing[TopicPermissionView]:
    """List the topic permissions of a user in a virtual host."""
    user, vhost = find_user(request), request.path_vhost().name
    rows = [row async for row in request.in_slices(of_user(request.node, user, vhost))]
    if not rows:
        raise missing()
    return Listing(rows, topic_permission_view, order=place)


async def put_topic_permission(request: Request) -> Response[None]:
    """Set the topic permission of a user for an exchange."""
    user, vhost = check_place(request)
    given: TopicPatterns = request.body
    permission = await compiled(request, TopicPermission, user.name, vhost, given.write, given.read)
    user, vhost = check_place(request)
    existed = given.exchange in user.topic_permissions.get(vhost, ())
    with request.acting():
        request.node.users.give_topic(user.name, vhost, given.exchange, permission)
    return put(existed)


async def delete_topic_permissions(request: Request) -> Response[None]:
    """Clear the topic permissions of a user in a virtual host, or the one for an exchange."""
    known, user, vhost = request.node.users, find_user(request), request.path_vhost().name
    exchange = request.exchange_name() if "exchange" in request.path else None
    there = user.topic_permissions.get(vhost, {})
    if not there if exchange is None else exchange not in there:
        raise missing()
    if exchange is None:
        await request.carry_out(known.drop_topic_permissions(user, vhost))
    else:
        with request.acting():
            known.clear_topic_permission(user.name, vhost, exchange)
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
