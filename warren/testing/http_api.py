"""The HTTP API of a broker, Warren's or RabbitMQ's, for what the tests do with it."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

TIMEOUT_S = 30.0
NOTHING: Mapping[str, str] = {}


class HTTPError(Exception):
    """A refusal of the API, or no answer, with its text. `status` is 0 without an answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class HTTPAPI:
    """The API at an address such as http://127.0.0.1:15672, for one user."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url
        self._login = "Basic " + b64encode(f"{user}:{password}".encode()).decode()

    def call(self, method: str, *path: str, body: object = None, headers: Mapping[str, str] = NOTHING) -> Any:
        """Call a method with the parts of a path below /api, and return the value of the answer. Raises HTTPError."""
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        try:
            connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
            target = "/".join([parts.path.rstrip("/"), "api", *(quote(part, safe="") for part in path)])
            sent = {"Authorization": self._login, "Content-Type": "application/json", **headers}
            try:
                connection.request(method, target, None if body is None else json.dumps(body), sent)
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise HTTPError(0, f"no answer from the HTTP API at {self.url}: {error or type(error).__name__}") from None
        if answer.status >= http.client.BAD_REQUEST:
            raise HTTPError(answer.status, f"{method} {target}: {answer.status} {content.decode(errors='replace')}")
        return json.loads(content) if content else None

    def has(self, *path: str) -> bool:
        """Return whether there is an object at this path. Raises HTTPError."""
        try:
            self.call("GET", *path)
        except HTTPError as error:
            if error.status != http.client.NOT_FOUND:
                raise
            return False
        return True
