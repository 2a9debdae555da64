"""The log of requests: a file with a line for each, in the form that Apache calls combined."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

NAME = "access.log"
SECRET = "hash_password"  # the segment of a path after which a password comes
MODE = 0o640  # names of users and of all that there is are no news for everybody on the machine
LINE = '{host} - {user} [{time:%d/%b/%Y:%H:%M:%S} +0000] "{request}" {status} {size} "{referer}" "{agent}"\n'


class AccessLog:
    """The file in that folder; when it was moved away a new one is made.

    Requests are answered also while it cannot be written, of which the log of the broker tells once.
    """

    def __init__(self, folder: str, report: Callable[[str, str, dict[str, object]], None]) -> None:
        self._path = Path(folder) / NAME
        self._report = report
        self._failed = False

    def prepare(self) -> None:
        """Make the folder and the file. Raises OSError."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            open(self._path, "a", opener=restricted).close()
        except OSError as error:
            raise OSError(error.errno, f"management.http_log_dir: {error.filename}: {error.strerror}") from None

    def write(
        self, host: str, user: str, request: str, status: int, size: int, headers: Mapping[str, str], timestamp_s: int
    ) -> None:
        fields = {
            "host": host or "-",
            "user": user or "-",
            "request": without_password(request),
            "referer": headers.get("referer", "-"),
            "agent": headers.get("user-agent", "-"),
        }
        time = datetime.fromtimestamp(timestamp_s, UTC)
        said = {name: escaped(text) for name, text in fields.items()}
        try:
            with open(self._path, "a", encoding="utf-8", errors="replace", opener=restricted) as file:
                file.write(LINE.format(status=status, size=size or "-", time=time, **said))
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._report("http_log_not_written", "error", {"path": str(self._path), "reason": error.strerror})


def restricted(path: str, flags: int) -> int:
    """Open a file that others than its owner and group may not read."""
    return os.open(path, flags, MODE)


def without_password(request: str) -> str:
    """The first line of a request without the password in its path, however the path is encoded."""
    segments = request.split("/")
    for at, segment in enumerate(segments):
        if unquote(segment) == SECRET:
            return "/".join([*segments[: at + 1], "[redacted]"])
    return request


def escaped(text: str) -> str:
    """On one line, and without an end of its own."""
    return "".join(f"\\x{ord(one):02x}" if one in '"\\' or not one.isprintable() else one for one in text)
