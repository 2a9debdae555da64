"""Mutation testing of the heart of Warren: which changes of its source do the tests of the gate notice?

    python -m tools.mutation --mutants 300 --seed 1 --workers 2

The first run records the lines that each test executes. Each mutant is then tested, in a copy of the tree, by the tests
that execute its line. Records and results are in build/mutation: an interrupted run goes on where it was, and the same
seed draws the same mutants while the source does not change. The report ends with the survivors.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue

from tools.mutation.mutants import FOLDERS, Mutant, draw
from tools.mutation.records import Records

GATE = (
    "tests/unit",
    "tests/acceptance/amqp",
    "tests/acceptance/federation",
    "tests/faults/simulation",
    "tests/faults/fuzz",
)
KILLED, TIMED_OUT, SURVIVED, NOT_EXECUTED = OUTCOMES = ("killed", "timed out", "survived", "not executed")
NOT_COPIED = (".git", ".venv", "build", "dist", "node_modules", "__pycache__", ".*_cache", ".hypothesis")
# Of one mutant: the tests of the first run of pytest, and the processor time of all tests, as recorded
FIRST_TESTS = 20
BUDGET_S = 30.0
# Limits of one run of pytest. The clock of the wall has a wide one: others use the machine too.
MEMORY_BYTES = 4 << 30
TEST_WALL_S = 60
RUN_WALL_S = 600


class Copy:
    """A copy of the tree in which one mutant at a time is tested."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "tree"
        shutil.copytree(".", self._root, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))

    def outcome(self, mutant: Mutant, tests: list[str]) -> str:
        """Test a mutant, and restore its file."""
        if not tests:
            return NOT_EXECUTED
        path = self._root / mutant.path
        source = path.read_bytes()
        try:
            self._write(path, mutant.code().encode())
            first = self.run(tests[:FIRST_TESTS])
            return first if first != SURVIVED or len(tests) <= FIRST_TESTS else self.run(tests[FIRST_TESTS:])
        finally:
            self._write(path, source)

    @staticmethod
    def _write(path: Path, source: bytes) -> None:
        """Write a source, and delete its bytecode: time and size may be those of the source before."""
        path.write_bytes(source)
        Path(cache_from_source(str(path))).unlink(missing_ok=True)

    def run(self, tests: list[str]) -> str:
        """Run these tests until one fails."""
        names = self._root.with_name("tests.txt")
        names.write_text("\n".join(tests), encoding="utf-8")
        limits = ["prlimit", f"--cpu={BUDGET_S * 4:.0f}", f"--as={MEMORY_BYTES}"]
        pytest = [
            sys.executable,
            "-m",
            "pytest",
            "-qx",
            "-p",
            "no:cacheprovider",
            f"--timeout={TEST_WALL_S}",
            f"@{names}",
        ]
        with subprocess.Popen(
            [*limits, *pytest],
            cwd=self._root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        ) as process:
            try:
                output, _ = process.communicate(timeout=RUN_WALL_S)
            except subprocess.TimeoutExpired:
                output = ""
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it ended with all of its children
        if process.returncode == 0:
            return SURVIVED
        return TIMED_OUT if process.returncode < 0 or "Timeout (>" in output else KILLED


def within(budget_s: float, tests: list[str], costs: dict[str, float]) -> list[str]:
    """The first of these tests, as many as need this processor time."""
    chosen: list[str] = []
    for test in tests:
        budget_s -= costs[test]
        if budget_s < 0 and chosen:
            break
        chosen.append(test)
    return chosen


def report(mutants: list[Mutant], outcomes: dict[str, str]) -> str:
    """A table in Markdown with a row for each folder, and the differences of the survivors."""
    rows = [f"| folder | mutants | {' | '.join(OUTCOMES)} | caught |", "|---|" + "---:|" * (len(OUTCOMES) + 2)]
    for folder in [*FOLDERS, ""]:
        of_folder = Counter(
            outcomes[each.key] for each in mutants if each.path.startswith(folder) and each.key in outcomes
        )
        total, caught = of_folder.total(), of_folder[KILLED] + of_folder[TIMED_OUT]
        counts = [str(of_folder[outcome]) for outcome in OUTCOMES]
        rows.append(f"| {folder or 'all'} | {total} | {' | '.join(counts)} | {caught / max(total, 1):.0%} |")
    for mutant in mutants:
        if outcomes.get(mutant.key) in (SURVIVED, NOT_EXECUTED):
            rows.append(f"\n{mutant.path}:{mutant.line}: {outcomes[mutant.key]}\n{mutant.diff()}")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=300, help="how many to draw (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws others (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes in parallel (default: %(default)s)")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/mutation"), help="records and results (default: %(default)s)"
    )
    parser.add_argument(
        "--record",
        nargs="+",
        metavar="TESTS",
        help="record these tests (again); only the survivors are then tested again",
    )
    parser.add_argument(
        "--marked", default="not rest", help="the markers of the tests to record (default: %(default)s)"
    )
    parser.add_argument(
        "--budget", type=float, default=BUDGET_S, help="seconds of tests for a mutant (default: %(default)s)"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.environ["WARREN_PURE"] = "1"  # a compiled module is not the source beside it

    records, results = Records(options.folder), options.folder / "results.jsonl"
    if options.record or not records:
        records.add(options.record or list(GATE), options.marked, options.workers)
    results.touch()
    outcomes = {
        each["key"]: each["outcome"] for each in map(json.loads, results.read_text(encoding="utf-8").splitlines())
    }
    mutants = draw(options.mutants, options.seed)
    again = (SURVIVED, NOT_EXECUTED) if options.record else ()
    left = [each for each in mutants if each.key not in outcomes or outcomes[each.key] in again]

    with tempfile.TemporaryDirectory(prefix="mutation-") as scratch, results.open("a", encoding="utf-8") as file:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(options.workers):
            copies.put(Copy(Path(scratch, str(number))))
        sound = copies.get()
        if sound.run([test for mutant in left[:100] for test in records.tests_of(mutant)[:1]]) != SURVIVED:
            sys.exit("tests fail without a mutant: record them again, with --record")
        copies.put(sound)

        def outcome(mutant: Mutant) -> tuple[Mutant, str]:
            copy = copies.get()
            try:
                tests = within(options.budget, records.tests_of(mutant), records.costs)
                return mutant, copy.outcome(mutant, tests)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(options.workers) as pool:
            for future in as_completed([pool.submit(outcome, mutant) for mutant in left]):
                mutant, result = future.result()
                outcomes[mutant.key] = result
                line = {"key": mutant.key, "path": mutant.path, "line": mutant.line, "outcome": result}
                print(json.dumps(line), file=file, flush=True)
                print(f"{mutant.path}:{mutant.line}: {result}", flush=True)
    print(report(mutants, outcomes))


if __name__ == "__main__":
    main()
