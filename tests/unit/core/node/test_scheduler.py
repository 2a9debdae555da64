"""Jobs: those that append messages wait while the journal is behind; unfinished publishes of a user are limited."""

from collections.abc import Callable

import pytest

from tests.support.clock import FakeClock
from tests.support.queues import message
from tests.support.session import SlowJournal
from warren.broker.core.jobs.scheduler import LONG_COST, PUMP_COST, PUMP_LIMIT, SUSPENDED, TURN_COST, Job, Scheduler
from warren.broker.core.jobs.unfinished_publishes import JOB_BYTES, LIMIT_BYTES, WOKEN, UnfinishedPublishes
from warren.broker.core.messages.clock import Timer
from warren.broker.core.messages.journal_port import DISK_FULL, Commit

STEPS = 3


class Jobs:
    """A scheduler whose jobs note their steps, each of which takes a whole turn."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.journal = SlowJournal()
        self.scheduler = Scheduler(self.clock, self.journal)
        self.done: list[str] = []

    def job(self, name: str, fills: bool = False) -> Job:
        for step in range(STEPS):
            self.done.append(f"{name}{step}")
            if fills:
                self.fill()
            yield TURN_COST

    def fill(self) -> None:
        """Let the journal be behind until `commit`."""
        self.journal.append([], [message()])
        self.journal.much = True

    def commit(self) -> None:
        self.journal.much = False
        self.journal.commit(self.journal.ticket())

    def turns(self) -> list[str]:
        self.clock.advance(0)
        done, self.done = self.done, []
        return done


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


def test_jobs_that_append_wait_for_the_journal_and_others_do_not(jobs: Jobs) -> None:
    jobs.fill()
    jobs.scheduler.start("publish", jobs.job("p"), appends=True)
    jobs.scheduler.start("purge", jobs.job("s"))
    assert jobs.turns() == ["s0", "s1", "s2"] and len(jobs.scheduler) == 1
    jobs.commit()
    assert not jobs.done, "a callback of the journal starts no step"
    assert jobs.turns() == ["p0", "p1", "p2"] and not len(jobs.scheduler)


def test_a_job_that_starts_later_lets_no_job_make_a_step_before_the_next_turn(jobs: Jobs) -> None:
    """Its caller may be in the middle of a publish or a delivery."""
    jobs.fill()
    jobs.scheduler.start("publish", jobs.job("p"), appends=True)
    jobs.commit()
    jobs.scheduler.start_later("shedding", jobs.job("s"))
    assert not jobs.done
    assert jobs.turns() == ["p0", "s0", "p1", "s1", "p2", "s2"]


def test_jobs_that_append_wait_while_the_disk_is_full_although_the_journal_has_caught_up(jobs: Jobs) -> None:
    jobs.fill()
    jobs.scheduler.start("publish", jobs.job("p", fills=True), appends=True)
    jobs.scheduler.disk_alarm(True)
    jobs.scheduler.start("purge", jobs.job("s"))
    jobs.commit()
    assert jobs.turns() == ["s0", "s1", "s2"] and jobs.journal.room() == DISK_FULL and not jobs.scheduler.finish_all()
    jobs.scheduler.disk_alarm(False)
    assert jobs.turns() == ["p0"], "the journal is behind again"
    jobs.commit()
    assert jobs.turns() == ["p1"]


def test_a_job_that_fills_the_journal_waits_before_its_next_step(jobs: Jobs) -> None:
    jobs.scheduler.start("publish", jobs.job("p", fills=True), appends=True)
    for step in range(STEPS):
        assert jobs.turns() == [f"p{step}"]
        jobs.commit()
    assert not jobs.turns() and not len(jobs.scheduler)


def test_waiting_jobs_go_on_in_turn(jobs: Jobs) -> None:
    jobs.fill()
    for name in "abc":
        jobs.scheduler.start(name, jobs.job(name, fills=True), appends=True)
    jobs.commit()
    done: list[str] = []
    while len(jobs.scheduler):
        steps = jobs.turns()
        assert len(steps) <= 1
        done += steps
        jobs.commit()
    assert done == [f"{name}{step}" for step in range(STEPS) for name in "abc"]


def test_a_job_that_is_resumed_goes_on_behind_those_that_waited_for_a_turn(jobs: Jobs) -> None:
    resumes: list[Callable[[], None]] = []

    def suspended() -> Job:
        resumes.append(jobs.scheduler.suspend())
        yield SUSPENDED
        yield from jobs.job("s")

    jobs.scheduler.start("suspended", suspended())
    for name in "ab":
        jobs.scheduler.start(name, jobs.job(name))
    assert len(resumes) == 1
    resumes[0]()
    assert jobs.turns() == ["a0", "a1", "b0", "s0", "a2", "b1", "s1", "b2", "s2"]


def test_a_job_that_is_finished_at_once_does_not_wait(jobs: Jobs) -> None:
    jobs.fill()
    other, job = jobs.job("o"), jobs.job("p")
    jobs.scheduler.start("other", other, appends=True)
    jobs.scheduler.start("publish", job, appends=True)
    jobs.scheduler.finish(job)
    assert jobs.turns() == ["p0", "p1", "p2"] and len(jobs.scheduler) == 1
    jobs.scheduler.finish(other)
    jobs.commit()
    assert jobs.turns() == ["o0", "o1", "o2"] and not len(jobs.scheduler)


def test_all_jobs_are_finished_as_far_as_the_journal_has_room(jobs: Jobs) -> None:
    jobs.scheduler.start("publish", jobs.job("p", fills=True), appends=True)
    jobs.scheduler.start("purge", jobs.job("s"))
    assert not jobs.scheduler.finish_all()
    assert jobs.done == ["p0", "s0", "s1", "s2"]
    while not jobs.scheduler.finish_all():
        jobs.commit()
    assert jobs.done[4:] == ["p1", "p2"] and not len(jobs.scheduler)


def test_what_a_job_stores_is_no_part_of_a_commit_in_whose_turn_it_runs(jobs: Jobs) -> None:
    entered: list[Commit | None] = [Commit()]

    def enter(commit: Commit | None) -> Commit | None:
        entered.append(commit)
        return entered[-2]

    jobs.journal.enter = enter  # type: ignore[method-assign]
    commit = entered[0]
    jobs.scheduler.start("others", iter([1]))
    assert entered == [commit, None, commit, None, commit], "the second step is the end of the job"


def test_a_job_that_appends_no_more_does_not_wait_for_room(jobs: Jobs) -> None:
    def job() -> Job:
        jobs.scheduler.append_no_more()
        jobs.scheduler.disk_alarm(True)
        yield from jobs.job("s")

    jobs.scheduler.start("commit", job(), appends=True)
    assert jobs.turns() == ["s0", "s1", "s2"]


def test_a_stopped_scheduler_starts_nothing_also_when_there_is_room_again(jobs: Jobs) -> None:
    """The message log has ended by then, and would not say what a job still does."""
    jobs.scheduler.disk_alarm(True)
    jobs.scheduler.start("publish", jobs.job("p"), appends=True)
    assert not jobs.scheduler.finish_all()
    jobs.scheduler.stop()
    jobs.scheduler.disk_alarm(False)
    jobs.scheduler.start("connections", jobs.job("c"))
    assert not jobs.done and len(jobs.scheduler) == 2


def test_the_first_waiting_job_makes_a_step_although_publishers_have_filled_the_journal_again(jobs: Jobs) -> None:
    jobs.fill()
    for name in "ab":
        jobs.scheduler.start(name, jobs.job(name), appends=True)
    done: list[str] = []
    for _ in range(2 * STEPS):
        jobs.commit()
        jobs.fill()
        done += jobs.turns()
    assert done == ["a0", "b0", "a1", "b1", "a2", "b2"]


class Costly:
    """A queue whose pump costs a third of a turn's limit."""

    name, vhost, deleted = "q", "/", False

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.dirty = False
        self.timer: Timer | None = None
        self.due_ms = 0
        self.pumps = 0

    def pump(self) -> int:
        self.dirty = False
        self.pumps += 1
        self._scheduler.spent += PUMP_LIMIT // 3  # messages that are read back
        return PUMP_COST

    def schedule_pump(self) -> None:
        self.dirty = True
        self._scheduler.pending.append(self)

    def on_due(self) -> int:
        self.schedule_pump()
        return PUMP_COST


def test_many_who_pump_in_one_turn_share_one_limit(jobs: Jobs) -> None:
    scheduler = jobs.scheduler
    queues = [Costly(scheduler) for _ in range(10)]
    for queue in queues:
        queue.schedule_pump()
        scheduler.pump_for_many()
    assert sum(queue.pumps for queue in queues) == 3
    jobs.turns()
    assert [queue.pumps for queue in queues] == [1] * 10
    for queue in queues:
        queue.schedule_pump()
    assert PUMP_LIMIT <= scheduler.pump() <= 2 * PUMP_LIMIT, "what pumps charge elsewhere counts"


def test_a_queue_that_is_due_waits_once_for_a_turn_that_has_time(jobs: Jobs) -> None:
    scheduler, clock = jobs.scheduler, jobs.clock
    queue = Costly(scheduler)
    scheduler.pump_at(queue, clock.now_ms())
    scheduler.charge(TURN_COST)
    clock.run_next(clock.now_ms())
    assert not queue.pumps and len(scheduler) == 1, "the turn has time left"
    scheduler.pump_later(queue)
    jobs.turns()
    assert queue.pumps == 1 and queue.timer is None and not len(scheduler)


def test_a_turn_pumps_one_queue_after_others_have_pumped_as_many_as_it_has_time_for(jobs: Jobs) -> None:
    scheduler, clock = jobs.scheduler, jobs.clock
    queues = [Costly(scheduler) for _ in range(10)]
    for queue in queues:
        queue.schedule_pump()
    pumped = []
    scheduler.pump()
    while True:
        pumped.append(sum(queue.pumps for queue in queues))
        if not clock.run_next(clock.now_ms()):
            break
    assert pumped == [3, 4, 7, 10]


def test_queues_are_pumped_in_the_turn_after_a_job_that_took_long_and_before_it_goes_on(jobs: Jobs) -> None:
    """A message of many megabytes is not read and published in the same turn."""
    scheduler, clock = jobs.scheduler, jobs.clock
    queue = Costly(scheduler)
    events: list[str] = []
    pump = queue.pump

    def noted_pump() -> int:
        events.append("pump")
        return pump() + LONG_COST

    def job() -> Job:
        for _ in range(3):
            events.append("read")
            queue.schedule_pump()
            yield LONG_COST + 1

    queue.pump = noted_pump  # type: ignore[method-assign]
    scheduler.start("job", job())
    scheduler.pump()
    turns = [events[:]]
    while clock.run_next(clock.now_ms()):
        turns.append(events[sum(map(len, turns)) :])
    assert [turn for turn in turns if turn] == [["read"], ["pump"], ["read"], ["pump"], ["read"], ["pump"]]
    assert not len(scheduler)


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
