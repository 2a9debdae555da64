"""No turn of the loop is long when very many timers are due together, as those of delayed exchanges may be."""

import asyncio
from functools import partial

from tests.support.speed import within
from warren.broker.runtime.clock import LoopClock

from .meter import ATTEMPTS, LIMIT_MS, MANY, UVLoopMeter


def test_timers_that_are_due_together() -> None:
    longest_ms = []
    for _ in range(ATTEMPTS):
        meter = UVLoopMeter()
        clock = LoopClock(meter.loop)
        calls: list[int] = []
        done = asyncio.Event()
        due_ms = clock.now_ms() - 2
        for number in range(MANY):
            clock.call_at(due_ms + number % 2, partial(work, calls, number))
        clock.call_at(due_ms + 2, done.set)
        meter.run(asyncio.wait_for(done.wait(), 10))
        meter.close()
        assert len(calls) == MANY
        longest_ms.append(meter.longest_s * 1000)
        if within(longest_ms[-1], LIMIT_MS):
            return
    raise AssertionError(f"longest turns of the attempts: {longest_ms} ms")


def work(calls: list[int], number: int) -> None:
    """Do what takes a timer a microsecond or two."""
    calls.append(sum(range(number % 100)))
