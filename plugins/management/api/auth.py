"""Routes about users' own identity, password hashes and login attempts."""

import os
from urllib.parse import parse_qsl

import msgspec

from warren.broker.core.access.passwords import SALT_BYTES, hash_password

from ...http.auth import ADMIN, ANY, MONITOR, NONE
from ...http.auth import log_in as log_in_user
from ...http.responses import HTTPError, Response, done, ok
from ..framework.request import Request
from ..framework.router import route

LOGIN_BYTES = 4096  # of a form with user name and password


class WhoAmI(msgspec.Struct):
    """The user of the request."""

    name: str
    tags: list[str]
    is_internal_user: bool
    login_session_timeout: int | msgspec.UnsetType = msgspec.UNSET


class AttemptsView(msgspec.Struct):
    """The login attempts of a protocol."""

    protocol: str
    auth_attempts: int
    auth_attempts_failed: int
    auth_attempts_succeeded: int


@route("GET", ANY, "/whoami")
def whoami(request: Request) -> Response[WhoAmI]:
    """Return name and tags of the user."""
    timeout_min = request.state.config.login_session_timeout_min
    timeout = msgspec.UNSET if timeout_min is None else timeout_min
    return ok(WhoAmI(request.user.name, list(request.user.tags), True, timeout))


@route("GET", NONE, "/auth")
def get_login_methods(request: Request) -> Response[dict[str, bool]]:
    """Return how a browser logs in: with user name and password."""
    return ok({"oauth_enabled": False})


@route("POST", NONE, "/login", body_limit=LOGIN_BYTES, durable=False)
async def log_in(request: Request, body: bytes) -> Response[str]:
    """Check the user name and password of a form; there is no session: each request has credentials."""
    if request.state.config.disable_basic_auth:
        raise HTTPError(401, "not_authorized", "Not_Authorized")
    fields = dict(parse_qsl(body.decode("utf-8", "replace")))
    if not {"username", "password"} <= fields.keys():
        raise HTTPError(401, "not_authorized", "Not_Authorized")
    login = log_in_user(request.host, fields["username"], fields["password"].encode(), request.incoming.peer)
    caller = await request.wait(login)
    ANY.check(caller, None)
    return ok("ok")


@route("GET", ADMIN, "/auth/hash_password/{password}")
def get_password_hash(request: Request) -> Response[dict[str, str]]:
    """Return a password's hash, as `PUT /users/{user}` accepts it."""
    password = request.path["password"]
    return ok({"ok": hash_password(password, os.urandom(SALT_BYTES)).decode("ascii")})


@route("GET", MONITOR, "/auth/attempts/{node}")
def list_attempts(request: Request) -> Response[list[AttemptsView]]:
    """List login attempts by protocol."""
    request.check_node()
    counted = request.node.attempts.items()
    return ok([AttemptsView(name, one.succeeded + one.failed, one.failed, one.succeeded) for name, one in counted])


@route("GET", MONITOR, "/auth/attempts/{node}/source")
def list_sources(request: Request) -> Response[list[AttemptsView]]:
    """Return an empty list: attempts by address and user are counted in RabbitMQ only if configured."""
    request.check_node()
    return ok([])


@route("DELETE", MONITOR, "/auth/attempts/{node}", "/auth/attempts/{node}/source")
def forget_attempts(request: Request) -> Response[None]:
    """Reset the counts of login attempts."""
    request.check_node()
    for attempts in request.node.attempts.values():
        attempts.succeeded = attempts.failed = 0
    return done()
