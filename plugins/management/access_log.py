"""The log of requests: a file with a line for each, in the form that Apache calls combined."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

NAME = "access.log"
SECRET = "/auth/hash_password/"  # what comes after it in a path is a password
LINE = '{host} - {user} [{time:%d/%b/%Y:%H:%M:%S} +0000] "{request}" {status} {size} "{referer}" "{agent}"\n'


class AccessLog:
    """In that folder, which is made if it is not there. Raises OSError. Whoever moves the file away gets a new one."""

    def __init__(self, folder: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._path = Path(folder) / NAME

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
        with self._path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(LINE.format(status=status, size=size or "-", time=time, **said))


def escaped(text: str) -> str:
    """On one line, and without an end of its own."""
    return "".join(f"\\x{ord(one):02x}" if one in '"\\' or not one.isprintable() else one for one in text)
