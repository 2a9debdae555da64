"""The moment at which the next message of a queue is due (spec/core.md 13.8: prompt, so by a timer, not by a poll)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..jobs.scheduler import Job
from ..messages.message_state import NEVER
from ..messages.ports import Timer
from .dead_lettering import COST

if TYPE_CHECKING:
    from .queue import Queue


PUMP_COST = 20  # of one queue that has nothing to do (`scheduler`)


class MessageExpiry:
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
        queue = self._queue
        queue.home.scheduler.start(f"expiry in {queue}", self._pump())
        queue.home.pump()

    def _pump(self) -> Job:
        """A job of one step: where many queues have something due, each turn of the loop sees to some of them."""
        queue = self._queue
        given_up, waiting = queue.expired + queue.dropped, len(queue.dying)
        queue.mark()
        queue.home.pump()
        given_up = queue.expired + queue.dropped - given_up
        dead_lettered = waiting + given_up - len(queue.dying) if queue.rules.dead_letter_exchange is not None else 0
        yield PUMP_COST + given_up + COST * max(dead_lettered, 0)
