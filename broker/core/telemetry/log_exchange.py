"""The exchange of the log: each line as a message of the topic exchange amq.rabbitmq.log (spec/core.md 24.3).

Its key is the level. Lines come from anywhere, in the middle of what the core does and from other threads too, so they
wait for the next turn of the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ...amqp.field_table import Table, value_of
from ...amqp.properties import Properties
from ..messages.message import Address, framed
from ..node.node import Node

LOG = "amq.rabbitmq.log"
WAITING_LIMIT = 1000  # lines; more of them in one turn are in the other outputs alone


class LogExchange:
    """`call_soon` calls on the loop, from any thread; `commit_soon` is told the journal may have more."""

    __slots__ = ("_node", "_call_soon", "_commit_soon", "_waiting")

    def __init__(
        self, node: Node, call_soon: Callable[[Callable[[], None]], object], commit_soon: Callable[[], None]
    ) -> None:
        self._node = node
        self._call_soon = call_soon
        self._commit_soon = commit_soon
        self._waiting: deque[tuple[str, str]] = deque()

    def put(self, level: str, line: str) -> None:
        """Publish it soon."""
        if len(self._waiting) < WAITING_LIMIT:
            self._waiting.append((level, line))
            if len(self._waiting) == 1:
                self._call_soon(self._publish)

    def _publish(self) -> None:
        lines = list(self._waiting)
        self._waiting.clear()
        vhost = self._node.vhosts.get(self._node.default_vhost)
        exchange = vhost.exchanges.get(LOG) if vhost is not None else None
        if vhost is None or exchange is None or not exchange.outgoing:
            return
        headers = Table.of({"node": value_of(self._node.name)})
        properties = Properties(content_type="text/plain", headers=headers, timestamp=self._node.clock.timestamp_s())
        for level, line in lines:
            message = framed(Address(LOG, level), properties, line.encode("utf-8", "backslashreplace"))
            vhost.enqueue([message], message.body_bytes, False, vhost.route(exchange, (level,), message)[0])
        self._node.pump()
        self._commit_soon()
