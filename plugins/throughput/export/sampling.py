"""Sampling: the choice of messages to record if not all are.

TOGETHER consecutive messages are chosen at a time, so that most batches have none and cost nothing. Their positions in
queues are remembered, so that deliveries need not be searched for them.
"""

from __future__ import annotations

from collections import deque

from warren.broker.plugin import Message, Queue

TOGETHER = 8  # consecutive messages that are recorded

SEARCHED: deque[int] = deque()

Run = tuple[int, int]
"""Consecutive messages of a batch: the index of the first, and their number."""


class Sampling:
    """The choice of one in `one_in` messages."""

    __slots__ = ("one_in", "_cycle", "_phase", "_marks")

    def __init__(self, one_in: int) -> None:
        self.one_in = one_in
        self._cycle = TOGETHER * one_in
        self._phase = 0  # of the next message; phases below TOGETHER are recorded
        self._marks: dict[Queue, deque[int]] = {}  # ascending positions; SEARCHED if they are not known

    def runs(self, count: int) -> list[Run]:
        """Return which of the next `count` messages are recorded. HOT: the export, load A."""
        runs = []
        phase = self._phase
        place = 0 if phase < TOGETHER else self._cycle - phase
        while place < count:
            length = min(TOGETHER - (phase + place) % self._cycle, count - place)
            runs.append((place, length))
            place += length + self._cycle - TOGETHER
        self._phase = (phase + count) % self._cycle
        return runs

    # Positions

    def mark(self, queue: Queue, runs: list[Run]) -> None:
        """Remember which of the messages that the queue is about to get are recorded."""
        if queue.settings.max_priority:
            self._marks[queue] = SEARCHED  # each priority has positions of its own
            return
        tail = queue.ready_messages.default.tail
        marks = self._marks.setdefault(queue, deque())
        while marks and marks[-1] >= tail:
            marks.pop()  # positions of messages that the queue did not accept
        for place, length in runs:
            marks.extend(range(tail + place, tail + place + length))

    def marked(self, queue: Queue, messages: list[Message], position: int) -> list[Message]:
        """Return those of consecutive messages in the queue that may be recorded; it omits none that is.

        HOT: the export, load A.
        """
        marks = self._marks.get(queue)
        if not marks:
            return messages if marks is SEARCHED else []
        if marks[0] >= position + len(messages):
            return []
        recorded = []
        while marks and marks[0] < position + len(messages):
            place = marks.popleft() - position
            if place >= 0:  # otherwise it left the queue in another way
                recorded.append(messages[place])
        return recorded

    def forget(self, queue: Queue) -> None:
        """Forget a queue."""
        self._marks.pop(queue, None)
