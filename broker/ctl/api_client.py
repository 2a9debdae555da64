"""A client of the HTTP API, over TCP or the node's unix socket. No error names the user or the password."""

import base64
import errno
import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from ..control_socket import NAME, address_in
from ..system_errors import file_error, network_error, read_text
from .errors import USAGE, APIError, ExitError, NotFound, Unreachable

PORTS = {"http": 15672, "https": 15671}
ANSWER_LIMIT = 256 << 20  # bytes: the lists and definitions of a large broker are one response
WHERE = "the log of the broker says at which port its HTTP API does, usually 15672"
NOT_HTTP = f"what listens there does not speak HTTP; {WHERE}"
NO_URL = "warrenctl: --url: not an http:// or https:// URL (signs such as / and @ are percent-encoded in a password)"
NO_PASSWORD = (
    "warrenctl: --url: the password of its user is missing: give it by --password-file or WARRENCTL_PASSWORD,"
    " or type it at a terminal"
)
PIECE_BYTES = 1 << 16  # of a response body, between two checks of the deadline
CREDENTIALS = Struct("3i")  # process, user and group at the other end of a unix socket
EMPTY: Mapping[str, str] = {}


class API:
    """The HTTP API at a URL, which may contain user and password.

    A missing user means guest with the password guest. A missing password is found by `password_of`.
    """

    is_local = False

    def __init__(self, url: str, timeout_s: float | None, password_file: str = "", ask: bool = True) -> None:
        """Prepare the connection; `timeout_s`, or None, limits all requests together. Raises ExitError (64).

        `ask`: a missing password may be asked for.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:  # its text may contain a part of the password
            raise ExitError(USAGE, NO_URL) from None
        if parts.scheme not in PORTS or not host or "@" in parts.path + parts.query + parts.fragment:
            raise ExitError(USAGE, NO_URL)
        self.host, self.port = host, port or PORTS[parts.scheme]
        self.address = f"{host}:{self.port}"  # as errors show it
        self._prefix = parts.path.rstrip("/") + "/api/"
        user, password = parts.username, parts.password
        if user is None and not password_file:
            user, password = "guest", "guest"
        elif password is None:
            password = quote(password_of(password_file, unquote(user or "guest"), self.address, ask))
        self._authorization = basic_credentials(unquote(user or "guest"), unquote(password or ""))
        secure = parts.scheme == "https"  # the default context verifies the server
        connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._begin(connect(host, self.port, timeout=timeout_s), timeout_s)

    def _begin(self, connection: http.client.HTTPConnection, timeout_s: float | None) -> None:
        self._connection = connection
        self._used = False
        self.begin_deadline(timeout_s)

    def begin_deadline(self, timeout_s: float | None) -> None:
        """Limit all requests from now on together."""
        self._deadline_s = None if timeout_s is None else time.monotonic() + timeout_s

    def get(self, *path: str, **query: str) -> Any:
        return self.request("GET", path, query=query)

    def put(self, *path: str, body: object = None) -> Any:
        return self.request("PUT", path, body={} if body is None else body)

    def post(self, *path: str, body: object = None) -> Any:
        return self.request("POST", path, body={} if body is None else body)

    def delete(self, *path: str, headers: Mapping[str, str] = EMPTY, query: Mapping[str, str] = EMPTY) -> Any:
        return self.request("DELETE", path, query=query, headers=headers)

    def request(
        self,
        method: str,
        path: tuple[str, ...],
        body: object = None,
        query: Mapping[str, str] = EMPTY,
        headers: Mapping[str, str] = EMPTY,
        login: tuple[str, str] | None = None,
    ) -> Any:
        """Return the decoded JSON of the response, its text if it is not JSON, or None if it is empty.

        A `body` of type str is sent as it is. Raises APIError, NotFound, Unreachable, TimeoutError.
        """
        target = self._target(path, query)
        data = None
        if body is not None:
            data = (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogateescape")
        sent = {"content-type": "application/json", **self._credentials(login), **headers}
        with self._reachable():
            try:
                response = self._exchange(method, target, data, sent)
            except ConnectionError:
                if method == "POST" or not self._used:
                    raise
                self._connection.close()  # the kept-alive connection had been closed
                response = self._exchange(method, target, data, sent)
            self._used = True
            return self._answer(response)

    def lines(self, *path: str, **query: str) -> Iterator[str]:
        """Return the lines of a GET response as they arrive. Raises APIError, NotFound, Unreachable, TimeoutError."""
        with self._reachable():
            response = self._exchange("GET", self._target(path, query), None, self._credentials())
            if response.status >= 300:
                self._answer(response)
        return self._lines(response)

    def _lines(self, response: http.client.HTTPResponse) -> Iterator[str]:
        while True:
            with self._reachable():
                self._apply_deadline()
                line = response.readline()
            if not line:
                return
            yield line.decode("utf-8", "backslashreplace").rstrip("\n")

    def body(self, *path: str) -> Callable[[int], bytes]:
        """Return the function that reads the body of a GET response: at most so many bytes, none at its end.

        Both raise APIError, NotFound, Unreachable, TimeoutError; Unreachable also if the body ends too early.
        """
        with self._reachable():
            response = self._exchange("GET", self._target(path, EMPTY), None, self._credentials())
            if response.status >= 300:
                self._answer(response)

        def read(count: int) -> bytes:
            with self._reachable():
                self._apply_deadline()
                try:
                    return response.read1(count)
                except http.client.IncompleteRead:
                    raise ConnectionError(errno.ECONNRESET, "it has ended its answer too early") from None

        return read

    def wait_for_end(self) -> None:
        """Wait until the node closes the connection. Raises TimeoutError."""
        connected: socket.socket | None = self._connection.sock
        self._apply_deadline()
        try:
            while connected is not None and connected.recv(1):
                pass
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise

    def server_pid(self) -> int | None:
        """Return the process id of the node, or None if it may be on another machine."""
        return None

    def _target(self, path: tuple[str, ...], query: Mapping[str, str]) -> str:
        target = self._prefix + "/".join(quote(segment, safe="", errors="surrogateescape") for segment in path)
        return f"{target}?{urlencode(query)}" if query else target

    def _credentials(self, login: tuple[str, str] | None = None) -> dict[str, str]:
        header = basic_credentials(*login) if login else self._authorization
        return {"authorization": header} if header else {}

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        """Raise Unreachable for other errors than a timeout and one of the API."""
        try:
            yield
        except (APIError, TimeoutError):
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> Unreachable:
        self._connection.close()
        if isinstance(error, http.client.BadStatusLine) and not isinstance(error, OSError):
            return Unreachable(f"{self.address}: {NOT_HTTP}")
        known = network_error(error) if isinstance(error, OSError) and not self.is_local else ""
        reason = known or (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        if isinstance(error, ConnectionRefusedError) and not self.is_local:
            reason += f"; {WHERE}"
        return Unreachable(f"{self.address}: {' '.join(reason.split())}", isinstance(error, PermissionError))

    def _exchange(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """Raises OSError, HTTPException, TimeoutError."""
        self._apply_deadline()
        self._connection.request(method, target, data, dict(headers))
        self._apply_deadline()
        return self._connection.getresponse()

    def _answer(self, response: http.client.HTTPResponse) -> Any:
        """Return the decoded body. Raises APIError, NotFound, OSError, HTTPException."""
        answer = decode(self._read(response), response.getheader("content-type", ""))
        if response.status < 300:
            return answer
        fields = answer if isinstance(answer, dict) else {}
        error, reason = str(fields.get("error", "")), fields.get("reason")
        text = reason if isinstance(reason, str) else json.dumps(reason) if reason else f"HTTP status {response.status}"
        raise (NotFound if response.status == 404 else APIError)(response.status, error, text, answer)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        """Read a body. Raises OSError, HTTPException, also for one of more than ANSWER_LIMIT bytes."""
        pieces, size = [], 0
        while size < ANSWER_LIMIT:
            self._apply_deadline()
            piece = response.read1(PIECE_BYTES)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        else:
            raise http.client.HTTPException(f"the response is longer than {ANSWER_LIMIT >> 20} MiB")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        response.read()  # empty; marks the response complete, so the connection can be used again
        return b"".join(pieces)

    def _apply_deadline(self) -> None:
        """Set the socket's timeout to the time that is left. Raises TimeoutError if none is left."""
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
    """The HTTP API at the unix socket in a node's data folder; it needs no password."""

    is_local = True

    def __init__(self, folder: Path, timeout_s: float | None) -> None:
        """Prepare the connection, which the first request opens."""
        self.address = str((folder / NAME).absolute())
        self._prefix, self._authorization = "/api/", ""
        self._begin(UnixConnection(folder, timeout_s), timeout_s)

    def server_pid(self) -> int | None:
        """Return the process id of the node, once it has answered; None if it is in a container or not on Linux."""
        connected: socket.socket | None = self._connection.sock
        if connected is None or not hasattr(socket, "SO_PEERCRED"):
            return None
        pid, _, _ = CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
        return int(pid) or None


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the unix socket in a folder."""

    def __init__(self, folder: Path, timeout_s: float | None) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._folder = folder

    def connect(self) -> None:
        """Raises OSError."""
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connecting.settimeout(self.timeout)
            with address_in(self._folder) as name:
                connecting.connect(name)
        except OSError:
            connecting.close()
            raise
        self.sock = connecting


def password_of(file: str, user: str, address: str, ask: bool = True) -> str:
    """Return the first line of `file`, or else WARRENCTL_PASSWORD, or else what a person types at a terminal.

    On the command line every user of the machine could see the password. Raises ExitError (64), also for an empty one.
    """
    if not file:
        password = os.environ.get("WARRENCTL_PASSWORD", "")
        if not password and ask:
            password = typed_password(f"Password for user {user} at {address}: ")
        if password:
            return password
        raise ExitError(USAGE, NO_PASSWORD)
    try:
        password = read_text(file).partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = file_error(error, file) if isinstance(error, OSError) else f"{file}: not UTF-8"
    else:
        if password:
            return password
        reason = f"{file}: its first line is empty"
    raise ExitError(USAGE, f"warrenctl: --password-file: {reason}") from None


@cache  # a command that waits for its node connects many times
def typed_password(prompt: str) -> str:
    """Ask for a password, if the standard input is a terminal; it is empty if none is typed or nobody can."""
    if sys.stdin is None or not sys.stdin.isatty():
        return ""
    from getpass import getpass

    try:
        return getpass(prompt)
    except EOFError:
        print(file=sys.stderr)  # ends the line of the prompt
        return ""


def basic_credentials(user: str, password: str) -> str:
    pair = f"{user}:{password}".encode("utf-8", "surrogateescape")
    return "Basic " + base64.b64encode(pair).decode("ascii")


def decode(data: bytes, media_type: str) -> Any:
    text = data.decode("utf-8", "backslashreplace")
    if not text or "json" not in media_type:
        return text or None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
