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


def test_the_rows_are_the_suites_by_name_language_and_version() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Results\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| [^|]+ \|", section, re.MULTILINE)[1:]
    assert rows == [(suite.name, suite.language, suite.version) for suite in SUITES]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_each_row_says_that_it_works_as_its_counts_have_it(suite: Suite) -> None:
    page = PAGE.read_text(encoding="utf-8")
    ((_, _, _, what, ours, theirs, works, *_),) = kept(page, "Results", suite.name)
    counted = COUNTS.fullmatch(ours)
    assert counted and COUNTS.fullmatch(theirs) and what == suite.what
    failures = kept(page, "Failures", suite.name)
    failed = int(counted[1] or 0)
    assert works == (ours if ours == "not run" else "yes, but" if failed else "yes")
    assert all(suite.explanation(name.strip("`")) == (name.strip("`"), reason) for _, name, _, _, reason in failures)
    assert [sum(int(row[column]) for row in failures if row[column] != "not run") for column in (2, 3)] == [
        failed,
        int(COUNTS.fullmatch(theirs)[1] or 0),
    ]
    assert [row[1:] for row in kept(page, "Left out", suite.name)] == [list(part) for part in suite.left_out]


class Explained(Suite):
    name, version, language, what = "first", "1.2", "C", "`tests`"
    explained = (("slow::", "takes days"),)
    explained_elsewhere = (("late::", "needs a plugin"),)
    left_out = (("unit", "opens no connection"),)


class Other(Suite):
    name, version, what = "second", "3", "a | b"


SUITES_OF_PAGE = (Explained(), Other())
EMPTY_PAGE = "# Page\n\n" + "\n".join(f"## {title}\n\nText.\n\n| head |\n|---|\n" for title in TABLES)
SECOND = ["second", "", "3", "a | b", "0.1: 9 / 0 / 0", "not run", "yes", "2026-11-01"]
PAGE_BEFORE = EMPTY_PAGE.replace(
    "|---|\n", "|---|\n| second |  | 3 | a \\| b | 0.1: 9 / 0 / 0 | not run | yes | 2026-11-01 |\n", 1
)


def result(folder: Path, broker: str, *failed: str) -> None:
    cases = [Case("fast::a", Outcome.PASSED), *(Case(name, Outcome.FAILED, "no") for name in failed)]
    keep(folder, broker, Run(Explained(), broker == "warren", cases, product=f"{broker} 9.1", seconds=3))


def test_the_table_is_made_of_results_and_keeps_the_rows_of_suites_without_one(tmp_path: Path) -> None:
    result(tmp_path, "warren", "slow::b", "slow::c")
    result(tmp_path, "rabbitmq", "slow::b", "late::e")
    page = updated(PAGE_BEFORE, SUITES_OF_PAGE, tmp_path)
    assert kept(page, "Results", "first")[0][4:7] == ["9.1: 1 / 2 / 0", "9.1: 1 / 2 / 0", "yes, but"]
    assert kept(page, "Failures", "first") == [
        ["first", "`late::`", "0", "1", "needs a plugin"],
        ["first", "`slow::`", "2", "1", "takes days"],
    ]
    assert kept(page, "Left out", "first") == [["first", "unit", "opens no connection"]]
    assert kept(page, "Results", "second") == [SECOND]
    assert page.count("Text.\n") == len(TABLES)
    assert updated(page, SUITES_OF_PAGE, tmp_path) == page


@pytest.mark.parametrize("broker", ["warren", "rabbitmq"])
def test_a_broker_without_a_result_keeps_what_the_page_has_of_it(tmp_path: Path, broker: str) -> None:
    result(tmp_path, "warren", "slow::b", "slow::c", "fast::d")
    result(tmp_path, "rabbitmq", "slow::b", "late::e")
    page = updated(EMPTY_PAGE, SUITES_OF_PAGE, tmp_path)
    (tmp_path / "results" / f"first-{broker}.json").unlink()
    assert updated(page, SUITES_OF_PAGE, tmp_path) == page
    assert updated(page, SUITES_OF_PAGE, tmp_path / "empty") == page


def test_an_unexplained_failure_is_a_no(tmp_path: Path) -> None:
    result(tmp_path, "warren", "slow::b", "late::d")
    page = updated(EMPTY_PAGE, (Explained(),), tmp_path)
    assert kept(page, "Results", "first")[0][4:7] == ["9.1: 1 / 2 / 0", "not run", "no"]
    result(tmp_path, "warren", "fast::d")
    page = updated(EMPTY_PAGE, (Explained(),), tmp_path)
    assert kept(page, "Results", "first")[0][6] == "no"
    assert kept(page, "Failures", "first") == [["first", "`fast::d`", "1", "not run", "not explained"]]


def test_a_result_of_another_version_or_of_no_run_changes_nothing(tmp_path: Path) -> None:
    result(tmp_path, "warren")
    (file,) = (tmp_path / "results").iterdir()
    before = file.read_text()
    keep(tmp_path, "warren", Run(Explained(), True, [], "no compiler"))
    assert file.read_text() == before
    page = updated(EMPTY_PAGE, SUITES_OF_PAGE, tmp_path)
    result(tmp_path, "warren", "slow::b")
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": "1.1"}))
    assert updated(page, SUITES_OF_PAGE, tmp_path) == page


def test_a_suite_that_never_ran_or_only_in_another_version_says_so(tmp_path: Path) -> None:
    page = updated(PAGE_BEFORE.replace("| 3 |", "| 2 |"), SUITES_OF_PAGE, tmp_path)
    for suite in SUITES_OF_PAGE:
        assert kept(page, "Results", suite.name)[0][4:7] == ["not run"] * 3
        assert not kept(page, "Failures", suite.name)


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

    def control(self) -> list[str]:
        return ["false"]


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
        command = json.loads(call("POST", f"/containers/{name}/exec", {"Cmd": ["rabbitmqctl", "stop_app"]}))["Id"]
        call("POST", f"/exec/{command}/start", {"Detach": True})
        assert json.loads(call("GET", f"/exec/{command}/json")) == {"Running": False, "ExitCode": 1}
        call("POST", f"/containers/{name}/kill")
        call("DELETE", f"/containers/{name}")
        with pytest.raises(urllib.error.HTTPError, match="501"):
            call("POST", f"/containers/{name}/pause")
    assert {port: bound[0]["HostPort"] for port, bound in ports.items()} == {"5672/tcp": "5672", "5671/tcp": "5671"}
    assert broker.calls == ["start", "kill", "start"]
    assert (tmp_path / "rabbitmqctl").read_text() == '#!/bin/sh\nexec false "$@"\n'


def test_the_page_names_commands_that_there_are() -> None:
    assert (ROOT / "tools/conformance/table.py").exists() and "python -m tools.conformance.table" in PAGE.read_text()
