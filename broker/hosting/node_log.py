"""The log of the node, as operators see and change it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import get_args

from .. import logs
from ..config.config import Log, LogLevel
from ..logs.recent import Follower

LEVELS: dict[str, LogLevel] = {level: level for level in get_args(LogLevel)}
TAIL_BYTES = 1 << 20  # of a file, in which its last lines are looked for


class NodeLog:
    """The outputs, level and last lines of the log; `log` is its configuration as it is now."""

    def __init__(self, node: str, log: Log) -> None:
        self.log = log
        self._node = node

    def configure(self, log: Log) -> None:
        """Log as `log` says from now on, with files opened anew. Raises OSError; nothing has changed then."""
        logs.configure(log, node=self._node)
        self.log = log

    def rotate(self) -> None:
        """Open files anew, so that one that was moved away is replaced by a new one. Raises OSError."""
        self.configure(self.log)

    def set_level(self, level: LogLevel) -> None:
        """Set the level of all outputs until the next start. Raises OSError."""
        self.configure(replace(self.log, level=level, file_level=level, exchange_level=level))

    def locations(self) -> list[str]:
        """The path of the file, if there is one, and `<stderr>` for the console."""
        file = self._file()
        return ([str(file)] if file is not None else []) + (["<stderr>"] if self.log.console else [])

    def tail(self, count: int) -> list[str]:
        """The last lines of the file, or without a file those of the last records in memory. Raises OSError."""
        file = self._file()
        lines = logs.recent.lines() if file is None else last_lines(file)
        return lines[-count:] if count else []

    def follow(self, follower: Follower) -> None:
        """Call `follower` with each line from now on, from any thread."""
        logs.recent.followers.append(follower)

    def unfollow(self, follower: Follower) -> None:
        logs.recent.followers.remove(follower)

    def _file(self) -> Path | None:
        return Path(self.log.dir, self.log.file) if self.log.file else None


def last_lines(file: Path) -> list[str]:
    """The lines in the last TAIL_BYTES of a file. Raises OSError."""
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - TAIL_BYTES))
        lines = opened.read(TAIL_BYTES).decode("utf-8", "backslashreplace").splitlines()
    return lines[1:] if size > TAIL_BYTES else lines
