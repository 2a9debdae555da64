"""The prefetch limit shared by all consumers of a channel (basic.qos with `global`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..core.metadata.queue_types import QUORUM

if TYPE_CHECKING:
    from .consumer import ChannelConsumer


class SharedPrefetch:
    """Limit of unsettled deliveries of all consumers of a channel together, without those of quorum queues.

    limit    unsettled deliveries at a time, 0 for no limit
    unacked  unsettled deliveries that count towards it
    """

    __slots__ = ("limit", "unacked", "_consumers")

    def __init__(self, consumers: dict[str, ChannelConsumer]) -> None:
        self.limit = 0
        self.unacked = 0
        self._consumers = consumers

    def set_limit(self, limit: int, outstanding: Iterable[ChannelConsumer]) -> None:
        """Change the limit; `outstanding` has the consumer of each unsettled delivery, one entry for each.

        Deliveries made before the change count too, also those of cancelled consumers.
        """
        self.limit = limit
        consumers = [consumer for consumer in outstanding if consumer.queue.settings.type != QUORUM]
        for consumer in [*self._consumers.values(), *consumers]:
            consumer.shares = limit > 0 and consumer.queue.settings.type != QUORUM
        self.unacked = len(consumers)
        self.on_settled(0)

    def on_delivered(self, consumer: ChannelConsumer, count: int) -> None:
        """Count deliveries to a consumer under the limit, and make it the last to be woken when there is room."""
        if not consumer.no_ack:
            self.unacked += count
        self._consumers[consumer.tag] = self._consumers.pop(consumer.tag)

    def on_settled(self, count: int) -> None:
        """Count settled deliveries, and wake the consumers that waited for room."""
        self.unacked -= count
        for consumer in list(self._consumers.values()):
            if consumer.waiting:
                consumer.queue.wake(consumer)
