"""Message counters by channel and exchange, channel and queue, exchange and queue: RabbitMQ's detailed rates.

They are optional, because each batch of messages costs one or two look-ups more, and each pair takes memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..counters.statistics import DeliveryCounters, PublishCounters
from ..queues.queue import Queue
from ..queues.route_target import Targets
from ..vhost.observer import Observer

if TYPE_CHECKING:
    from ..exchanges.exchange import Exchange
    from ..vhost.vhost import VHost


class ChannelRates:
    """The counters of one channel: messages published to each exchange, and delivered from each queue.

    `routed` counts messages of all channels by exchange and queue. Publishes to an exchange that does not exist any
    more, as a transaction may have, are not counted.
    """

    __slots__ = ("exchanges", "queues", "_routed", "_exists")

    def __init__(self, routed: dict[Exchange, dict[Queue, int]], exists: Callable[[Exchange], bool]) -> None:
        self.exchanges: dict[Exchange, PublishCounters] = {}
        self.queues: dict[Queue, DeliveryCounters] = {}
        self._routed = routed
        self._exists = exists

    def published(self, exchange: Exchange, queues: Targets, count: int, mandatory: bool) -> None:
        """Count messages that were each routed to all of these queues."""
        counted = self.exchanges.get(exchange)
        if counted is None:
            if not self._exists(exchange):
                return
            counted = self.exchanges[exchange] = PublishCounters()
        counted.publish += count
        if not queues:
            if mandatory:
                counted.return_unroutable += count
            else:
                counted.drop_unroutable += count
            return
        self.routed(exchange, queues, count)

    def routed(self, exchange: Exchange, queues: Targets, count: int) -> None:
        """Count messages that were each routed to all of these queues, without counting their publishes."""
        routed = self._routed.get(exchange)
        if routed is None:
            if not self._exists(exchange):
                return
            routed = self._routed[exchange] = {}
        for queue in queues:
            if isinstance(queue, Queue) and not queue.internal:  # observers are not notified when those are deleted
                routed[queue] = routed.get(queue, 0) + count

    def of(self, queue: Queue) -> DeliveryCounters:
        """Return the counters of deliveries from this queue to the channel."""
        counted = self.queues.get(queue)
        if counted is None:
            counted = self.queues[queue] = DeliveryCounters()
        return counted

    def acked(self, queue: Queue, count: int) -> None:
        """Count acknowledgements, unless the counters of the queue have been removed."""
        counted = self.queues.get(queue)
        if counted is not None:
            counted.acked(count)


class DetailedRates(Observer):
    """The counters of all channels. `routed` counts messages by the exchange they were published to and by queue.

    Counters of deleted exchanges and queues are removed.
    """

    def __init__(self, vhosts: Mapping[str, VHost]) -> None:
        self.routed: dict[Exchange, dict[Queue, int]] = {}
        self._vhosts = vhosts
        self._channels: set[ChannelRates] = set()

    def open(self) -> ChannelRates:
        """Return the counters of a new channel."""
        rates = ChannelRates(self.routed, self._exists)
        self._channels.add(rates)
        return rates

    def _exists(self, exchange: Exchange) -> bool:
        vhost = self._vhosts.get(exchange.vhost)
        return vhost is not None and vhost.exchanges.get(exchange.name) is exchange

    def close(self, rates: ChannelRates) -> None:
        self._channels.discard(rates)

    def exchange_deleted(self, exchange: Exchange) -> None:
        self.routed.pop(exchange, None)
        for rates in self._channels:
            rates.exchanges.pop(exchange, None)

    def queue_deleted(self, queue: Queue) -> None:
        for routed in self.routed.values():
            routed.pop(queue, None)
        for rates in self._channels:
            rates.queues.pop(queue, None)
