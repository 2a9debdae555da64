"""A clock of the core that a test advances, and an event loop with the time of that clock."""

import heapq
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from warren.broker.core.messages.clock import Clock, Timer


class FakeTimer(Timer):
    """A timer of the fake clock; it can be cancelled until it has run."""

    def __init__(self, when_ms: int, number: int, function: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.number = number
        self.function = function
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def __lt__(self, other: "FakeTimer") -> bool:
        return (self.when_ms, self.number) < (other.when_ms, other.number)


class FakeClock(Clock):
    """A clock that stands still but for `advance`, which runs timers by their time, then by their creation."""

    def __init__(self, start_ms: int = 1_000_000) -> None:
        self._now_ms = start_ms
        self._timers: list[FakeTimer] = []
        self._made = 0
        self.after_each: Callable[[], None] = lambda: None  # runs after each timer, as the rest of a loop's turn does

    def now_ms(self) -> int:
        return self._now_ms

    def timestamp_s(self) -> int:
        return 1_700_000_000 + self._now_ms // 1000

    def processor_s(self) -> float:
        return time.thread_time()

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> FakeTimer:
        self._made += 1
        timer = FakeTimer(when_ms, self._made, fn)
        heapq.heappush(self._timers, timer)
        return timer

    def advance(self, ms: int) -> None:
        """Let `ms` pass; each timer that is due runs while the clock shows its time."""
        end_ms = self._now_ms + ms
        while self.run_next(end_ms):
            pass
        self._now_ms = end_ms

    def run_next(self, end_ms: int) -> bool:
        """Run the next timer that is due until then; return whether there was one."""
        if not self._timers or self._timers[0].when_ms > end_ms:
            return False
        timer = heapq.heappop(self._timers)
        self._now_ms = max(self._now_ms, timer.when_ms)
        if not timer.cancelled:
            timer.function()
            self.after_each()
        return True


def fake_clock(clock: Clock) -> FakeClock:
    """The clock of a node or a virtual host, which is a fake one."""
    assert isinstance(clock, FakeClock)
    return clock


class FakeLoop:
    """The part of an event loop that the transport uses, by the fake clock. `turn` is one turn of it."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._ready: deque[Callable[[], None]] = deque()

    def time(self) -> float:
        return self._clock.now_ms() / 1000

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> None:
        self._ready.append(lambda: callback(*args))

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> FakeTimer:
        return self._clock.call_at(self._clock.now_ms() + round(delay * 1000), lambda: callback(*args))

    def turn(self) -> bool:
        """Run the callbacks that were ready at the beginning of the turn; return whether there were any."""
        count = len(self._ready)
        for _ in range(count):
            self._ready.popleft()()
        return count > 0
