"""Routes for permissions."""

from __future__ import annotations

import msgspec

from warren.broker.core.access.permissions import Permission
from warren.broker.plugin import User

from ...http.auth import ADMIN
from ...http.responses import Response, bad, done, missing, ok, put
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import Route
from .users import compiled, find_user


class Patterns(msgspec.Struct):
    configure: str
    write: str
    read: str


class PermissionView(msgspec.Struct):
    """The permission of a user in a virtual host."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


Row = tuple[User, str, Permission]  # user, virtual host, permission


def permission_view(row: Row) -> PermissionView:
    user, vhost, given = row
    return PermissionView(user.name, vhost, given.configure, given.write, given.read)


def of_user(request: Request, user: User) -> list[Row]:
    """Return the permissions of a user, but for those in deleted virtual hosts, which are deleted in steps."""
    vhosts = request.node.vhosts
    return [(user, vhost, given) for vhost, given in sorted(user.permissions.items()) if vhost in vhosts]


async def list_permissions(request: Request) -> Listing[PermissionView]:
    """List the permissions of all users."""
    rows = [row async for user in request.in_slices(request.node.users.unsorted()) for row in of_user(request, user)]
    return Listing(rows, permission_view, order=place)


def place(row: Row) -> tuple[str, str]:
    return row[1], row[0].name


def list_permissions_of_user(request: Request) -> Listing[PermissionView]:
    """List the permissions of one user."""
    return Listing(of_user(request, find_user(request)), permission_view)


async def list_permissions_in_vhost(request: Request) -> Listing[PermissionView]:
    """List the permissions in one virtual host."""
    vhost = request.path_vhost().name
    users = request.in_slices(request.node.users.unsorted())
    rows = [row async for user in users for row in of_user(request, user) if row[1] == vhost]
    return Listing(rows, permission_view, order=place)


def row_of(request: Request) -> Row:
    """Return the permission in the path. Raises HTTPError (404)."""
    user, vhost = find_user(request), request.path_vhost().name
    given = user.permissions.get(vhost)
    if given is None:
        raise missing()
    return user, vhost, given


def get_permission(request: Request) -> Response[PermissionView]:
    """Return the permission of a user in a virtual host."""
    return ok(permission_view(row_of(request)))


def check_place(request: Request) -> tuple[User, str]:
    """Return user and virtual host. Raises HTTPError (400)."""
    user, vhost = request.node.users.get(request.path["user"]), request.path["at"]
    if user is None or vhost not in request.node.vhosts:
        raise bad("vhost_or_user_not_found")
    return user, vhost


async def put_permission(request: Request) -> Response[None]:
    """Set the permission of a user in a virtual host."""
    check_place(request)
    given: Patterns = request.body
    permission = await compiled(request, Permission, given.configure, given.write, given.read)
    user, vhost = check_place(request)
    existed = vhost in user.permissions
    with request.acting():
        request.node.users.give(user.name, vhost, permission)
    return put(existed)


def delete_permission(request: Request) -> Response[None]:
    """Clear the permission of a user in a virtual host."""
    user, vhost, _ = row_of(request)
    request.node.users.clear_permission(user.name, vhost)
    return done()


ROUTES = (
    Route("GET", "/permissions", ADMIN, list_permissions),
    Route("GET", "/permissions/{vhost}/{user}", ADMIN, get_permission),
    Route("PUT", "/permissions/{at}/{user}", ADMIN, put_permission, Patterns),
    Route("DELETE", "/permissions/{vhost}/{user}", ADMIN, delete_permission),
    Route("GET", "/users/{user}/permissions", ADMIN, list_permissions_of_user),
    Route("GET", "/vhosts/{vhost}/permissions", ADMIN, list_permissions_in_vhost),
)
