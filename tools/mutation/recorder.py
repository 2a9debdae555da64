"""A pytest plugin that records the lines that each test executes, and its processor time.

It adds two files to the folder that MUTATION_RECORD names: the data of coverage.py, with a test's node id as context,
and a JSON object from the node ids of the tests that passed to seconds.
"""

import json
import os
from collections.abc import Generator
from pathlib import Path
from time import process_time

import pytest
from coverage import Coverage

from tools.mutation.mutants import FOLDERS


class Recorder:
    """The records of this process."""

    def __init__(self, folder: Path) -> None:
        self._costs_file = folder / f"costs.{os.getpid()}.json"
        self._costs: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage = Coverage(
            data_file=folder / "lines", data_suffix=True, include=[f"{each}/*" for each in FOLDERS], config_file=False
        )
        self._coverage.set_option("run:relative_files", True)
        self._coverage.start()

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
        passed = {test: round(cost, 4) for test, cost in self._costs.items() if test not in self._failed}
        self._costs_file.write_text(json.dumps(passed), encoding="utf-8")


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    early_config.pluginmanager.register(Recorder(Path(os.environ["MUTATION_RECORD"])))
