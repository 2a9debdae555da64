"""The exchanges to which the node publishes messages of its own: events and log lines.

Messages are dropped, with a line in the log, while 16 MiB of earlier ones wait for very many queues.
"""

from collections.abc import Mapping

from ...amqp.properties import Properties
from ..exchanges.exchange import Exchange
from ..jobs.scheduler import Scheduler
from ..messages.clock import Clock
from ..messages.message import RoutingAddress, framed
from ..vhost.vhost import VHost


class SystemExchange:
    """A topic exchange of the default virtual host to which the node publishes. It may not exist."""

    __slots__ = ("name", "node_name", "clock", "scheduler", "_vhosts", "_default_vhost", "_drops")

    def __init__(
        self,
        name: str,
        node_name: str,
        clock: Clock,
        scheduler: Scheduler,
        vhosts: Mapping[str, VHost],
        default_vhost: str,
    ) -> None:
        self.name = name
        self.node_name = node_name
        self.clock = clock
        self.scheduler = scheduler
        self._vhosts = vhosts
        self._default_vhost = default_vhost
        self._drops = False

    @property
    def is_bound(self) -> bool:
        """True if the exchange exists and has a binding, so that publishing has an effect."""
        exchange = self._find()
        return exchange is not None and len(exchange.outgoing) > 0

    def publish(self, routing_key: str, properties: Properties, body: bytes) -> None:
        """Enqueue a message at the bound queues, if any. Consumers get it at the scheduler's next pump."""
        exchange = self._find()
        if exchange is None or not exchange.outgoing:
            return
        message = framed(RoutingAddress(self.name, routing_key), properties, body)
        drops = not self._vhosts[self._default_vhost].publish(exchange, message)
        if drops and not self._drops:
            self.scheduler.report("system_messages_dropped", "warning", {"exchange": self.name})
        self._drops = drops

    def _find(self) -> Exchange | None:
        vhost = self._vhosts.get(self._default_vhost)
        return vhost.exchanges.get(self.name) if vhost is not None else None
