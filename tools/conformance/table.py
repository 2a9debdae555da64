"""python -m tools.conformance.table: write the results of the last runs into docs/frameworks.md.

A suite without a result of its version against a broker in the folder of the runs keeps what the page has of them.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.checkout import ROOT

from .__main__ import BROKERS, FOLDER
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.conformance.table", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="with the results of the runs")
    folder: Path = parser.parse_args().folder
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(updated(page, SUITES, folder), encoding="utf-8")
    return 0


@dataclass
class Column:
    """The results of a suite against one broker: the cell of its counts, its failures and the day of the run.

    `failed` has the number of failed tests by the names of the table of failures.
    """

    counts: str = NOT_RUN
    failed: Counter[str] = field(default_factory=Counter)
    day: str = ""

    def failing(self, name: str) -> str:
        return NOT_RUN if self.counts == NOT_RUN else str(self.failed[name])


def updated(page: str, suites: Sequence[Suite], folder: Path) -> str:
    """Return the page with the rows of these suites in their order."""
    new: dict[str, list[str]] = {title: [] for title in TABLES}
    for suite in suites:
        ours, theirs = (measured(folder, broker, suite) or published(page, broker, suite) for broker in BROKERS)
        for title, lines in rows(suite, ours, theirs).items():
            new[title] += lines
    for title, head in TABLES.items():
        before, heading, section = page.partition(f"## {title}\n")
        text, _, rest = section.partition("\n|")
        after = "\n\n".join(["", *rest.split("\n\n")[1:]])
        lines = [head, re.sub(r"[^|]+", "---", head), *new[title]]
        page = f"{before}{heading}{text}\n{chr(10).join(lines)}{after or chr(10)}"
    return page


def measured(folder: Path, broker: str, suite: Suite) -> Column | None:
    """Return the last result of this version of the suite, or None."""
    file = result_file(folder, broker, suite.name)
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if result.get("version") != suite.version:
        return None
    failed = [test["name"] for test in result["tests"] if test["outcome"] == Outcome.FAILED.value]
    counts = " / ".join(str(result[outcome.value]) for outcome in Outcome)
    names = Counter(suite.explanation(name)[0] for name in failed)
    return Column(f"{result['product'].split()[-1]}: {counts}", names, result["date"])


def published(page: str, broker: str, suite: Suite) -> Column:
    """Return the column of this version of the suite that the page has."""
    place = list(BROKERS).index(broker)
    for cells in kept(page, "Results", suite.name):
        if cells[2] == suite.version and cells[4 + place] != NOT_RUN:
            failed = {row[1].strip("`"): int(row[2 + place]) for row in kept(page, "Failures", suite.name)}
            return Column(cells[4 + place], Counter(failed), cells[7])
    return Column()


def rows(suite: Suite, ours: Column, theirs: Column) -> dict[str, list[str]]:
    """Return the rows of a suite in each table."""
    names = [name for name in {**ours.failed, **theirs.failed} if ours.failed[name] or theirs.failed[name]]
    faults = [name for name in names if ours.failed[name] and suite.reason(name) is None]
    works = "no" if faults else "yes, but" if ours.failed.total() else "yes"
    cells = [ours.counts, theirs.counts, NOT_RUN if ours.counts == NOT_RUN else works, ours.day]
    return {
        "Results": [row(suite.name, suite.language, suite.version, suite.what, *cells)],
        "Failures": [
            row(suite.name, f"`{name}`", ours.failing(name), theirs.failing(name), suite.explanation(name)[1])
            for name in sorted(names)
        ],
        "Left out": [row(suite.name, part, reason) for part, reason in suite.left_out],
    }


def row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def kept(page: str, title: str, suite: str) -> list[list[str]]:
    """Return the cells of the suite's rows in a table of the page."""
    section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith(f"| {suite} |")]
    return [[cell.strip().replace("\\|", "|") for cell in line[1:-1].split(" | ")] for line in lines]


if __name__ == "__main__":
    sys.exit(main())
