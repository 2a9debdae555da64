"""The event loop's clock as the Clock port of the core."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from ..core.messages.clock import Clock, Timer

RESYNC_S = 5.0  # between two looks at the time for which the machine was suspended
TURN_S = 0.005  # in which timers are called in one turn
MOMENTS = 1_000  # milliseconds whose timers become due in one turn
FEW = 1_000  # times without timers that are kept
FAR_S = float("inf")


class LoopTimer(Timer):
    """A timer of the clock; `fn` is None once it was called or cancelled."""

    __slots__ = ("when_ms", "fn", "_clock")

    def __init__(self, clock: LoopClock, when_ms: int, fn: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.fn: Callable[[], None] | None = fn
        self._clock = clock

    def cancel(self) -> None:
        self.fn = None
        self._clock.forget(self)


class LoopClock(Clock):
    """The wall time at the start plus the time since then, including suspensions of the machine.

    So stored times are valid after a restart, and changes of the wall clock move no timer. `after` is called after each
    timer's callback, which may have published or settled messages. The loop's own time does not advance while the
    machine is suspended: the clock notices that within RESYNC_S.

    The clock uses one timer of the loop, and calls few of its own in one turn: any number may be due together.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None] = lambda: None) -> None:
        self._loop = loop
        self._after = after
        self._epoch_s = time.time() - loop.time()  # wall time at zero of the loop's clock, suspensions added
        self._suspended_s = suspended_s()
        self._moments: dict[int, dict[LoopTimer, None]] = {}  # timers by their times in milliseconds
        self._times: list[int] = []  # a heap of these, also of some whose timers were cancelled
        self._due: deque[LoopTimer] = deque()  # that are to be called in this turn and the next ones
        self._handle: asyncio.Handle | None = None  # which calls them
        self._handle_s = FAR_S
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
        moment = self._moments.get(when_ms)
        if moment is None:
            self._moments[when_ms] = {timer: None}
            heappush(self._times, when_ms)
            self._expect(when_ms)
        else:
            moment[timer] = None
        return timer

    def forget(self, timer: LoopTimer) -> None:
        """Forget a timer that was cancelled."""
        moment = self._moments.get(timer.when_ms)
        if moment is None:
            return
        moment.pop(timer, None)
        if not moment:
            del self._moments[timer.when_ms]
            if len(self._times) > 2 * len(self._moments) + FEW:
                self._times = list(self._moments)
                heapify(self._times)

    def stop(self) -> None:
        """Call back no more: nothing expires while the node stops."""
        self._stopped = True

    def _expect(self, when_ms: int) -> None:
        """Have the loop call `_call_due` at this time, or before."""
        when_s = when_ms / 1000 - self._epoch_s
        if when_s < self._handle_s:
            if self._handle is not None:
                self._handle.cancel()
            self._handle_s = when_s
            self._handle = self._loop.call_at(when_s, self._call_due, when_ms)

    def _call_due(self, when_ms: int) -> None:
        """Call timers that are due at this time, or now; those for which this turn has no time in the next ones."""
        self._handle, self._handle_s = None, FAR_S
        end_s = time.perf_counter() + TURN_S
        end_ms = max(when_ms, self.now_ms())  # the loop may call a millisecond early
        due, times = self._due, self._times
        for _ in range(MOMENTS):
            if not times or times[0] > end_ms:
                break
            due.extend(self._moments.pop(heappop(times), ()))
        try:
            while due:
                timer = due.popleft()
                fn, timer.fn = timer.fn, None
                if fn is not None:
                    self._call(fn)
                if time.perf_counter() >= end_s:
                    break
        finally:
            if due:
                self._expect(end_ms)
            elif self._times:
                self._expect(self._times[0])

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
            if self._times:
                self._expect(self._times[0])
        self._resync_later()


def suspended_s() -> float:
    """Return for how many seconds the machine was suspended since it started, 0 where the system does not say."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
