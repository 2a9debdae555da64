"""Repeated runs of a tier of the suite while other processes keep all cores busy: `make test-stress ROUNDS=10`.

Each round is a run of pytest like that of `make test`, without the limit of processor time. The failures of a round are
printed, and at the end the number of failures of each test. The status is 1 if a round failed, and the output of failed
rounds is kept.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from tests.support.checkout import ROOT
from tests.tiers import TIERS

LONGEST_ROUND_S = 3600  # a longer round hangs
INTERRUPTED = 2  # pytest's status for ^C

# It ends with its parent, and in any case after its time.
BUSY = """
import os, sys, time
parent, end_s = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
while os.getppid() == parent and time.monotonic() < end_s:
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy(cores: int, longest_s: float) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes during the context that each keep a core busy."""
    line = [sys.executable, "-c", BUSY, str(os.getpid()), str(longest_s)]
    processes = [subprocess.Popen(line) for _ in range(cores)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def failures(report: Path) -> list[str]:
    """Return the names of failed tests and of tests with failed fixtures from a report in JUnit's XML, each once."""
    names = {}
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            names[f"{case.get('classname', '')}::{case.get('name', '')}".removeprefix("::")] = None
    return list(names)


def run(folder: Path, number: int, options: list[str]) -> tuple[int, list[str]]:
    """Run the suite once. Returns the exit status of pytest, and the failed tests."""
    report, output = folder / f"round-{number}.xml", folder / f"round-{number}.txt"
    line = [sys.executable, "-m", "pytest", "-q", "-n", "auto", f"--junitxml={report}", *options]
    with output.open("wb") as file:
        try:
            status = subprocess.run(line, cwd=ROOT, stdout=file, stderr=file, timeout=LONGEST_ROUND_S).returncode
        except subprocess.TimeoutExpired:
            return 1, [f"a round that took more than {LONGEST_ROUND_S} s"]
    failed = failures(report) if report.exists() else []
    if status == 0:
        output.unlink()
    return status, failed if failed or status == 0 else [f"pytest itself, with status {status}"]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.stress", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, help="processes that keep a core busy")
    parser.add_argument("--tier", choices=TIERS, default="gate")
    parser.add_argument("options", nargs="*", help="tests and options for pytest, behind --")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="warren-stress-"))
    often: Counter[str] = Counter()
    passed = 0
    with busy(given.busy, given.rounds * LONGEST_ROUND_S):
        for number in range(1, given.rounds + 1):
            begun_s = time.monotonic()
            status, failed = run(folder, number, ["--tier", given.tier, "--no-limit", *given.options])
            if status == INTERRUPTED:
                return INTERRUPTED
            passed += status == 0
            often.update(failed)
            said = "passed" if status == 0 else f"{len(failed)} failed; see {folder}/round-{number}.txt"
            print(f"round {number}: {said} ({time.monotonic() - begun_s:.0f} s)", flush=True)
            for name in failed:
                print(f"    {name}", flush=True)
    for name, times in often.most_common():
        print(f"{times} of {given.rounds}: {name}")
    print(f"{passed} of {given.rounds} rounds passed")
    if passed < given.rounds:
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
