"""The time that a queue may be unused before it goes (spec/core.md 14, x-expires)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..jobs.scheduler import OBJECT_COST, Job
from ..messages.ports import Timer
from .queue_settings import NONE

if TYPE_CHECKING:
    from .queue import Queue


class QueueExpiry:
    """One queue's. A consumer holds it; it starts anew with the end of the last one, with a declaration and a get."""

    __slots__ = ("_queue", "_used_ms", "_timer")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._used_ms = 0
        self._timer: Timer | None = None

    def renew(self) -> None:
        """The queue is used."""
        if self._queue.rules.expires_ms != NONE:
            self._used_ms = self._queue.home.clock.now_ms()
            self._expect()

    def changed(self) -> None:
        """Another time holds from now on."""
        running = self._timer is not None
        self.end()
        if not running:
            self.renew()
        elif self._queue.rules.expires_ms != NONE:
            self._expect()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expect(self) -> None:
        if self._timer is None:
            due_ms = self._used_ms + self._queue.rules.expires_ms
            self._timer = self._queue.home.clock.call_at(due_ms, self._due)

    def _due(self) -> None:
        self._timer = None
        queue = self._queue
        if len(queue.consumers):
            return
        if queue.home.clock.now_ms() < self._used_ms + queue.rules.expires_ms:
            self._expect()
        else:
            queue.home.scheduler.start(f"expiry of {queue}", self._expire())
            queue.home.pump()

    def _expire(self) -> Job:
        """A job of one step: where many queues expire, each turn of the loop deletes some of them."""
        queue = self._queue
        unused = queue.home.clock.now_ms() >= self._used_ms + queue.rules.expires_ms
        if unused and not len(queue.consumers) and not queue.deleted and queue.rules.expires_ms != NONE:
            queue.home.unused(queue)
            yield OBJECT_COST
