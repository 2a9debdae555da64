"""Users, their passwords, tags and limits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from ..amqp.errors import Invalid, OperatorError
from ..core.access.passwords import ARGON2ID, DIGESTS, SHA256, hash_password
from .answers import DATA, SOFTWARE, UNAVAILABLE, Answer, Refused, Rows, json_text
from .call import Call, Handler


def add_user(call: Call) -> Answer | asyncio.Future[Answer]:
    name, password = call.arguments
    if call.node.users.get(name) is not None:
        raise Refused(SOFTWARE, f'User "{name}" already exists')
    if call.flag("pre-hashed-password"):
        algorithm = ARGON2ID if password.startswith("$argon2id$") else SHA256
        try:
            call.node.users.add(name, password.encode(), (), algorithm)
        except Invalid as error:
            raise Refused(DATA, error.text) from None
        return None
    return hashed(call, password, lambda octets, algorithm: call.node.users.add(name, octets, (), algorithm))


def change_password(call: Call) -> Answer | asyncio.Future[Answer]:
    name, password = call.arguments
    call.user(name)
    return hashed(call, password, lambda octets, algorithm: call.node.users.change_password(name, octets, algorithm))


def hashed(call: Call, password: str, then: Callable[[bytes, str], object]) -> asyncio.Future[Answer]:
    """Done when the password is hashed, and `then` has used it. Raises Invalid for one that the rules refuse."""
    done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def use(octets: bytes, algorithm: str) -> None:
        try:
            with call.daemon.acting():
                then(octets, algorithm)
        except OperatorError as error:
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(None)

    call.node.users.hash_password(password, use)
    return done


def authenticate_user(call: Call) -> asyncio.Future[Answer]:
    name, password = call.arguments
    done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def tell(user: object) -> None:
        if done.done():
            return
        if user is None:
            text = f"Error: failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials"
            done.set_exception(Refused(DATA, text))
        else:
            done.set_result("Success")

    def postpone() -> None:
        if not done.done():
            done.set_exception(Refused(UNAVAILABLE, "too many logins wait for an answer: try again"))

    call.node.users.authenticate(name, password.encode("utf-8", "surrogateescape"), True, tell, busy=postpone)
    return done


def delete_user(call: Call) -> None:
    """Nobody of that name is fine, as in RabbitMQ 4."""
    (name,) = call.arguments
    if call.node.users.get(name) is not None:
        call.node.users.delete(name)


def clear_password(call: Call) -> None:
    (name,) = call.arguments
    call.user(name)
    call.node.users.clear_password(name)


def set_user_tags(call: Call) -> None:
    name, *tags = call.arguments
    call.user(name)
    call.node.users.set_tags(name, tags)


def list_users(call: Call) -> Rows:
    return Rows(["user", "tags"], ([user.name, list(user.tags)] for user in call.node.users.all()))


def set_user_limits(call: Call) -> None:
    name, text = call.arguments
    call.user(name)
    call.node.limits.set_user(name, call.limits(text, "user limits"))


def clear_user_limits(call: Call) -> None:
    name, limit = call.arguments
    call.user(name)
    call.node.limits.clear_user(name, None if limit == "all" else limit)


def list_user_limits(call: Call) -> Answer:
    if not call.flag("global"):
        return [dict(call.user(call.text("user", "guest")).limits)]
    return Rows(
        ["user", "limits"], ([user.name, json_text(user.limits)] for user in call.node.users.all() if user.limits)
    )


def hash_a_password(call: Call) -> str:
    """As RabbitMQ hashes, so that the hash may be taken to either."""
    return hash_password(call.arguments[0], os.urandom(4)).decode("ascii")


def list_hashes(call: Call) -> Rows:
    return Rows(["hash"], ([name] for name in sorted([*DIGESTS, ARGON2ID])))


COMMANDS: dict[str, Handler] = {
    "add_user": add_user,
    "change_password": change_password,
    "authenticate_user": authenticate_user,
    "delete_user": delete_user,
    "clear_password": clear_password,
    "set_user_tags": set_user_tags,
    "list_users": list_users,
    "set_user_limits": set_user_limits,
    "clear_user_limits": clear_user_limits,
    "list_user_limits": list_user_limits,
    "hash_password": hash_a_password,
    "list_hashes": list_hashes,
}
