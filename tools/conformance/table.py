"""python -m tools.conformance.table: write the results of the last runs into docs/frameworks.md.

A suite without a result in the folder of the runs keeps its rows.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.checkout import ROOT

from .__main__ import BROKERS, FOLDER
from .brokers import RabbitMQ, Warren
from .report import result_file
from .results import Outcome
from .suite import Suite
from .suites import SUITES

PAGE = ROOT / "docs/frameworks.md"
TABLES = {
    "Results": "| client or framework | language | version | what was run | Warren | RabbitMQ | works | day |",
    "Failures": "| suite | tests | fail with Warren | with RabbitMQ | why |",
    "Left out": "| suite | part | because |",
}
NOT_RUN = "not run"
Result = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.conformance.table", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="with the results of the runs")
    folder: Path = parser.parse_args().folder
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(updated(page, SUITES, folder), encoding="utf-8")
    return 0


def updated(page: str, suites: Sequence[Suite], folder: Path) -> str:
    """Return the page with the rows of these suites in their order."""
    new: dict[str, list[str]] = {title: [] for title in TABLES}
    for suite in suites:
        results = {broker: result(folder, broker, suite) for broker in BROKERS}
        if results[Warren.name] is None and kept(page, "Results", suite.name):
            rows = {title: kept(page, title, suite.name) for title in TABLES}
        else:
            rows = made(suite, results)
        for title in TABLES:
            new[title] += rows[title]
    for title, head in TABLES.items():
        before, heading, section = page.partition(f"## {title}\n")
        text, _, rest = section.partition("\n|")
        after = "\n\n".join(["", *rest.split("\n\n")[1:]])
        lines = [head, re.sub(r"[^|]+", "---", head), *new[title]]
        page = f"{before}{heading}{text}\n{chr(10).join(lines)}{after or chr(10)}"
    return page


def result(folder: Path, broker: str, suite: Suite) -> Result | None:
    """Return the last result of this version of the suite, or None."""
    file = result_file(folder, broker, suite.name)
    found: Result | None = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return found if found is not None and found["version"] == suite.version else None


def made(suite: Suite, results: dict[str, Result | None]) -> dict[str, list[str]]:
    """Return the rows of a suite."""
    ours, theirs = results[Warren.name], results[RabbitMQ.name]
    failed = [test["name"] for test in failures(ours)]
    explained = [beginning for beginning, _ in suite.explained if any(name.startswith(beginning) for name in failed)]
    unknown = [name for name in failed if suite.reason(name) is None]
    works = NOT_RUN if ours is None else "yes" if not failed else "no" if unknown else "yes, but"
    day = "" if ours is None else ours["date"]
    cells = [suite.name, suite.language, suite.version, suite.what, counts(ours), counts(theirs), works, day]
    return {
        "Results": [f"| {' | '.join(cells)} |"],
        "Failures": [
            row(suite.name, f"`{beginning}`", *(failing(result, beginning) for result in (ours, theirs)), reason)
            for beginning, reason in [(name, suite.reason(name) or "a fault") for name in explained + unknown]
        ],
        "Left out": [row(suite.name, part, reason) for part, reason in suite.left_out],
    }


def failures(result: Result | None) -> list[Result]:
    if result is None:
        return []
    return [test for test in result["tests"] if test["outcome"] == Outcome.FAILED.value]


def failing(result: Result | None, beginning: str) -> str:
    """Return how many tests with this beginning of their name failed."""
    return NOT_RUN if result is None else str(sum(test["name"].startswith(beginning) for test in failures(result)))


def row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def counts(result: Result | None) -> str:
    """Return the numbers of tests that passed, failed and were skipped, with the version of the broker."""
    if result is None:
        return NOT_RUN
    return f"{result['product'].split()[-1]}: {' / '.join(str(result[outcome.value]) for outcome in Outcome)}"


def kept(page: str, title: str, suite: str) -> list[str]:
    """Return the rows of the suite in a table of the page."""
    section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith(f"| {suite} |")]


if __name__ == "__main__":
    sys.exit(main())
