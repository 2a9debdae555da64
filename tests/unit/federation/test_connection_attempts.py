"""Places for attempts to connect: few at once, in turn by upstream, and none is lost."""

import asyncio

import pytest

from warren.federation import connection_attempts as module
from warren.federation.connection_attempts import AT_ONCE, EACH, Admission, Place, Upstream

ONE, OTHER = ("/", "one"), ("/", "other")


@pytest.fixture
def admission() -> Admission:
    return Admission()


async def entering(admission: Admission, upstream: Upstream, count: int) -> list[asyncio.Task[Place]]:
    tasks = [asyncio.ensure_future(admission.enter(upstream)) for _ in range(count)]
    await settled()
    return tasks


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def admitted(tasks: list[asyncio.Task[Place]]) -> int:
    return len([task for task in tasks if task.done()])


async def test_an_upstream_has_some_places_and_the_next_attempts_get_them(admission: Admission) -> None:
    tasks = await entering(admission, ONE, EACH + 2)
    assert [task.done() for task in tasks] == [True] * EACH + [False] * 2
    with tasks[0].result() as place:
        place.leave()
    await asyncio.sleep(0)
    assert [task.done() for task in tasks] == [True] * (EACH + 1) + [False], "a place is left once"


async def test_all_upstreams_together_have_some_places_and_take_turns(admission: Admission) -> None:
    count = AT_ONCE // EACH
    first = [await entering(admission, ("/", f"{number}"), EACH) for number in range(count)]
    assert [admitted(tasks) for tasks in first] == [EACH] * count
    one, other = await entering(admission, ONE, 3), await entering(admission, OTHER, 3)
    assert admitted(one) == admitted(other) == 0
    for expected in ((1, 0), (1, 1), (2, 1), (2, 2)):
        first[0].pop().result().leave()
        await asyncio.sleep(0)
        assert (admitted(one), admitted(other)) == expected


async def test_attempts_that_are_cancelled_take_no_place(admission: Admission) -> None:
    tasks = await entering(admission, ONE, EACH + 3)
    tasks[EACH].cancel()
    tasks[0].result().leave()
    tasks[EACH + 1].cancel()  # which has just got the place
    await settled()
    assert tasks[EACH].cancelled() and tasks[EACH + 1].cancelled() and tasks[EACH + 2].done()


async def test_silent_upstreams_take_no_places(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_S", 0.05)
    hung = [await entering(admission, ("/", f"{number}"), 2 * EACH) for number in range(AT_ONCE // EACH)]
    one = await entering(admission, ONE, 1)
    assert not admitted(one)
    await asyncio.wait_for(one[0], 10)
    assert [admitted(tasks) for tasks in hung] == [EACH] * len(hung)


async def test_attempts_wait_while_the_admission_is_not_open(admission: Admission) -> None:
    admission.open = False
    tasks = await entering(admission, ONE, EACH + 1)
    assert not admitted(tasks)
    admission.open = True
    await settled()
    assert admitted(tasks) == EACH
