"""What the broker tells its operator: structlog, set up once by the command; one line for each life-cycle event.

Lines go to standard error, text for people on a terminal and one JSON object a line anywhere else; to a file; and to
the exchange of the log. Nothing is logged per message, and no credentials ever. Other libraries' records (asyncio,
uvicorn, aio-pika) come out in the same form.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import TextIO

# structlog imports rich where it is installed, for tracebacks that we do not want: 0.05 s and 4 MiB at each start.
_rich_is_loaded = "rich" in sys.modules
if not _rich_is_loaded:
    sys.modules["rich"] = None  # type: ignore[assignment]
import structlog  # noqa: E402

if not _rich_is_loaded:
    del sys.modules["rich"]

from ..config.config import Log  # noqa: E402
from .outputs import Exchange, Output, Publish, outputs  # noqa: E402
from .recent import Recent  # noqa: E402
from .record import Record  # noqa: E402

_LEVELS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
_exchange = Exchange()
recent = Recent()


def configure(log: Log | None = None, stream: TextIO | None = None, node: str = "") -> None:
    """The last call holds. Raises OSError where the file of the log cannot be written; nothing has changed then."""
    global _sink
    found = outputs(log or Log(), stream or sys.stderr, _exchange)
    _sink.close()
    _sink = _Sink(found, node)
    least = min([output.least for output in found], default=logging.CRITICAL)
    structlog.configure(
        processors=[_sink],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.ReturnLoggerFactory(),
    )
    root = logging.getLogger()
    root.handlers = [_Foreign()]
    root.setLevel(max(least, logging.INFO))  # what others write for debugging is not the operator's


def publish_to(publish: Publish | None) -> None:
    """Whoever publishes lines to the exchange, which there has to be; lines before that are in the other outputs."""
    _exchange.publish = publish


class _Sink:
    """The last processor of structlog: makes a record of an event and gives it to each output."""

    def __init__(self, found: list[Output], node: str) -> None:
        self._outputs = found
        self._node = node
        self._lock = threading.Lock()  # of two threads' lines none is torn

    def __call__(self, logger: object, method: str, fields: structlog.typing.EventDict) -> str:
        error = fields.get("exc_info")
        if error and not isinstance(error, BaseException):
            fields["exc_info"] = error[1] if isinstance(error, tuple) else sys.exc_info()[1]
        if self._node:
            fields.setdefault("node", self._node)
        level = {"exception": "error", "warn": "warning"}.get(method, method)
        record = Record(time.time(), level, str(fields.pop("event", "")), fields)
        with self._lock:
            for output in self._outputs:
                output.put(_LEVELS[level], record)
            recent.put(record)
        raise structlog.DropEvent

    def close(self) -> None:
        for output in self._outputs:
            output.close()


class _Foreign(logging.Handler):
    """Takes what other libraries log."""

    def emit(self, record: logging.LogRecord) -> None:
        names = ("critical", "error", "warning", "info")
        level = next((name for name in names if record.levelno >= _LEVELS[name]), "debug")
        fields: dict[str, object] = {"logger": record.name}
        if record.exc_info:
            fields["exc_info"] = record.exc_info[1]
        getattr(structlog.get_logger(), level)(record.getMessage(), **fields)


_sink = _Sink([], "")
