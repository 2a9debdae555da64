"""The scheduler of a node: queues that wait to be pumped, now or at a time, and jobs of more than one turn of the loop.

Each call into the core runs to its end, and nothing else is served meanwhile. Work that may concern 100,000 messages or
objects is therefore a job: it changes the visible state at once, and does the rest in slices.

A job that appends messages to the journal waits while the journal is behind, so that the copies of one request are not
all in memory. It waits while the disk is full, too: the rest of the disk is for settlements and
deletions. Jobs that only settle messages do not wait: they make room.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from ...compilation import BUILD, COMPILED
from ..messages.clock import Clock, Timer
from ..messages.journal_port import BEHIND, DISK_FULL, Journal

Job = Iterator[int]
"""A generator that does a slice at each step and yields its cost: 1 is a message leaving a queue, about 1 us."""

Report = Callable[[str, str, dict[str, object]], None]

SUSPENDED: Final = -1  # a step's cost, after `Scheduler.suspend`
# The cost of a step after which the job has to wait. What is done at once and yields one of them becomes a job.
AWAITS_JOURNAL: Final = -2  # until the journal has caught up
AWAITS_OTHERS: Final = -3  # for the next turn of the loop, because others have to go on
SLICE: Final = 500  # messages in one step of a job
UNLIMITED: Final = 1 << 60
TURN_COST: Final = 4_000  # of all jobs in one turn of the loop: 4 to 8 ms
AT_ONCE_COST: Final = 1_000  # of the steps of a job that are done before it becomes one
# How many times as fast as in pure Python the work of queues is. With less of it in a turn, publishers, whose input is
# measured in time, would outrun the consumers of dead letters.
SPEED: Final = 3 if BUILD == COMPILED else 1
PUMP_LIMIT: Final = 6_000 * SPEED  # of all queues in one turn of the loop: 2 to 8 ms
# Of jobs in one turn, one of which may pump. Above it, as of 5 MB that were read, queues are pumped in the next one.
LONG_COST: Final = PUMP_LIMIT + TURN_COST
OBJECT_COST: Final = 50  # of deleting one queue or exchange, or closing one channel or connection
CONSUMER_COST: Final = 10  # of removing one consumer
PUMP_COST: Final = 5  # of a queue with nothing to deliver
DUE_COST: Final = 15  # of a queue whose time has come, beside its pump
COPY_SHIFT: Final = 11  # a copy of 2 KiB costs 1
STORE_SHIFT: Final = 9  # to write 512 bytes to the journal costs 1
RETRY_MS = 1_000  # the wait after a failed pump


def do_at_once(steps: Job, budget: int = AT_ONCE_COST) -> tuple[bool, int]:
    """Do steps of a job until they have cost more than `budget`, or one of them has to wait.

    Return whether some may be left, and the cost.
    """
    spent = 0
    for cost in steps:
        if cost < 0:
            return True, spent
        spent += cost
        if spent > budget:
            return True, spent
    return False, spent


@dataclass(slots=True, eq=False)
class Task:
    """A job that the scheduler runs, as `Scheduler.start` describes.

    next_in_turn  it has waited for the journal, and makes a step even if publishers have filled it again
    """

    name: str
    job: Job
    failed: Callable[[], None]
    appends: bool
    next_in_turn: bool = False


class Pumpable(Protocol):
    """A queue, as the scheduler sees it. It is in `pending` while it is `dirty`.

    timer  for `on_due` at `due_ms`, or some turns later; None if the queue waits for no time (`Scheduler.pump_at`)
    """

    name: str
    vhost: str
    dirty: bool
    deleted: bool
    timer: Timer | None
    due_ms: int

    def pump(self) -> int:
        """Deliver ready messages to consumers that have room; return the cost."""

    def schedule_pump(self) -> None:
        """Add the queue to `pending` unless it is dirty."""

    def on_due(self) -> int:
        """Do the work that is due, or add the queue to `pending` for it; return the cost."""


class Scheduler:
    """Pumps queues and runs jobs.

    pending    queues that wait to be pumped
    report     writes one line to the log: event, level, fields
    spent      the cost of all pumps, and all that `charge` and `Fifo` add, ever: each request is charged for its part
    freed      how often groups of consumers were freed (`ConsumerGroup`)
    finishing  no job may wait for another one, as all of them are run to their end
    """

    __slots__ = (
        *("pending", "report", "spent", "freed", "finishing", "_clock", "_journal", "_tasks", "_waiting"),
        *("_suspended", "_current", "_left", "_running", "_expected", "_spent_before"),
        *("_pumped", "_pumped_for_many", "_put_off", "_due"),
    )

    def __init__(self, clock: Clock, journal: Journal) -> None:
        self.pending: deque[Pumpable] = deque()
        self.report: Report = lambda event, level, fields: None
        self.spent = self.freed = 0
        self._clock = clock
        self._journal = journal
        self._tasks: deque[Task] = deque()
        self._waiting: deque[Task] = deque()  # for room, in the order of their turns
        self._suspended: dict[Task, bool] = {}  # True while one waits for the journal
        self._due: deque[Pumpable] = deque()  # queues whose time has come
        self._current: Task | None = None  # whose step is under way
        self.finishing = False
        self._left = TURN_COST  # the rest of this turn's budget
        self._running = False
        self._expected = False  # a next turn is scheduled
        self._pumped = False  # as many queues as the turn has time for
        self._put_off = False  # queues are pumped first in the next turn, as jobs have taken long
        self._pumped_for_many = 0  # the cost of it in this turn
        self._spent_before = 0  # `spent` at the end of the last turn

    def __len__(self) -> int:
        """The number of unfinished jobs and of queues that wait for the next turn."""
        jobs = len(self._tasks) + len(self._waiting) + len(self._suspended)
        return jobs + len(self._due) + (len(self.pending) if self._pumped else 0)

    # Queues

    def pump(self, earlier: int = 0) -> int:
        """Pump pending queues, also those that a delivery makes pending, and return the cost.

        What the turn has no time for, beside what `earlier` pumps have cost, is pumped in the next ones, in order.
        """
        pending = self.pending
        before = self.spent
        end = before + PUMP_LIMIT - earlier
        while pending and not self._pumped:
            queue = pending.popleft()
            try:
                cost = queue.pump()
                self.spent += cost  # after the call, in which messages that are read back add to it
            except Exception as error:  # a bug, or the disk: other queues and connections must not suffer from it
                self.pump_failed(queue, error)
            if pending and self.spent >= end:
                self._pumped = True
                self._expect()
        return self.spent - before

    def pump_for_many(self) -> None:
        """Pump pending queues, in this turn as many as one `pump` would however often it is called, the others soon."""
        if self._pumped_for_many < PUMP_LIMIT:
            self._pumped_for_many += self.pump()
        self._expect(resets=True)

    def pump_at(self, queue: Pumpable, when_ms: int) -> None:
        """Pump a queue at this time, or at an earlier one that is already set; of many, some in each turn."""
        if queue.timer is not None:
            if queue.due_ms <= when_ms:
                return
            queue.timer.cancel()
        queue.due_ms = when_ms
        queue.timer = self._clock.call_at(when_ms, partial(self._come_due, queue))

    def pump_later(self, queue: Pumpable) -> None:
        """Pump a queue again after others, perhaps in a later turn."""
        self.pump_at(queue, self._clock.now_ms())

    def forget(self, queue: Pumpable) -> None:
        """Pump a queue at no time any more."""
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None

    def _come_due(self, queue: Pumpable) -> None:
        self._due.append(queue)  # once: its timer is there until it is pumped
        if not self._running:
            self._run_in_turn()
            self._expect()
        self.pump()

    def _pump_due(self, queue: Pumpable) -> None:
        """Pump a queue whose time has come, as a step of a job."""
        queue.timer = None
        commit = self._journal.enter(None)
        try:
            cost = queue.on_due() + self.pump()
            self._left -= cost
        except Exception as error:
            self.pump_failed(queue, error)
        finally:
            self._journal.enter(commit)

    def pump_failed(self, queue: Pumpable, error: Exception) -> None:
        """Report a failed pump and retry after RETRY_MS, not before: each publish to the queue would fail again."""
        self.report("queue_failed", "error", {"queue": queue.name, "vhost": queue.vhost, "exc_info": error})
        if queue.dirty and queue not in self.pending:
            return  # its retry is scheduled already
        if queue.dirty:
            self.pending.remove(queue)
        queue.dirty = True  # so that nothing else makes it pending

        def again() -> None:
            queue.dirty = False
            if not queue.deleted:
                queue.schedule_pump()
                self.pump()

        self._clock.call_at(self._clock.now_ms() + RETRY_MS, again)

    # Jobs

    def start(self, name: str, job: Job, failed: Callable[[], None] = lambda: None, appends: bool = False) -> None:
        """Run a job as far as this turn's budget goes, and the rest in later turns, in turn with other jobs.

        `name` is for the log. `failed` is called if the job raises, to release its waiters. A job that `appends`
        messages to the journal makes no step while that has no room (`Journal.room`).
        """
        self._tasks.append(Task(name, job, failed, appends))
        if not self._running:
            self._run_in_turn()
            self._expect()

    def start_later(self, name: str, job: Job) -> None:
        """Run a job from the next turn on, as `start` does: no job makes a step before the caller has returned."""
        self._tasks.append(Task(name, job, lambda: None, False))
        self._expect()

    def caught_up(self) -> Job:
        """Wait as a part of a job until the journal is not behind, unless the disk is full."""
        if self._journal.room() == BEHIND and not self.finishing:
            yield AWAITS_JOURNAL

    def disk_alarm(self, on: bool) -> None:
        """Note that the alarm of the disk has begun, or has ended: then jobs that append messages go on."""
        self._journal.note_alarm(on)
        if not on:
            self._resume_waiting()
            return
        for task in [task for task, awaits_journal in self._suspended.items() if awaits_journal]:
            self._resume(task)  # nothing becomes durable until there is room, which the job may have to make

    @property
    def has_time(self) -> bool:
        """True if something of the budget of this turn is left: what may be a job may as well be done at once."""
        return self._left > 0

    def charge(self, cost: int) -> None:
        """Charge the jobs of this turn for work that was done at once, within a step or outside of jobs."""
        self.spent += cost
        self._left -= cost
        if not self._running:
            self._expect()

    def append_no_more(self) -> None:
        """Have the job of this step wait for no room any more."""
        assert self._current is not None, "only the step of a job can do so"
        self._current.appends = False

    def suspend(self) -> Callable[[], None]:
        """Suspend the job of this step, which has to yield SUSPENDED now; return the function that resumes it."""
        task = self._current
        assert task is not None, "only the step of a job can do so"
        return partial(self._resume, task)

    def _resume(self, task: Task) -> None:
        if task in self._suspended:
            del self._suspended[task]
            self._tasks.append(task)
            self._expect()

    def finish(self, job: Job) -> None:
        """Run this job to its end at once, even if the journal is behind."""
        [task] = [task for task in (*self._tasks, *self._waiting, *self._suspended) if task.job is job]
        self._resume(task)
        (self._tasks if task in self._tasks else self._waiting).remove(task)
        running, self._running = self._running, True  # jobs that it starts wait for a turn
        finishing, self.finishing = self.finishing, True
        try:
            while self._step(task) is not None:
                pass
        finally:
            self._running, self.finishing = running, finishing
        self._expect()

    def finish_all(self, budget: int = UNLIMITED) -> bool:
        """Run all jobs to their end, and return True; False if some wait for room, or that has cost `budget`."""
        while (self._tasks or self._due or self._suspended) and budget > 0:
            for task in list(self._suspended):
                self._resume(task)
            self._left = TURN_COST
            self._run()
            budget -= TURN_COST
        return not (self._tasks or self._due or self._waiting or self._suspended)

    def stop(self) -> None:
        """Run no more jobs: the work that is left is in the store for the next start of the node."""
        self._left = 0

    def _run_in_turn(self) -> None:
        """Run steps of jobs; let the pumps wait if that took long, as of messages of many megabytes that were read."""
        left = self._left
        self._run()
        if left - self._left > LONG_COST:
            self._pumped = self._put_off = True

    def _run(self) -> None:
        """Run steps of all jobs in turn, and pump queues that are due, until the budget of this turn is spent."""
        tasks, due = self._tasks, self._due
        self._running = True
        try:
            while (tasks or due) and self._left > 0:
                if due:
                    self._pump_due(due.popleft())
                    if not tasks or self._left <= 0:
                        continue
                task = tasks.popleft()
                if task.appends and (room := self._journal.room()) and (room == DISK_FULL or not task.next_in_turn):
                    self._await_room(task, room)
                    continue
                task.next_in_turn = False
                cost = self._step(task)
                if cost is None:
                    continue
                if cost in (SUSPENDED, AWAITS_JOURNAL):
                    self._suspended[task] = cost == AWAITS_JOURNAL
                    if cost == AWAITS_JOURNAL:
                        self._journal.when_durable(self._journal.ticket(), partial(self._resume, task))
                    continue
                self._left -= TURN_COST if cost == AWAITS_OTHERS else cost
                tasks.append(task)
        finally:
            self._running = False

    def _await_room(self, task: Task, room: int) -> None:
        """Run the job again when all that the journal has now is durable and the disk is not full."""
        self._waiting.append(task)
        if len(self._waiting) == 1 and room == BEHIND:
            self._journal.when_durable(self._journal.ticket(), self._resume_waiting)

    def _resume_waiting(self) -> None:
        if self._waiting:
            self._waiting[0].next_in_turn = True
        self._tasks.extendleft(reversed(self._waiting))
        self._waiting.clear()
        self._expect()

    def _step(self, task: Task) -> int | None:
        """Run one step and return its cost, or None if the job has ended. If it raises, other jobs go on."""
        outer, self._current = self._current, task
        commit = self._journal.enter(None)  # of a request that has started jobs in its turn
        try:
            return next(task.job)
        except StopIteration:
            return None
        except Exception as error:
            self.report("job_failed", "error", {"job": task.name, "exc_info": error})
        finally:
            self._current = outer
            self._journal.enter(commit)
        try:
            task.failed()
        except Exception as error:
            self.report("job_failed", "error", {"job": f"{task.name}: what follows its failure", "exc_info": error})
        return None

    def _expect(self, resets: bool = False) -> None:
        """Schedule the next turn if there are jobs or queues for it, or if a budget has to be reset."""
        if not self._expected and (resets or self._tasks or self._due or self._pumped or self._left < TURN_COST):
            self._expected = True
            self._clock.call_at(self._clock.now_ms(), self._turn)

    def _turn(self) -> None:
        earlier = self.spent - self._spent_before  # perhaps in the same turn of the loop
        self._expected = self._pumped = False
        self._left, self._pumped_for_many = TURN_COST, 0
        if self._put_off:
            self._put_off = False
            cost = self.pump(earlier)
            earlier += cost
            self._left -= cost
        self._run_in_turn()
        self.pump(earlier)
        self._expect()
        self._spent_before = self.spent
