"""Reports of the analysis over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import ANY_PORT, BrokerProcess

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


@pytest.mark.parametrize("name", ["nothing", "..", ".", "%2E%2E", "..%2Fsecret", "%2Fetc", "a%00b", "x" * 300])
def test_only_reports_of_the_folder_are_read(broker: BrokerProcess, name: str) -> None:
    secret = broker.folder / "secret"
    secret.mkdir()
    for folder in (secret, broker.folder):
        (folder / "report.json").write_text(json.dumps(REPORT))
    (broker.folder / "reports").mkdir()
    assert broker.http().get(f"/warren/reports/{name}").status in (400, 404)


def test_reports_are_for_users_who_monitor(broker: BrokerProcess) -> None:
    http = broker.http()
    http.put("/users/plain", {"password": "p", "tags": "management"})
    assert http.get("/warren/reports", user="plain", password="p").status == 401
