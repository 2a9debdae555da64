"""HTTP responses and errors, and the error for each exception of the broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from warren.broker.plugin import AccessRefused, AMQPError, NotFound, NotNow, OperatorError, Unknown, Unreadable

RETRY_S = 5  # sent as retry-after with status 503
V = TypeVar("V")

NO_HEADERS: Mapping[str, str] = {}
REALM = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}


@dataclass(slots=True)
class Pieces:
    """JSON text in many parts, sent one after the other, as joining them would block the event loop."""

    parts: list[bytes]


@dataclass(slots=True)
class Response(Generic[V]):
    """A status with a body: a V that becomes JSON, bytes or Pieces sent as they are, or None."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"
    gzip: bytes | None = None  # the body compressed in advance

    def encode(self) -> bytes:
        return b"".join(self.parts())

    def parts(self) -> list[bytes]:
        """Return the body's parts."""
        if self.body is None:
            return []
        if isinstance(self.body, Pieces):
            return self.body.parts
        return [self.body if isinstance(self.body, bytes) else json_of(self.body)]


def ok(body: V) -> Response[V]:
    return Response(200, body)


def put(existed: bool) -> Response[None]:
    """The response to a successful PUT."""
    return Response(204 if existed else 201)


def done() -> Response[None]:
    return Response(204)


class HTTPError(OperatorError):
    """An error response. `reason` should be text, as tools print it."""

    def __init__(self, status: int, error: str, reason: object, headers: Mapping[str, str] = NO_HEADERS) -> None:
        super().__init__(str(reason))
        self.answer: Response[Any] = Response(status, {"error": error, "reason": reason}, headers)


NO_VHOST = "vhost_not_found"
NOT_OWNER = "User not authorised to access object"


def bad(reason: object) -> HTTPError:
    return HTTPError(400, "bad_request", reason)


def missing() -> HTTPError:
    """An unknown object or route (404). Clients compare both texts."""
    return HTTPError(404, "Object Not Found", "Not Found")


def not_now(reason: str) -> HTTPError:
    """A temporary overload, an alarm, or messages that cannot be read now (503)."""
    return HTTPError(503, "service_unavailable", reason, {"retry-after": str(RETRY_S)})


def not_found(reason: str) -> HTTPError:
    """A missing object with a reason that clients read, such as `vhost_not_found` (404)."""
    return HTTPError(404, "not_found", reason)


def existing(found: V | None, reason: str = "") -> V:
    """Return an object that was looked up. Raises HTTPError (404) for None, with a reason if clients read it."""
    if found is None:
        raise not_found(reason) if reason else missing()
    return found


def no_vhost(method: str) -> HTTPError:
    """A virtual host in the path that does not exist (404). Only the reason of PUT and POST names it."""
    return not_found(NO_VHOST) if method in ("PUT", "POST") else missing()


def not_authorised(reason: str) -> HTTPError:
    """A known user without the right to do this (401)."""
    return HTTPError(401, "not_authorised", reason)


def http_error_of(error: AMQPError | OperatorError) -> HTTPError:
    if isinstance(error, HTTPError):
        return error
    if isinstance(error, AccessRefused):
        return not_authorised("Access refused.")
    if isinstance(error, NotFound):
        return not_found(error.text)
    if isinstance(error, Unknown):
        return missing()
    if isinstance(error, (NotNow, Unreadable)):
        return not_now(error.text)
    return bad(error.text)


_encoder = msgspec.json.Encoder()


def json_of(value: object) -> bytes:
    """Encode a value. Imports accept the escaped surrogates (U+DC80 to U+DCFF) of bytes that are not UTF-8."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        import json  # imported only here: it is slow, but accepts such strings

        return json.dumps(value, separators=(",", ":"), default=msgspec.to_builtins).encode("ascii")
