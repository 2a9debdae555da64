"""Routes about users' own identity, password hashes and login attempts."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl

from warren.broker.core.access.passwords import SALT_BYTES, hash_password

from ...http.auth import ADMIN, ANY, MONITOR, NONE
from ...http.auth import log_in as log_in_user
from ...http.responses import HTTPError, Response, done, ok
from ..framework.request import Request
from ..framework.router import Route

LOGIN_BYTES = 4096  # of a form with user name and password


def whoami(request: Request) -> Response:
    """Return name and tags of the user."""
    timeout_min = request.state.config.login_session_timeout_min
    more = {} if timeout_min is None else {"login_session_timeout": timeout_min}
    return ok({"name": request.user.name, "tags": list(request.user.tags), "is_internal_user": True, **more})


def get_login_methods(request: Request) -> Response:
    """Return how a browser logs in: with user name and password."""
    return ok({"oauth_enabled": False})


async def log_in(request: Request) -> Response:
    """Check the user name and password of a form; there is no session, as each request has credentials."""
    if request.state.config.disable_basic_auth:
        raise HTTPError(401, "not_authorized", "Not_Authorized")
    body: bytes = request.body
    fields = dict(parse_qsl(body.decode("utf-8", "replace")))
    if not {"username", "password"} <= fields.keys():
        raise HTTPError(401, "not_authorized", "Not_Authorized")
    login = log_in_user(request.host, fields["username"], fields["password"].encode(), request.incoming.peer)
    caller = await request.wait(login)
    ANY.check(caller, None)
    return ok("ok")


def get_password_hash(request: Request) -> Response:
    """Return a password's hash, as `PUT /users/{user}` accepts it."""
    password = request.path["password"]
    return ok({"ok": hash_password(password, os.urandom(SALT_BYTES)).decode("ascii")})


def list_attempts(request: Request) -> Response:
    """List login attempts by protocol."""
    request.check_node()
    return ok(
        [
            {
                "protocol": protocol,
                "auth_attempts": attempts.succeeded + attempts.failed,
                "auth_attempts_failed": attempts.failed,
                "auth_attempts_succeeded": attempts.succeeded,
            }
            for protocol, attempts in request.node.attempts.items()
        ]
    )


def list_sources(request: Request) -> Response:
    """Return an empty list: attempts by address and user are counted in RabbitMQ only if configured."""
    request.check_node()
    return ok([])


def forget_attempts(request: Request) -> Response:
    """Reset the counts of login attempts."""
    request.check_node()
    for attempts in request.node.attempts.values():
        attempts.succeeded = attempts.failed = 0
    return done()


ROUTES = (
    Route("GET", "/auth", NONE, get_login_methods),
    Route("POST", "/login", NONE, log_in, bytes, LOGIN_BYTES, durable=False),
    Route("GET", "/whoami", ANY, whoami),
    Route("GET", "/auth/hash_password/{password}", ADMIN, get_password_hash),
    Route("GET", "/auth/attempts/{node}", MONITOR, list_attempts),
    Route("GET", "/auth/attempts/{node}/source", MONITOR, list_sources),
    Route("DELETE", "/auth/attempts/{node}", MONITOR, forget_attempts),
    Route("DELETE", "/auth/attempts/{node}/source", MONITOR, forget_attempts),
)
