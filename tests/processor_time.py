"""The processor time of each test, the ten slowest of a run, and a limit for those of the gate.

The time of a test is that of its worker and of all processes below it from its set-up to its end. What fixtures of a
wider scope take, such as a server for a whole module, is not counted as that of the first test that needs them. A time
above the limit is divided by how much slower than the reference machine the processor is when the test ends.
"""

import os
import resource
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.speed import slowness

SLOWEST = 10
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PROPERTY = "processor_time_s"


def children_of(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for thread in os.listdir(f"/proc/{pid}/task")
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
        ]
    except OSError:  # it has ended, or the kernel does not list children
        return []


def processor_time_s(known: set[int]) -> float:
    """The processor time of this process and of all below it, those that have ended included.

    `known` has the processes that were running at the last call. The kernel's list lacks a child now and then, while
    another one ends, and all the time of that child would be counted as a test's when it is listed again.
    """
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total_s = sum(each.ru_utime + each.ru_stime for each in usage)
    looked_at: set[int] = set()
    running = [*known, *children_of(os.getpid())]
    known.clear()
    while running:
        pid = running.pop()
        if pid in looked_at:
            continue
        looked_at.add(pid)
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        known.add(pid)
        total_s += sum(map(int, fields[11:15])) / TICKS_PER_S
        running += children_of(pid)
    return total_s


class ProcessorTime:
    """The part of a pytest plugin that measures, in each worker, and reports, in the process that prints.

    `limit_s` is the longest that a test may take, or None; `exempt` are the ids of tests with no limit.
    """

    def __init__(self, limit_s: float | None, exempt: tuple[str, ...] = ()) -> None:
        self._limit_s = limit_s
        self._exempt = exempt
        self._begin_s = 0.0  # of the test under way
        self._shared_s = 0.0  # of fixtures of a wider scope meanwhile
        self._fixtures = 0  # being set up, one within the other
        self._times: dict[str, float] = {}
        self._processes: set[int] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        if fixturedef.scope == "function" or self._fixtures:
            return (yield)
        self._fixtures += 1
        begin_s = processor_time_s(self._processes)
        try:
            return (yield)
        finally:
            self._fixtures -= 1
            self._shared_s += processor_time_s(self._processes) - begin_s

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        self._shared_s = 0.0
        self._begin_s = processor_time_s(self._processes)
        yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        try:
            yield
        finally:
            took_s = processor_time_s(self._processes) - self._begin_s - self._shared_s
            if self._limit_s is not None and took_s > self._limit_s:
                took_s /= slowness()
            item.user_properties.append((PROPERTY, took_s))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._times[report.nodeid] = dict(report.user_properties).get(PROPERTY, 0.0)  # type: ignore[assignment]

    def too_slow(self) -> list[str]:
        """The tests above the limit."""
        limit_s = self._limit_s
        if limit_s is None:
            return []
        return [name for name, took_s in self._times.items() if took_s > limit_s and not name.startswith(self._exempt)]

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        yield
        if session.exitstatus == pytest.ExitCode.OK and self.too_slow() and not hasattr(session.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._times) <= SLOWEST:
            return
        terminalreporter.section(f"processor time: {sum(self._times.values()):.0f} s in tests; the slowest")
        slowest = sorted(self._times.items(), key=lambda each: -each[1])[:SLOWEST]
        for name, took_s in slowest:
            terminalreporter.write_line(f"{took_s:6.2f} s  {name}")
        for name in self.too_slow():
            terminalreporter.write_line(
                f"FAILED {name}: {self._times[name]:.2f} s of processor time, above the {self._limit_s} s of the gate: "
                "make it cheaper, or give it the mark `rest`",
                red=True,
            )
