"""The log of requests: a file with a line for each, in the form that Apache calls combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

NAME = "access.log"
SECRET = "/auth/hash_password/"  # what comes after it in a path is a password
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
            self._path.open("a").close()
        except OSError as error:
            raise OSError(error.errno, f"management.http_log_dir: {error.filename}: {error.strerror}") from None

    def write(
        self, host: str, user: str, request: str, status: int, size: int, headers: Mapping[str, str], timestamp_s: int
    ) -> None:
        before, secret, _ = request.partition(SECRET)
        fields = {
            "host": host or "-",
            "user": user or "-",
            "request": before + (f"{secret}[redacted]" if secret else ""),
            "referer": headers.get("referer", "-"),
            "agent": headers.get("user-agent", "-"),
        }
        time = datetime.fromtimestamp(timestamp_s, UTC)
        said = {name: escaped(text) for name, text in fields.items()}
        try:
            with self._path.open("a", encoding="utf-8", errors="replace") as file:
                file.write(LINE.format(status=status, size=size or "-", time=time, **said))
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._report("http_log_not_written", "error", {"path": str(self._path), "reason": error.strerror})


def escaped(text: str) -> str:
    """On one line, and without an end of its own."""
    return "".join(f"\\x{ord(one):02x}" if one in '"\\' or not one.isprintable() else one for one in text)
