"""The node's log: where it is, its last lines, its next ones, its level."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import get_args

from .. import logs
from ..config.config import Log, LogLevel
from .answers import UNAVAILABLE, Refused, Report
from .call import Call, Daemon, Handler
from .streams import Stream

LEVELS: dict[str, LogLevel] = {level: level for level in get_args(LogLevel)}
DEFAULT_LINES = 50
TAIL_BYTES = 1 << 20  # of a file, that its last lines are looked for in


def log_file(daemon: Daemon) -> Path | None:
    return Path(daemon.log.dir, daemon.log.file) if daemon.log.file else None


def log_places(call: Call) -> list[str]:
    file = log_file(call.daemon)
    return ([str(file)] if file is not None else []) + (["<stderr>"] if call.daemon.log.console else [])


def log_location(call: Call) -> Report:
    """Of files alone, if there is one, unless all outputs are asked for."""
    places = log_places(call)
    shown = places if call.flag("all") else places[:1]
    return Report("\n".join(shown), {"logs": shown})


def log_tail(call: Call) -> str:
    """Of the file; where there is none, of what this process has logged lately. Raises Refused (69)."""
    number, file = call.whole("number", DEFAULT_LINES), log_file(call.daemon)
    if file is None:
        lines = logs.recent.lines()
    else:
        try:
            lines = tail(file)
        except OSError as error:
            raise Refused(UNAVAILABLE, f"cannot read {file}: {error.strerror or error}") from None
    return "\n".join(lines[-number:] if number else [])


def tail(file: Path) -> list[str]:
    """The last lines of a file. Raises OSError."""
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - TAIL_BYTES))
        lines = opened.read(TAIL_BYTES).decode("utf-8", "backslashreplace").splitlines()
    return lines[1:] if size > TAIL_BYTES else lines


def log_tail_stream(call: Call) -> Stream:
    """What is logged from now on, wherever it goes."""
    stream = Stream(duration_s(call), lambda number: f"({number} more came too fast)")
    logs.recent.followers.append(stream.put)
    stream.leave = lambda: logs.recent.followers.remove(stream.put)
    return stream


def duration_s(call: Call) -> float | None:
    """None without end. Raises Refused (64)."""
    return float(call.whole("duration", 0)) if call.text("duration", "infinity") != "infinity" else None


def set_log_level(call: Call) -> None:
    """Of all outputs, until the next start."""
    level = LEVELS.get(call.arguments[0])
    if level is None:
        raise Refused(UNAVAILABLE, f"level {call.arguments[0]} is not supported. Try one of {', '.join(LEVELS)}")
    configure(call.daemon, replace(call.daemon.log, level=level, file_level=level, exchange_level=level))


def rotate_logs(call: Call) -> None:
    """Files are opened anew, so that whoever moved one away gets a new one."""
    configure(call.daemon, call.daemon.log)


def configure(daemon: Daemon, log: Log) -> None:
    """Raises Refused (69)."""
    try:
        daemon.configure_log(log)
    except OSError as error:
        raise Refused(UNAVAILABLE, f"cannot open the log: {error}") from None


COMMANDS: dict[str, Handler] = {
    "log_location": log_location,
    "log_tail": log_tail,
    "log_tail_stream": log_tail_stream,
    "set_log_level": set_log_level,
    "rotate_logs": rotate_logs,
}
