"""Where lines go: standard error, a file, and the exchange of the log. Each has its own level and form."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from ..config.config import Log, LogForm, LogLevel, LogTime
from .record import TIMES, Record

FILE_MODE = 0o640  # lines name users, queues and addresses

Publish = Callable[[str, str], None]
"""Takes a level and a line."""


class Output:
    """`levels` are those of categories, which count in place of `level`."""

    __slots__ = ("least", "_level", "_levels", "_json", "_time", "_colors", "_handler", "_line")

    def __init__(
        self,
        level: LogLevel,
        log: Log,
        form: LogForm,
        time: LogTime,
        handler: logging.Handler,
        colors: bool = False,
    ) -> None:
        numbers = logging.getLevelNamesMapping()
        categories = {name: getattr(log.levels, name) for name in log.levels.__slots__}
        self._level = numbers[level.upper()]
        self._levels = {name: numbers[given.upper()] for name, given in categories.items() if given is not None}
        self.least = min([self._level, *self._levels.values()])
        self._json = form == "json"
        self._time = TIMES[time]
        self._colors = colors
        self._handler = handler
        self._line = logging.makeLogRecord({})  # the same one again and again: to make one takes a third of the time

    def put(self, number: int, record: Record) -> None:
        """Write it, if the level of it is high enough. What cannot be written is lost, and nothing else.

        One at a time.
        """
        if number >= self._levels.get(record.category, self._level):
            self._line.msg = record.json(self._time) if self._json else record.plain(self._time, self._colors)
            self._line.levelname = record.level
            self._handler.handle(self._line)

    def close(self) -> None:
        self._handler.close()


class Exchange(logging.Handler):
    """Gives lines to whoever publishes them, once there is somebody."""

    def __init__(self) -> None:
        super().__init__()
        self.publish: Publish | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.publish is not None:
            self.publish(record.levelname, record.getMessage())


def outputs(log: Log, stream: TextIO, exchange: Exchange) -> list[Output]:
    """Those that are configured. Raises OSError where the file cannot be written."""
    found = []
    if log.file:
        found.append(Output(log.file_level, log, log.file_form, log.file_time, _file(log)))
    if log.console:
        human = log.form == "human" or (log.form == "auto" and stream.isatty())
        colors = human and stream.isatty() and "NO_COLOR" not in os.environ
        handler = logging.StreamHandler(stream)
        found.append(Output(log.level, log, "human" if human else "json", log.time, handler, colors))
    if log.exchange:
        found.append(Output(log.exchange_level, log, log.exchange_form, "rfc3339_space", exchange))
    return found


def restricted(path: str, flags: int) -> int:
    """Open a file that others than its owner and group may not read."""
    return os.open(path, flags, FILE_MODE)


def _file(log: Log) -> logging.Handler:
    from logging import handlers  # only here: most have no file

    class WatchedFile(handlers.WatchedFileHandler):
        def _open(self) -> Any:
            return open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=restricted)

    class RotatedFile(handlers.RotatingFileHandler):
        def _open(self) -> Any:
            return open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=restricted)

    path = Path(log.dir, log.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    if log.file_rotation_bytes is None:
        return WatchedFile(path, encoding="utf-8", errors="backslashreplace")
    count = max(log.file_rotation_count, 1)  # without an old file to keep the handler would cut nothing off
    return RotatedFile(
        path, maxBytes=log.file_rotation_bytes, backupCount=count, encoding="utf-8", errors="backslashreplace"
    )
