"""The clock of a broker for tests moves on, and calls what becomes due in order."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from warren.testing.clock import MovableClock

HOUR_MS = 3_600_000


def run(use: Callable[[MovableClock], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await use(MovableClock(asyncio.get_running_loop()))

    asyncio.run(main())


def test_timers_are_called_in_the_order_of_their_times_and_then_of_their_creation() -> None:
    async def use(clock: MovableClock) -> None:
        calls: list[tuple[str, int]] = []
        start_ms = clock.now_ms()

        def call(name: str) -> Callable[[], None]:
            return lambda: calls.append((name, round((clock.now_ms() - start_ms) / HOUR_MS)))

        for name, hours in (("c", 3), ("a", 1), ("d", 3), ("b", 2), ("late", 5)):
            clock.call_at(start_ms + hours * HOUR_MS, call(name))
        clock.call_at(start_ms + HOUR_MS, call("cancelled")).cancel()
        await clock.advance(4 * HOUR_MS)
        assert calls == [("a", 1), ("b", 2), ("c", 3), ("d", 3)]
        await clock.advance(HOUR_MS)
        assert calls[4:] == [("late", 5)]

    run(use)


def test_timers_that_a_timer_sets_are_called_too() -> None:
    async def use(clock: MovableClock) -> None:
        calls: list[int] = []

        def again() -> None:
            calls.append(clock.now_ms())
            clock.call_at(calls[-1] + HOUR_MS, again)

        start_ms = clock.now_ms()
        clock.call_at(start_ms, again)
        await clock.advance(10 * HOUR_MS + 60_000)
        assert [round((call - start_ms) / HOUR_MS) for call in calls] == list(range(11))

    run(use)


def test_a_timer_is_never_called_before_its_time() -> None:
    async def use(clock: MovableClock) -> None:
        early: list[int] = []
        for step_ms in range(1, 500, 7):
            when_ms = clock.now_ms() + step_ms
            clock.call_at(when_ms, lambda when_ms=when_ms: early.append(when_ms) if clock.now_ms() < when_ms else None)
            await clock.advance(step_ms)
        assert early == []

    run(use)


def test_what_is_left_is_called_by_the_loop_when_it_is_due() -> None:
    async def use(clock: MovableClock) -> None:
        called = asyncio.Event()
        clock.call_at(clock.now_ms() + HOUR_MS, called.set)
        await clock.advance(HOUR_MS - 20)
        assert not called.is_set()
        await asyncio.wait_for(called.wait(), 30)
        assert clock._pending == {}

    run(use)


def test_timestamps_follow_the_clock_until_they_are_reset() -> None:
    async def use(clock: MovableClock) -> None:
        await clock.advance(HOUR_MS)
        ahead_ms = clock.now_ms()
        assert clock.timestamp_s() * 1000 > ahead_ms - 60_000
        clock.reset_timestamps()
        assert clock.timestamp_s() <= int(time.time())
        assert clock.now_ms() >= ahead_ms

    run(use)
