"""The set-up of the suite: tiers, several processes in parallel, bytecode that is kept, and a list of skipped tests."""

from __future__ import annotations

import fcntl
import gc
import os
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests import tiers
from tests.processor_time import ProcessorTime
from tests.support.loop_thread import LoopThread
from warren.broker import compilation

if TYPE_CHECKING:
    from tests.support.postgresql import Cluster

# Where a shell forbids bytecode, each start of a broker (there are some hundred) would compile all of it again, and
# each run all tests: together more than half of the processor time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

TESTS = Path(__file__).parent
# Collections of Python's own number of young objects, 700, took a tenth of the processor time of a simulated broker.
YOUNG_OBJECTS = 10_000
WORKERS_PER_CORE = 2  # most of the time goes by while tests wait for processes and sockets
FEWEST_WORKERS, MOST_WORKERS = 4, 12
# What takes longest stands first, so that no worker is left with it at the end; the names begin paths below tests/.
FIRST = (
    "test_compiled",
    *(
        "acceptance/documents/",
        "analytics/",
        "loop_latency/",
        "faults/crash/",
        "acceptance/federation/",
        "unit/federation/",
        "clients/",
        "faults/",
    ),
    *("bench/", "test_tidy", "unit/plugins/", "unit/core/", "unit/logs/", "acceptance/operator/prometheus/"),
    "acceptance/operator/ctl/",
)
# Their tests share nothing within a module: each may run in another worker than the one before it.
ONE_BY_ONE = ("acceptance/documents/", "faults/crash/", "faults/simulation/brokers/test_brokers", "bench/")
# One worker has the tests of these modules, and with them the only Spark session.
SPARK = tuple(
    f"analytics/test_{name}.py"
    for name in (
        *("analysis", "anomalies", "arrivals", "damage", "durability", "end_to_end", "figures", "proof"),
        *("selection", "settings", "stream", "timeline", "verdict"),
    )
)
# Tests with one of these fixtures open sockets or start processes.
LISTENING = {"broker_address", "chrome", "controlled", "daemon", "listening", "ready", "running", "sites", "spark"}


def _below_tests(nodeid: str) -> str:
    return nodeid.removeprefix("tests/")


def unit_of(nodeid: str) -> str:
    """The unit of work of this test: one worker has all tests of a unit, one after the other."""
    path = _below_tests(nodeid)
    if path.startswith(SPARK):
        return "spark"
    return nodeid if path.startswith(ONE_BY_ONE) else nodeid.partition("::")[0]


def _rank(item: pytest.Item) -> int:
    path = _below_tests(item.nodeid)
    return next((rank for rank, start in enumerate(FIRST) if path.startswith(start)), len(FIRST))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=tiers.TIERS, help="run the tests of this tier only (tests/tiers.py)")
    parser.addoption("--no-limit", action="store_true", help="no limit for the processor time of a test of the gate")


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    limit_s = tiers.GATE_LIMIT_S if config.option.tier == "gate" and not config.option.no_limit else None
    config.pluginmanager.register(ProcessorTime(limit_s, tiers.NO_LIMIT))
    # How long an example takes says nothing where others use the machine too.
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("suite", deadline=None, suppress_health_check=slow)
    hypothesis.settings.load_profile("suite")


@pytest.fixture(scope="session")
def loop() -> Iterator[LoopThread]:
    """An event loop in a thread of its own, for all tests of a worker."""
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def postgresql_programs() -> None:
    """Programs of PostgreSQL; without them a test is skipped."""
    from tests.support.postgresql import missing  # here: most workers need no psycopg

    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def postgresql(postgresql_programs: None) -> Iterator[Cluster]:
    """A PostgreSQL server for all tests of a worker, which leave it running."""
    from tests.support.postgresql import CARELESS, cluster

    with cluster(*CARELESS) as server:
        yield server


@pytest.fixture
def store_url(postgresql: Cluster) -> Iterator[str]:
    """The URL of an empty store on that server."""
    from tests.support.postgresql import init

    postgresql.execute("CREATE DATABASE store TEMPLATE template0")
    yield init(postgresql.url(database="store"))
    postgresql.execute("DROP DATABASE store WITH (FORCE)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    cores = len(os.sched_getaffinity(0))
    return min(max(FEWEST_WORKERS, WORKERS_PER_CORE * cores), MOST_WORKERS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Units(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False  # the order is that of the collection
    return Units(config, log)


def pytest_report_header() -> str:
    return f"Warren: {compilation.DESCRIPTION}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect no file of which the gate has no test: it may import what only the rest installs."""
    if config.option.tier != "gate" or not collection_path.is_relative_to(TESTS):
        return None
    path = collection_path.relative_to(TESTS).as_posix()
    return tiers.only_in_rest(f"{path}/" if collection_path.is_dir() else path) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if tier := config.option.tier:
        others = [item for item in items if (tiers.reason_for_rest(item) is None) != (tier == "gate")]
        config.hook.pytest_deselected(items=others)
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=_rank)
    for item in items:
        pure = item.get_closest_marker("pure")
        if pure is not None and compilation.BUILD == compilation.COMPILED:
            item.add_marker(pytest.mark.skip(reason=f"only in pure Python: {pure.args[0]}"))
        if LISTENING.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("sockets")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """The first worker compiles what is new; the others wait for it and read its bytecode."""
    if not hasattr(session.config, "workerinput"):
        return (yield)
    run = Path(session.config.option.basetemp).parent  # of all workers
    with (run / "compiled").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not file.read():
            result = yield
            file.write("compiled")
            return result
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Moves the collected tests out of the collector's sight: it would look through all of them in each full run."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        skipped[reason.removeprefix("Skipped: ")].append(report.nodeid)
    if not skipped:
        return
    terminalreporter.section("skipped")
    for reason, nodeids in sorted(skipped.items()):
        terminalreporter.write_line(f"{len(nodeids)} skipped: {reason}")
        for nodeid in sorted(nodeids):
            terminalreporter.write_line(f"    {nodeid}")
