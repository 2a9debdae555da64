"""The log of the broker: structlog with its outputs, configured by the command.

Lines are written to standard error, as text on a terminal and otherwise as one JSON object each; to a file; and to the
log exchange. Messages and credentials are never logged. Records of other libraries (asyncio, uvicorn, aio-pika) have
the same form.
"""

import logging
import sys
import threading
import time
from typing import TextIO

# If rich is installed, structlog imports it for tracebacks that Warren does not use: 0.05 s and 4 MiB at each start.
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
_logger = structlog.get_logger()
recent = Recent()


def configure(log: Log | None = None, stream: TextIO | None = None, node: str = "") -> None:
    """Replace the configuration of the log. Raises OSError, without a change, if its file cannot be written."""
    global _logger, _sink
    configured = outputs(log or Log(), stream or sys.stderr, _exchange)
    _sink.close()
    _sink = _Sink(configured, node)
    least = min([output.least for output in configured], default=logging.CRITICAL)
    structlog.configure(
        processors=[_sink],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.ReturnLoggerFactory(),
    )
    _logger = structlog.get_logger().bind()  # once for all lines
    root = logging.getLogger()
    root.handlers = [_Foreign()]
    root.setLevel(max(least, logging.INFO))  # operators do not need the libraries' debug records


def report(event: str, level: str, fields: dict[str, object]) -> None:
    """Log an event; passed to parts that do not import the logger."""
    getattr(_logger, level)(event, **fields)


def publish_to(publish: Publish | None) -> None:
    """Set the function that publishes lines to the log exchange, or None."""
    _exchange.publish = publish


class _Sink:
    """The last processor of structlog: makes a record of an event and passes it to each output."""

    def __init__(self, configured: list[Output], node: str) -> None:
        self._outputs = configured
        self._node = node
        self._lock = threading.Lock()  # keeps the lines of several threads apart

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
    """The handler of records from other libraries."""

    def emit(self, record: logging.LogRecord) -> None:
        names = ("critical", "error", "warning", "info")
        level = next((name for name in names if record.levelno >= _LEVELS[name]), "debug")
        fields: dict[str, object] = {"logger": record.name}
        if record.exc_info:
            fields["exc_info"] = record.exc_info[1]
        getattr(structlog.get_logger(), level)(record.getMessage(), **fields)


_sink = _Sink([], "")
