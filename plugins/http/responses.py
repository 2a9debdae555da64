"""What is answered: documents and refusals, and which of them an error of the broker becomes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from warren.broker.plugin import AccessRefused, AMQPError, NotFound, OperatorError, Unknown

RETRY_S = 5  # until a request that could not be served is worth another try
NO_HEADERS: Mapping[str, str] = {}
REALM = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}


class Pieces:
    """JSON text of many parts, which are sent one after the other: to join them would hold the loop."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[bytes]) -> None:
        self.parts = parts


class Response:
    """A status with a body: plain values that become JSON, bytes or Pieces as they are, or None for no body.

    `media_type` is that of bytes; `gzip` is the compressed body, where that was made beforehand.
    """

    __slots__ = ("status", "body", "headers", "media_type", "gzip")

    def __init__(
        self,
        status: int = 200,
        body: object = None,
        headers: Mapping[str, str] = NO_HEADERS,
        media_type: str = "application/json",
        gzip: bytes | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.headers = headers
        self.media_type = media_type
        self.gzip = gzip

    def encoded(self) -> bytes:
        return b"".join(self.parts())

    def parts(self) -> list[bytes]:
        """The same, as it was made."""
        if self.body is None:
            return []
        if isinstance(self.body, Pieces):
            return self.body.parts
        return [self.body if isinstance(self.body, bytes) else json_of(self.body)]


def found(body: object) -> Response:
    return Response(200, body)


def put(existed: bool) -> Response:
    """What was put is there now."""
    return Response(204 if existed else 201)


def done() -> Response:
    return Response(204)


class HTTPError(Exception):
    """What ends a request. `reason` is a text, for tools print it."""

    def __init__(self, status: int, error: str, reason: object, headers: Mapping[str, str] = NO_HEADERS) -> None:
        super().__init__(error, reason)
        self.answer = Response(status, {"error": error, "reason": reason}, headers)


NO_VHOST = "vhost_not_found"
NOT_YOURS = "User not authorised to access object"


def bad(reason: object) -> HTTPError:
    return HTTPError(400, "bad_request", reason)


def missing() -> HTTPError:
    """No such object, or no such route. Clients compare the two texts."""
    return HTTPError(404, "Object Not Found", "Not Found")


def not_now(reason: str) -> HTTPError:
    """A request that may well be made again later."""
    return HTTPError(503, "service_unavailable", reason, {"retry-after": str(RETRY_S)})


def not_found(reason: str) -> HTTPError:
    """Where clients are told what it is that there is not, such as `vhost_not_found`."""
    return HTTPError(404, "not_found", reason)


def not_authorised(reason: str) -> HTTPError:
    """The user is known, and may not."""
    return HTTPError(401, "not_authorised", reason)


def refusal_of(error: AMQPError | OperatorError) -> HTTPError:
    if isinstance(error, AccessRefused):
        return not_authorised("Access refused.")
    if isinstance(error, NotFound):
        return not_found(error.text)
    if isinstance(error, Unknown):
        return missing()
    return bad(error.text)


_encoder = msgspec.json.Encoder()


def json_of(value: object) -> bytes:
    """What is no UTF-8, as names that clients chose may be, has question marks in its place."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        import json  # only here: it is slow, and patient

        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
