"""Sampling: which messages are recorded if not all are.

They are taken some next to each other, so that what comes together mostly has none of them, and costs nothing. Where
they stand in their queues is noted, so that what is delivered need not be searched for them.
"""

from __future__ import annotations

from collections import deque

from warren.broker.plugin import Message, Queue

TOGETHER = 8  # messages that are logged one after the other

SEARCHED: deque[int] = deque()

Run = tuple[int, int]
"""Consecutive messages of a batch: the place of the first, and their number."""


class Sampling:
    """Chooses one of `one_in` messages."""

    __slots__ = ("one_in", "_cycle", "_phase", "_marks")

    def __init__(self, one_in: int) -> None:
        self.one_in = one_in
        self._cycle = TOGETHER * one_in
        self._phase = 0  # of the next message; those below TOGETHER are logged
        self._marks: dict[Queue, deque[int]] = {}  # positions, ascending; SEARCHED where nobody notes them

    def runs(self, count: int) -> list[Run]:
        """Return which of the next messages are recorded. HOT: the export, load A."""
        runs = []
        phase = self._phase
        place = 0 if phase < TOGETHER else self._cycle - phase
        while place < count:
            length = min(TOGETHER - (phase + place) % self._cycle, count - place)
            runs.append((place, length))
            place += length + self._cycle - TOGETHER
        self._phase = (phase + count) % self._cycle
        return runs

    # Where they stand

    def mark(self, queue: Queue, runs: list[Run]) -> None:
        """Note which of the messages that the queue is about to get are recorded."""
        if queue.settings.max_priority:
            self._marks[queue] = SEARCHED  # each priority is a line of its own
            return
        tail = queue.ready_messages.default.tail
        marks = self._marks.setdefault(queue, deque())
        while marks and marks[-1] >= tail:
            marks.pop()  # which it did not take
        for place, length in runs:
            marks.extend(range(tail + place, tail + place + length))

    def marked(self, queue: Queue, messages: list[Message], position: int) -> list[Message]:
        """Of messages that were next to each other in the queue those that may be logged, and all that are.

        HOT: the export, load A.
        """
        marks = self._marks.get(queue)
        if not marks:
            return messages if marks is SEARCHED else []
        if marks[0] >= position + len(messages):
            return []
        found = []
        while marks and marks[0] < position + len(messages):
            place = marks.popleft() - position
            if place >= 0:  # else it left the queue another way
                found.append(messages[place])
        return found

    def forget(self, queue: Queue) -> None:
        """Forget a queue."""
        self._marks.pop(queue, None)
