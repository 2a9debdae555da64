"""Flow control of publishers: connections that publish to a congested queue with consumers are not read for a while.

Slow consumers must not stop publishers. So progress is checked every HOLD_MS: if a queue delivers little although its
publishers were held, they are released for some checks and then held for one again, in case it was their publishing
that slowed the consumers down.
"""

from ..core.queues.queue import Queue

HOLD_MS = 50
# Deliveries, or units of HOLD_UNIT_BYTES, in HOLD_MS: publishers are held only for a queue that delivers at least
# 10,000 messages or 100 MB a second.
HOLD_PROGRESS = 500
HOLD_UNIT_BYTES = 10_000
FREE_LOOKS = 4


class PublisherThrottle:
    """Flow control of one connection: its congested queues, and what each had delivered at the last check."""

    __slots__ = ("queues", "_free")

    def __init__(self) -> None:
        self.queues: dict[Queue, int] = {}
        self._free = 0

    def add(self, queue: Queue) -> bool:
        """Add a congested queue; return whether to stop reading now."""
        self.queues[queue] = drained_units(queue)
        return not self._free

    def check_progress(self) -> bool:
        """Check progress after HOLD_MS; return whether to stop reading for the next HOLD_MS."""
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
    """Return the deliveries of the queue, in messages or in units of HOLD_UNIT_BYTES: the larger of both."""
    return max(queue.delivering.deliver_get, queue.delivered_bytes // HOLD_UNIT_BYTES)
