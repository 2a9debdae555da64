"""The scheduler of a node: the queues that wait to be pumped, and jobs that take more than one turn of the loop.

Each call into the core runs to its end, and nothing else is served meanwhile. Work that may concern 100,000 messages or
objects is therefore a job: it changes at once what an observer can see, and does the rest in slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from ..messages.ports import Clock

Job = Iterator[int]
"""A generator that does a slice at each step and yields its cost: 1 is a message leaving a queue, about 1 us."""

Report = Callable[[str, str, dict[str, object]], None]

SLICE: Final = 500  # messages in one step of a job
TURN_COST: Final = 4_000  # of all jobs in one turn of the loop: 4 to 8 ms
PUMP_LIMIT: Final = 6_000  # of all queues in one turn of the loop: 2 to 8 ms
OBJECT_COST: Final = 50  # of deleting one queue or exchange, or closing one channel or connection
CONSUMER_COST: Final = 10  # of removing one consumer
PUMP_COST: Final = 5  # of a queue with nothing to deliver
COPY_SHIFT: Final = 11  # a copy of 2 KiB costs 1
STORE_SHIFT: Final = 9  # to write 512 bytes to the journal costs 1
RETRY_MS = 1_000  # the wait after a failed pump


class Pumpable(Protocol):
    """A queue, as the scheduler sees it. It is in `pending` while it is `dirty`."""

    name: str
    vhost: str
    dirty: bool
    deleted: bool

    def pump(self) -> int:
        """Deliver ready messages to consumers that have room; return the cost."""

    def schedule_pump(self) -> None:
        """Add the queue to `pending` unless it is dirty."""


class Scheduler:
    """Pumps queues and runs jobs.

    pending  queues that wait to be pumped
    report   writes one line to the log: event, level, fields
    """

    __slots__ = ("pending", "report", "_clock", "_jobs", "_left", "_running", "_expected", "_pumped")

    def __init__(self, clock: Clock) -> None:
        self.pending: deque[Pumpable] = deque()
        self.report: Report = lambda event, level, fields: None
        self._clock = clock
        self._jobs: deque[tuple[str, Job, Callable[[], None]]] = deque()
        self._left = TURN_COST  # the rest of this turn's budget
        self._running = False
        self._expected = False  # a next turn is scheduled
        self._pumped = False  # as many queues as the turn has time for

    def __len__(self) -> int:
        """The number of unfinished jobs and of queues that wait for the next turn."""
        return len(self._jobs) + (len(self.pending) if self._pumped else 0)

    # Queues

    def pump(self) -> int:
        """Pump pending queues, also those that a delivery makes pending, and return the cost.

        What the turn has no time for is pumped in the next ones, in order.
        """
        pending = self.pending
        cost = 0
        while pending and not self._pumped:
            queue = pending.popleft()
            try:
                cost += queue.pump()
            except Exception as error:  # a bug, or the disk: other queues and connections must not suffer from it
                self.pump_failed(queue, error)
            if cost >= PUMP_LIMIT and pending:
                self._pumped = True
                self._expect()
        return cost

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

    def start(self, name: str, job: Job, failed: Callable[[], None] = lambda: None) -> None:
        """Run a job as far as this turn's budget goes, and the rest in later turns, in turn with other jobs.

        `name` is for the log. `failed` is called if the job raises, to release its waiters.
        """
        self._jobs.append((name, job, failed))
        if not self._running:
            self._run()
            self._expect()

    def charge(self, cost: int) -> None:
        """Charge the jobs of this turn for work that was done at once, within a step or outside of jobs."""
        self._left -= cost
        if not self._running:
            self._expect()

    def finish(self, job: Job | None = None) -> None:
        """Run this job to its end at once, or all jobs when the node stops."""
        if job is None:
            while self._jobs:
                self._left = TURN_COST
                self._run()
            return
        [entry] = [entry for entry in self._jobs if entry[1] is job]
        self._jobs.remove(entry)
        running, self._running = self._running, True  # jobs that it starts wait for a turn
        try:
            while self._step(*entry) is not None:
                pass
        finally:
            self._running = running
        self._expect()

    def _run(self) -> None:
        """Run steps of all jobs in turn until the budget of this turn is spent."""
        jobs = self._jobs
        self._running = True
        try:
            while jobs and self._left > 0:
                entry = jobs.popleft()
                cost = self._step(*entry)
                if cost is not None:
                    self._left -= cost
                    jobs.append(entry)
        finally:
            self._running = False

    def _step(self, name: str, job: Job, failed: Callable[[], None]) -> int | None:
        """Run one step and return its cost, or None if the job has ended. If it raises, other jobs go on."""
        try:
            return next(job)
        except StopIteration:
            return None
        except Exception as error:
            self.report("job_failed", "error", {"job": name, "exc_info": error})
        try:
            failed()
        except Exception as error:
            self.report("job_failed", "error", {"job": f"{name}: what follows its failure", "exc_info": error})
        return None

    def _expect(self) -> None:
        """Schedule the next turn if there are jobs or queues for it, or if the budget has to be reset."""
        if not self._expected and (self._jobs or self._pumped or self._left < TURN_COST):
            self._expected = True
            self._clock.call_at(self._clock.now_ms(), self._turn)

    def _turn(self) -> None:
        self._expected = self._pumped = False
        self._left = TURN_COST
        self._run()
        self.pump()
        self._expect()
