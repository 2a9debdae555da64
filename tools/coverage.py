"""Branch coverage of the packages that hold and move messages: `make coverage`.

The tests of `TESTS` run in one process, and the branches that they take are counted. The floors of the packages are in
pyproject.toml, in percent of their branches. The status is 1 if a package is below its floor, or a test fails.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.support.checkout import ROOT

UNITS = tuple(f"tests/unit/{folder}" for folder in ("core", "storage", "session", "federation"))
TESTS = (
    *UNITS,
    "tests/unit/operator",
    "tests/unit/plugin_host",
    "tests/acceptance/amqp",
    *(
        f"tests/acceptance/federation/test_{name}.py"
        for name in ("bindings", "drain", "failures", "link_permissions", "links", "many_links", "queues", "status")
    ),
    "tests/acceptance/operator/management/test_detailed_rates.py",
    "tests/acceptance/operator/management/test_queue_messages.py",
    "tests/faults/simulation/test_full_disk.py",
    "tests/faults/simulation/test_journal.py",
    "tests/loop_latency/test_federation_passes.py",
    "tests/loop_latency/test_journal_buffer.py",
    "tests/loop_latency/test_messages.py",
)


def main() -> int:
    floors = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["warren"]["branch-coverage"]
    with tempfile.TemporaryDirectory() as folder:
        data, report = f"--data-file={folder}/data", Path(folder) / "report.json"
        coverage = [sys.executable, "-m", "coverage"]
        tests = [
            *coverage,
            "run",
            data,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not rest",  # without --tier gate, whose limit of time is for tests that are not traced
            *TESTS,
            *sys.argv[1:],
        ]
        failed = subprocess.run(tests, cwd=ROOT, check=False).returncode != 0
        subprocess.run([*coverage, "json", data, "-q", "-o", str(report)], cwd=ROOT, check=True)
        files = json.loads(report.read_text())["files"]
    print("| package | branches | taken | percent | floor |\n|---|---:|---:|---:|---:|")
    for package, floor in floors.items():
        summaries = [file["summary"] for path, file in files.items() if path.startswith(f"{package}/")]
        branches = sum(summary["num_branches"] for summary in summaries)
        taken = sum(summary["covered_branches"] for summary in summaries)
        percent = 100 * taken / branches
        failed = failed or percent < floor
        print(f"| {package} | {branches:,} | {taken:,} | {percent:.1f} | {floor} |{' BELOW' * (percent < floor)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
