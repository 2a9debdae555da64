"""The log of the node, for operators: its outputs, level and last lines."""

import os
from dataclasses import replace
from pathlib import Path

from .. import logs
from ..config.config import Log, LogLevel
from ..logs.recent import Follower

TAIL_BYTES = 1 << 20  # of a file, from which its last lines are read


class NodeLog:
    """The outputs, level and last lines of the log; `log` is its present configuration."""

    def __init__(self, node: str, log: Log) -> None:
        self.log = log
        self._node = node

    def configure(self, log: Log) -> None:
        """Apply a configuration and reopen files. Raises OSError; nothing has changed then."""
        logs.configure(log, node=self._node)
        self.log = log

    def rotate(self) -> None:
        """Reopen files, which replaces a file that was moved. Raises OSError."""
        self.configure(self.log)

    def set_level(self, level: LogLevel) -> None:
        """Set the level of all outputs until the next start. Raises OSError."""
        self.configure(replace(self.log, level=level, file_level=level, exchange_level=level))

    def locations(self) -> list[str]:
        """Return the path of the file, if there is one, and `<stderr>` for the console."""
        file = self._file()
        return ([str(file)] if file is not None else []) + (["<stderr>"] if self.log.console else [])

    def tail(self, count: int) -> list[str]:
        """Return the last lines of the file, or without a file of the records in memory. Raises OSError."""
        logs.write_waiting()
        file = self._file()
        lines = logs.recent.lines() if file is None else last_lines(file)
        return lines[-count:] if count else []

    def follow(self, follower: Follower) -> None:
        """Call `follower` with each line from now on, from any thread."""
        logs.write_waiting()
        logs.recent.followers.append(follower)

    def unfollow(self, follower: Follower) -> None:
        logs.recent.followers.remove(follower)

    def _file(self) -> Path | None:
        return Path(self.log.dir, self.log.file) if self.log.file else None


def last_lines(file: Path) -> list[str]:
    """Return the lines in the last TAIL_BYTES of a file. Raises OSError."""
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - TAIL_BYTES))
        lines = opened.read(TAIL_BYTES).decode("utf-8", "backslashreplace").splitlines()
    return lines[1:] if size > TAIL_BYTES else lines
