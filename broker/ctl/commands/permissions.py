"""Commands for permissions."""

from __future__ import annotations

from ..answers import Rows, no_user, unknown_user, unknown_vhost
from ..api_client import NotFound
from .call import Call, Handler, Item

RIGHTS = ("configure", "write", "read")
TOPIC_RIGHTS = ("exchange", "write", "read")


def patterns(names: tuple[str, ...], values: list[str]) -> dict[str, str]:
    return dict(zip(names, values, strict=True))


def set_permissions(call: Call) -> None:
    user, *values = call.arguments
    check(call, user)
    call.api.put("permissions", call.vhost_name, user, body=patterns(RIGHTS, values))


def check(call: Call, user: str) -> None:
    """Check that the user and the virtual host exist. Raises CommandError (67, 69)."""
    check_user(call, user)
    if call.find("vhosts", call.vhost_name) is None:
        raise unknown_vhost(call.vhost_name)


def check_user(call: Call, user: str) -> None:
    """Check that the user exists. Raises CommandError (67)."""
    if call.find("users", user) is None:
        raise unknown_user(user)


def set_permissions_globally(call: Call) -> None:
    user, *values = call.arguments
    call.user(user)
    for vhost in call.api.get("vhosts", columns="name"):
        call.api.put("permissions", vhost["name"], user, body=patterns(RIGHTS, values))


def clear_permissions(call: Call) -> None:
    """Clear permissions; an unknown user or virtual host is no error, as in RabbitMQ."""
    user = call.arguments[0]
    if call.find("permissions", call.vhost_name, user) is not None:
        call.api.delete("permissions", call.vhost_name, user)


def rows(found: list[Item], columns: tuple[str, ...]) -> Rows:
    return Rows(list(columns), ([one[column] for column in columns] for one in found))


def list_permissions(call: Call) -> Rows:
    call.vhost()
    return rows(call.api.get("vhosts", call.vhost_name, "permissions"), ("user", *RIGHTS))


def of_user(call: Call, what: str) -> list[Item]:
    """Return the permissions of the user. Raises CommandError (67)."""
    user = call.arguments[0]
    try:
        found: list[Item] = call.api.get("users", user, what)
    except NotFound:
        raise no_user(user) from None
    return found


def list_user_permissions(call: Call) -> Rows:
    return rows(of_user(call, "permissions"), ("vhost", *RIGHTS))


def set_topic_permissions(call: Call) -> None:
    user, *values = call.arguments
    check(call, user)
    call.api.put("topic-permissions", call.vhost_name, user, body=patterns(TOPIC_RIGHTS, values))


def clear_topic_permissions(call: Call) -> None:
    user, *exchange = call.arguments
    call.user(user)
    call.vhost()
    try:
        call.api.delete("topic-permissions", call.vhost_name, user, *exchange)
    except NotFound:
        return  # the user has none


def list_topic_permissions(call: Call) -> Rows:
    call.vhost()
    return rows(call.api.get("vhosts", call.vhost_name, "topic-permissions"), ("user", *TOPIC_RIGHTS))


def list_user_topic_permissions(call: Call) -> Rows:
    return rows(of_user(call, "topic-permissions"), ("vhost", *TOPIC_RIGHTS))


COMMANDS: dict[str, Handler] = {
    "clear_permissions": clear_permissions,
    "clear_topic_permissions": clear_topic_permissions,
    "list_permissions": list_permissions,
    "list_topic_permissions": list_topic_permissions,
    "list_user_permissions": list_user_permissions,
    "list_user_topic_permissions": list_user_topic_permissions,
    "set_permissions": set_permissions,
    "set_permissions_globally": set_permissions_globally,
    "set_topic_permissions": set_topic_permissions,
}
