"""Logs of which something is wrong, each of a broker of its own: what the job finds of it, in one run over all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from plugins.throughput import schema
from plugins.throughput.analysis import job
from plugins.throughput.analysis.conservation import imbalances, queues
from plugins.throughput.analysis.folder import Folders
from plugins.throughput.analysis.intake import look, read
from plugins.throughput.analysis.journeys import BALANCES, STAGES
from plugins.throughput.analysis.reporting import Reporting
from plugins.throughput.analysis.store import ALL, Facts

from . import scenes
from .log import START, Log, arrow_schema

pytestmark = pytest.mark.timeout(600)
Report = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged") / "input"
    scenes.damaged(folder)
    events = folder / "events"
    good = next(events.rglob("*.parquet"))
    (good.parent / "part-cut-b1-000000.parquet").write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    (good.parent / "part-text-b1-000000.parquet").write_text("these are no columns")
    (good.parent / ".part-rabbit@a-b1-000009.parquet.tmp").write_text("not finished")
    (events / good.name).write_bytes(good.read_bytes())
    pq.write_table(pq.read_table(good).select(["node"]).replace_schema_metadata({}), good.parent / "foreign.parquet")
    newer = arrow_schema(schema.EVENTS, version=99)
    pq.write_table(newer.empty_table(), good.parent / "part-newer-b1-000000.parquet")
    return folder


@pytest.fixture(scope="module")
def report(folder: Path, spark: SparkSession) -> Report:
    return job.batch(spark, str(folder), str(folder.parent / "output"), lambda what: None)


def found(report: Report, name: str) -> dict[str, list[Report]]:
    """The imbalances of one broker, by problem."""
    problems: dict[str, list[Report]] = {}
    for row in report["conservation"]["imbalances"]:
        if row["node"] == f"rabbit@{name}":
            problems.setdefault(row["problem"], []).append(row)
    return problems


def checked(spark: SparkSession, folder: Path, output: Path) -> Report:
    """The conservation check alone."""
    paths = {table: look(Folders(spark), str(folder), table).paths for table in schema.TABLES}
    tables = {table: read(spark, table, paths[table]) for table in schema.TABLES}
    none = {fact.name: fact.make(read(spark, fact.table, [])) for fact in (BALANCES, STAGES)}
    facts = {fact.name: fact.make(tables[fact.table]) for fact in ALL if fact.name not in none}
    return Reporting(
        spark, Facts(**facts, **none), tables[schema.EVENTS], str(output), lambda what: None
    ).conservation()


def test_files_that_are_no_log_are_skipped_and_counted(report: Report) -> None:
    assert report["input"]["skipped"] == {"duplicate": 1, "foreign": 1, "not_parquet": 2, "unknown_schema": 1}
    assert len(report["input"]["skipped_files"]) == 5


def test_hours_without_a_file_are_named(report: Report) -> None:
    assert report["input"]["missing_hours"] == ["2026-11-22 06", "2026-11-22 07"]


def test_a_clock_that_jumped_is_told_and_no_fault(report: Report) -> None:
    (jump,) = report["input"]["clock_jumps"]
    assert jump["node"] == "rabbit@jumped" and jump["clock_moved_us"] == pytest.approx(3 * 3_600_000_000, abs=10)
    assert found(report, "jumped") == {}
    stage = {"node": "rabbit@jumped", "stage": "deliver_ack"}
    (held,) = [row for row in report["latency"] if all(row[name] == value for name, value in stage.items())]
    assert held["max_us"] == 1_000


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("enqueued", queues.NEVER_ENTERED),
        ("delivered", queues.UNDELIVERED),
        ("acknowledged", queues.VANISHED),
        ("published", imbalances.UNROUTED),
        ("vanished", queues.VANISHED),
        ("twice", queues.LEFT_TWICE),
    ],
)
def test_what_cannot_be_is_found_with_its_message(report: Report, name: str, problem: str) -> None:
    (row,) = found(report, name)[problem]
    assert row["msg_seq"] == (21 if name == "vanished" else scenes.REMOVED + 1)
    assert row["vhost"] == "/" and row["queue"] == "work"
    if name not in ("vanished", "published"):
        assert row["message_id"] == f"message-{scenes.REMOVED}" and row["routing_key"] == "key"


@pytest.mark.parametrize("name", ["published", "enqueued", "delivered", "acknowledged", "confirmed", "message"])
def test_a_record_that_was_removed_is_missed_wherever_it_was(report: Report, name: str) -> None:
    (gap,) = found(report, name)[imbalances.MISSING]
    records = 5 if name == "message" else 1
    assert gap["records"] == records and gap["last_row"] - gap["first_row"] == records - 1


def test_a_message_without_a_trace_is_missed_by_the_counters_of_its_queue(report: Report) -> None:
    problems = found(report, "message")
    assert [row["queue"] for row in problems[imbalances.UNLOGGED_IN]] == ["work"]
    assert [row["queue"] for row in problems[imbalances.UNLOGGED_ACKS]] == ["work"]


def test_the_equation_is_off_by_what_is_missing(report: Report) -> None:
    differences = {row["node"]: row["difference"] for row in report["conservation"]["queues"]}
    assert differences["rabbit@enqueued"] == -1 and differences["rabbit@acknowledged"] == 1
    assert differences["rabbit@jumped"] == differences["rabbit@message"] == 0
    assert report["conservation"]["status"] == "imbalanced" and not report["conservation"]["balanced"]


def test_the_page_says_that_it_does_not_add_up(report: Report, folder: Path) -> None:
    page = (folder.parent / "output" / "index.html").read_text()
    assert "It does not add up" in page and "message-12" in page


@pytest.mark.parametrize(
    ("damage", "status", "reason"),
    [(scenes.dropping, "incomplete", "buffer was full"), (scenes.unstopped, "incomplete", "was killed")],
)
def test_a_log_that_is_not_whole_is_said_to_be_so(
    damage: scenes.Damage, status: str, reason: str, tmp_path: Path, spark: SparkSession
) -> None:
    log = Log(tmp_path / "input")
    log.declare("work")
    log.snapshot(schema.START)
    damage(log, [log.round_trip("work") for _ in range(20)])
    check = checked(spark, log.folder, tmp_path / "output")
    assert check["status"] == status and not check["balanced"]
    assert reason in " ".join(check["reasons"])
    assert check["lost_records"] == log.lost == check["missing_records"]


def test_a_sample_is_an_estimate(tmp_path: Path, spark: SparkSession) -> None:
    log = Log(tmp_path / "input")
    log.sample_rate = 0.25
    log.snapshot(schema.START)
    for _ in range(10):
        log.round_trip("work")
    log.snapshot(schema.STOP, ready=7)
    log.write()
    check = checked(spark, log.folder, tmp_path / "output")
    assert (check["status"], check["balanced"], check["imbalances"]) == ("sampled", False, [])


def test_a_folder_without_a_log_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(job.Refused, match="no such folder"):
        job.batch(spark, str(tmp_path / "nowhere"), str(tmp_path / "output"), lambda what: None)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "part-a-b-000000.parquet").write_text("nothing")
    with pytest.raises(job.Refused, match="no export of a broker"):
        job.batch(spark, str(tmp_path), str(tmp_path / "output"), lambda what: None)
    assert not (tmp_path / "output").exists()


def test_a_file_damaged_in_its_middle_ends_the_job_and_leaves_nothing(tmp_path: Path, spark: SparkSession) -> None:
    log = Log(tmp_path / "input", start=START)
    log.snapshot(schema.START)
    for _ in range(500):
        log.round_trip("work")
    log.write()
    (events,) = (log.folder / "events").rglob("*.parquet")
    octets = bytearray(events.read_bytes())
    for place in range(len(octets) // 4, len(octets) // 2):
        octets[place] ^= 0x5A
    events.write_bytes(octets)
    with pytest.raises(Exception):  # noqa: B017 - whatever Spark calls it
        job.batch(spark, str(log.folder), str(tmp_path / "output"), lambda what: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input"]
