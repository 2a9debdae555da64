"""The outputs of the log: standard error, a file, and the log exchange. Each has its own level and form."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from ..config.config import Log, LogForm, LogLevel, LogTime
from .record import TIMES, Record

FILE_MODE = 0o640  # because lines name users, queues and addresses

Publish = Callable[[str, str], None]
"""A function that takes a level and a line."""


class Output:
    """One output. Levels of categories have precedence over `level`; `least` is the lowest of all."""

    __slots__ = ("least", "_level", "_levels", "_json", "_time", "_colors", "_handler", "_line")

    def __init__(
        self, level: LogLevel, log: Log, form: LogForm, time: LogTime, handler: logging.Handler, colors: bool = False
    ) -> None:
        numbers = logging.getLevelNamesMapping()
        categories = {name: getattr(log.levels, name) for name in log.levels.__slots__}
        self._level = numbers[level.upper()]
        self._levels = {name: numbers[own.upper()] for name, own in categories.items() if own is not None}
        self.least = min([self._level, *self._levels.values()])
        self._json = form == "json"
        self._time = TIMES[time]
        self._colors = colors
        self._handler = handler
        self._line = logging.makeLogRecord({})  # reused: making one takes a third of the time of a line

    def put(self, number: int, record: Record) -> None:
        """Write a record if its level is high enough; if that fails it is lost. Not for several threads at once."""
        if number >= self._levels.get(record.category, self._level):
            self._line.msg = record.json(self._time) if self._json else record.plain(self._time, self._colors)
            self._line.levelname = record.level
            self._handler.handle(self._line)

    def close(self) -> None:
        self._handler.close()


class Console(logging.StreamHandler[TextIO]):
    """The handler of standard error. One thread at a time uses it, and a record is a line without a form of its own."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a line, without the filters, formats and locks of `logging`, which take the time of four writes."""
        try:
            self.stream.write(f"{record.msg}\n")
            self.stream.flush()
        except (OSError, ValueError):  # closed, or of an encoding that lacks a character
            self.handleError(record)
        return True


class Exchange(logging.Handler):
    """The handler that passes lines to `publish`, if that is set."""

    def __init__(self) -> None:
        super().__init__()
        self.publish: Publish | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.publish is not None:
            self.publish(record.levelname, record.getMessage())


def outputs(log: Log, stream: TextIO, exchange: Exchange) -> list[Output]:
    """Return the configured outputs. Raises OSError if the file cannot be written."""
    configured = []
    if log.file:
        configured.append(Output(log.file_level, log, log.file_form, log.file_time, _file(log)))
    if log.console:
        human = log.form == "human" or (log.form == "auto" and stream.isatty())
        colors = human and stream.isatty() and "NO_COLOR" not in os.environ
        handler = Console(stream)
        configured.append(Output(log.level, log, "human" if human else "json", log.time, handler, colors))
    if log.exchange:
        configured.append(Output(log.exchange_level, log, log.exchange_form, "rfc3339_space", exchange))
    return configured


def open_restricted(path: str, flags: int) -> int:
    """Open a file that only its owner and group may read."""
    return os.open(path, flags, FILE_MODE)


def _file(log: Log) -> logging.Handler:
    from logging import handlers  # here, because most logs have no file

    class Restricted(logging.FileHandler):
        def _open(self) -> Any:
            return open(
                self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=open_restricted
            )

    class WatchedFile(Restricted, handlers.WatchedFileHandler):
        """A file that is opened again after it was renamed."""

    class RotatedFile(Restricted, handlers.RotatingFileHandler):
        """A file that is renamed at a size."""

    path = Path(log.dir, log.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    if log.file_rotation_bytes is None:
        return WatchedFile(path, encoding="utf-8", errors="backslashreplace")
    count = max(log.file_rotation_count, 1)  # with 0 the handler would not rotate at all
    return RotatedFile(
        path, maxBytes=log.file_rotation_bytes, backupCount=count, encoding="utf-8", errors="backslashreplace"
    )
