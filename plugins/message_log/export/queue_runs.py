"""The places of recorded messages in queues: runs of consecutive positions with consecutive numbers.

A publish enters a queue as one run. So a delivery of consecutive positions is one record, or a few, and not a number
for each message; and if messages are sampled, a delivery of others is recognised without looking at them.
"""

from collections import deque
from typing import cast

from warren.broker.core.queues.traffic_log import LoggedQueue
from warren.broker.plugin import Queue

LIMIT = 4096  # runs of one queue, if all messages are recorded; messages beyond them are recorded one by one
SHORTEST = 8  # the minimum of messages in a run, if all messages are recorded

QueueRun = tuple[int, int, int, int]
"""The first position, the number of messages, the first number, and the size of each, or -1 if they differ."""

SEARCHED: deque[QueueRun] = deque()


class QueueRuns:
    """The runs by queue, in the order of their positions; SEARCHED if positions are not known.

    `exhaustive` is true if messages are sampled: then every recorded message must be in a run.
    """

    __slots__ = ("_exhaustive", "_runs")

    def __init__(self, exhaustive: bool) -> None:
        self._exhaustive = exhaustive
        self._runs: dict[LoggedQueue, deque[QueueRun]] = {}

    def add(self, queue: LoggedQueue, place: int, count: int, seq: int, size: int) -> None:
        """Add a run of messages that the queue is about to get, `place` behind its last message."""
        if not self._exhaustive and count < SHORTEST:
            return
        if queue.settings.max_priority:
            self._runs[queue] = SEARCHED  # each priority has positions of its own
            return
        runs = self._runs.get(queue)
        if runs is None:
            runs = self._runs[queue] = deque()
        position = cast("Queue", queue).ready_messages.default.tail + place
        while runs and runs[-1][0] + runs[-1][1] > position:  # not accepted by the queue
            runs.pop()
        if self._exhaustive or len(runs) < LIMIT:
            runs.append((position, count, seq, size))

    def take(self, queue: LoggedQueue, position: int, count: int) -> list[QueueRun] | None:
        """Take the runs among `count` consecutive positions, the first position of each relative to `position`.

        Return None if they are not known. HOT: the export, load A.
        """
        runs = self._runs.get(queue)
        if runs is None:
            return []
        if runs is SEARCHED:
            return None
        end = position + count
        taken = []
        while runs and runs[0][0] < end:
            first, length, seq, size = runs[0]
            last = first + length
            begin = first if first > position else position
            if last > begin:
                taken.append((begin - position, min(last, end) - begin, seq + begin - first, size))
            if last > end:
                break
            runs.popleft()
        return taken

    def forget(self, queue: LoggedQueue) -> None:
        """Remove a queue."""
        self._runs.pop(queue, None)
