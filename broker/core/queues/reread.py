"""Retries of reads that failed.

Messages that the disk did not return are read again every ten seconds; once it returns them, all of them, in slices, as
far as there is memory for them. A backlog that the system had no descriptors or memory to read is read again after a
second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..jobs.scheduler import PUMP_COST, STORE_SHIFT, Job, Scheduler
from ..messages.ports import Clock

if TYPE_CHECKING:
    from .queue import Queue

REREAD_MS = 10_000
EXHAUSTED_MS = 1_000
REFUSED_LIMIT = 10_000  # messages of one queue that may fail in one attempt


class Reread:
    """The attempts to read the unread messages of queues of one virtual host. A queue has the time of its next one."""

    __slots__ = ("_clock", "_scheduler", "_reading")

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._reading: set[Queue] = set()

    def add(self, queue: Queue, wait_ms: int = REREAD_MS) -> None:
        """Try the queue again after this time, or at an earlier time that is already set."""
        when_ms = self._clock.now_ms() + wait_ms
        queue.reread_ms = min(queue.reread_ms or when_ms, when_ms)
        self._scheduler.pump_at(queue, queue.reread_ms)

    def start(self, queue: Queue) -> None:
        """Try the queue again now."""
        queue.reread_ms = 0
        if queue not in self._reading and not queue.deleted:
            self._reading.add(queue)
            self._scheduler.start(f"rereading of {queue}", self._job(queue))

    def _job(self, queue: Queue) -> Job:
        """Try each unread message once. Those that fail stay unread."""
        wait_ms = REREAD_MS
        ready = queue.ready_messages
        ready.awaits_room = False
        try:
            queue.schedule_pump()  # its backlog may be readable now
            yield PUMP_COST
            left, refused = ready.unread_count, 0
            while left > 0 and ready.unread_count and refused < REFUSED_LIMIT:
                if not ready.has_room:
                    ready.awaits_room = True
                    break
                read_bytes = ready.read_bytes
                tried, requeued = ready.reread()
                if not tried:
                    wait_ms = EXHAUSTED_MS
                    break
                left -= tried
                refused += tried - requeued
                queue.schedule_pump()
                yield PUMP_COST + (ready.read_bytes - read_bytes >> STORE_SHIFT)
        finally:
            self._reading.discard(queue)
            if ready.unread_count and not queue.deleted:
                self.add(queue, wait_ms)
