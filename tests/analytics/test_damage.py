"""Damaged logs, each of a broker of its own: the findings of one run over all."""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from warren.plugins.message_log.analysis import job, queues, verdict
from warren.plugins.message_log.file_format import schema

from . import scenes
from .checking import report_of
from .log import START, Log, arrow_schema

Report = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged") / "input"
    scenes.damaged(folder)
    events = folder / "events"
    good, last = (choose(events.rglob("*.parquet")) for choose in (min, max))
    (good.parent / "part-cut-b1-000000.parquet").write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    (good.parent / "part-text-b1-000000.parquet").write_text("these are no columns")
    (good.parent / ".part-rabbit@a-b1-000009.parquet.tmp").write_text("not finished")
    (last.parent / good.name).write_bytes(good.read_bytes())
    pq.write_table(pq.read_table(good).select(["node"]).replace_schema_metadata({}), good.parent / "foreign.parquet")
    newer = arrow_schema(schema.EVENTS, version=99)
    pq.write_table(newer.empty_table(), good.parent / "part-newer-b1-000000.parquet")
    return folder


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    made: Report = report_of(folder, folder.parent / "output")
    return made


def found(report: Report, name: str) -> dict[str, list[Report]]:
    """Return the imbalances of one broker by problem."""
    problems: dict[str, list[Report]] = {}
    for row in report["conservation"]["imbalances"]:
        if row["node"] == f"rabbit@{name}":
            problems.setdefault(row["problem"], []).append(row)
    return problems


def test_files_that_are_no_log_are_skipped_and_counted(report: Report) -> None:
    assert report["input"]["skipped"] == {"duplicate": 1, "foreign": 1, "not_parquet": 2, "unknown_schema": 1}
    assert len(report["input"]["skipped_files"]) == 5


def test_hours_without_a_file_are_named(report: Report) -> None:
    assert report["input"]["missing_hours"] == ["2026-11-22 07"]


def test_a_clock_that_jumped_is_told_and_no_fault(report: Report) -> None:
    (jump,) = report["input"]["clock_jumps"]
    assert jump["node"] == "rabbit@jumped" and jump["clock_moved_us"] == pytest.approx(3 * 3_600_000_000, abs=10)
    assert found(report, "jumped") == {}
    stage = {"node": "rabbit@jumped", "stage": "deliver_ack"}
    (held,) = [row for row in report["latency"] if all(row[name] == value for name, value in stage.items())]
    assert held["max_us"] == 1_000


JOURNEYS = (queues.NEVER_ENTERED, queues.UNDELIVERED, queues.VANISHED, queues.LEFT_TWICE)
PROBLEMS = {
    "published": [verdict.MISSING, verdict.UNROUTED],
    "enqueued": [verdict.MISSING, verdict.UNEQUAL, verdict.UNROUTED, verdict.UNLOGGED_IN, queues.NEVER_ENTERED],
    "delivered": [verdict.MISSING, queues.UNDELIVERED],
    "acknowledged": [verdict.MISSING, verdict.UNEQUAL, verdict.UNLOGGED_ACKS, queues.VANISHED],
    "confirmed": [verdict.MISSING],
    "message": [verdict.MISSING, verdict.UNLOGGED_IN, verdict.UNLOGGED_ACKS],
    "vanished": [verdict.UNEQUAL, queues.VANISHED],
    "twice": [verdict.UNEQUAL, queues.LEFT_TWICE],
    "jumped": [],
    "dropping": [verdict.MISSING],
    "unstopped": [],
    "sampled": [],
}
GAPS = {"message": 5, "dropping": 2}  # records, if not 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_each_damage_has_its_problems_and_they_name_the_message(report: Report, name: str) -> None:
    problems = found(report, name)
    assert set(problems) - {verdict.FILE_CHANGED} == set(PROBLEMS[name])
    for gap in problems.get(verdict.MISSING, []):
        assert gap["records"] == GAPS.get(name, 1) == gap["last_row"] - gap["first_row"] + 1
    for unlogged in (verdict.UNLOGGED_IN, verdict.UNLOGGED_ACKS):
        assert {row["queue"] for row in problems.get(unlogged, [])} <= {"work"}
    rows = [row for (row, *others) in problems.values() if row["msg_seq"] is not None and not others]
    assert len(rows) == len([each for each in PROBLEMS[name] if each == verdict.UNROUTED or each in JOURNEYS])
    for row in rows:
        assert row["msg_seq"] == (21 if name == "vanished" else scenes.REMOVED + 1) and row["vhost"] == "/"
        assert row["queue"] == (None if row["problem"] == verdict.UNROUTED else "work")
        if name not in ("vanished", "published"):
            assert row["message_id"] == f"message-{scenes.REMOVED}" and row["routing_key"] == "key"


def test_the_equation_is_off_by_what_is_missing(report: Report) -> None:
    differences = {row["node"]: row["difference"] for row in report["conservation"]["queues"]}
    assert differences["rabbit@enqueued"] == -1 and differences["rabbit@acknowledged"] == 1
    assert differences["rabbit@jumped"] == differences["rabbit@message"] == 0
    assert report["conservation"]["status"] == "imbalanced" and not report["conservation"]["balanced"]


def test_the_page_says_that_it_does_not_add_up(report: Report, folder: Path) -> None:
    (page_file,) = (folder.parent / "output").glob("runs/*/index.html")
    page = page_file.read_text()
    assert "The log does not balance" in page and "message-12" in page


def test_a_log_that_is_not_whole_is_said_to_be_so(report: Report) -> None:
    check = report["conservation"]
    reasons = check["reasons"][len(check["causes"]) :]
    assert [re.split(r"[:,]| \(", reason)[0] for reason in reasons] == [
        "2 records lost",
        "a broker was killed",
        "2 skipped files are damaged or not Parquet",
        "1 skipped file is not of an export",
        "1 skipped file has a version of the schema that this Warren does not read",
        "1 skipped file has the name of another file",
        "the log is a sample",
    ]
    assert reasons[0].endswith("(rabbit@dropping b1)")
    assert reasons[1].endswith("(rabbit@unstopped b1)")
    assert check["lost_records"] == 2
    assert [gap["records"] for gap in found(report, "dropping")[verdict.MISSING]] == [2]
    killed = {boot["boot_id"]: boot["killed"] for boot in check["boots"] if boot["node"] == "rabbit@unstopped"}
    assert killed == {"b1": True, "b2": False}
    assert found(report, "unstopped") == {} and found(report, "sampled") == {}
    assert check["unchecked_records"] == 2 + 100  # the last publish of the killed broker, and the sample


def test_of_a_sample_messages_are_estimated(report: Report) -> None:
    rows = [row for row in report["throughput"] if row["node"] == "rabbit@sampled" and row["flow"] == "published"]
    assert {row["messages"] for row in rows} == {80}


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(job.JobRefused, match="no such folder"):
        report_of(tmp_path / "nowhere", tmp_path / "output")
    with pytest.raises(job.JobRefused, match="no export of a broker: no files below events and queue_stats"):
        report_of(tmp_path, tmp_path / "output")
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "part-a-b-000000.parquet").write_text("nothing")
    with pytest.raises(job.JobRefused, match=r"no export of a broker \(1 skipped file\)"):
        report_of(tmp_path, tmp_path / "output")
    assert not (tmp_path / "output").exists()


def test_a_file_damaged_in_its_middle_is_left_out_by_name(tmp_path: Path) -> None:
    log = Log(tmp_path / "input", start=START).begin()
    for _ in range(500):
        log.round_trip("work")
    log.write()
    (events,) = (log.folder / "events").rglob("*.parquet")
    content = bytearray(events.read_bytes())
    for place in range(len(content) // 4, len(content) // 2):
        content[place] ^= 0x5A
    events.write_bytes(content)
    made = report_of(log.folder, tmp_path / "output")
    assert made["input"]["skipped_files"] == [events.relative_to(log.folder).as_posix()]
    assert (made["conservation"]["status"], made["conservation"]["files"]["changed"]) == ("imbalanced", 1)
