"""Who one is, what becomes of a password, and how many have tried theirs."""

from __future__ import annotations

import os

from broker.plugin import SALT_BYTES, hash_password

from ..access import ADMIN, ANY, MONITOR
from ..answers import Answer, done, found, missing
from ..request import Request
from ..routes import Route


def whoami(request: Request) -> Answer:
    """Name and tags of the user."""
    timeout_min = request.state.config.login_session_timeout_min
    more = {} if timeout_min is None else {"login_session_timeout": timeout_min}
    return found({"name": request.user.name, "tags": list(request.user.tags), "is_internal_user": True, **more})


def hashed(request: Request) -> Answer:
    """A password's hash, as users are made with."""
    password = request.path["password"]
    return found({"ok": hash_password(password, os.urandom(SALT_BYTES)).decode("ascii")})


def list_attempts(request: Request) -> Answer:
    """Attempts to log in, by protocol."""
    known(request)
    return found(
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


def list_sources(request: Request) -> Answer:
    """Attempts by address and user: RabbitMQ tells none unless it is asked to count them, and nobody can ask here."""
    known(request)
    return found([])


def forget_attempts(request: Request) -> Answer:
    """Count them anew."""
    known(request)
    for attempts in request.node.attempts.values():
        attempts.succeeded = attempts.failed = 0
    return done()


def known(request: Request) -> None:
    """Raises Refusal (404) for another node than this one."""
    if request.path["node"] != request.node.name:
        raise missing()


ROUTES = (
    Route("GET", "/whoami", ANY, whoami),
    Route("GET", "/auth/hash_password/{password}", ADMIN, hashed),
    Route("GET", "/auth/attempts/{node}", MONITOR, list_attempts),
    Route("GET", "/auth/attempts/{node}/source", MONITOR, list_sources),
    Route("DELETE", "/auth/attempts/{node}", ADMIN, forget_attempts),
    Route("DELETE", "/auth/attempts/{node}/source", ADMIN, forget_attempts),
)
