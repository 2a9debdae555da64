"""The budget of links in a turn of the loop."""

import asyncio
from collections.abc import Generator
from itertools import pairwise

import pytest

from warren.federation.upstream.turns import LINK_COST, TURN_COST, Turns

AT_ONCE = TURN_COST // LINK_COST


async def test_what_one_turn_has_no_time_for_is_done_in_the_next_ones_in_order() -> None:
    turns = Turns()
    done: list[int] = []
    called = [turns.run(LINK_COST, lambda number=number: done.append(number)) for number in range(3 * AT_ONCE)]  # type: ignore[misc]
    assert called == [True] * AT_ONCE + [False] * 2 * AT_ONCE
    for turn in (1, 2, 3):
        assert done == list(range(turn * AT_ONCE))
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert turns.run(LINK_COST, lambda: done.append(-1)) and done[-1] == -1


async def test_what_is_done_anyway_counts() -> None:
    turns = Turns()
    turns.spend(TURN_COST)
    assert not turns.run(1, lambda: None)
    await asyncio.sleep(0)
    assert turns.run(1, lambda: None)


async def test_a_step_that_raises_keeps_nothing_from_the_next_turn() -> None:
    errors: list[BaseException] = []
    done: list[int] = []
    turns = Turns()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context["exception"]))
    turns.spend(TURN_COST)
    turns.run(1, lambda: pytest.fail("on purpose"))
    turns.run(1, lambda: done.append(1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert done == [1] and len(errors) == 1


async def test_waiting_ends_in_a_turn_that_has_time_and_its_cancellation_keeps_nothing_from_others() -> None:
    turns = Turns()
    await turns.wait(TURN_COST)
    waiting = [asyncio.ensure_future(turns.wait(TURN_COST)) for _ in range(3)]
    await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [True, False, False]
    waiting[1].cancel()
    await asyncio.wait_for(waiting[2], 10)


async def test_steps_are_done_in_turns_that_have_time_for_them() -> None:
    done: list[int] = []

    def steps() -> Generator[None, None, str]:
        for number in range(4):
            done.append(number)
            yield
        return "result"

    turns = Turns()
    doing = asyncio.ensure_future(turns.do(TURN_COST, steps()))
    counts = []
    while not doing.done():
        await asyncio.sleep(0)
        counts.append(len(done))
    assert doing.result() == "result" and counts[0] == 2 and max(b - a for a, b in pairwise(counts)) <= 2
