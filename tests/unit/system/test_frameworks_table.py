"""The table of clients and frameworks in the documents has the suites of `make conformance`, and is made of results."""

import json
import re
import urllib.request
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tools.conformance.brokers import Broker
from tools.conformance.docker import Docker
from tools.conformance.report import Run, keep
from tools.conformance.results import Case, Outcome, tap
from tools.conformance.suite import Suite
from tools.conformance.suites import SUITES
from tools.conformance.table import PAGE, TABLES, kept, updated

COUNTS = re.compile(r"(?:not run|\d[\w.+]*: \d+ / (\d+) / \d+)")


def cells(page: str, title: str, suite: str) -> list[list[str]]:
    """The cells of the rows of a suite in a table of the page."""
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in kept(page, title, suite)]


def test_the_rows_are_the_suites_by_name_language_and_version() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Results\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| [^|]+ \|", section, re.MULTILINE)[1:]
    assert rows == [(suite.name, suite.language, suite.version) for suite in SUITES]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_each_row_says_that_it_works_as_its_counts_have_it(suite: Suite) -> None:
    page = PAGE.read_text(encoding="utf-8")
    ((_, _, _, what, ours, theirs, works, *_),) = cells(page, "Results", suite.name)
    counted = COUNTS.fullmatch(ours)
    assert counted and COUNTS.fullmatch(theirs) and what == suite.what
    reasons = [row[-1] for row in cells(page, "Failures", suite.name)]
    failed = int(counted[1] or 0)
    assert works == (ours if ours == "not run" else "yes, but" if failed else "yes")
    assert set(reasons) <= {reason for _, reason in suite.explained} and bool(reasons) == bool(failed)
    assert [row[1:] for row in cells(page, "Left out", suite.name)] == [list(part) for part in suite.left_out]


class Explained(Suite):
    name, version, language, what = "first", "1.2", "C", "`tests`"
    explained = (("slow::", "takes days"),)
    left_out = (("unit", "opens no connection"),)


class Other(Suite):
    name, version = "second", "3"


PAGE_BEFORE = "# Page\n\n" + "\n".join(
    f"## {title}\n\nText.\n\n| head |\n|---|\n| second | kept {title} |\n| first | old |\n" for title in TABLES
)


def result(folder: Path, broker: str, *failed: str) -> None:
    cases = [Case("fast::a", Outcome.PASSED), *(Case(name, Outcome.FAILED, "no") for name in failed)]
    keep(folder, broker, Run(Explained(), broker == "warren", cases, product=f"{broker} 9.1", seconds=3))


def test_the_table_is_made_of_results_and_keeps_the_rows_of_suites_without_one(tmp_path: Path) -> None:
    result(tmp_path, "warren", "slow::b", "slow::c")
    result(tmp_path, "rabbitmq", "slow::b")
    page = updated(PAGE_BEFORE, (Explained(), Other()), tmp_path)
    assert cells(page, "Results", "first")[0][4:7] == ["9.1: 1 / 2 / 0", "9.1: 1 / 1 / 0", "yes, but"]
    assert cells(page, "Failures", "first") == [["first", "`slow::`", "2", "1", "takes days"]]
    assert cells(page, "Left out", "first") == [["first", "unit", "opens no connection"]]
    assert [cells(page, title, "second") for title in TABLES] == [[["second", f"kept {title}"]] for title in TABLES]
    assert page.count("Text.\n") == len(TABLES) and "old" not in page
    assert updated(page, (Explained(), Other()), tmp_path) == page


def test_an_unexplained_failure_is_a_no(tmp_path: Path) -> None:
    result(tmp_path, "warren", "slow::b", "fast::d")
    page = updated(PAGE_BEFORE, (Explained(),), tmp_path)
    assert cells(page, "Results", "first")[0][4:7] == ["9.1: 1 / 2 / 0", "not run", "no"]
    assert cells(page, "Failures", "first")[1] == ["first", "`fast::d`", "1", "not run", "a fault"]


def test_a_result_of_another_version_or_of_no_run_changes_nothing(tmp_path: Path) -> None:
    result(tmp_path, "warren")
    (file,) = (tmp_path / "results").iterdir()
    before = file.read_text()
    keep(tmp_path, "warren", Run(Explained(), True, [], "no compiler"))
    assert file.read_text() == before
    file.write_text(json.dumps({**json.loads(before), "version": "1.1"}))
    assert "old" in updated(PAGE_BEFORE, (Explained(),), tmp_path)


def test_a_suite_that_never_ran_says_so(tmp_path: Path) -> None:
    page = updated(PAGE_BEFORE.replace("| first | old |\n", ""), (Explained(),), tmp_path)
    assert cells(page, "Results", "first")[0][4:7] == ["not run"] * 3 and not cells(page, "Failures", "first")


def test_prove_tells_what_each_test_did(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("xt/04_a.t .. \nok 1 - connect\nnot ok 2 - get\nok 3 # SKIP old\n1..3\nxt/05_b.t .. \nok 1 - x\n")
    assert [(case.name, case.outcome.value, case.message) for case in tap(log)] == [
        ("04_a.t: 1 connect", "passed", ""),
        ("04_a.t: 2 get", "failed", ""),
        ("04_a.t: 3", "skipped", "old"),
        ("05_b.t: 1 x", "passed", ""),
    ]


class Recorded(Broker):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def kill(self) -> None:
        self.calls.append("kill")


def test_a_container_is_the_broker_of_the_run(tmp_path: Path) -> None:
    broker = Recorded(tmp_path)
    with Docker(broker) as docker:

        def call(method: str, path: str, body: object = None) -> bytes:
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(f"http{docker.url[3:]}{path}", data, method=method)
            with urllib.request.urlopen(request) as answer:
                return bytes(answer.read())

        call("POST", "/images/create?fromImage=rabbitmq&tag=latest")
        name = json.loads(call("POST", "/containers/create", {"Image": "rabbitmq"}))["Id"]
        call("POST", f"/containers/{name}/start")
        ports = json.loads(call("GET", f"/containers/{name}/json"))["NetworkSettings"]["Ports"]
        call("POST", f"/containers/{name}/kill")
        call("DELETE", f"/containers/{name}")
        with pytest.raises(urllib.error.HTTPError, match="501"):
            call("POST", f"/containers/{name}/exec", {})
    assert {port: bound[0]["HostPort"] for port, bound in ports.items()} == {"5672/tcp": "5672", "5671/tcp": "5671"}
    assert broker.calls == ["start", "kill", "start"]


def test_the_page_names_commands_that_there_are() -> None:
    assert (ROOT / "tools/conformance/table.py").exists() and "python -m tools.conformance.table" in PAGE.read_text()
