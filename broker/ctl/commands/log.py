"""Commands for the node's log and events."""

from ..call import Call
from ..command import DIAGNOSTICS, NODES, send
from ..errors import USAGE, APIError, CommandError
from ..formats import Lines, Report


def log_location(call: Call) -> Report:
    """Return the first log file, or all with --all."""
    files = call.get("nodes/{node}").get("log_files", [])
    shown = files if call.flag("all") else files[:1]
    return Report("\n".join(shown), {"logs": shown})


def log_tail(call: Call) -> str:
    lines = str(call.integer("number", 50))
    return "\n".join(call.get("warren/log/tail", {"lines": lines})["lines"])


def duration(call: Call) -> dict[str, str]:
    """Return the option --duration as that of a request. Raises CommandError (64)."""
    endless = call.text("duration", "infinity") == "infinity"
    return {} if endless else {"duration": str(call.integer("duration", 0))}


def stream_banner(call: Call) -> str:
    seconds = call.text("duration", "infinity")
    return f"Streaming logs from node {call.node}{'' if seconds == 'infinity' else f' for {seconds} seconds'} ..."


def consume_event_stream(call: Call) -> Lines:
    """Raises CommandError (64) for an invalid pattern."""
    pattern = call.text("pattern") or ".*"
    try:
        return Lines(call.api.lines("warren", "events", pattern=pattern, **duration(call)))
    except APIError as error:
        if error.status != 400:
            raise
        text = f"Invalid options for this command:\n--pattern : {error.reason}"
        raise CommandError(USAGE, text, argument=True) from None


# fmt: off
DIAGNOSTICS("log_location [--all]: Says where the log is", "Log file location(s) on node {node} ...", log_location)
DIAGNOSTICS.local("log_tail [--number <number>]: Prints the last lines of the log",
                  lambda call: f"Last {call.text('number', '50')} log lines on node {call.node} ...", log_tail)
DIAGNOSTICS.local("log_tail_stream [--duration <seconds>]: Streams the log", stream_banner,
                  lambda call: Lines(call.api.lines("warren", "log", "stream", **duration(call))))
DIAGNOSTICS.local("consume_event_stream [--duration <seconds>] [--pattern <pattern>]: "
                  "Streams events of the node, as JSON", run=consume_event_stream)
NODES.local("set_log_level <log_level>: Sets the level of the log", 'Setting log level to "{0}" ...',
            lambda call: call.put("warren/log", {"level": call.arguments[0]}))
NODES.local("rotate_logs: Opens log files anew", "Rotating logs for node {node} ...", send("POST", "warren/log/rotate"))
