"""Unfinished publishes: those that wait for room go on in their order, not all in one turn, and none is forgotten."""

from __future__ import annotations

from tests.support.clock import FakeClock
from warren.broker.core.jobs.unfinished_publishes import JOB_BYTES, LIMIT_BYTES, WOKEN, UnfinishedPublishes


def test_those_that_wait_go_on_in_turns_as_far_as_there_is_room() -> None:
    clock = FakeClock()
    unfinished = UnfinishedPublishes(clock)
    for _ in range(2):
        unfinished.begin(LIMIT_BYTES)
    called: list[int] = []
    for number in range(2 * WOKEN + 2):
        unfinished.wait(lambda number=number: called.append(number))  # type: ignore[misc]
    unfinished.end(LIMIT_BYTES)
    clock.advance(0)
    assert unfinished.full and not called
    unfinished.end(LIMIT_BYTES)
    unfinished.begin(0)
    unfinished.end(0)
    assert not unfinished.full and not called, "not within the job that has ended"
    turns: list[int] = []
    clock.after_each = lambda: turns.append(len(called))
    clock.advance(0)
    assert called == list(range(2 * WOKEN + 2)) and turns == [WOKEN, 2 * WOKEN, 2 * WOKEN + 2]


def test_who_fills_the_room_again_is_waited_for() -> None:
    clock = FakeClock()
    unfinished = UnfinishedPublishes(clock)
    called: list[int] = []
    unfinished.begin(LIMIT_BYTES)
    for number in range(WOKEN):
        unfinished.wait(lambda number=number: called.append(number))  # type: ignore[misc]
    unfinished.wait(lambda: called.append(WOKEN))
    clock.after_each = lambda: unfinished.begin(LIMIT_BYTES - JOB_BYTES)
    unfinished.end(LIMIT_BYTES)
    clock.advance(0)
    assert len(called) == WOKEN and unfinished.full
    clock.after_each = lambda: None
    for _ in range(2):
        unfinished.end(LIMIT_BYTES - JOB_BYTES)
    clock.advance(0)
    assert len(called) == WOKEN + 1
