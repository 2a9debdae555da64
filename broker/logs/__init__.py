"""The log of the broker: structlog with its outputs, configured by the command.

Lines are written to standard error, as text on a terminal and otherwise as one JSON object each; to a file; and to the
log exchange. Messages and credentials are never logged. Records of other libraries (asyncio, uvicorn, aio-pika) have
the same form.

While an event loop is known (`gather`), lines of the levels debug and info are written some milliseconds later, several
together: thousands of connections a second that come and go have three each.
"""

import asyncio
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

TOGETHER, TOGETHER_S = 100, 0.01  # lines that wait, and seconds
GATHERED = ("debug", "info")
_LEVELS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
_exchange = Exchange()
_logger = structlog.get_logger()
recent = Recent()


def configure(log: Log | None = None, stream: TextIO | None = None, node: str = "") -> None:
    """Replace the configuration of the log. Raises OSError, without a change, if its file cannot be written."""
    global _logger, _sink
    configured = outputs(log or Log(), stream or sys.stderr, _exchange)
    before, _sink = _sink, _Sink(configured, node)
    _sink.loop, _sink.thread = before.loop, before.thread
    before.close()
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


def gather(loop: asyncio.AbstractEventLoop | None) -> None:
    """Write lines of this loop's thread together from now on, or each at once if there is no loop any more."""
    _sink.loop = loop
    _sink.thread = threading.get_ident()
    _sink.write_waiting()


def write_waiting() -> None:
    """Write the lines that wait for others."""
    _sink.write_waiting()


def publish_to(publish: Publish | None) -> None:
    """Set the function that publishes lines to the log exchange, or None."""
    _exchange.publish = publish


class _Sink:
    """The last processor of structlog: makes a record of an event and passes it to each output.

    Events of the thread of `loop` wait for others, unless one is a warning or worse. The order of all stays.
    """

    def __init__(self, configured: list[Output], node: str) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = 0
        self._outputs = configured
        self._node = node
        self._waiting: list[tuple[float, str, structlog.typing.EventDict]] = []
        self._lock = threading.RLock()  # keeps the lines of several threads apart

    def __call__(self, logger: object, method: str, fields: structlog.typing.EventDict) -> str:
        error = fields.get("exc_info")
        if error and not isinstance(error, BaseException):
            fields["exc_info"] = error[1] if isinstance(error, tuple) else sys.exc_info()[1]
        if self._node:
            fields.setdefault("node", self._node)
        level = {"exception": "error", "warn": "warning"}.get(method, method)
        with self._lock:
            self._waiting.append((time.time(), level, fields))
            count, loop = len(self._waiting), self.loop
            others = threading.get_ident() != self.thread
            if loop is None or others or level not in GATHERED or count >= TOGETHER:
                self.write_waiting()
            elif count == 1:
                loop.call_later(TOGETHER_S, self.write_waiting)
        raise structlog.DropEvent

    def write_waiting(self) -> None:
        """Write all lines that wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            for at_s, level, fields in waiting:
                record = Record(at_s, level, str(fields.pop("event", "")), fields)
                for output in self._outputs:
                    output.put(_LEVELS[level], record)
                recent.put(record)

    def close(self) -> None:
        self.write_waiting()
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
