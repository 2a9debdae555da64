"""The log of HTTP requests, a line each, in Apache's combined log format."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from warren.broker.system_errors import file_error

if TYPE_CHECKING:
    from ...http.asgi import Incoming

NAME = "access.log"
SECRET = "hash_password"  # the path segment before a password
MODE = 0o640  # not readable by all users of the machine, as it contains names of users and objects
LINE = '{host} - {user} [{time:%d/%b/%Y:%H:%M:%S} +0000] "{request}" {status} {size} "{referer}" "{agent}"\n'


class AccessLog:
    """The log file in a folder, created again after log rotation.

    If the file cannot be written, requests are answered nevertheless, and the broker's log gets one error.
    """

    def __init__(self, folder: str, report: Callable[[str, str, dict[str, object]], None]) -> None:
        self._path = Path(folder) / NAME
        self._report = report
        self._failed = False

    def prepare(self) -> None:
        """Create the folder and the file. Raises ValueError."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            open(self._path, "a", opener=open_private).close()
        except OSError as error:
            raise ValueError(f"management.http_log_dir: {file_error(error)}") from None

    def write(self, incoming: Incoming, path: str, status: int, size: int, timestamp_s: int) -> None:
        fields = {
            "host": incoming.peer.host or "-",
            "user": incoming.user or "-",
            "request": redact_password(f"{incoming.method} {path} HTTP/{incoming.scope.get('http_version', '1.1')}"),
            "referer": incoming.headers.get("referer", "-"),
            "agent": incoming.headers.get("user-agent", "-"),
        }
        time = datetime.fromtimestamp(timestamp_s, UTC)
        said = {name: escape(text) for name, text in fields.items()}
        try:
            with open(self._path, "a", encoding="utf-8", errors="replace", opener=open_private) as file:
                file.write(LINE.format(status=status, size=size or "-", time=time, **said))
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._report("http_log_not_written", "error", {"path": str(self._path), "reason": file_error(error)})


def open_private(path: str, flags: int) -> int:
    """Open a file that only its owner and group may read."""
    return os.open(path, flags, MODE)


def redact_password(request: str) -> str:
    """Return the first line of a request with the password in its path redacted, in any percent-encoding."""
    segments = request.split("/")
    for at, segment in enumerate(segments):
        if unquote(segment) == SECRET:
            return "/".join([*segments[: at + 1], "[redacted]"])
    return request


def escape(text: str) -> str:
    """Return the text on one line, with quotes and backslashes escaped."""
    return "".join(f"\\x{ord(one):02x}" if one in '"\\' or not one.isprintable() else one for one in text)
