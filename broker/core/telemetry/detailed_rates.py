"""What passed between two of a channel, an exchange and a queue: counted only where somebody has asked for it, since
each batch of messages then costs a look-up or two more, and each pair memory. Numbers are as in `statistics.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..counters.statistics import DeliveryCounters, PublishCounters
from ..queues.queue import Queue
from ..queues.route_target import RouteTarget
from ..vhost.observer import Observer

if TYPE_CHECKING:
    from ..exchanges.exchange import Exchange


class ChannelRates:
    """Of one channel: what it published to each exchange, confirms apart, and what it got of each queue."""

    __slots__ = ("exchanges", "queues", "_routed")

    def __init__(self, routed: dict[Exchange, dict[Queue, int]]) -> None:
        self.exchanges: dict[Exchange, PublishCounters] = {}
        self.queues: dict[Queue, DeliveryCounters] = {}
        self._routed = routed

    def published(self, exchange: Exchange, queues: tuple[RouteTarget, ...], count: int, mandatory: bool) -> None:
        """So many, each for all of these queues."""
        counted = self.exchanges.get(exchange)
        if counted is None:
            counted = self.exchanges[exchange] = PublishCounters()
        counted.publish += count
        if not queues:
            if mandatory:
                counted.return_unroutable += count
            else:
                counted.drop_unroutable += count
            return
        routed = self._routed.setdefault(exchange, {})
        for queue in queues:
            if isinstance(queue, Queue) and not queue.internal:  # no observer is notified when those are deleted
                routed[queue] = routed.get(queue, 0) + count

    def of(self, queue: Queue) -> DeliveryCounters:
        """What this channel gets of it."""
        counted = self.queues.get(queue)
        if counted is None:
            counted = self.queues[queue] = DeliveryCounters()
        return counted

    def acked(self, queue: Queue, count: int) -> None:
        """Of what is not counted any more nothing is."""
        counted = self.queues.get(queue)
        if counted is not None:
            counted.acked(count)


class DetailedRates(Observer):
    """Of all channels. `routed` is how many messages went from which exchange, to which they were published, to which
    queue. What is deleted is forgotten."""

    def __init__(self) -> None:
        self.routed: dict[Exchange, dict[Queue, int]] = {}
        self._lanes: set[ChannelRates] = set()

    def open(self) -> ChannelRates:
        """For a channel."""
        lane = ChannelRates(self.routed)
        self._lanes.add(lane)
        return lane

    def close(self, lane: ChannelRates) -> None:
        self._lanes.discard(lane)

    def exchange_deleted(self, exchange: Exchange) -> None:
        self.routed.pop(exchange, None)
        for lane in self._lanes:
            lane.exchanges.pop(exchange, None)

    def queue_deleted(self, queue: Queue) -> None:
        for routed in self.routed.values():
            routed.pop(queue, None)
        for lane in self._lanes:
            lane.queues.pop(queue, None)
