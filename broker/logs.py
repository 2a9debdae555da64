"""What the broker tells its operator: structlog, set up once by the command; one line for each life-cycle event.

Lines go to standard error: text for people on a terminal, one JSON object a line anywhere else. Nothing is logged per
message. Other libraries' records (asyncio, later aio-pika) come out in the same form.
"""

import logging
import os
import sys
from typing import TextIO

# structlog imports rich where it is installed, for tracebacks that we do not want: 0.05 s and 4 MiB at each start.
_rich_is_loaded = "rich" in sys.modules
if not _rich_is_loaded:
    sys.modules["rich"] = None  # type: ignore[assignment]
import structlog  # noqa: E402

if not _rich_is_loaded:
    del sys.modules["rich"]

_SHARED: list[structlog.typing.Processor] = [
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure(level: str = "info", form: str = "auto", stream: TextIO | None = None) -> None:
    """`level` and `form` are `log_level` and `log_format` of the configuration; the last call holds."""
    stream = stream or sys.stderr
    human = form == "human" or (form == "auto" and stream.isatty())
    number = logging.getLevelNamesMapping()[level.upper()]
    render: list[structlog.typing.Processor]
    if human:
        colors = stream.isatty() and "NO_COLOR" not in os.environ
        plain = structlog.dev.plain_traceback
        render = [_printable, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    else:
        render = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[*_SHARED, *render],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(stream),
    )
    _route_standard_logging(number, render, stream)


def _printable(logger: object, method: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Peers choose some of what is logged, the name of a user who may not come in too: no escapes for the terminal."""
    for key, value in fields.items():
        if isinstance(value, str) and key != "event" and not value.isprintable():
            fields[key] = "".join([char if char.isprintable() else repr(char)[1:-1] for char in value])
    return fields


def _route_standard_logging(number: int, render: list[structlog.typing.Processor], stream: TextIO) -> None:
    handler = logging.StreamHandler(stream)
    drop = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=[drop, *render]),
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(number, logging.INFO))  # what others write for debugging is not the operator's
