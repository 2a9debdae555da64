"""The clock of a broker for tests, which can be moved on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from warren.broker.core.messages.clock import Timer
from warren.broker.runtime.clock import LoopClock

HALF_MS = 0.0005  # so that `now_ms`, which rounds down, is not a millisecond short


class MovableTimer(Timer):
    """A timer that the clock sets again when it has moved on."""

    __slots__ = ("when_ms", "call", "_clock")

    def __init__(self, clock: MovableClock, when_ms: int, call: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.call = call
        self._clock = clock

    def cancel(self) -> None:
        self._clock.remove(self)


class MovableClock(LoopClock):
    """The loop's clock, plus the time by which it was moved on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None] = lambda: None) -> None:
        super().__init__(loop, after)
        self._pending: dict[MovableTimer, Timer] = {}  # with the loop's timer, in the order of their creation
        self._ahead_s = 0.0

    def timestamp_s(self) -> int:
        return int(time.time() + self._ahead_s)

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> Timer:
        timer = MovableTimer(self, when_ms, fn)
        self._set(timer)
        return timer

    def remove(self, timer: MovableTimer) -> None:
        """Remove a timer, if it is still to be called."""
        pending = self._pending.pop(timer, None)
        if pending is not None:
            pending.cancel()

    async def advance(self, ms: float) -> None:
        """Move on by `ms`. Timers that become due are called in order, each at its time, one in a turn of the loop.

        The jobs that they start are timers too, so these are finished as well.
        """
        end_ms = self.now_ms() + ms
        while self._pending:
            timer = min(self._pending, key=lambda timer: timer.when_ms)
            if timer.when_ms > end_ms:
                break
            self._move_to(timer.when_ms)
            self.remove(timer)
            self._call(timer.call)
            await asyncio.sleep(0)
        self._move_to(end_ms)
        for timer in list(self._pending):
            self.remove(timer)
            self._set(timer)

    def reset_timestamps(self) -> None:
        """Let timestamps follow the machine's time again; the rest of the clock never goes back."""
        self._ahead_s = 0.0

    def _set(self, timer: MovableTimer) -> None:
        def due() -> None:
            del self._pending[timer]
            timer.call()

        self._pending[timer] = super().call_at(timer.when_ms, due)

    def _move_to(self, ms: float) -> None:
        ahead_s = ms / 1000 - self._epoch_s - self._loop.time()
        if ahead_s > 0:
            self._epoch_s += ahead_s + HALF_MS
            self._ahead_s += ahead_s
