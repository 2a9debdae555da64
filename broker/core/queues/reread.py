"""Another attempt, by and by, at what could not be read when a queue wanted it.

Messages that the disk did not give are asked for again every ten seconds, and all at once when it gives them: slice by
slice, as a job, as far as there is memory for them. A backlog for which the system had no descriptor or memory to spare
is read on a second later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..jobs.scheduler import Job, Scheduler
from ..messages.ports import Clock, Timer
from .expiry import PUMP_COST

if TYPE_CHECKING:
    from .queue import Queue

REREAD_MS = 10_000
EXHAUSTED_MS = 1_000
REFUSED_LIMIT = 10_000  # messages of one queue that the disk does not give, in one attempt
READ_COST = 5  # of one message that is read (`scheduler`)


class Reread:
    """The queues of one virtual host that are to be looked at again, each with its time, and the timer for them."""

    __slots__ = ("_clock", "_scheduler", "_queues", "_reading", "_timer", "_when_ms")

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._queues: dict[Queue, int] = {}
        self._reading: set[Queue] = set()
        self._timer: Timer | None = None
        self._when_ms = 0

    def add(self, queue: Queue, wait_ms: int = REREAD_MS) -> None:
        """Look at the queue after so long, or earlier where that was said before."""
        when_ms = self._clock.now_ms() + wait_ms
        self._queues[queue] = min(when_ms, self._queues.get(queue, when_ms))
        self._expect(when_ms)

    def start(self, queue: Queue) -> None:
        """Look at the queue now."""
        if queue not in self._reading and not queue.deleted:
            self._reading.add(queue)
            self._scheduler.start(f"rereading of {queue}", self._job(queue))

    def _expect(self, when_ms: int) -> None:
        if self._timer is not None:
            if self._when_ms <= when_ms:
                return
            self._timer.cancel()
        self._when_ms = when_ms
        self._timer = self._clock.call_at(when_ms, self._due)

    def _due(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        for queue in [queue for queue, when_ms in self._queues.items() if when_ms <= now_ms]:
            del self._queues[queue]
            self.start(queue)
        if self._queues:
            self._expect(min(self._queues.values()))
        self._scheduler.pump()

    def _job(self, queue: Queue) -> Job:
        """Each message that could not be read is tried once; none is forgotten, whatever happens."""
        wait_ms = REREAD_MS
        ready = queue.ready_messages
        ready.awaits_room = False
        try:
            queue.schedule_pump()  # its backlog may be readable again
            yield PUMP_COST
            for fifo in list(ready.all):
                left, refused = fifo.unread_count, 0
                while left > 0 and fifo.unread_count and refused < REFUSED_LIMIT:
                    if not fifo.has_room:
                        ready.awaits_room = True
                        break
                    tried, requeued = fifo.reread()
                    if not tried:
                        wait_ms = EXHAUSTED_MS
                        break
                    left -= tried
                    refused += tried - requeued
                    queue.schedule_pump()
                    yield READ_COST * tried
        finally:
            self._reading.discard(queue)
            if ready.unread_count and not queue.deleted:
                self.add(queue, wait_ms)
