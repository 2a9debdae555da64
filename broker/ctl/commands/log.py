"""Commands for the node's log and events."""

from __future__ import annotations

from ..answers import CommandError, Lines, Report
from ..api_client import APIError
from ..exit_status import USAGE
from .call import Call, Handler

DEFAULT_LINES = 50


def log_location(call: Call) -> Report:
    """Return the first log file, or all with --all."""
    places = list(call.api.get("nodes", call.node).get("log_files", []))
    shown = places if call.flag("all") else places[:1]
    return Report("\n".join(shown), {"logs": shown})


def log_tail(call: Call) -> str:
    number = call.integer("number", DEFAULT_LINES)
    return "\n".join(call.api.get("warren", "log", "tail", lines=str(number))["lines"])


def log_tail_stream(call: Call) -> Lines:
    return Lines(call.api.lines("warren", "log", "stream", **duration(call)))


def consume_event_stream(call: Call) -> Lines:
    """Raises CommandError (64) for an invalid pattern."""
    pattern = {"pattern": call.text("pattern", ".*") or ".*"}
    try:
        return Lines(call.api.lines("warren", "events", **pattern, **duration(call)))
    except APIError as error:
        if error.status != 400:
            raise
        text = f"Invalid options for this command:\n--pattern : {error.reason}"
        raise CommandError(USAGE, text, argument=True) from None


def duration(call: Call) -> dict[str, str]:
    """Raises CommandError (64)."""
    endless = call.text("duration", "infinity") == "infinity"
    return {} if endless else {"duration": str(call.integer("duration", 0))}


def set_log_level(call: Call) -> None:
    call.api.put("warren", "log", body={"level": call.arguments[0]})


def rotate_logs(call: Call) -> None:
    call.api.post("warren", "log", "rotate")


COMMANDS: dict[str, Handler] = {
    "consume_event_stream": consume_event_stream,
    "log_location": log_location,
    "log_tail": log_tail,
    "log_tail_stream": log_tail_stream,
    "rotate_logs": rotate_logs,
    "set_log_level": set_log_level,
}
