"""The runner of other clients' suites (tools/conformance): reports, cache and output."""

import json
from pathlib import Path

import pytest

from tools.conformance.report import Run, markdown
from tools.conformance.results import Case, Outcome, go, junit, rspec
from tools.conformance.suite import Suite, Unavailable, bring, needed

JUNIT = """<testsuites><testsuite>
<testcase classname="a.B" name="good"/>
<testcase classname="a.B" name="bad"><failure message="no&#10;more">trace</failure></testcase>
<testcase classname="a.B" name="off"><skipped message="no kqueue"/></testcase>
<testcase classname="a.B" name="torn"/><testcase classname="a.B" name="torn"><error message="in teardown"/></testcase>
</testsuite></testsuites>"""


class Sample(Suite):
    name = "sample"
    version = "1"
    explained = (("a.B::known", "not ours"),)
    brought = 0

    def prepare(self, folder: Path) -> None:
        self.brought += 1
        (folder / "file").touch()


def summary(cases: list[Case]) -> list[tuple[str, str, str]]:
    return [(case.name, case.outcome.value, case.message) for case in cases]


def test_a_junit_report_has_one_case_for_each_test(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(JUNIT)
    assert summary(junit(tmp_path / "report.xml")) == [
        ("a.B::good", "passed", ""),
        ("a.B::bad", "failed", "no"),
        ("a.B::off", "skipped", "no kqueue"),
        ("a.B::torn", "failed", "in teardown"),
    ]


def test_an_rspec_report_names_the_file_of_each_example(tmp_path: Path) -> None:
    good = {"file_path": "./spec/q_spec.rb", "full_description": "Q works", "status": "passed", "pending_message": None}
    bad = {
        **good,
        "full_description": "Q fails",
        "status": "failed",
        "exception": {"message": "\n  expected 1\n got 2"},
    }
    (tmp_path / "report.json").write_text(json.dumps({"examples": [good, bad]}))
    assert summary(rspec(tmp_path / "report.json")) == [
        ("q_spec.rb: Q works", "passed", ""),
        ("q_spec.rb: Q fails", "failed", "expected 1"),
    ]


def test_go_counts_a_test_with_subtests_once() -> None:
    events = [
        {"Action": "run", "Test": "TestA"},
        {"Action": "pass", "Test": "TestA/one"},
        {"Action": "pass", "Test": "TestA"},
        {"Action": "output", "Test": "TestB", "Output": "    b_test.go:7: no\n"},
        {"Action": "fail", "Test": "TestB"},
        {"Action": "fail"},
    ]
    lines = ["# a line of the compiler", *[json.dumps(event) for event in events]]
    assert summary(go(lines)) == [("TestA", "passed", ""), ("TestB", "failed", "b_test.go:7: no")]


def test_a_suite_is_brought_once_until_its_pins_change(tmp_path: Path) -> None:
    suite = Sample()
    folder = suite.prepared(tmp_path)
    assert suite.prepared(tmp_path) == folder and (folder / "file").exists()
    assert suite.brought == 1
    (folder / ".prepared").write_text("other pins")
    suite.prepared(tmp_path)
    assert suite.brought == 2


def test_an_unexplained_failure_is_reported() -> None:
    run = Run(Sample(), True, [Case("a.B::known", Outcome.FAILED, "x"), Case("a.B::new", Outcome.FAILED, "y")])
    assert [case.name for case in run.unexplained()] == ["a.B::new"]
    text = markdown("warren", [run])
    assert "| sample | 1 | 0 | 2 | 0 | 1 unexplained |" in text
    assert "- failed: `a.B::known`: x (not ours)" in text


def test_an_unavailable_suite_has_a_reason() -> None:
    with pytest.raises(Unavailable, match=r"^no-such-program is not on PATH \(Debian: apt-get install it\)$"):
        needed("no-such-program", "it")
    with pytest.raises(Unavailable, match=r"^sh failed: away$"):
        bring(["sh", "-c", "echo here; echo away >&2; exit 1"], Path("/"))
    assert "| not run: away |" in markdown("warren", [Run(Sample(), True, [], "away")])
