"""The records of tests: which of them execute a line, and the processor time that each needs."""

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path

from coverage import Coverage, CoverageData

from tools.mutation.mutants import Mutant

FILES_PER_RUN = 8
LONGEST_RUN_S = 3600


class Records:
    """The records of the tests that `add` has run, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines, self._costs = folder / "lines", folder / "costs.json"

    def __bool__(self) -> bool:
        return self._costs.exists()

    @cached_property
    def costs(self) -> dict[str, float]:
        """The node ids of the tests that passed, and their seconds."""
        return json.loads(self._costs.read_text(encoding="utf-8")) if self else {}

    @cached_property
    def _data(self) -> CoverageData:
        data = CoverageData(str(self._lines))
        data.read()
        return data

    @cached_property
    def _breadth(self) -> Counter[str]:
        """How many lines each test executes."""
        files = self._data.measured_files()
        return Counter(test for file in files for tests in self._tests_by_line(file).values() for test in tests)

    @cache  # noqa: B019  (one object lives as long as the process)
    def _tests_by_line(self, path: str) -> dict[int, list[str]]:
        return self._data.contexts_by_lineno(path)

    def add(self, paths: list[str], marked: str, workers: int) -> None:
        """Run the tests of these files and folders that an expression of markers selects, and add their records."""
        files = sorted(
            str(file) for path in paths for file in [*Path(path).rglob("test_*.py"), Path(path)] if file.is_file()
        )
        runs = [files[at : at + FILES_PER_RUN] for at in range(0, len(files), FILES_PER_RUN)]
        line = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "tools.mutation.recorder",
            "-m",
            marked,
        ]
        environment = os.environ | {"MUTATION_RECORD": str(self._folder)}

        def record(names: list[str]) -> None:
            run = subprocess.run(
                [*line, *names], env=environment, capture_output=True, text=True, timeout=LONGEST_RUN_S
            )
            print(names[0], "...", names[-1], run.stdout.rstrip().rpartition("\n")[2], flush=True)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(record, runs))
        costs = self.costs
        for file in self._folder.glob("costs.*.json"):
            costs |= json.loads(file.read_text(encoding="utf-8"))
            file.unlink()
        self._costs.write_text(json.dumps(costs, indent=0), encoding="utf-8")
        coverage = Coverage(data_file=self._lines, config_file=False)
        coverage.load()
        coverage.combine([str(self._folder)])

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that execute the place of a mutant, those that execute few lines in little time first.

        For a line outside of functions, which runs when its module is imported, all tests that execute the file.
        """
        by_line = self._tests_by_line(mutant.path)
        lines = range(mutant.line, mutant.end + 1) if mutant.in_function else by_line
        tests = {test for line in lines for test in by_line.get(line, ())} & self.costs.keys()
        return sorted(tests, key=lambda test: (self._breadth[test] * self.costs[test], test))
