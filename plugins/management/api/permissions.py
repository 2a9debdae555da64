"""Routes for permissions, and for topic permissions: routing keys of topic exchanges that users may write and read."""

from collections.abc import Iterator

import msgspec

from warren.broker.core.access.permissions import Permission, TopicPermission
from warren.broker.plugin import Node, User

from ...http.auth import ADMIN
from ...http.responses import Response, bad, done, existing, missing, ok, put
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route
from .users import compiled, find_user


class Patterns(msgspec.Struct):
    configure: str
    write: str
    read: str


class TopicPatterns(msgspec.Struct):
    exchange: str
    write: str
    read: str


class PermissionView(msgspec.Struct):
    """The permission of a user in a virtual host."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionView(msgspec.Struct):
    """The permission of a user for a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


def permission_view(user: User, vhost: str, given: Permission) -> PermissionView:
    return PermissionView(user.name, vhost, given.configure, given.write, given.read)


def of_user(node: Node, user: User, vhost: str | None = None) -> list[PermissionView]:
    """Return the permissions of a user, but for those in deleted virtual hosts, which are deleted in steps."""
    permissions = [(at, user.permissions.get(at)) for at in (user.permissions if vhost is None else [vhost])]
    return [permission_view(user, at, one) for at, one in permissions if one is not None and at in node.vhosts]


def topics_of_user(node: Node, user: User, vhost: str | None = None) -> Iterator[TopicPermissionView]:
    """Yield the topic permissions of a user, but for those in deleted virtual hosts. They may change meanwhile."""
    for at in list(user.topic_permissions) if vhost is None else [vhost]:
        if at in node.vhosts:
            there = user.topic_permissions.get(at, {})
            for exchange in list(there):  # without an object for each
                permission = there.get(exchange)
                if permission is not None:
                    yield TopicPermissionView(user.name, at, exchange, permission.write, permission.read)


def users_and_vhost(request: Request) -> tuple[list[User], str | None]:
    """Return the users and the virtual host of a list: those in the path, or all users and None."""
    users = [find_user(request)] if "user" in request.path else request.node.users.unsorted()
    return users, request.path_vhost().name if request.vhost is not None else None


@route("GET", ADMIN, "/permissions", "/users/{user}/permissions", "/vhosts/{vhost}/permissions")
async def list_permissions(request: Request) -> Listing[PermissionView]:
    """List the permissions of all users, of one user, or in one virtual host."""
    users, vhost = users_and_vhost(request)
    views = [view async for user in request.in_slices(users) for view in of_user(request.node, user, vhost)]
    return Listing(views, lambda view: view, order=lambda view: (view.vhost, view.user))


def find_permission(request: Request) -> tuple[User, str, Permission]:
    """Return the permission in the path, with user and virtual host. Raises HTTPError (404)."""
    user, vhost = find_user(request), request.path_vhost().name
    return user, vhost, existing(user.permissions.get(vhost))


@route("GET", ADMIN, "/permissions/{vhost}/{user}")
def get_permission(request: Request) -> Response[PermissionView]:
    """Return the permission of a user in a virtual host."""
    return ok(permission_view(*find_permission(request)))


def check_place(request: Request) -> tuple[User, str]:
    """Return user and virtual host. Raises HTTPError (400)."""
    user, vhost = request.node.users.get(request.path["user"]), request.path["at"]
    if user is None or vhost not in request.node.vhosts:
        raise bad("vhost_or_user_not_found")
    return user, vhost


@route("PUT", ADMIN, "/permissions/{at}/{user}")
async def put_permission(request: Request, body: Patterns) -> Response[None]:
    """Set the permission of a user in a virtual host."""
    check_place(request)
    permission = await compiled(request, Permission, body.configure, body.write, body.read)
    user, vhost = check_place(request)
    existed = vhost in user.permissions
    with request.acting():
        request.node.users.give(user.name, vhost, permission)
    return put(existed)


@route("DELETE", ADMIN, "/permissions/{vhost}/{user}")
def delete_permission(request: Request) -> Response[None]:
    """Clear the permission of a user in a virtual host."""
    user, vhost, _ = find_permission(request)
    request.node.users.clear_permission(user.name, vhost)
    return done()


@route("GET", ADMIN, "/topic-permissions", "/topic-permissions/{vhost}/{user}")
@route("GET", ADMIN, "/users/{user}/topic-permissions", "/vhosts/{vhost}/topic-permissions")
async def list_topic_permissions(request: Request) -> Listing[TopicPermissionView]:
    """List the topic permissions of all users or of one user, in all virtual hosts or in one."""
    node, (users, vhost) = request.node, users_and_vhost(request)
    every = (view for user in users for view in topics_of_user(node, user, vhost))
    views = [view async for view in request.in_slices(every)]
    if not views and "user" in request.path and vhost is not None:
        raise missing()
    return Listing(views, lambda view: view, order=lambda view: (view.vhost, view.user, view.exchange))


@route("PUT", ADMIN, "/topic-permissions/{at}/{user}")
async def put_topic_permission(request: Request, body: TopicPatterns) -> Response[None]:
    """Set the topic permission of a user for an exchange."""
    user, vhost = check_place(request)
    permission = await compiled(request, TopicPermission, user.name, vhost, body.write, body.read)
    user, vhost = check_place(request)
    existed = body.exchange in user.topic_permissions.get(vhost, ())
    with request.acting():
        request.node.users.give_topic(user.name, vhost, body.exchange, permission)
    return put(existed)


@route("DELETE", ADMIN, "/topic-permissions/{vhost}/{user}", "/topic-permissions/{vhost}/{user}/{exchange}")
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
