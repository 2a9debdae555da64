"""The results of tests, read from the reports of pytest, mocha, PHPUnit, ctest, rspec, go and prove."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from enum import Enum
from pathlib import Path


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Case:
    """One test, its outcome, and the first line of the failure."""

    __slots__ = ("name", "outcome", "message")

    def __init__(self, name: str, outcome: Outcome, message: str = "") -> None:
        self.name = name
        self.outcome = outcome
        self.message = message


def first_line(text: str | None) -> str:
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[0][:300] if lines else ""


def junit(file: Path) -> list[Case]:
    """Read a JUnit report, as pytest and mocha write it. A test whose teardown also fails is one failed test."""
    cases: dict[str, Case] = {}
    for element in ET.parse(file).iter("testcase"):
        name = f"{element.get('classname', '')}::{element.get('name', '')}"
        case = Case(name, Outcome.PASSED)
        for child in element:
            if child.tag in ("failure", "error"):
                case = Case(name, Outcome.FAILED, first_line(child.get("message") or child.text))
            elif child.tag == "skipped":
                case = Case(name, Outcome.SKIPPED, first_line(child.get("message") or child.text))
        if name not in cases or cases[name].outcome is Outcome.PASSED:
            cases[name] = case
    return list(cases.values())


def rspec(file: Path) -> list[Case]:
    """Read a report of rspec's JSON formatter."""
    outcomes = {"passed": Outcome.PASSED, "failed": Outcome.FAILED, "pending": Outcome.SKIPPED}
    report = json.loads(file.read_text())
    return [
        Case(
            f"{Path(example['file_path']).name}: {example['full_description']}",
            outcomes[example["status"]],
            first_line(example.get("exception", {}).get("message") or example.get("pending_message")),
        )
        for example in report["examples"]
    ]


def go(lines: Iterable[str]) -> list[Case]:
    """Read the output of `go test -json`. A test with subtests counts as one."""
    outcomes = {"pass": Outcome.PASSED, "fail": Outcome.FAILED, "skip": Outcome.SKIPPED}
    said: dict[str, str] = {}
    cases = []
    for line in lines:
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        name = event.get("Test", "")
        if event["Action"] == "output" and "_test.go:" in event["Output"]:
            said.setdefault(name.partition("/")[0], event["Output"].strip())
        elif name and "/" not in name and event["Action"] in outcomes:
            outcome = outcomes[event["Action"]]
            cases.append(Case(name, outcome, said.get(name, "") if outcome is not Outcome.PASSED else ""))
    return cases


def tap(file: Path) -> list[Case]:
    """Read the output of `prove --verbose`. A test is named by its file and its description."""
    cases = []
    script = ""
    for line in file.read_text(errors="replace").splitlines():
        if header := re.match(r"(\S+\.t) \.+", line):
            script = Path(header[1]).name
        elif found := re.match(r"(not )?ok (\d+)(?: -)? ?([^#]*)(?:# (SKIP|TODO)\b(.*))?", line, re.IGNORECASE):
            failed, number, text, directive, reason = found.groups()
            outcome = Outcome.SKIPPED if directive else Outcome.FAILED if failed else Outcome.PASSED
            cases.append(Case(f"{script}: {number} {(text or '').strip()}".strip(), outcome, (reason or "").strip()))
    return cases
