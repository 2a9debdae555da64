"""The records of tests: the lines that each executes, and the processor time that it needs.

The module is also the plugin of pytest that makes them. Coverage.py has a test's node id as the context of its lines.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from time import process_time

import pytest
from coverage import Coverage, CoverageData

from tools.mutation.mutants import FOLDERS, Mutant

VARIABLE = "MUTATION_RECORDS"  # the folder of the records
FILES_PER_RUN = 8
LONGEST_RUN_S = 3600


class Recorder:
    """The plugin in one run of pytest. It records tests that pass."""

    def __init__(self, folder: Path) -> None:
        include = [f"{each}/*" for each in FOLDERS]
        self._coverage = Coverage(data_file=folder / "lines", data_suffix=True, include=include, config_file=False)
        self._coverage.set_option("run:relative_files", True)
        self._coverage.start()
        self._file = folder / f"costs.{os.getpid()}.json"
        self._costs: dict[str, float] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._coverage.switch_context(item.nodeid)
        started = process_time()
        result = yield
        self._costs[item.nodeid] = process_time() - started
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        passed = {test: seconds for test, seconds in self._costs.items() if test not in self._failed}
        self._file.write_text(json.dumps(passed), encoding="utf-8")


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    early_config.pluginmanager.register(Recorder(Path(os.environ[VARIABLE])))


class Records:
    """The records in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._costs_file = folder, folder / "costs.json"

    def __bool__(self) -> bool:
        return self._costs_file.exists()

    def add(self, tests: list[str], workers: int) -> None:
        """Run the tests of the gate in these files and folders, and add their records."""
        files = [str(each) for test in tests for each in sorted(Path(test).rglob("test_*.py")) or [Path(test)]]
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", __name__, "--tier", "gate"]
        environment = os.environ | {VARIABLE: str(self._folder)}

        def run(at: int) -> None:
            line = [*pytest, *files[at : at + FILES_PER_RUN]]
            done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=LONGEST_RUN_S)
            print(files[at], "...", done.stdout.rstrip().rpartition("\n")[2], flush=True)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(run, range(0, len(files), FILES_PER_RUN)))
        costs = self._costs
        for file in self._folder.glob("costs.*.json"):
            costs |= json.loads(file.read_text(encoding="utf-8"))
            file.unlink()
        self._costs_file.write_text(json.dumps(costs, indent=0), encoding="utf-8")
        coverage = Coverage(data_file=self._folder / "lines", config_file=False)
        coverage.load()
        coverage.combine([str(self._folder)])

    def tests_of(self, mutant: Mutant, budget_s: float) -> list[str]:
        """Choose tests that execute the place of a mutant: those of few lines and little time first, within a budget.

        A line outside of functions runs when its module is imported: all tests of the file execute it.
        """
        by_line = self._tests_by_line(mutant.path)
        lines = range(mutant.line, mutant.end + 1) if mutant.in_function else by_line
        tests = {test for line in lines for test in by_line.get(line, ())} & self._costs.keys()
        chosen: list[str] = []
        for test in sorted(tests, key=lambda test: (self._breadth[test] * self._costs[test], test)):
            budget_s -= self._costs[test]
            if chosen and budget_s < 0:
                break
            chosen.append(test)
        return chosen

    @cached_property
    def _costs(self) -> dict[str, float]:
        """Return the seconds of each test."""
        return dict(json.loads(self._costs_file.read_text(encoding="utf-8"))) if self else {}

    @cached_property
    def _breadth(self) -> Counter[str]:
        """Return the number of lines that each test executes."""
        files = self._lines.measured_files()
        return Counter(test for file in files for tests in self._tests_by_line(file).values() for test in tests)

    @cache  # noqa: B019  (its object lives as long as the process)
    def _tests_by_line(self, path: str) -> dict[int, list[str]]:
        return dict(self._lines.contexts_by_lineno(path))

    @cached_property
    def _lines(self) -> CoverageData:
        data = CoverageData(str(self._folder / "lines"))
        data.read()
        return data
