"""The messages that a queue has given up, on their way to its dead letter exchange (spec/core.md 13).

To dead-letter one costs as much as to publish it, and a limit that is set, a deadline that many have, or one basic.nack
can end any number at once. So they wait here, and a slice of them goes whenever the queue is pumped. Nothing is
dead-lettered from within anything else: a chain of queues, each the dead letter queue of the one before, may be as long
as a client likes. The journal keeps for the queue what waits here, so a killed broker finds it where it was.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..counters.statistics import AT_MOST_ONCE
from ..jobs.scheduler import Job
from ..messages.message import Message, total_bytes

if TYPE_CHECKING:
    from .queue import Queue

SLICE = 200  # messages dead-lettered at once, beyond as many as were published: some milliseconds
REST_SLICE, COST = 50, 10  # of a deleted queue: messages in one step of a job, and what each costs (`scheduler`)
MANY = 10_000  # while so many wait, no more are delivered, expired or dropped


class DeadLetterOutbox:
    """`waiting` are one queue's, each with the reason, and whether the queue ever took it.

    `kept` counts those that the journal keeps for the queue, `kept_bytes` is the sum of their bodies.
    """

    __slots__ = ("_queue", "waiting", "kept", "kept_bytes")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.waiting: deque[tuple[Message, str, bool]] = deque()
        self.kept = self.kept_bytes = 0

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def many(self) -> bool:
        """Whether the queue is to give up no more for now."""
        return len(self.waiting) > MANY

    def add(self, messages: list[Message], reason: str, queued: bool = True) -> None:
        """`queued` is False for what the queue never took."""
        queue = self._queue
        queue.home.statistics.died(queue.rules.type, AT_MOST_ONCE, reason, len(messages))
        self.waiting.extend([(message, reason, queued) for message in messages])
        if queued and queue.number:
            self._count(messages, 1)

    def bury_slice(self, came: int) -> None:
        """A slice, and as many more as came to the queue meanwhile, so that no flow of messages outruns it."""
        self._bury(min(SLICE + came, len(self.waiting)))

    def bury_all(self) -> None:
        """All that wait now: the node is about to stop."""
        self._bury(len(self.waiting))

    def bury_rest(self) -> Job:
        """All that wait, in slices: the queue is deleted."""
        while self.waiting:
            there = len(self.waiting)
            self._bury(min(REST_SLICE, there))
            yield COST * (there - len(self.waiting))

    def _bury(self, count: int) -> None:
        """Those next to each other that died of the same together."""
        queue, waiting = self._queue, self.waiting
        while count:
            _, reason, queued = waiting[0]
            messages: list[Message] = []
            while count and waiting and waiting[0][1] == reason and waiting[0][2] == queued:
                messages.append(waiting.popleft()[0])
                count -= 1
            queue.home.dead_letter(queue, messages, reason)  # copies are durable before the journal drops these
            if queued:
                queue.done(messages, moved=True)
                if queue.number:
                    self._count(messages, -1)

    def _count(self, messages: list[Message], sign: int) -> None:
        stored = [message for message in messages if message.persistent]
        self.kept += sign * len(stored)
        self.kept_bytes += sign * total_bytes(stored)
