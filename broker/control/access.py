"""Permissions."""

from __future__ import annotations

from .answers import Rows, unknown_user, unknown_vhost
from .call import Call, Handler

RIGHTS = ["configure", "write", "read"]


def set_permissions(call: Call) -> None:
    user, configure, write, read = call.arguments
    check(call, user)
    call.node.users.set_permission(user, call.vhost_name, configure, write, read)


def check(call: Call, user: str) -> None:
    """Raises Refused (67, 69)."""
    if call.node.users.get(user) is None:
        raise unknown_user(user)
    if call.vhost_name not in call.node.vhosts:
        raise unknown_vhost(call.vhost_name)


def set_permissions_globally(call: Call) -> None:
    user, configure, write, read = call.arguments
    call.user(user)
    for vhost in list(call.node.vhosts):
        call.node.users.set_permission(user, vhost, configure, write, read)


def clear_permissions(call: Call) -> None:
    """A user or a virtual host that there is not has no permissions, and that is fine, as in RabbitMQ."""
    (user,) = call.arguments
    if call.node.users.get(user) is not None and call.vhost_name in call.node.vhosts:
        call.node.users.clear_permission(user, call.vhost_name)


def list_permissions(call: Call) -> Rows:
    vhost = call.vhost().name
    found = [(user.name, user.permissions[vhost]) for user in call.node.users.all() if vhost in user.permissions]
    return Rows(["user", *RIGHTS], ([user, one.configure, one.write, one.read] for user, one in found))


def list_user_permissions(call: Call) -> Rows:
    found = sorted(call.user(call.arguments[0]).permissions.items())
    return Rows(["vhost", *RIGHTS], ([vhost, one.configure, one.write, one.read] for vhost, one in found))


def set_topic_permissions(call: Call) -> None:
    user, exchange, write, read = call.arguments
    check(call, user)
    call.node.users.set_topic_permission(user, call.vhost_name, exchange, write, read)


def clear_topic_permissions(call: Call) -> None:
    user, *exchange = call.arguments
    call.user(user)
    call.node.users.clear_topic_permission(user, call.vhost().name, exchange[0] if exchange else None)


def list_topic_permissions(call: Call) -> Rows:
    here = call.vhost().name
    rows = [
        [user.name, exchange, one.write, one.read]
        for user in call.node.users.all()
        for (vhost, exchange), one in sorted(user.topic_permissions.items())
        if vhost == here
    ]
    return Rows(["user", "exchange", "write", "read"], rows)


def list_user_topic_permissions(call: Call) -> Rows:
    found = sorted(call.user(call.arguments[0]).topic_permissions.items())
    rows = ([vhost, exchange, one.write, one.read] for (vhost, exchange), one in found)
    return Rows(["vhost", "exchange", "write", "read"], rows)


COMMANDS: dict[str, Handler] = {
    "set_permissions": set_permissions,
    "set_permissions_globally": set_permissions_globally,
    "clear_permissions": clear_permissions,
    "list_permissions": list_permissions,
    "list_user_permissions": list_user_permissions,
    "set_topic_permissions": set_topic_permissions,
    "clear_topic_permissions": clear_topic_permissions,
    "list_topic_permissions": list_topic_permissions,
    "list_user_topic_permissions": list_user_topic_permissions,
}
