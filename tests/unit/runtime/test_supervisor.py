"""Tasks that outlive the call which started them: logged when they fail, restarted, cancelled with the node."""

import asyncio
from typing import Any

import pytest

from tests.support.polling import until_async
from warren.broker.runtime import supervisor as supervisor_module
from warren.broker.runtime.supervisor import Supervisor

Line = tuple[str, str, dict[str, Any]]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "FIRST_DELAY_S", 0.001)
    monkeypatch.setattr(supervisor_module, "DELAY_LIMIT_S", 0.004)


@pytest.fixture
def lines() -> list[Line]:
    return []


@pytest.fixture
def supervisor(lines: list[Line]) -> Supervisor:
    return Supervisor(lambda *line: lines.append(line))


async def broken() -> None:
    raise ValueError("no such thing")


async def test_a_task_that_fails_is_logged_once_with_its_name_and_its_traceback(supervisor, lines):
    task = supervisor.run("sweep", broken(), folder="log")
    await asyncio.wait([task])
    await until_async(lambda: lines)
    ((event, level, fields),) = lines
    assert (event, level, fields["task"], fields["folder"]) == ("task_failed", "error", "sweep", "log")
    assert isinstance(fields["exc_info"], ValueError)
    assert supervisor.status() == [
        {"name": "sweep", "running": 0, "restarts": 0, "failures": 1, "last_failure": "ValueError: no such thing"}
    ]


async def test_the_result_of_a_task_is_there_for_who_awaits_it(supervisor, lines):

    async def seven() -> int:
        return 7

    assert await supervisor.run("sum", seven()) == 7
    assert not lines


async def test_a_child_that_fails_is_started_again_later_each_time_up_to_a_limit(supervisor, lines):
    child = supervisor.keep("sampler", broken)
    await until_async(lambda: len(lines) >= 5)
    child.cancel()
    await child.ended()
    assert [fields["again_s"] for _, _, fields in lines][:5] == [0.001, 0.002, 0.004, 0.004, 0.004]
    assert child.restarts >= 4


async def test_a_steady_run_resets_the_delay_of_a_child(supervisor, lines, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervisor_module, "STEADY_S", 0.0)
    child = supervisor.keep("sampler", broken)
    await until_async(lambda: len(lines) >= 3)
    child.cancel()
    assert {fields["again_s"] for _, _, fields in lines} == {0.001}


async def test_a_child_whose_work_fails_before_it_is_a_coroutine_is_started_again(supervisor, lines):
    calls = 0

    def work() -> Any:
        nonlocal calls
        calls += 1
        if calls != 2:
            return broken()
        raise MemoryError("no room for a coroutine")

    child = supervisor.keep("sampler", work)
    await until_async(lambda: len(lines) >= 4)
    child.cancel()
    await child.ended()
    assert [type(fields["exc_info"]) for _, _, fields in lines][:3] == [ValueError, MemoryError, ValueError]
    assert supervisor.status()[0]["running"] == 0


async def test_a_child_is_started_again_though_its_failure_cannot_be_logged():
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    def full(*line: object) -> None:
        raise OSError(28, "No space left on device")

    supervisor = Supervisor(full)
    child = supervisor.keep("sampler", broken)
    await until_async(lambda: child.restarts >= 3)
    child.cancel()
    await child.ended()
    ends: list[bool] = []
    Supervisor(full, lambda: ends.append(True)).keep("journal", broken, vital=True)
    await until_async(lambda: ends)
    task = supervisor.run("once", broken())
    await asyncio.wait([task])
    assert supervisor.by_name["once"].running == 0
    assert complaints[0]["message"] == "the failure of task sampler was not logged"


async def test_a_child_that_returns_is_not_started_again(supervisor, lines):
    starts: list[int] = []

    async def work() -> None:
        starts.append(1)

    child = supervisor.keep("once", work)
    await child.ended()
    assert (child.over, starts, lines) == (True, [1], [])


async def test_a_cancelled_child_ends_also_before_its_restart(supervisor, lines, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervisor_module, "FIRST_DELAY_S", 3600.0)
    running = supervisor.keep("running", asyncio.Event().wait)
    waiting = supervisor.keep("waiting", broken)
    await until_async(lambda: lines)
    for child in (running, waiting):
        child.cancel()
        await asyncio.wait_for(child.ended(), 5)
    assert len(lines) == 1


async def test_a_cancellation_that_nobody_asked_for_is_a_failure(supervisor, lines):
    """A timeout after a failed TaskGroup raises CancelledError on Python 3.11.2."""
    starts: list[int] = []

    async def work() -> None:
        starts.append(1)
        if len(starts) < 3:
            raise asyncio.CancelledError
        await asyncio.Event().wait()

    child = supervisor.keep("link", work)
    await until_async(lambda: len(starts) == 3)
    assert [event for event, _, _ in lines] == ["task_failed", "task_failed"]
    child.cancel()
    await child.ended()


async def test_each_start_of_a_child_is_free_of_what_a_broken_task_group_left(supervisor):
    """Its timeouts raise TimeoutError each time."""
    ends: list[type[BaseException]] = []

    async def work() -> None:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except BaseException as error:
            ends.append(type(error))
        async with asyncio.TaskGroup() as group:
            group.create_task(broken())

    child = supervisor.keep("link", work)
    await until_async(lambda: len(ends) >= 3)
    child.cancel()
    await child.ended()
    assert set(ends) == {TimeoutError}


async def test_a_vital_child_that_fails_ends_the_node_and_is_not_started_again():
    ends: list[str] = []
    lines: list[Line] = []
    supervisor = Supervisor(lambda *line: lines.append(line), lambda: ends.append("ended"))
    child = supervisor.keep("heart", broken, vital=True)
    await child.ended()
    assert (ends, len(lines), "again_s" in lines[0][2]) == (["ended"], 1, False)


async def test_tasks_that_do_not_end_with_the_node_are_named(supervisor, lines, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervisor_module, "STOP_WAIT_S", 0.01)
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    supervisor.keep("sampler", asyncio.Event().wait)
    supervisor.run("request", asyncio.Event().wait())
    left = supervisor.run("stubborn", stubborn())
    await asyncio.sleep(0)
    await supervisor.stop()
    assert lines == [("tasks_not_ended", "warning", {"tasks": ["stubborn"]})]
    release.set()
    await left
    await until_async(lambda: not any(row["running"] for row in supervisor.status()))
