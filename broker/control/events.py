"""What happens in the node, as it happens: its events, an object of JSON each."""

from __future__ import annotations

import json

import regex

from ..core.json_table import json_of_table
from ..table import Table
from .answers import USAGE, Refused
from .call import Call, Handler
from .log import duration_s
from .streams import Stream

MATCH_WAIT_S = 0.02  # for a pattern, which may be one that takes for ever


def consume_event_stream(call: Call) -> Stream:
    """Raises Refused (64) for a pattern that is none."""
    text = call.text("pattern", ".*")
    try:
        pattern = regex.compile(text)
    except regex.error as error:
        raise Refused(USAGE, f"Invalid options for this command:\n--pattern : {text}: {error}", argument=True) from None
    stream = Stream(duration_s(call), lambda number: json.dumps({"missed": number}))

    def happened(name: str, fields: Table) -> None:
        try:
            if not pattern.search(name, timeout=MATCH_WAIT_S):
                return
        except TimeoutError:
            stream.end()
            return
        stream.put(json.dumps({"event": name, **json_of_table(fields)}, separators=(",", ":")))

    hooks = call.node.events.hooks
    hooks.append(happened)
    stream.leave = lambda: hooks.remove(happened)
    return stream


COMMANDS: dict[str, Handler] = {"consume_event_stream": consume_event_stream}
