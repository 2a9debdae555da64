"""Mutation testing of the core of Warren: the changes of its source that the tests of the gate do not notice.

    python -m tools.mutation --mutants 300 --seed 1 --workers 2

The first run records the lines that each test executes. Each mutant is then tested, in a copy of the tree, by tests
that execute its line. Records and results are in build/mutation: an interrupted run continues there, and a seed draws
the same mutants while the source does not change. Tests that have other names need other records: delete the folder.
The report ends with the mutants that survived.
"""

import argparse
import json
import os
import re
import shutil
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

TESTS = ["tests/unit", "tests/acceptance", "tests/faults"]
KILLED, TIMED_OUT, SURVIVED, NOT_EXECUTED = OUTCOMES = ("killed", "timed out", "survived", "not executed")
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "build", "dist", "node_modules", "__pycache__", ".*_cache")
FIRST_TESTS = 20  # in the first run of pytest with a mutant; the second has the others
# Limits of a run. Those of the clock of the wall are wide: others use the machine too.
CPU_S, MEMORY_BYTES = 120, 4 << 30
TEST_WALL_S, RUN_WALL_S = 60, 600


class Copy:
    """A copy of the tree in which one mutant at a time is tested."""

    def __init__(self, folder: Path) -> None:
        self._root, self._names = folder / "tree", folder / "tests.txt"
        shutil.copytree(".", self._root, symlinks=True, ignore=NOT_COPIED)

    def outcome(self, mutant: Mutant, tests: list[str]) -> tuple[str, str]:
        """Test a mutant, and restore its file. Returns the outcome and the failed test, or an empty text."""
        if not tests:
            return NOT_EXECUTED, ""
        path = self._root / mutant.path
        source = path.read_bytes()
        try:
            write(path, mutant.code().encode())
            first = self.run(tests[:FIRST_TESTS])
            return first if first[0] != SURVIVED or len(tests) <= FIRST_TESTS else self.run(tests[FIRST_TESTS:])
        finally:
            write(path, source)

    def run(self, tests: list[str]) -> tuple[str, str]:
        """Run these tests until one fails; return the same."""
        self._names.write_text("\n".join(tests), encoding="utf-8")
        limits = ["timeout", "-s", "KILL", f"{RUN_WALL_S}", "prlimit", f"--cpu={CPU_S}", f"--as={MEMORY_BYTES}"]
        options = ["-qx", "-p", "no:cacheprovider", f"--timeout={TEST_WALL_S}", f"@{self._names}"]
        line = [*limits, sys.executable, "-m", "pytest", *options]
        run = subprocess.run(line, cwd=self._root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode == 0:
            return SURVIVED, ""
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", run.stdout, re.MULTILINE)
        killed = 0 < run.returncode < 128 and "Timeout (>" not in run.stdout
        return KILLED if killed else TIMED_OUT, failed[1] if failed else ""


def write(path: Path, source: bytes) -> None:
    """Write a source, and delete its bytecode, because time and size may equal those of the source before."""
    path.write_bytes(source)
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def report(mutants: list[Mutant], outcomes: dict[str, str]) -> str:
    """Return a table in Markdown with a row for each folder, and the differences of the survivors."""
    rows = [f"| folder | mutants | {' | '.join(OUTCOMES)} | caught |", "|---|" + "---:|" * (len(OUTCOMES) + 2)]
    for folder in [*FOLDERS, ""]:
        counts = Counter(outcomes[mutant.key] for mutant in mutants if mutant.path.startswith(folder))
        cells = [counts.total(), *(counts[outcome] for outcome in OUTCOMES)]
        share = (counts[KILLED] + counts[TIMED_OUT]) / max(counts.total(), 1)
        rows.append(f"| {folder or 'all'} | {' | '.join(map(str, cells))} | {share:.0%} |")
    for mutant in mutants:
        if outcomes[mutant.key] in (SURVIVED, NOT_EXECUTED):
            rows.append(f"\n{mutant.path}:{mutant.line}: {outcomes[mutant.key]}\n{mutant.diff()}")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=300, help="how many to draw (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws others (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes in parallel (%(default)s)")
    parser.add_argument("--budget", type=float, default=10, help="seconds of the tests of a mutant (%(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("build/mutation"), help="of the results (%(default)s)")
    parser.add_argument("--record", nargs="+", metavar="TESTS", help="record new tests, and test the survivors again")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.environ["WARREN_PURE"] = "1"  # a compiled module would hide the mutated source

    records, results = Records(options.folder.resolve()), options.folder / "results.jsonl"
    if options.record or not records:
        records.add(options.record or TESTS, options.workers)
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    outcomes = {each["key"]: each["outcome"] for each in map(json.loads, lines)}
    mutants = draw(options.mutants, options.seed)
    again = (SURVIVED, NOT_EXECUTED, None) if options.record else (None,)
    left = [mutant for mutant in mutants if outcomes.get(mutant.key) in again]

    with tempfile.TemporaryDirectory(prefix="mutation-") as scratch, results.open("a", encoding="utf-8") as file:
        trees = [Copy(Path(scratch, str(number))) for number in range(options.workers)]
        if left and trees[0].run([test for each in left[:100] for test in records.tests_of(each, 0)])[1]:
            sys.exit("a test fails without any mutant: delete the records, and have them made again")
        free: SimpleQueue[Copy] = SimpleQueue()
        for tree in trees:
            free.put(tree)

        def test(mutant: Mutant) -> tuple[Mutant, str, str]:
            tree = free.get()
            try:
                return mutant, *tree.outcome(mutant, records.tests_of(mutant, options.ledger))
            finally:
                free.put(tree)

        with ThreadPoolExecutor(options.workers) as pool:
            for future in as_completed([pool.submit(test, mutant) for mutant in left]):
                mutant, outcome, by = future.result()
                outcomes[mutant.key] = outcome
                line = {"key": mutant.key, "path": mutant.path, "line": mutant.line, "outcome": outcome, "by": by}
                print(json.dumps(line), file=file, flush=True)
                print(f"{mutant.path}:{mutant.line}: {outcome} {by}", flush=True)
    print(report(mutants, outcomes))


if __name__ == "__main__":
    main()
