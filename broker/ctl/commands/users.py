"""Commands for users: passwords, tags, limits, logins."""

import errno
import os
import sys
from typing import TextIO

from ..call import Call, Item
from ..command import DIAGNOSTICS, LISTING, USERS, columns, get, send
from ..errors import DATA, SOFTWARE, UNAVAILABLE, APIError, CommandError, ExitError, bad_argument
from ..formats import Answer, Rows, compact

GRANT = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! "
    "See 'warrenctl help set_permissions' to learn more."
)


def add_user(call: Call) -> None:
    name, *given = call.arguments
    password = given[0] if given else read_password()
    if not name:
        raise bad_argument("user cannot be an empty string")
    if call.find("users/{0}") is not None:
        raise CommandError(SOFTWARE, f'User "{name}" already exists')
    hashed = call.flag("pre-hashed-password")
    try:
        call.put("users/{0}", {"password_hash" if hashed else "password": password, "tags": ""})
    except APIError as error:
        raise CommandError(DATA if hashed else UNAVAILABLE, error.reason) from None


def read_password() -> str:
    """Read a password; a blank line is an empty one. Raises ExitError."""
    try:
        stream = standard_input()
        if stream.isatty():
            from getpass import getpass

            return getpass("Password: ")
        line = stream.readline()
    except UnicodeDecodeError as error:
        raise ExitError(DATA, f"Error:\nPassword is not {error.encoding}, the encoding of the locale") from None
    except (OSError, EOFError):
        line = ""
    if not line:
        raise ExitError(DATA, "Error:\nPassword is not provided via argument or stdin")
    return line.rstrip("\n")


def standard_input() -> TextIO:
    """Return the standard input. Raises OSError."""
    stream: TextIO | None = sys.stdin
    if stream is None:  # it was closed before the start
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return stream


def delete_user(call: Call) -> None:
    """Delete a user; an unknown one is no error, as in RabbitMQ 4."""
    if call.find("users/{0}") is not None:
        call.delete("users/{0}")


def change(call: Call, **changed: object) -> None:
    """Put the user again with some attributes changed. Raises CommandError (67)."""
    user = call.user(call.arguments[0])
    kept = {key: user[key] for key in ("password_hash", "hashing_algorithm", "tags") if key in user}
    if "password" in changed:
        kept = {"tags": user["tags"]}
    call.put("users/{name}", kept | changed, name=user["name"])


def authenticate_user(call: Call) -> str:
    """Check a password. Raises CommandError (65)."""
    name, password = call.arguments
    if not (is_password if call.api.is_local else logs_in)(call, name, password):
        raise CommandError(DATA, f"Error: failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials")
    return "Success"


def is_password(call: Call, name: str, password: str) -> bool:
    """Return whether the user has this password, by a request that only the unix socket accepts."""
    return bool(call.post("warren/authenticate", {"username": name, "password": password})["authenticated"])


def logs_in(call: Call, name: str, password: str) -> bool:
    """Return whether the user can log in; a 401 for missing tags confirms it as well."""
    try:
        call.api.request("GET", ("whoami",), login=(name, password))
    except APIError as error:
        if error.status != 401:
            raise
        return error.error != "not_authorized" and "localhost" not in error.reason
    return True


def tags_of(user: Item) -> list[str]:
    tags = user["tags"]
    return tags.split(",") if isinstance(tags, str) and tags else list(tags)


def hash_password(call: Call) -> str:
    if not call.arguments[0]:
        raise bad_argument("password cannot be an empty string")
    return str(call.get("auth/hash_password/{0}")["ok"])


def set_user_limits(call: Call) -> None:
    call.user(call.arguments[0])
    limits = call.limits(call.arguments[1], "user limits")
    if call.api.is_local:
        call.put("warren/user-limits/{0}", {"value": limits})
        return
    for limit, value in limits.items():
        call.put("user-limits/{0}/{limit}", {"value": value}, limit=limit)


def clear_limits_banner(call: Call) -> str:
    user, limit = call.arguments
    what = "all limits" if limit == "all" else f'"{limit}" limit'
    return f'Clearing {what} for user "{user}" ...'


def clear_user_limits(call: Call) -> None:
    name, limit = call.arguments
    if not limit:
        raise bad_argument("limit cannot be an empty string")
    call.user(name)
    for each in call.limits_at("user-limits/{0}") if limit == "all" else [limit]:
        call.delete("user-limits/{0}/{limit}", limit=each)


def list_limits_banner(call: Call) -> str:
    whose = "all users" if call.flag("global") else f'user "{call.text("user", "guest")}"'
    return f"Listing limits for {whose} ..."


def list_user_limits(call: Call) -> Answer:
    if call.flag("global"):
        return Rows(["user", "limits"], ([one["user"], compact(one["value"])] for one in call.get("user-limits")))
    name = call.text("user", "guest")
    call.user(name)
    return [call.limits_at("user-limits/{name}", name=name)]


# fmt: off
USERS("add_user [--pre-hashed-password] <username> [<password>]: Creates a new user in the internal database",
      'Adding user "{0}" ...', add_user, after=GRANT)
USERS("delete_user <username>: Removes a user", 'Deleting user "{0}" ...', delete_user)
USERS("change_password <username> <password>: Changes a password", 'Changing password for user "{0}" ...',
      lambda call: change(call, password=call.arguments[1]))
USERS("clear_password <username>: Disables password login for a user", 'Clearing password for user "{0}" ...',
      lambda call: change(call, password_hash=""))
USERS("set_user_tags <username> [<tag>...]: Sets user tags; none clears them",
      lambda call: f'Setting tags for user "{call.arguments[0]}" to [{", ".join(call.arguments[1:])}] ...',
      lambda call: change(call, tags=",".join(call.arguments[1:])))
USERS("authenticate_user <username> <password>: Attempts to log a user in", 'Authenticating user "{0}" ...',
      authenticate_user)
USERS(f"list_users {LISTING}: Lists all users", "Listing users ...", get("users"),
      columns={"user": lambda user: user["name"], "tags": tags_of})
USERS("hash_password <password>: Hashes a plaintext password", "Will hash password {0}", hash_password)
USERS.local("list_hashes: Lists the password hashes that are supported", "Listing supported hash algorithms ...",
            lambda call: Rows(["hash"], [[name] for name in call.get("warren/node")["hashing_algorithms"]]))
USERS("set_user_limits <username> <definition>: Sets user limits", 'Setting user limits to "{1}" for user "{0}" ...',
      set_user_limits)
USERS("clear_user_limits <username> <limit_type>: Clears limits of connections and channels of a user",
      clear_limits_banner, clear_user_limits)
USERS(f"list_user_limits [--user <username>] [--global] {LISTING}: Displays limits of users",
      list_limits_banner, list_user_limits)
DIAGNOSTICS(f"list_node_auth_attempt_stats [--by-source] {LISTING}: Counts logins by protocol",
            'Listing authentication\n attempts for node "{node}" ...',
            lambda call: call.get("auth/attempts/{node}/source" if call.flag("by-source") else "auth/attempts/{node}"),
            columns=columns("protocol auth_attempts auth_attempts_failed auth_attempts_succeeded"))
DIAGNOSTICS("reset_node_auth_attempt_metrics: Counts logins from 0 again",
            "Reset auth attempt metrics on node {node} ...", send("DELETE", "auth/attempts/{node}"))
