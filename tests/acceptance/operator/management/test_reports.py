"""Reports of the analysis over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import ANY_PORT, BrokerProcess
from warren.plugins.message_log.file_format.report_folder import summary_of

REPORT = {
    "schema": 1,
    "verdict": "The log is not complete, so this is not certain.",
    "totals": {"published": 3, "delivered": 2},
    "conservation": {"status": "incomplete", "balanced": False, "reasons": ["a broker was killed"], "imbalances": []},
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, "--http", ANY_PORT, memory=True) as broker:
        yield broker


def test_reports_are_listed_with_their_verdict_the_newest_first(broker: BrokerProcess) -> None:
    http = broker.http()
    assert http.get("/warren/reports").json == []
    for name, content in (("first", json.dumps(REPORT)), ("torn", '{"schema"'), ("other", "[]")):
        folder = broker.folder / "reports" / name
        folder.mkdir(parents=True)
        (folder / "report.json").write_text(content)
    (broker.folder / "reports" / "unfinished").mkdir()
    listed = {one["name"]: one for one in http.get("/warren/reports").json}
    assert listed.keys() == {"first", "torn", "other"}
    assert listed["first"]["verdict"] == REPORT["verdict"]
    assert listed["first"]["status"] == "incomplete" and listed["first"]["totals"]["published"] == 3
    assert "cannot be read" in listed["torn"]["error"] and "cannot be read" in listed["other"]["error"]
    assert http.get("/warren/reports/first").json == REPORT
    assert http.get("/warren/reports/torn").status == 400


def test_a_long_report_is_listed_by_its_summary_and_sent_as_it_is(broker: BrokerProcess) -> None:
    """Decoding it would keep the interpreter, and with it the loop, for as long as it takes."""
    http, folder = broker.http(), broker.folder / "reports" / "long"
    folder.mkdir(parents=True)
    content = json.dumps({**REPORT, "timeline": ["x" * 100] * 10_000})
    (folder / "report.json").write_text(content)
    assert "cannot be read" in http.get("/warren/reports").json[0]["error"]
    (folder / "summary.json").write_text(json.dumps(summary_of(REPORT)))
    [listed] = http.get("/warren/reports").json
    assert (listed["verdict"], listed["status"]) == (REPORT["verdict"], "incomplete")
    assert http.get("/warren/reports/long").body == content.encode()
    (folder / "summary.json").write_text("[]")
    assert "cannot be read" in http.get("/warren/reports").json[0]["error"]


def test_the_run_that_the_pointer_names_is_the_report(broker: BrokerProcess) -> None:
    http, output = broker.http(), broker.folder / "reports" / "night"
    for run, verdict in (("1", "earlier"), ("2", "current"), ("3", "not complete")):
        (output / "runs" / run).mkdir(parents=True)
        (output / "runs" / run / "report.json").write_text(json.dumps({**REPORT, "verdict": verdict}))
        (output / "runs" / run / "index.html").write_text(f"<title>{verdict}</title>")
    assert http.get("/warren/reports").json == []
    (output / "current.json").write_text('{"run": "2", "earlier": ["1"]}')
    assert [one["verdict"] for one in http.get("/warren/reports").json] == ["current"]
    assert http.get("/warren/reports/night").json["verdict"] == "current"
    assert http.get("/warren/reports/night/run").json["run"] == "2"
    page = http.get("/warren/reports/night/page")
    assert page.status == 200 and page.body == b"<title>current</title>"
    assert page.headers["content-disposition"].startswith("attachment")
    assert page.headers["content-security-policy"].startswith("sandbox")
    for pointer in ('{"run": "../.."}', '{"run": ".."}', '{"run": 2}', "[]", "torn"):
        (output / "current.json").write_text(pointer)
        assert http.get("/warren/reports/night").status == 400
        assert http.get("/warren/reports/night/page").status == 400
        assert http.get("/warren/reports/night/run").status == 400


def test_only_reports_of_the_folder_are_read(broker: BrokerProcess) -> None:
    secret = broker.folder / "secret"
    secret.mkdir()
    for folder in (secret, broker.folder):
        (folder / "report.json").write_text(json.dumps(REPORT))
    (broker.folder / "reports").mkdir()
    names = dict.fromkeys(("nothing", "..", ".", "%2E%2E", "..%2Fsecret", "%2Fetc"), 404)
    names |= {"a%00b": 400, "x" * 300: 400}  # no names of files
    parts = ("", "/page", "/run")
    found = {name: [broker.http().get(f"/warren/reports/{name}{part}").status for part in parts] for name in names}
    assert found == {name: [status] * len(parts) for name, status in names.items()}


def test_reports_are_for_users_who_monitor(broker: BrokerProcess) -> None:
    http = broker.http()
    http.put("/users/plain", {"password": "p", "tags": "management"})
    assert http.get("/warren/reports", user="plain", password="p").status == 401
