"""Commands for users, their passwords, tags and limits."""

from __future__ import annotations

from ..answers import Answer, CommandError, Rows, bad_argument, json_text
from ..api_client import APIError, basic_credentials
from ..exit_status import DATA, SOFTWARE, UNAVAILABLE
from .call import Call, Handler, Item

KEPT = ("password_hash", "hashing_algorithm")  # stay the same when other attributes of a user change


def add_user(call: Call) -> None:
    name, password = call.arguments
    if not name:
        raise bad_argument("user cannot be an empty string")
    if call.find("users", name) is not None:
        raise CommandError(SOFTWARE, f'User "{name}" already exists')
    hashed = call.flag("pre-hashed-password")
    try:
        call.api.put("users", name, body={"password_hash" if hashed else "password": password, "tags": ""})
    except APIError as error:
        raise CommandError(DATA if hashed else UNAVAILABLE, error.reason) from None


def change(call: Call, user: Item, **changed: object) -> None:
    """Put the user again with some attributes changed."""
    same = {key: user[key] for key in (*KEPT, "tags") if key in user}
    if "password" in changed:
        same = {"tags": user["tags"]}
    call.api.put("users", user["name"], body=same | changed)


def change_password(call: Call) -> None:
    name, password = call.arguments
    change(call, call.user(name), password=password)


def clear_password(call: Call) -> None:
    change(call, call.user(call.arguments[0]), password_hash="")


def set_user_tags(call: Call) -> None:
    name, *tags = call.arguments
    change(call, call.user(name), tags=",".join(tags))


def authenticate_user(call: Call) -> str:
    """Check a password; a 401 for missing tags confirms it as well. Raises CommandError (65)."""
    name, password = call.arguments
    if call.is_local:
        if not call.api.post("warren", "authenticate", body={"username": name, "password": password})["authenticated"]:
            raise invalid_credentials(name)
        return "Success"
    try:
        call.api.request("GET", ("whoami",), authorization=basic_credentials(name, password))
    except APIError as error:
        if error.status != 401:
            raise
        if error.error == "not_authorized" or "localhost" in error.reason:
            raise invalid_credentials(name) from None
    return "Success"


def invalid_credentials(name: str) -> CommandError:
    return CommandError(DATA, f"Error: failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials")


def delete_user(call: Call) -> None:
    """Delete a user; an unknown one is no error, as in RabbitMQ 4."""
    name = call.arguments[0]
    if call.find("users", name) is not None:
        call.api.delete("users", name)


def list_users(call: Call) -> Rows:
    return Rows(["user", "tags"], ([user["name"], tags_of(user)] for user in call.api.get("users")))


def tags_of(user: Item) -> list[str]:
    tags = user["tags"]
    return tags.split(",") if isinstance(tags, str) and tags else list(tags)


def hash_password(call: Call) -> str:
    if not call.arguments[0]:
        raise bad_argument("password cannot be an empty string")
    return str(call.api.get("auth", "hash_password", call.arguments[0])["ok"])


def set_user_limits(call: Call) -> None:
    name, text = call.arguments
    call.user(name)
    limits = call.limits(text, "user limits")
    if call.is_local:
        call.api.put("warren", "user-limits", name, body={"value": limits})
        return
    for limit, value in limits.items():
        call.api.put("user-limits", name, limit, body={"value": value})


def clear_user_limits(call: Call) -> None:
    name, limit = call.arguments
    if not limit:
        raise bad_argument("limit cannot be an empty string")
    call.user(name)
    for each in limits_of(call, name) if limit == "all" else [limit]:
        call.api.delete("user-limits", name, each)


def limits_of(call: Call, name: str) -> Item:
    found = call.api.get("user-limits", name)
    return dict(found[0]["value"]) if found else {}


def list_user_limits(call: Call) -> Answer:
    if call.flag("global"):
        return Rows(["user", "limits"], ([one["user"], json_text(one["value"])] for one in call.api.get("user-limits")))
    name = call.text("user", "guest")
    call.user(name)
    return [limits_of(call, name)]


def list_hashes(call: Call) -> Rows:
    return Rows(["hash"], [[name] for name in call.api.get("warren", "node")["hashing_algorithms"]])


COMMANDS: dict[str, Handler] = {
    "add_user": add_user,
    "authenticate_user": authenticate_user,
    "change_password": change_password,
    "clear_password": clear_password,
    "clear_user_limits": clear_user_limits,
    "delete_user": delete_user,
    "hash_password": hash_password,
    "list_hashes": list_hashes,
    "list_user_limits": list_user_limits,
    "list_users": list_users,
    "set_user_limits": set_user_limits,
    "set_user_tags": set_user_tags,
}
