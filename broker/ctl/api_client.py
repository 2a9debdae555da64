"""Requests to the HTTP API, over TCP or at the unix socket of a node. No error names the user or the password."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from .exit_status import USAGE_STATUS, Failed, Unreachable

PORTS = {"http": 15672, "https": 15671}
SOCKET_NAME = "ctl.sock"  # in the folder of the node's data
ADDRESS_LIMIT = 100  # bytes of a path that every system takes as an address of a unix socket
ANSWER_LIMIT = 256 << 20  # bytes: lists and definitions of a large broker are one answer
NO_URL = "warrenctl: --url: not an http:// or https:// URL (signs such as / and @ are percent-encoded in a password)"
PIECE_BYTES = 1 << 16  # of an answer, between two looks at the time
NOTHING: Mapping[str, str] = {}


class Refusal(Exception):
    """A refused request: its status, the code of the error, the reason as one text, and the whole answer."""

    def __init__(self, status: int, error: str, reason: str, answer: object = None) -> None:
        super().__init__(status, error, reason)
        self.answer = answer
        self.status = status
        self.error = error
        self.reason = reason


class Missing(Refusal):
    """There is no such object (404)."""


class API:
    """The HTTP API at a URL, which may hold user and password.

    Without a user it is guest with the password guest; without a password the one that `password_file` or the
    environment has (`password_of`).
    """

    is_local = False

    def __init__(self, url: str, timeout_s: float | None, password_file: str = "") -> None:
        """Raises Failed (64); nobody is connected to yet. `timeout_s` is for all requests together, None for ever."""
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
        if user is None and not password_file:
            user, password = "guest", "guest"
        elif password is None:
            password = quote(password_of(password_file))
        self._authorization = basic(unquote(user or "guest"), unquote(password or ""))
        if parts.scheme == "https":
            import ssl

            context = ssl.create_default_context()
            self._begin(http.client.HTTPSConnection(host, self.port, timeout=timeout_s, context=context), timeout_s)
        else:
            self._begin(http.client.HTTPConnection(host, self.port, timeout=timeout_s), timeout_s)

    def _begin(self, connection: http.client.HTTPConnection, timeout_s: float | None) -> None:
        self._connection = connection
        self._asked = False  # before
        self._deadline_s = None if timeout_s is None else time.monotonic() + timeout_s

    @property
    def where(self) -> str:
        """The address, as errors name it."""
        return f"{self.host}:{self.port}"

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
        target = self._target(path, query)
        octets = None
        if body is not None:
            octets = (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogateescape")
        sent = {"content-type": "application/json", **self._credentials(authorization), **headers}
        try:
            try:
                response = self._exchange(method, target, octets, sent)
            except ConnectionError:
                if method == "POST" or not self._asked:
                    raise
                self._connection.close()  # it was kept for too long
                response = self._exchange(method, target, octets, sent)
            self._asked = True
            found = self._read(response)
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unreachable(error) from None
        answer = decoded(found, response.getheader("content-type", ""))
        if response.status >= 300:
            raise refusal(response.status, answer)
        return answer

    def lines(self, *path: str, **query: str) -> Iterator[str]:
        """The lines of an answer that comes bit by bit, once it has begun.

        Raises Refusal, Missing, Unreachable, TimeoutError.
        """
        try:
            response = self._exchange("GET", self._target(path, query), None, self._credentials(""))
            if response.status >= 300:
                raise refusal(response.status, decoded(self._read(response), response.getheader("content-type", "")))
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        return self._lines(response)

    def _lines(self, response: http.client.HTTPResponse) -> Iterator[str]:
        try:
            while True:
                self._wait_no_longer()
                line = response.readline()
                if not line:
                    return
                yield line.decode("utf-8", "backslashreplace").rstrip("\n")
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None

    def wait_for_end(self) -> None:
        """Wait until the node closes the connection. Raises TimeoutError."""
        connected: socket.socket | None = self._connection.sock
        if connected is None:
            return
        self._wait_no_longer()
        try:
            while connected.recv(1):
                pass
        except TimeoutError:
            raise
        except OSError:
            return

    def _target(self, path: tuple[str, ...], query: Mapping[str, str]) -> str:
        target = self._prefix + "/".join(quote(segment, safe="", errors="surrogateescape") for segment in path)
        return f"{target}?{urlencode(query)}" if query else target

    def _credentials(self, authorization: str) -> dict[str, str]:
        header = authorization or self._authorization
        return {"authorization": header} if header else {}

    def _unreachable(self, error: Exception) -> Unreachable:
        self._connection.close()
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        return Unreachable(f"{self.where}: {' '.join(reason.split())}")

    def _exchange(
        self, method: str, target: str, octets: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """Raises OSError, HTTPException."""
        self._wait_no_longer()
        self._connection.request(method, target, octets, dict(headers))
        self._wait_no_longer()
        return self._connection.getresponse()

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        """Read a body of at most ANSWER_LIMIT bytes. Raises OSError, HTTPException."""
        pieces, size = [], 0
        while size < ANSWER_LIMIT:
            self._wait_no_longer()
            piece = response.read1(PIECE_BYTES)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        else:
            return b"".join(pieces)
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        response.read()  # nothing; the connection may be used for another request then
        return b"".join(pieces)

    def _wait_no_longer(self) -> None:
        """Give what is next on the socket the time that is left. Raises TimeoutError where none is."""
        if self._deadline_s is None:
            return
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.timeout = left_s
        if self._connection.sock is not None:
            self._connection.sock.settimeout(left_s)

    def close(self) -> None:
        self._connection.close()


class LocalAPI(API):
    """The HTTP API at the unix socket in the folder of a node's data, which needs no password."""

    is_local = True

    def __init__(self, folder: Path, timeout_s: float | None) -> None:
        """Nobody is connected to yet."""
        self._path = folder / SOCKET_NAME
        self._prefix, self._authorization = "/api/", ""
        self._begin(UnixConnection(folder, timeout_s), timeout_s)

    @property
    def where(self) -> str:
        return str(self._path.absolute())


class UnixConnection(http.client.HTTPConnection):
    """HTTP at the unix socket in a folder."""

    def __init__(self, folder: Path, timeout_s: float | None) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._folder = folder

    def connect(self) -> None:
        """Raises OSError."""
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connecting.settimeout(self.timeout)
            with address(self._folder) as name:
                connecting.connect(name)
        except OSError:
            connecting.close()
            raise
        self.sock = connecting


@contextmanager
def address(folder: Path) -> Iterator[str]:
    """The address of the socket in a folder while it is connected to: a long path goes by the folder's descriptor.

    Raises OSError.
    """
    path = str(folder / SOCKET_NAME)
    if len(os.fsencode(path)) <= ADDRESS_LIMIT:
        yield path
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def password_of(file: str) -> str:
    """The password that is not on the command line, where every user of the machine would see it.

    It is the first line of `file`, else the value of WARRENCTL_PASSWORD, else empty. Raises Failed (64).
    """
    if not file:
        return os.environ.get("WARRENCTL_PASSWORD", "")
    try:
        return Path(file).read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise Failed(USAGE_STATUS, f"warrenctl: --password-file: {file}: {reason}") from None


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
    return (Missing if status == 404 else Refusal)(status, error, text, answer)
