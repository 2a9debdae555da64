"""What happens in the node, as it happens: its events, an object of JSON each."""

from __future__ import annotations

import json

from ..amqp.errors import Invalid
from ..amqp.field_table import Table
from ..amqp.table_json import json_of_table
from ..core.metadata.patterns import Pattern
from .answers import USAGE, Refused
from .call import Call, Handler
from .log import duration_s
from .streams import Stream


def consume_event_stream(call: Call) -> Stream:
    """Raises Refused (64) for a pattern that is none."""
    text = call.text("pattern", ".*")
    try:
        pattern = Pattern(text or ".*")
    except Invalid as error:
        line = f"Invalid options for this command:\n--pattern : {error.text}"
        raise Refused(USAGE, line, argument=True) from None
    stream = Stream(duration_s(call), lambda number: json.dumps({"missed": number}))

    def happened(name: str, fields: Table) -> None:
        found = pattern.search(name)
        if found is None:
            stream.end()
        if not found:
            return
        stream.put(json.dumps({"event": name, **json_of_table(fields)}, separators=(",", ":")))

    hooks = call.node.events.hooks
    hooks.append(happened)
    stream.leave = lambda: hooks.remove(happened)
    return stream


COMMANDS: dict[str, Handler] = {"consume_event_stream": consume_event_stream}
