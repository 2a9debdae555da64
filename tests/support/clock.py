"""A clock that stands still until a test moves it."""

import heapq
from collections.abc import Callable


class FakeTimer:
    """What `call_at` gives back: it can be cancelled until it has run."""

    __slots__ = ("cancelled", "function", "number", "when_ms")

    def __init__(self, when_ms: int, number: int, function: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.number = number
        self.function = function
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def __lt__(self, other: "FakeTimer") -> bool:
        return (self.when_ms, self.number) < (other.when_ms, other.number)


class FakeClock:
    """The Clock port of the core. Timers run inside `advance`, in the order of their time, then of their making."""

    def __init__(self, start_ms: int = 1_000_000) -> None:
        self._now_ms = start_ms
        self._timers: list[FakeTimer] = []
        self._made = 0

    def now_ms(self) -> int:
        return self._now_ms

    def call_at(self, when_ms: int, function: Callable[[], None]) -> FakeTimer:
        self._made += 1
        timer = FakeTimer(when_ms, self._made, function)
        heapq.heappush(self._timers, timer)
        return timer

    def advance(self, ms: int) -> None:
        """Let `ms` pass, running what falls due on the way with the clock showing the time it was due."""
        end_ms = self._now_ms + ms
        while self._timers and self._timers[0].when_ms <= end_ms:
            timer = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, timer.when_ms)
            if not timer.cancelled:
                timer.function()
        self._now_ms = end_ms
