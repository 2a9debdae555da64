"""Messages that the disk did not give when their queue wanted them: they are asked for again by and by."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .ports import Clock, Timer

if TYPE_CHECKING:
    from .queue import Queue

REREAD_MS = 10_000


class Rereading:
    """The queues of one virtual host that have such messages, and the timer for all of them.

    `pump` delivers what was read in the end.
    """

    __slots__ = ("_clock", "_pump", "_queues", "_timer")

    def __init__(self, clock: Clock, pump: Callable[[], None]) -> None:
        self._clock = clock
        self._pump = pump
        self._queues: dict[Queue, None] = {}
        self._timer: Timer | None = None

    def add(self, queue: Queue) -> None:
        """Some of its messages could not be read."""
        self._queues[queue] = None
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.now_ms() + REREAD_MS, self._due)

    def _due(self) -> None:
        """One slice of each queue; one that has some left is asked again next time."""
        self._timer = None
        queues, self._queues = self._queues, {}
        for queue in queues:
            if queue.deleted:
                continue
            if queue.lines.reread():
                queue.mark()
            if queue.lines.unread_count:
                self.add(queue)
        self._pump()
