"""The event loop's clock as the Clock port of the core."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ..core.messages.ports import Clock, Timer

RESYNC_S = 5.0  # between two looks at the time for which the machine was suspended


class LoopTimer(Timer):
    """A timer of the loop, which the clock sets again when the machine was suspended."""

    __slots__ = ("when_ms", "fn", "handle", "_clock")

    def __init__(self, clock: LoopClock, when_ms: int, fn: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.fn = fn
        self.handle: asyncio.TimerHandle | None = None
        self._clock = clock

    def cancel(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
        self._clock.forget(self)
        self.handle = None  # which has a reference to the timer


class LoopClock(Clock):
    """The wall time at the start plus the time since then, suspensions of the machine included.

    So stored times are valid after a restart, and changes of the wall clock move no timer. `after` is called after each
    timer's callback, which may have published or settled messages. The loop's own time stands still while the machine
    is suspended: the clock notices that within RESYNC_S, and sets all timers again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None] = lambda: None) -> None:
        self._loop = loop
        self._after = after
        self._epoch_s = time.time() - loop.time()  # wall time at zero of the loop's clock, suspensions added
        self._suspended_s = suspended_s()
        self._timers: set[LoopTimer] = set()
        self._stopped = False
        self._resync_later()

    def now_ms(self) -> int:
        return int((self._epoch_s + self._loop.time()) * 1000)

    def timestamp_s(self) -> int:
        return int(time.time())

    def processor_s(self) -> float:
        return time.thread_time()

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> Timer:
        timer = LoopTimer(self, when_ms, fn)
        self._timers.add(timer)
        self._schedule(timer)
        return timer

    def forget(self, timer: LoopTimer) -> None:
        """Forget a timer that was cancelled or is called."""
        self._timers.discard(timer)

    def stop(self) -> None:
        """Call back no more: nothing expires while the node stops."""
        self._stopped = True

    def _schedule(self, timer: LoopTimer) -> None:
        if timer.handle is not None:
            timer.handle.cancel()
        timer.handle = self._loop.call_at(timer.when_ms / 1000 - self._epoch_s, self._due, timer)

    def _due(self, timer: LoopTimer) -> None:
        self._timers.discard(timer)
        timer.handle = None
        self._call(timer.fn)

    def _call(self, fn: Callable[[], None]) -> None:
        if self._stopped:
            return
        try:
            fn()
        finally:
            self._after()

    def _resync_later(self) -> None:
        self._loop.call_later(RESYNC_S, self._resync)

    def _resync(self) -> None:
        """Add the time for which the machine was suspended."""
        if self._stopped:
            return
        passed_s = suspended_s() - self._suspended_s
        if passed_s > 0.001:
            self._suspended_s += passed_s
            self._epoch_s += passed_s
            for timer in sorted(self._timers, key=lambda timer: timer.when_ms):
                self._schedule(timer)
        self._resync_later()


def suspended_s() -> float:
    """Return for how many seconds the machine was suspended since it started, 0 where the system does not say."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
