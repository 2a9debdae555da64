"""Requests to the HTTP API. Nothing that is told of them names the user or the password."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from ..failures import USAGE_STATUS, Failed
from ..node import Unreachable

PORTS = {"http": 15672, "https": 15671}
ANSWER_LIMIT = 256 << 20  # octets: lists and definitions of a large broker are one answer
NO_URL = "warrenctl: --url: not an http:// or https:// URL (signs such as / and @ are percent-encoded in a password)"
TIMEOUT_S = 60.0  # where nobody says how long
NOTHING: Mapping[str, str] = {}


class Refusal(Exception):
    """What the API does not do: its status, the code of the error, and why, in one text."""

    def __init__(self, status: int, error: str, reason: str) -> None:
        super().__init__(status, error, reason)
        self.status = status
        self.error = error
        self.reason = reason


class Missing(Refusal):
    """There is no such object (404)."""


class API:
    """That of a URL, which may hold user and password, `guest` if it does not."""

    def __init__(self, url: str, timeout_s: float | None) -> None:
        """Raises Failed (64); nobody is connected to yet."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:  # which may quote some of the password
            raise Failed(USAGE_STATUS, NO_URL) from None
        if parts.scheme not in PORTS or not host or "@" in parts.path + parts.query + parts.fragment:
            raise Failed(USAGE_STATUS, NO_URL)
        self.host, self.port = host, port or PORTS[parts.scheme]
        self._prefix = parts.path.rstrip("/") + "/api/"
        user, password = parts.username, parts.password
        self._authorization = basic("guest", "guest") if user is None else basic(unquote(user), unquote(password or ""))
        self._asked = False  # before
        timeout_s = timeout_s or TIMEOUT_S
        if parts.scheme == "https":
            context = ssl.create_default_context()
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, self.port, timeout=timeout_s, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(host, self.port, timeout=timeout_s)

    def get(self, *path: str, **query: str) -> Any:
        return self.request("GET", path, query=query)

    def put(self, *path: str, body: object = None) -> Any:
        return self.request("PUT", path, body={} if body is None else body)

    def post(self, *path: str, body: object = None) -> Any:
        return self.request("POST", path, body={} if body is None else body)

    def delete(self, *path: str, headers: Mapping[str, str] = NOTHING, query: Mapping[str, str] = NOTHING) -> Any:
        return self.request("DELETE", path, query=query, headers=headers)

    def request(
        self,
        method: str,
        path: tuple[str, ...],
        body: object = None,
        query: Mapping[str, str] = NOTHING,
        headers: Mapping[str, str] = NOTHING,
        authorization: str = "",
    ) -> Any:
        """The JSON that is answered; a text where that is none; None for nothing. `body` may be text, as it is.

        Raises Refusal, Missing, Unreachable, TimeoutError.
        """
        target = self._prefix + "/".join(quote(segment, safe="", errors="surrogateescape") for segment in path)
        if query:
            target += "?" + urlencode(query)
        octets = None
        if body is not None:
            octets = (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogateescape")
        sent = {"content-type": "application/json", "authorization": authorization or self._authorization, **headers}
        try:
            try:
                response = self._exchange(method, target, octets, sent)
            except ConnectionError:
                if method == "POST" or not self._asked:
                    raise
                self._connection.close()  # it was kept for too long
                response = self._exchange(method, target, octets, sent)
            self._asked = True
            found = response.read(ANSWER_LIMIT)
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
            raise Unreachable(f"{self.host}:{self.port}: {' '.join(reason.split())}") from None
        answer = decoded(found, response.getheader("content-type", ""))
        if response.status >= 300:
            raise refusal(response.status, answer)
        return answer

    def _exchange(
        self, method: str, target: str, octets: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """Raises OSError, HTTPException."""
        self._connection.request(method, target, octets, dict(headers))
        return self._connection.getresponse()

    def close(self) -> None:
        self._connection.close()


def basic(user: str, password: str) -> str:
    pair = f"{user}:{password}".encode("utf-8", "surrogateescape")
    return "Basic " + base64.b64encode(pair).decode("ascii")


def decoded(octets: bytes, media_type: str) -> Any:
    text = octets.decode("utf-8", "backslashreplace")
    if not text or "json" not in media_type:
        return text or None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def refusal(status: int, answer: object) -> Refusal:
    told = answer if isinstance(answer, dict) else {}
    error, reason = str(told.get("error", "")), told.get("reason")
    text = reason if isinstance(reason, str) else json.dumps(reason) if reason else f"HTTP status {status}"
    return (Missing if status == 404 else Refusal)(status, error, text)
