"""The prefetch limit shared by all consumers of a channel (basic.qos with `global`)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING, Final

from ..core.metadata.queue_types import QUORUM

if TYPE_CHECKING:
    from ..core.queues.queue import Queue
    from .consumer import ChannelConsumer

WOKEN: Final = 100  # consumers woken at once
FORGOTTEN: Final = 1_000  # consumers that are removed while they wait, and kept until as many others wait


class SharedPrefetch:
    """Limit of unsettled deliveries of all consumers of a channel together, without those of quorum queues.

    limit    unsettled deliveries at a time, 0 for no limit
    unacked  unsettled deliveries that count towards it
    """

    __slots__ = ("limit", "unacked", "_consumers", "_waiting", "_of_queues", "_forgotten", "_deliveries", "_expected")

    def __init__(self, consumers: dict[str, ChannelConsumer]) -> None:
        self.limit = 0
        self.unacked = 0
        self._consumers = consumers
        self._waiting: list[tuple[int, ChannelConsumer]] = []  # a heap: those served longest ago first
        # The same by queue, the highest priority first, if a consumer with a priority has waited since none did.
        self._of_queues: dict[Queue, list[tuple[int, int, ChannelConsumer]]] | None = None
        self._forgotten = 0  # of those that wait
        self._deliveries = 0
        self._expected = False  # `_wake_more` is due in the next turn

    def set_limit(self, limit: int, outstanding: Iterable[ChannelConsumer]) -> None:
        """Change the limit; `outstanding` has the consumer of each unsettled delivery, one entry for each.

        Deliveries made before the change count too, also those of cancelled consumers. `outstanding` is not used if
        there was a limit and will be.
        """
        if not limit or not self.limit:
            consumers = [consumer for consumer in outstanding if consumer.queue.settings.type != QUORUM]
            for consumer in {*self._consumers.values(), *consumers}:
                consumer.shares = limit > 0 and consumer.queue.settings.type != QUORUM
            self.unacked = len(consumers)
        self.limit = limit
        self._wake()

    def room(self, consumer: ChannelConsumer) -> int:
        """Return how many deliveries the limit allows; if none, the consumer is woken when it allows some."""
        room = self.limit - self.unacked
        if room <= 0 and not consumer.awaits_limit:
            consumer.awaits_limit = True
            self._add(consumer, consumer.served)
        return room

    def _add(self, consumer: ChannelConsumer, served: int) -> None:
        heappush(self._waiting, (served, consumer))
        if self._of_queues is not None:
            self._add_of_queue(self._of_queues, consumer, served)
        elif consumer.priority:
            self._of_queues = {}
            for served, one in self._waiting:
                self._add_of_queue(self._of_queues, one, served)

    def _add_of_queue(
        self, of_queues: dict[Queue, list[tuple[int, int, ChannelConsumer]]], consumer: ChannelConsumer, served: int
    ) -> None:
        heappush(of_queues.setdefault(consumer.queue, []), (-consumer.priority, served, consumer))

    def forget(self, consumer: ChannelConsumer) -> None:
        """Wake a consumer no more, as it is removed."""
        if consumer.awaits_limit:
            consumer.awaits_limit = False
            self._forgotten += 1
            if self._forgotten > max(FORGOTTEN, len(self._waiting) // 2):
                waiting = self._waiting
                if self._of_queues is not None:  # an entry of `_waiting` may be for another consumer of its queue
                    of_queues = chain.from_iterable(self._of_queues.values())
                    waiting = [(served, one) for _, served, one in of_queues]
                self._waiting, self._of_queues, self._forgotten = [], None, 0
                for served, one in waiting:
                    if one.awaits_limit:
                        self._add(one, served)

    def on_delivered(self, consumer: ChannelConsumer, count: int) -> None:
        """Count deliveries to a consumer under the limit, and make it the last to be woken when there is room."""
        if not consumer.no_ack:
            self.unacked += count
        consumer.served = self.next_delivery()

    def on_settled(self, count: int) -> None:
        """Count settled deliveries, and wake the consumers that waited for room."""
        self.unacked -= count
        if self._waiting:
            self._wake()

    def next_delivery(self) -> int:
        """Return the number of a new consumer or a delivery, by which consumers are woken in order."""
        self._deliveries += 1
        return self._deliveries

    def _wake(self) -> None:
        """Wake as many consumers as can have a delivery, and more in the next turn if those do not take it."""
        waiting = self._waiting
        room = self.limit - self.unacked if self.limit else WOKEN
        for _ in range(WOKEN):
            if not waiting or room <= 0:
                break
            consumer = self._pop()
            self._forgotten -= not consumer.awaits_limit
            consumer.awaits_limit = False
            if consumer.waiting:
                consumer.queue.wake(consumer)
                room -= consumer.queue.ready > 0
        if waiting and not self._expected:
            self._expected = True
            clock = waiting[0][1].queue.host.clock
            clock.call_at(clock.now_ms(), self._wake_more)

    def _pop(self) -> ChannelConsumer:
        """Remove and return the consumer of the highest priority of the queue whose turn it is."""
        consumer = heappop(self._waiting)[1]
        if self._of_queues is None:
            return consumer
        queue = consumer.queue
        of_queue = self._of_queues[queue]
        consumer = heappop(of_queue)[2]
        if not of_queue:
            del self._of_queues[queue]
        if not self._waiting:
            self._of_queues = None
        return consumer

    def _wake_more(self) -> None:
        self._expected = False
        if self._waiting and (not self.limit or self.unacked < self.limit):
            host = self._waiting[0][1].queue.host
            self._wake()
            host.pump()
