"""No turn of the loop is long when very many timers are due together, as those of delayed exchanges may be."""

import asyncio
from functools import partial

from warren.broker.runtime.clock import LoopClock

from .meter import LIMIT_MS, MANY, UVLoopMeter, attempts_within


def test_timers_that_are_due_together() -> None:
    for took_ms in attempts_within(LIMIT_MS):
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
        took_ms.append(meter.longest_s * 1000)


def work(calls: list[int], number: int) -> None:
    """Do what takes a timer a microsecond or two."""
    calls.append(sum(range(number % 100)))
