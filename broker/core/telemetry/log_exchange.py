"""The log exchange `amq.rabbitmq.log`: a topic exchange that gets each log line as a message, its level as routing key.

Lines may be logged within calls of the core and by other threads, so they are published in the next turn of the loop.
"""

from collections import deque
from collections.abc import Callable

from ...amqp.field_table import Table, value_of
from ...amqp.properties import Properties
from .system_exchange import SystemExchange

LOG = "amq.rabbitmq.log"
WAITING_LIMIT = 1000  # lines of one turn; more are written to the other log outputs only


class LogExchange:
    """A log output that publishes log lines to the log exchange.

    `call_soon` calls a function on the loop, from any thread. `commit_soon` has the journal commit the published
    messages.
    """

    __slots__ = ("_exchange", "_call_soon", "_commit_soon", "_waiting")

    def __init__(
        self,
        exchange: SystemExchange,
        call_soon: Callable[[Callable[[], None]], object],
        commit_soon: Callable[[], None],
    ) -> None:
        self._exchange = exchange
        self._call_soon = call_soon
        self._commit_soon = commit_soon
        self._waiting: deque[tuple[str, str]] = deque()

    def put(self, level: str, line: str) -> None:
        """Publish the line soon. Called from any thread."""
        if len(self._waiting) < WAITING_LIMIT:
            self._waiting.append((level, line))
            if len(self._waiting) == 1:
                self._call_soon(self._publish)

    def _publish(self) -> None:
        lines = list(self._waiting)
        self._waiting.clear()
        exchange = self._exchange
        if not exchange.is_bound:
            return
        headers = Table.of({"node": value_of(exchange.node_name)})
        properties = Properties(content_type="text/plain", headers=headers, timestamp=exchange.clock.timestamp_s())
        for level, line in lines:
            exchange.publish(level, properties, line.encode("utf-8", "backslashreplace"))
        exchange.scheduler.pump()
        self._commit_soon()
