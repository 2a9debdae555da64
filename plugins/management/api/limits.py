"""Routes for the limits of virtual hosts and users."""

from typing import Any

import msgspec

from warren.broker.core.policies.limits import NAME, VHOST_LIMITS
from warren.broker.plugin import User, VHost

from ...http.auth import ADMIN, ANY, OWN, VISIBLE
from ...http.responses import Response, bad, done
from ..framework.pagination import Item, Listing
from ..framework.request import Request
from ..framework.router import route
from .users import check_protected, find_user


class LimitBody(msgspec.Struct):
    """A negative limit is none. The broker checks the value, with RabbitMQ's error texts."""

    value: Any


class VHostLimits(msgspec.Struct):
    """The limits of a virtual host."""

    vhost: str
    value: dict[str, object]


class UserLimits(msgspec.Struct):
    """The limits of a user."""

    user: str
    value: dict[str, int]


def of_vhost(request: Request, vhost: VHost) -> Item:
    """Return the limits of a virtual host."""
    limits = request.node.parameters.get(vhost.name, VHOST_LIMITS, NAME)
    return dict(limits) if isinstance(limits, dict) else {}


@route("GET", VISIBLE, "/vhost-limits/{vhost}")
@route("GET", ANY, "/vhost-limits")
def list_limits_of_vhosts(request: Request) -> Listing[VHostLimits]:
    """List the limits of the virtual hosts that the user sees."""
    vhosts = [vhost for vhost in request.visible_vhosts() if of_vhost(request, vhost)]
    return Listing(vhosts, lambda vhost: VHostLimits(vhost.name, of_vhost(request, vhost)))


@route("PUT", ADMIN, "/vhost-limits/{vhost}/{limit}")
def put_limit_of_vhost(request: Request, body: LimitBody) -> Response[None]:
    """Set one limit of a virtual host."""
    vhost = request.path_vhost()
    limits = of_vhost(request, vhost) | {request.path["limit"]: body.value}
    request.node.limits.set_vhost(vhost.name, limits)
    return done()


@route("DELETE", ADMIN, "/vhost-limits/{vhost}/{limit}")
def delete_limit_of_vhost(request: Request) -> Response[None]:
    """Clear one limit of a virtual host; it need not be set."""
    vhost, limit = request.path_vhost(), request.path["limit"]
    limits = {key: value for key, value in of_vhost(request, vhost).items() if key != limit}
    if limits:
        request.node.limits.set_vhost(vhost.name, limits)
    else:
        request.node.limits.clear_vhost(vhost.name)
    return done()


def user_limits_view(user: User) -> UserLimits:
    return UserLimits(user.name, dict(user.limits))


@route("GET", ADMIN, "/user-limits")
def list_limits_of_users(request: Request) -> Listing[UserLimits]:
    """List the limits of all users."""
    users = [user for user in request.node.users.unsorted() if user.limits]
    return Listing(users, user_limits_view, order=lambda user: user.name)


@route("GET", OWN, "/user-limits/{user}")
def list_limits_of_user(request: Request) -> Listing[UserLimits]:
    """Return the limits of one user."""
    request.check_owner(request.node.users.get(request.path["user"]))
    user = find_user(request)
    return Listing([user] if user.limits else [], user_limits_view)


@route("PUT", ADMIN, "/user-limits/{user}/{limit}")
def put_limit_of_user(request: Request, body: LimitBody) -> Response[None]:
    """Set one limit of a user."""
    user = request.node.users.get(request.path["user"])
    if user is None:
        raise bad(["no_such_user", request.path["user"]])
    check_protected(request, user)
    request.node.limits.set_user(user.name, {request.path["limit"]: body.value})
    return done()


@route("DELETE", ADMIN, "/user-limits/{user}/{limit}")
def delete_limit_of_user(request: Request) -> Response[None]:
    """Clear one limit of a user; it need not be set."""
    user = find_user(request)
    check_protected(request, user)
    request.node.limits.clear_user(user.name, request.path["limit"])
    return done()
