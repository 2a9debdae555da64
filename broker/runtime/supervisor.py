"""The supervisor: runs the named tasks that outlive the call which started them.

A failure is logged once, with the task's name and traceback. The owner of the task decides what follows: nothing
(`run`), a restart after a delay (`keep`), or the stop of the node (`keep` with `vital`).

Each restart is a new task. On Python 3.11.2 a TaskGroup with a failed child leaves its task counted as cancelled, and
the next `asyncio.timeout` in that task raises CancelledError. For the same reason a child that ends with a
CancelledError although nobody has cancelled it counts as failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

from ..logs.redaction import clean

FIRST_DELAY_S = 0.5  # before the first restart; doubled each time,
DELAY_LIMIT_S = 30.0  # up to this
STEADY_S = 60.0  # after this running time the delay is FIRST_DELAY_S again
STOP_WAIT_S = 5.0  # for tasks to end after they were cancelled, when the node stops

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, object]]
Report = Callable[[str, str, dict[str, object]], None]
"""A function that logs an event: name, level, fields."""


@dataclass(slots=True)
class Counts:
    """Counts of the tasks with one name since the start of the node."""

    running: int = 0
    restarts: int = 0
    failures: int = 0
    last_failure: str = ""


class Child:
    """A task that is started again after each failure, until it returns or is cancelled."""

    def __init__(self, supervisor: Supervisor, name: str, work: Work, vital: bool, fields: dict[str, object]) -> None:
        self.name = name
        self.restarts = 0
        self._supervisor = supervisor
        self._loop = asyncio.get_running_loop()
        self._work = work
        self._vital = vital
        self._fields = fields
        self._cancelled = False
        self._ended = asyncio.Event()
        self._delay_s = FIRST_DELAY_S
        self._timer: asyncio.TimerHandle | None = None
        self._started_s = 0.0
        self._task: asyncio.Task[object] | None = None
        self._start()

    @property
    def over(self) -> bool:
        """True once it has returned or was cancelled, and is not started again."""
        return self._ended.is_set()

    def cancel(self) -> None:
        """Cancel the task; it is not started again."""
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._end()

    async def ended(self) -> None:
        """Wait until `over` is true."""
        await self._ended.wait()

    def _start(self) -> None:
        self._timer = None
        self._started_s = self._loop.time()
        self._supervisor.counts(self.name).running += 1
        self._task = self._loop.create_task(self._run(), name=self.name)
        self._task.add_done_callback(self._done)

    async def _run(self) -> object:
        """Call `work` in the task, so that an error of the call itself is a failure of the task."""
        return await self._work()

    def _done(self, task: asyncio.Task[object]) -> None:
        self._task = None
        counts = self._supervisor.counts(self.name)
        counts.running -= 1
        error = asyncio.CancelledError("cancelled by nobody") if task.cancelled() else task.exception()
        if error is None or (self._cancelled and task.cancelled()):
            self._end()
            return
        again = not (self._cancelled or self._vital)
        if self._loop.time() - self._started_s >= STEADY_S:
            self._delay_s = FIRST_DELAY_S
        fields = self._fields | ({"again_s": self._delay_s} if again else {})
        self._supervisor.report_failure(self.name, error, fields)
        if again:
            self._timer = self._loop.call_later(self._delay_s, self._start_again)
            self._delay_s = min(2 * self._delay_s, DELAY_LIMIT_S)
            return
        self._end()
        if self._vital and not self._cancelled:
            self._supervisor.fail()

    def _start_again(self) -> None:
        self.restarts += 1
        self._supervisor.counts(self.name).restarts += 1
        self._start()

    def _end(self) -> None:
        self._ended.set()
        self._supervisor.forget(self)


class Supervisor:
    """All tasks of a node that outlive a call.

    `report` logs an event: name, level, fields. `fail` stops the node after a vital task has failed.
    """

    def __init__(self, report: Report, fail: Callable[[], None] = lambda: None) -> None:
        self.fail = fail
        self._report = report
        self._children: set[Child] = set()
        self._tasks: set[asyncio.Task[Any]] = set()  # the loop itself holds tasks weakly
        self._counts: dict[str, Counts] = {}

    def run(self, name: str, work: Coroutine[Any, Any, T], **fields: object) -> asyncio.Task[T]:
        """Start a task that is not started again; a failure is logged with its name and these fields."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        self.counts(name).running += 1
        task.add_done_callback(partial(self._done, name, fields))
        return task

    def keep(self, name: str, work: Work, vital: bool = False, **fields: object) -> Child:
        """Start `work`, and restart it after each failure with growing delays; a failed vital task stops the node."""
        child = Child(self, name, work, vital, fields)
        self._children.add(child)
        return child

    @property
    def by_name(self) -> Mapping[str, Counts]:
        """Counts by the names of all tasks that were ever started."""
        return self._counts

    def status(self) -> list[dict[str, object]]:
        """Return the counts of tasks by name: running ones, failures and restarts."""
        return [{"name": name, **asdict(counts)} for name, counts in sorted(self._counts.items())]

    async def stop(self) -> None:
        """Cancel all tasks and wait some seconds for their end; those still running are logged."""
        children, tasks = list(self._children), set(self._tasks)
        for child in children:
            child.cancel()
        for task in tasks:
            task.cancel()
        waits = [asyncio.get_running_loop().create_task(child.ended()) for child in children]
        if waits or tasks:
            _, left = await asyncio.wait([*waits, *tasks], timeout=STOP_WAIT_S)
            names = {child.name for child in children if not child.over} | {one.get_name() for one in left & tasks}
            if names:
                self._report("tasks_not_ended", "warning", {"tasks": sorted(names)})
        for wait in waits:
            wait.cancel()

    # For children

    def counts(self, name: str) -> Counts:
        return self._counts.setdefault(name, Counts())

    def forget(self, child: Child) -> None:
        self._children.discard(child)

    def report_failure(self, name: str, error: BaseException, fields: dict[str, object]) -> None:
        counts = self.counts(name)
        counts.failures += 1
        counts.last_failure = clean(f"{type(error).__name__}: {error}")  # shown to operators
        try:
            self._report("task_failed", "error", {"task": name, **fields, "exc_info": error})
        except Exception as unreported:  # a log that fails must not keep a task from its restart
            context = {"message": f"the failure of task {name} was not logged", "exception": unreported}
            asyncio.get_running_loop().call_exception_handler(context)

    def _done(self, name: str, fields: dict[str, object], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self.counts(name).running -= 1
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.report_failure(name, error, fields)
