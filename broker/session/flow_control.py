"""Holding publishers back: while a queue with consumers has too much, who publishes to it is not read (architecture 3).

Consumers that do not keep up must not stop publishers. So what a queue delivers is looked at every HOLD_MS: where it
is not much although its publishers were held, they are free for some looks, and then held for one again, as it may have
been their flood that slowed the consumers down.
"""

from __future__ import annotations

from ..core.queues.queue import Queue

HOLD_MS = 50
# Deliveries, or units of so many octets, in HOLD_MS: a queue that drains slower than 10,000 messages a second and than
# 100 MB a second does not hold its publishers back.
HOLD_PROGRESS = 500
HOLD_UNIT_BYTES = 10_000
FREE_LOOKS = 4


class PublisherThrottle:
    """One connection's congested queues, with what each had delivered when last looked at."""

    __slots__ = ("queues", "_free")

    def __init__(self) -> None:
        self.queues: dict[Queue, int] = {}
        self._free = 0

    def add(self, queue: Queue) -> bool:
        """The queue has become congested; whether to hold the connection now."""
        self.queues[queue] = drained_units(queue)
        return not self._free

    def look(self) -> bool:
        """HOLD_MS have passed; whether the connection is to be held for the next."""
        draining = False
        for queue, before in self.queues.items():
            after = drained_units(queue)
            draining = draining or after - before >= HOLD_PROGRESS
            self.queues[queue] = after
        if self._free:
            self._free -= 1
        elif not draining:
            self._free = FREE_LOOKS
        return not self._free


def drained_units(queue: Queue) -> int:
    """How much the queue has delivered, in messages or in HOLD_UNIT_BYTES, whichever is more."""
    return max(queue.delivering.deliver_get, queue.delivered_bytes // HOLD_UNIT_BYTES)
