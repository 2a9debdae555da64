"""The moment at which the next message of a queue is due (spec/core.md 13.8: prompt, so by a timer, not by a poll)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .life import NEVER
from .ports import Timer

if TYPE_CHECKING:
    from .queue import Queue


class Expiry:
    """One queue's. A timer that comes too early, for a message that has left, only looks for the next."""

    __slots__ = ("_queue", "_timer", "_when_ms")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._timer: Timer | None = None
        self._when_ms = 0

    def expect(self) -> None:
        """Have the queue pumped when its next message is due."""
        when_ms = self._queue.lines.next_deadline_ms()
        if when_ms != NEVER:
            self._call_at(when_ms)

    def _call_at(self, when_ms: int) -> None:
        if self._timer is not None and self._when_ms <= when_ms:
            return
        self.end()
        self._when_ms = when_ms
        self._timer = self._queue.home.clock.call_at(when_ms, self._due)

    def at_once(self) -> None:
        """Have the queue pumped again after others had their turn: it has more to do than it may do in one go."""
        self._call_at(self._queue.home.clock.now_ms())

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._queue.mark()
        self._queue.home.pump()
