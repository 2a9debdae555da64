"""Expiry of messages and of queues, by timers: `x-message-ttl`, `expiration` and `x-expires`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..jobs.scheduler import OBJECT_COST, Job
from ..messages.message_state import NEVER
from ..messages.ports import Timer
from .queue_settings import NONE

if TYPE_CHECKING:
    from .queue import Queue

TIMER_COST = 15  # of a timer and its job beside the pump (`scheduler`)


class MessageExpiry:
    """The timer of one queue for the deadline of its next message.

    A timer that fires for a message that has left meanwhile is set again for the next one.
    """

    __slots__ = ("_queue", "_timer", "_when_ms")
    __deletable__ = ("_queue",)  # `Queue.break_cycles`

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._timer: Timer | None = None
        self._when_ms = 0

    def schedule(self) -> None:
        """Have the queue pumped when its next message expires."""
        when_ms = self._queue.ready_messages.next_deadline_ms()
        if when_ms != NEVER:
            self.pump_at(when_ms)

    def pump_again(self) -> None:
        """Have the queue pumped again after other queues, as one turn of the loop may not do all."""
        self.pump_at(self._queue.host.clock.now_ms())

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pump_at(self, when_ms: int) -> None:
        """Have the queue pumped at this time, or at an earlier one that is already set."""
        if self._timer is not None and self._when_ms <= when_ms:
            return
        self.cancel()
        self._when_ms = when_ms
        self._timer = self._queue.host.clock.call_at(when_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        queue = self._queue
        queue.host.scheduler.start(f"expiry in {queue}", self._pump())
        queue.host.pump()

    def _pump(self) -> Job:
        """Pump the queue as a job of one step, so that each turn of the loop expires messages of some queues only."""
        self._queue.schedule_pump()
        yield TIMER_COST + self._queue.host.pump()


class QueueExpiry:
    """The timer of one queue for `x-expires`, which deletes the queue when it was unused for that time.

    The queue is in use while it has consumers; the time restarts when the last one leaves, and with each declaration
    and basic.get.
    """

    __slots__ = ("_queue", "_used_ms", "_timer")
    __deletable__ = ("_queue",)  # `Queue.break_cycles`

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._used_ms = 0
        self._timer: Timer | None = None

    def renew(self) -> None:
        """Restart the time: the queue is used."""
        if self._queue.settings.expires_ms != NONE:
            self._used_ms = self._queue.host.clock.now_ms()
            self._schedule()

    def reconfigure(self) -> None:
        """Apply a changed `expires`."""
        running = self._timer is not None
        self.cancel()
        if not running:
            self.renew()
        elif self._queue.settings.expires_ms != NONE:
            self._schedule()

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        if self._timer is None:
            due_ms = self._used_ms + self._queue.settings.expires_ms
            self._timer = self._queue.host.clock.call_at(due_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        queue = self._queue
        if len(queue.consumers):
            return
        if queue.host.clock.now_ms() < self._used_ms + queue.settings.expires_ms:
            self._schedule()
        else:
            queue.host.scheduler.start(f"expiry of {queue}", self._expire())
            queue.host.pump()

    def _expire(self) -> Job:
        """Delete the queue as a job of one step, so that each turn of the loop deletes some queues only."""
        queue = self._queue
        unused = queue.host.clock.now_ms() >= self._used_ms + queue.settings.expires_ms
        if unused and not len(queue.consumers) and not queue.deleted and queue.settings.expires_ms != NONE:
            queue.host.delete_expired(queue)
            yield OBJECT_COST
