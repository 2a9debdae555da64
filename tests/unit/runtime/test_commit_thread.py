"""The committer, with a journal that only records calls."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable

import pytest

from warren.broker.core.messages.journal_port import BEHIND, DISK_FULL, IN_FLIGHT, ROOM, Batch, Journal
from warren.broker.runtime import commit_thread
from warren.broker.runtime.commit_thread import Committer


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_thread, "RETRY_S", 0.001)
    monkeypatch.setattr(commit_thread, "SYNC_S", 0.001)


class NotedBatch(Batch):
    def __init__(self, number: int, journal: NotedJournal) -> None:
        self.number = number
        self._journal = journal

    def write(self) -> None:
        self._journal.calls.append(f"write {self.number}")
        if self._journal.errors:
            raise self._journal.errors.pop(0)

    def sync(self) -> None:
        self._journal.calls.append(f"sync {self.number}")
        self._journal.on_sync(self.number)


class NotedJournal(Journal):
    """A journal with `added` batches to seal; `done` are the durable ones.

    If `lazy`, they survive a power cut only after one more batch, which `sync` adds.
    """

    def __init__(self) -> None:
        self.durable = 0
        self.added = 0
        self.sealed = 0
        self.errors: list[Exception] = []
        self.done: list[int] = []
        self.calls: list[str] = []  # of the workers
        self.on_sync: Callable[[int], None] = lambda number: None
        self.on_durable: Callable[[], None] = lambda: None
        self.lazy = False
        self.is_behind = False
        self.waiting: list[tuple[int, Callable[[], None]]] = []

    def seal(self) -> Batch | None:
        if self.sealed >= len(self.done) + IN_FLIGHT or self.sealed == self.added:
            return None
        self.sealed += 1
        return NotedBatch(self.sealed, self)

    def unsynced(self) -> bool:
        return self.lazy

    def sync(self) -> None:
        self.added += self.lazy
        self.lazy = False

    def room(self) -> int:
        if self.full:  # which sets the alarm
            return DISK_FULL
        return BEHIND if self.is_behind else ROOM

    def ticket(self) -> int:
        return self.added

    def when_durable(self, ticket: int, fn: Callable[[], None]) -> None:
        self.waiting.append((ticket, fn))

    def committed(self, number: int) -> None:
        self.done.append(number)
        self.on_durable()
        while self.waiting and self.waiting[0][0] <= len(self.done):
            self.waiting.pop(0)[1]()


class Scene:
    def __init__(self) -> None:
        self.journal = NotedJournal()
        self.room = True
        self.owned = True
        self.alarms: list[bool] = []
        self.failures: list[Exception] = []
        self.failed = asyncio.Event()
        self.took: list[float] = []
        self.delays: list[OSError] = []
        self.committer = Committer(
            self.journal,
            lambda: self.room,
            self.alarms.append,
            self._fail,
            self.took.append,
            self.delays.append,
            lambda: self.owned,
        )

    def commit(self, added: int) -> None:
        self.journal.added = added
        self.committer.commit_soon()

    def _fail(self, error: Exception) -> None:
        self.failures.append(error)
        self.failed.set()


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_what_gathers_meanwhile_is_the_next_batch_and_a_stop_waits_for_all(scene: Scene) -> None:
    scene.commit(3)
    assert scene.journal.sealed == 1
    assert await scene.committer.stop()
    assert sorted(scene.journal.done) == [1, 2, 3]
    assert scene.failures == []
    assert len(scene.took) == 3 and all(seconds >= 0 for seconds in scene.took)


async def test_the_disk_is_checked_before_a_batch_is_written_if_the_journal_is_behind(scene: Scene) -> None:
    scene.room = False
    scene.committer.commit_soon()
    assert scene.alarms == []
    scene.journal.is_behind = True
    for _ in range(2):
        scene.committer.commit_soon()
    assert scene.alarms == [True]
    assert await scene.committer.stop()


async def test_a_stop_waits_for_what_is_added_after_the_last_batch(scene: Scene) -> None:
    loop = asyncio.get_running_loop()

    def add() -> None:  # before the task that stops runs again
        scene.journal.added += 1

    scene.journal.added = 1
    scene.journal.on_durable = lambda: len(scene.journal.done) < 5 and loop.call_soon(add)
    assert await scene.committer.stop()
    assert scene.journal.done == [1, 2, 3, 4, 5]


async def test_a_batch_is_written_and_synced_while_the_sync_of_the_one_before_runs(scene: Scene) -> None:
    second = threading.Event()

    def sync(number: int) -> None:
        if number == 1:
            assert second.wait(60), "no other batch was synced meanwhile"
        second.set()

    scene.journal.on_sync = sync
    scene.commit(2)
    scene.committer.commit_soon()
    assert await scene.committer.stop()
    assert scene.journal.calls == ["write 1", "sync 1", "write 2", "sync 2"]
    assert scene.journal.done == [2, 1]


async def test_no_batch_is_written_before_those_with_lower_numbers(scene: Scene) -> None:
    scene.journal.errors = [OSError(errno.ENOSPC, "full")] * 3
    scene.commit(4)
    scene.committer.commit_soon()
    assert await scene.committer.stop()
    writes = [call for call in scene.journal.calls if call.startswith("write")]
    assert writes == ["write 1"] * 4 + ["write 2", "write 3", "write 4"]
    assert sorted(scene.journal.done) == [1, 2, 3, 4]


async def test_nothing_is_written_after_a_final_failure(scene: Scene) -> None:
    scene.journal.errors = [OSError(errno.EIO, "broken")]
    scene.commit(3)
    scene.committer.commit_soon()
    await scene.failed.wait()
    scene.committer.commit_soon()
    assert (scene.journal.calls, scene.journal.done) == (["write 1"], [])


async def test_a_full_disk_is_tried_again_and_sets_the_alarm_until_then(scene: Scene) -> None:
    scene.journal.errors = [OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "full")]
    scene.commit(1)
    assert await scene.committer.stop()
    assert scene.journal.done == [1]
    assert scene.alarms == [True, True, False]
    assert scene.failures == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_a_shortage_of_descriptors_or_memory_sets_no_alarm(scene: Scene, number: int) -> None:
    scene.journal.errors = [OSError(number, "not now")]
    scene.commit(1)
    assert await scene.committer.stop()
    assert (scene.journal.done, scene.alarms, scene.failures) == ([1], [False], [])
    assert [error.errno for error in scene.delays] == [number]


async def test_a_disk_that_does_not_tell_its_room_keeps_no_batch_from_being_confirmed(scene: Scene) -> None:
    answers: list[OSError | bool] = [OSError(errno.EIO, "broken"), OSError(errno.EIO, "broken"), False, True]
    looked = asyncio.Event()

    def enough() -> bool:
        answer = answers.pop(0)
        if not answers:
            looked.set()
        if isinstance(answer, OSError):
            raise answer
        return answer

    scene.committer._enough = enough
    scene.commit(1)
    await asyncio.wait_for(looked.wait(), 60)
    assert (scene.journal.done, scene.alarms, scene.failures) == ([1], [True, False], [])
    scene.committer._enough = lambda: True
    assert await scene.committer.stop()


async def test_publishers_wait_while_there_is_little_room_and_go_on_when_there_is_more(scene: Scene) -> None:
    scene.room = False
    scene.journal.added = 1
    changes: asyncio.Queue[bool] = asyncio.Queue()
    scene.committer._full = changes.put_nowait
    scene.committer.commit_soon()
    assert await changes.get() is True
    scene.room = True
    while await changes.get():
        pass
    assert await scene.committer.stop()


async def test_work_that_needs_space_is_given_up_at_the_stop_while_the_disk_is_full(scene: Scene) -> None:
    scene.room = False
    scene.committer.check_disk()
    calls: list[int] = []
    await asyncio.wait_for(scene.committer.finish(lambda: bool(calls.append(1))), 2)
    assert len(calls) == 1
    assert await scene.committer.stop()


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), ValueError("a bug")])
async def test_any_other_failure_is_final(scene: Scene, error: Exception) -> None:
    scene.journal.errors = [error]
    scene.commit(2)
    await scene.failed.wait()
    assert scene.failures == [error]
    assert scene.journal.done == []
    scene.committer.commit_soon()
    assert scene.journal.sealed == 1  # nothing more is written


async def test_a_stop_does_not_wait_for_ever_for_a_full_disk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_thread, "STOP_WAIT_S", 0.01)
    monkeypatch.setattr(commit_thread, "RETRY_S", 60.0)
    scene.journal.errors = [OSError(errno.ENOSPC, "full")]
    scene.commit(1)
    assert not await scene.committer.stop()


async def test_work_before_a_stop_waits_whenever_the_journal_is_behind(scene: Scene) -> None:
    scene.journal.is_behind = True
    left = [1, 2, 3]

    def work() -> bool:
        scene.journal.added = left.pop(0)
        return not left

    await scene.committer.finish(work)
    assert not left and scene.journal.done == [1, 2]
    assert await scene.committer.stop()


async def test_work_before_a_stop_does_not_wait_for_ever(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_thread, "STOP_WAIT_S", 0.01)
    monkeypatch.setattr(commit_thread, "RETRY_S", 60.0)
    scene.journal.is_behind = True
    scene.journal.errors = [OSError(errno.ENOSPC, "full")]
    scene.journal.added = 1
    await scene.committer.finish(lambda: False)
    assert not await scene.committer.stop()


async def test_work_before_a_stop_shares_the_loop(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_thread, "FINISH_S", 0.02)
    turns: list[str] = []

    async def other() -> None:
        for _ in range(3):
            turns.append("other")
            await asyncio.sleep(0)

    def work() -> bool:
        turns.append("work")
        return False

    task = asyncio.create_task(other())
    await scene.committer.finish(work)
    await task
    assert turns[:6].count("other") == turns[:6].count("work") == 3
    assert await scene.committer.stop()


async def test_what_is_only_written_is_synced_soon(scene: Scene) -> None:
    scene.journal.lazy = True
    scene.journal.added = 1
    synced = asyncio.Event()
    scene.journal.on_durable = lambda: synced.set() if len(scene.journal.done) == 2 else None
    scene.committer.commit_soon()
    await synced.wait()
    assert not scene.journal.lazy
    assert await scene.committer.stop()


async def test_nothing_is_sealed_after_a_stop(scene: Scene) -> None:
    scene.journal.lazy = True
    scene.commit(1)
    assert await scene.committer.stop()
    await asyncio.sleep(0.01)
    assert scene.journal.done == [1]


async def test_nothing_is_confirmed_while_the_owner_is_uncertain(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_thread, "OWNED_S", 0.0)
    scene.owned = False
    looked = asyncio.Event()
    loop = asyncio.get_running_loop()
    scene.journal.on_sync = lambda number: (loop.call_soon_threadsafe(looked.set), None)[1]
    scene.commit(1)
    await looked.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert scene.journal.done == []
    scene.owned = True
    assert await scene.committer.stop()
    assert scene.journal.done == [1]
