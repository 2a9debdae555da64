"""A record of the log, without credentials, and its lines: plain or JSON."""

import json
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from .messages import category_of, lines_of, phrase, printable
from .redaction import clean, redacted

NO_PROCESS = "<0.0.0>"
DOMAIN = "rabbitmq"
OURS = ("time", "level", "msg", "event", "domain", "category")  # keys of a line that no field may have
_COLORS = {"debug": "36", "info": "32", "warning": "33", "error": "31", "critical": "31;1"}


class Record:
    """One event with its time, level, category and fields; an exception among them becomes text."""

    __slots__ = ("time_s", "level", "event", "category", "fields")

    def __init__(self, time_s: float, level: str, event: str, fields: Mapping[str, object]) -> None:
        self.time_s = time_s
        self.level = level
        self.event = clean(event)
        self.category = str(fields.get("category", category_of(event)))
        self.fields = {name: redacted(name, value) for name, value in fields.items() if name != "exc_info"}
        error = fields.get("exc_info")
        if isinstance(error, BaseException):
            self.fields["exception"] = clean("".join(traceback.format_exception(error)).rstrip())

    def plain(self, time: Callable[[float], object], colors: bool = False) -> str:
        """Return plain lines, each of which begins with time, level and connection."""
        fields = dict(self.fields)
        trace = str(fields.pop("exception", ""))
        lines = lines_of(self.event, fields) + [printable(line) for line in trace.split("\n") if trace]
        level = f"\x1b[{_COLORS[self.level]}m[{self.level}]\x1b[0m" if colors else f"[{self.level}]"
        before = f"{time(self.time_s)} {level} {fields.get('process') or NO_PROCESS} "
        return "\n".join([before + line for line in lines])

    def json(self, time: Callable[[float], object]) -> str:
        """Return one JSON object on one line: RabbitMQ's keys, the name of the event, and its fields."""
        fields = {name: value for name, value in self.fields.items() if name not in OURS}
        process = fields.pop("process", NO_PROCESS)
        trace = fields.pop("exception", None)
        whole = {
            "time": time(self.time_s),
            "level": self.level,
            "msg": phrase(self.event, {"process": process, **fields}),
            "event": self.event,
            "domain": DOMAIN if self.category == "default" else f"{DOMAIN}.{self.category}",
        }
        if process != NO_PROCESS:
            whole["pid"] = process
        whole |= fields
        if trace is not None:
            whole["exception"] = trace
        return _in_ascii(whole)


def _in_ascii(value: object) -> str:
    """Return the JSON of a value in ASCII: names of any language, and escapes of terminals, are shown as `\\uXXXX`."""
    with suppress(UnicodeEncodeError, OverflowError):  # half of a surrogate pair, or an integer of more than 64 bits
        text = msgspec.json.encode(value).decode()
        if text.isascii():
            return text
    return json.dumps(value, separators=(",", ":"))


def _stamp(separator: str) -> Callable[[float], str]:
    """Return a function for the time of a line, which formats the second once for all lines in it."""

    @lru_cache(1)
    def second(at_s: int) -> str:
        return datetime.fromtimestamp(at_s, UTC).strftime(f"%Y-%m-%d{separator}%H:%M:%S")

    return lambda time_s: f"{second(int(time_s))}.{int(time_s % 1 * 1_000_000):06}+00:00"


# log.*.formatter.time_format
TIMES: dict[str, Callable[[float], object]] = {
    "rfc3339_space": _stamp(" "),
    "rfc3339_T": _stamp("T"),
    "epoch_secs": lambda time_s: int(time_s),
    "epoch_usecs": lambda time_s: int(time_s * 1_000_000),
    "lager_default": lambda time_s: datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
}
