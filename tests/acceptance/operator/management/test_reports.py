"""Reports of the analysis over HTTP."""

import json
from pathlib import Path

import pytest

from tests.support.http import Api
from warren.plugins.message_log.file_format.report_folder import summary_of

REPORT = {
    "schema": 1,
    "verdict": "The log is not complete, so this is not certain.",
    "totals": {"published": 3, "delivered": 2},
    "conservation": {"status": "incomplete", "balanced": False, "reasons": ["a broker was killed"], "imbalances": []},
}


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of reports of a broker with the default configuration."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "reports"


def test_reports_are_listed_with_their_verdict_the_newest_first(api: Api, reports: Path) -> None:
    assert api.get("/warren/reports").json == []
    for name, content in (("first", json.dumps(REPORT)), ("torn", '{"schema"'), ("other", "[]")):
        folder = reports / name
        folder.mkdir(parents=True)
        (folder / "report.json").write_text(content)
    (reports / "unfinished").mkdir()
    listed = {one["name"]: one for one in api.get("/warren/reports").json}
    assert listed.keys() == {"first", "torn", "other"}
    assert listed["first"]["verdict"] == REPORT["verdict"]
    assert listed["first"]["status"] == "incomplete" and listed["first"]["totals"]["published"] == 3
    assert "cannot be read" in listed["torn"]["error"] and "cannot be read" in listed["other"]["error"]
    assert api.get("/warren/reports/first").json == REPORT
    assert api.get("/warren/reports/torn").status == 400


def test_a_long_report_is_listed_by_its_summary_and_sent_as_it_is(api: Api, reports: Path) -> None:
    """Decoding it would keep the interpreter, and with it the loop, for as long as it takes."""
    folder = reports / "long"
    folder.mkdir(parents=True)
    content = json.dumps({**REPORT, "timeline": ["x" * 100] * 10_000})
    (folder / "report.json").write_text(content)
    assert "cannot be read" in api.get("/warren/reports").json[0]["error"]
    (folder / "summary.json").write_text(json.dumps(summary_of(REPORT)))
    [listed] = api.get("/warren/reports").json
    assert (listed["verdict"], listed["status"]) == (REPORT["verdict"], "incomplete")
    assert api.get("/warren/reports/long").body == content.encode()
    (folder / "summary.json").write_text("[]")
    assert "cannot be read" in api.get("/warren/reports").json[0]["error"]


def test_the_run_that_the_pointer_names_is_the_report(api: Api, reports: Path) -> None:
    output = reports / "night"
    for run, verdict in (("1", "earlier"), ("2", "current"), ("3", "not complete")):
        (output / "runs" / run).mkdir(parents=True)
        (output / "runs" / run / "report.json").write_text(json.dumps({**REPORT, "verdict": verdict}))
        (output / "runs" / run / "index.html").write_text(f"<title>{verdict}</title>")
    assert api.get("/warren/reports").json == []
    (output / "current.json").write_text('{"run": "2", "earlier": ["1"]}')
    assert [one["verdict"] for one in api.get("/warren/reports").json] == ["current"]
    assert api.get("/warren/reports/night").json["verdict"] == "current"
    assert api.get("/warren/reports/night/run").json["run"] == "2"
    page = api.get("/warren/reports/night/page")
    assert page.status == 200 and page.body == b"<title>current</title>"
    assert page.headers["content-disposition"].startswith("attachment")
    assert page.headers["content-security-policy"].startswith("sandbox")
    for pointer in ('{"run": "../.."}', '{"run": ".."}', '{"run": 2}', "[]", "torn"):
        (output / "current.json").write_text(pointer)
        assert api.get("/warren/reports/night").status == 400
        assert api.get("/warren/reports/night/page").status == 400
        assert api.get("/warren/reports/night/run").status == 400


def test_only_reports_of_the_folder_are_read(api: Api, reports: Path) -> None:
    secret = reports.parent / "secret"
    secret.mkdir()
    for folder in (secret, reports.parent):
        (folder / "report.json").write_text(json.dumps(REPORT))
    reports.mkdir()
    names = dict.fromkeys(("nothing", "..", ".", "%2E%2E", "..%2Fsecret", "%2Fetc"), 404)
    names |= {"a%00b": 400, "x" * 300: 400}  # no names of files
    parts = ("", "/page", "/run")
    found = {name: [api.get(f"/warren/reports/{name}{part}").status for part in parts] for name in names}
    assert found == {name: [status] * len(parts) for name, status in names.items()}
