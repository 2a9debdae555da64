"""The event loop's clock as the Clock port of the core."""

import asyncio
import gc
import time

import pytest

from warren.broker.runtime import clock as clock_module
from warren.broker.runtime.clock import LoopClock, LoopTimer


async def test_the_clock_counts_milliseconds_since_1970():
    assert abs(LoopClock(asyncio.get_running_loop()).now_ms() - time.time() * 1000) < 1000


async def test_a_step_of_the_wall_clock_does_not_move_it(monkeypatch: pytest.MonkeyPatch):
    clock = LoopClock(asyncio.get_running_loop())
    before = clock.now_ms()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before <= clock.now_ms() < before + 1000


async def test_a_timer_calls_at_its_time_and_then_what_is_to_follow():
    called = asyncio.Event()
    calls: list[str] = []

    def follow() -> None:
        calls.append("after")
        called.set()

    clock = LoopClock(asyncio.get_running_loop(), follow)
    clock.call_at(clock.now_ms() + 1, lambda: calls.append("timer"))
    await asyncio.wait_for(called.wait(), 5)
    assert calls == ["timer", "after"]


async def test_a_cancelled_timer_calls_nothing():
    called = asyncio.Event()
    clock = LoopClock(asyncio.get_running_loop())
    clock.call_at(clock.now_ms(), lambda: pytest.fail("cancelled")).cancel()
    clock.call_at(clock.now_ms() + 1, called.set)
    await asyncio.wait_for(called.wait(), 5)


async def test_a_timer_that_was_called_or_cancelled_is_freed_by_its_reference_count():
    clock, called = LoopClock(asyncio.get_running_loop()), asyncio.Event()
    gc.collect()
    gc.disable()
    try:
        clock.call_at(clock.now_ms() + 3_600_000, called.set).cancel()
        clock.call_at(clock.now_ms(), called.set)
        await asyncio.wait_for(called.wait(), 5)
        await asyncio.sleep(0)
        timers = [one for one in gc.get_objects() if isinstance(one, LoopTimer)]
        assert not [one for one in timers if one._clock is clock]
    finally:
        gc.enable()


async def test_a_stopped_clock_calls_nothing_any_more():
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    clock = LoopClock(loop, lambda: pytest.fail("nothing was called"))
    clock.call_at(clock.now_ms(), lambda: pytest.fail("stopped"))
    clock.stop()
    loop.call_later(0.01, done.set)
    await asyncio.wait_for(done.wait(), 5)


async def test_time_passes_while_the_machine_is_suspended_and_timers_are_set_again(monkeypatch: pytest.MonkeyPatch):
    loop = asyncio.get_running_loop()
    away_s = [5.0]
    monkeypatch.setattr(clock_module, "suspended_s", lambda: away_s[0])
    called = asyncio.Event()
    calls: list[str] = []
    clock = LoopClock(loop, lambda: calls.append("after"))
    before = clock.now_ms()
    clock.call_at(before + 3_600_500, lambda: calls.append("two"))
    clock.call_at(before + 3_600_000, lambda: calls.append("one"))
    clock.call_at(before + 3_600_000, lambda: calls.append("cancelled")).cancel()
    clock.call_at(before + 7_200_000, lambda: calls.append("late"))
    away_s[0] += 3_601
    clock._resync()
    assert 3_601_000 <= clock.now_ms() - before < 3_660_000
    loop.call_later(0, loop.call_soon, called.set)
    await asyncio.wait_for(called.wait(), 5)
    assert calls == ["one", "after", "two", "after"] and len(clock._moments) == 1


async def test_timers_that_are_due_together_are_called_in_order_in_several_turns(monkeypatch: pytest.MonkeyPatch):
    """Each turn calls one at least. One that fails keeps no other one, and one that is cancelled meanwhile is not."""
    monkeypatch.setattr(clock_module, "TURN_S", 0.0)
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(lambda loop, context: calls.append(str(context["exception"])))
    clock = LoopClock(loop)
    calls: list[str] = []

    def fail() -> None:
        loop.call_soon(calls.append, "a turn")
        raise ValueError("failed")

    now_ms = clock.now_ms()
    last = clock.call_at(now_ms - 1, lambda: pytest.fail("cancelled"))
    clock.call_at(now_ms, lambda: calls.append("two"))
    clock.call_at(now_ms - 2, last.cancel)
    clock.call_at(now_ms - 2, fail)
    clock.call_at(now_ms, lambda: clock.call_at(now_ms - 3, done.set))
    await asyncio.wait_for(done.wait(), 5)
    assert calls == ["failed", "a turn", "two"]


async def test_timers_of_many_milliseconds_become_due_in_several_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clock_module, "MOMENTS", 2)
    clock, done = LoopClock(asyncio.get_running_loop()), asyncio.Event()
    now_ms = clock.now_ms()
    calls: list[int] = []
    for number in range(10):
        clock.call_at(now_ms - 10 + number, lambda number=number: calls.append(number))  # type: ignore[misc]
    clock.call_at(now_ms, done.set)
    await asyncio.wait_for(done.wait(), 5)
    assert calls == list(range(10))


async def test_the_times_of_cancelled_timers_are_forgotten():
    clock = LoopClock(asyncio.get_running_loop())
    far_ms = clock.now_ms() + 3_600_000
    kept = clock.call_at(far_ms, lambda: None)
    for number in range(10 * clock_module.FEW):
        clock.call_at(far_ms + number, lambda: None).cancel()
    assert len(clock._times) <= 2 * clock_module.FEW and list(clock._moments) == [far_ms]
    kept.cancel()
    assert not clock._moments
