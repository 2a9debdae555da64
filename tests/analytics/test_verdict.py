"""The verdict: the conditions for balanced, imbalanced and incomplete, its words, and the exit status."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from pyspark.sql import Row, SparkSession

from warren.plugins.message_log.analysis.conservation import boots
from warren.plugins.message_log.analysis.conservation.evidence import Evidence, key_of
from warren.plugins.message_log.analysis.conservation.verdict import Verdict, verdict
from warren.plugins.message_log.cli import exit_status, main
from warren.plugins.message_log.file_format import schema

from .checking import REPORT_SCHEMA, checked, valid
from .log import Log

Values = dict[str, Any]
BEGUN = datetime(2026, 11, 22, 5, 30)  # as Spark collects it, in the time zone of this machine
COUNTS = {"lost_records": 0, "duplicated": 0, "to_snapshot": 3, "sample_rate": 1.0}
ROWS = {"first_row": 0, "end_row": 10, "from_row": 0, "to_row": 10}
TIMES = {"stopped": True, "first": BEGUN, "last": BEGUN + timedelta(minutes=10)}
LINK = dict.fromkeys(("previous_boot", "previous_row", "previous_at", "retention_days", "comparable"))
BOOT = {"node": "a", "boot_id": "b1", "started": True, **COUNTS, **ROWS, **TIMES, **LINK}
AT_ONCE = Evidence(now_us=boots.micros(TIMES["last"]))
A_FILE_S = 300 + 30  # the longest silence of a running boot: a file, and three snapshots


def judged(*changed: Values, evidence: Evidence = AT_ONCE, imbalances: int = 0, certain: int = 0) -> Verdict:
    described = boots.describe([Row(**{**BOOT, **each}) for each in changed], evidence)
    return verdict(described, evidence, imbalances, certain)


@pytest.mark.parametrize(
    ("boot", "imbalances", "certain", "status"),
    [
        ({}, 0, 0, "balanced"),
        ({}, 1, 1, "imbalanced"),
        ({"lost_records": 5}, 0, 0, "incomplete"),
        ({"lost_records": 5}, 3, 0, "incomplete"),
        ({"lost_records": 5}, 3, 1, "imbalanced"),
        ({"duplicated": 1}, 0, 0, "incomplete"),
        ({"to_snapshot": None}, 0, 0, "incomplete"),
        ({"sample_rate": 0.5, "to_snapshot": None}, 0, 0, "sampled"),
        ({"sample_rate": 0.5, "to_snapshot": None}, 1, 1, "imbalanced"),
        ({"sample_rate": 0.5, "to_snapshot": None, "lost_records": 1}, 0, 0, "incomplete"),
    ],
)
def test_it_is_balanced_only_if_nothing_speaks_against_it(
    boot: Values, imbalances: int, certain: int, status: str
) -> None:
    result = judged(boot, imbalances=imbalances, certain=certain)
    assert (result.status, result.balanced) == (status, status == "balanced")
    assert bool(result.reasons) == bool(boot)


def test_without_a_log_nothing_is_balanced() -> None:
    assert verdict([], AT_ONCE, 0, 0).status == "incomplete"


def after(seconds: float) -> Evidence:
    return Evidence(now_us=boots.micros(TIMES["last"]) + round(seconds * 1_000_000))


def test_a_boot_that_is_silent_for_three_snapshots_longer_than_files_are_open_is_dead() -> None:
    running = {"stopped": False}
    assert judged(running, evidence=after(A_FILE_S)).status == "balanced"
    dead = judged(running, evidence=after(A_FILE_S + 1))
    assert dead.status == "incomplete" and "is dead (a b1)" in dead.reasons[0]
    assert judged({}, evidence=after(1e6)).status == "balanced", "it has stopped"


def test_the_newest_record_of_another_broker_is_a_clock_too() -> None:
    other = {"node": "z", "last": TIMES["last"] + timedelta(seconds=A_FILE_S + 1)}
    assert judged({"stopped": False}, other).status == "incomplete"
    fresh = {"node": "z", "last": TIMES["last"] + timedelta(seconds=A_FILE_S)}
    assert judged({"stopped": False}, fresh).status == "balanced"


def test_files_that_are_open_for_longer_are_waited_for() -> None:
    longer = Evidence(file_age_s={key_of("a", "b1"): 3600}, now_us=after(3600).now_us)
    assert judged({"stopped": False}, evidence=longer).status == "balanced"


def test_a_boot_that_did_not_stop_and_is_followed_by_another_was_killed() -> None:
    later = {"boot_id": "b2", "first": BEGUN + timedelta(hours=1), "last": BEGUN + timedelta(hours=2)}
    result = judged(later, {"stopped": False}, evidence=after(7200))
    assert [reason.partition(":")[0] for reason in result.reasons] == ["a broker was killed"]
    assert "(a b1)" in result.reasons[0]


@pytest.mark.parametrize(
    ("row", "days_before", "retention", "lacks"),
    [(100, 1, 14, True), (0, 1, 14, False), (100, 15, 14, False), (100, 14, 14, True), (100, 99, None, True)],
)
def test_the_boot_before_is_missing_unless_it_had_no_record_or_is_too_old(
    row: int, days_before: int, retention: int | None, lacks: bool
) -> None:
    before = {"previous_boot": "b0", "previous_row": row, "previous_at": TIMES["last"] - timedelta(days=days_before)}
    result = judged(before | {"retention_days": retention})
    assert [reason.partition(" (")[0] for reason in result.reasons] == (
        ["the log of the boot before is missing"] if lacks else []
    )
    asked = Evidence(now_us=AT_ONCE.now_us, since_us=boots.micros(BEGUN))
    assert judged(before, evidence=asked).reasons == [], "it was not asked for"


def test_a_boot_reaches_as_far_as_the_next_one_says() -> None:
    later = {"boot_id": "b2", "first": BEGUN + timedelta(hours=1), "previous_boot": "b1", "previous_row": 15}
    finished = Evidence(now_us=AT_ONCE.now_us, finished={key_of("a", "b1"): 10})
    for stopped, evidence, expected in (
        (True, finished, (15, 0)),
        (False, AT_ONCE, (15, 0)),
        (False, finished, (10, 5)),
    ):
        rows = [Row(**{**BOOT, **each}) for each in ({"stopped": stopped}, later)]
        first, _ = boots.describe(rows, evidence)
        assert (first["end_row"], first["unfinished"]) == expected


def test_the_boots_of_a_reason_are_named_and_many_counted() -> None:
    result = judged(*[{"boot_id": f"b{number}", "duplicated": 1} for number in range(5)])
    assert result.reasons == ["records are in the log twice (a b0, a b1, a b2 and 2 more)"]


@pytest.mark.parametrize("reason", ["not_parquet", "foreign", "unknown_schema", "duplicate"])
def test_a_skipped_file_makes_it_incomplete(reason: str) -> None:
    result = judged({}, evidence=Evidence(skipped={reason: 3}, now_us=AT_ONCE.now_us))
    assert result.status == "incomplete" and result.reasons[0].startswith("3 skipped files ")


def test_what_the_footers_say_was_lost_makes_it_incomplete() -> None:
    result = judged({}, evidence=Evidence(lost_records={key_of("a", "b1"): 7}, now_us=AT_ONCE.now_us))
    assert (result.status, result.lost_records) == ("incomplete", 7)


def test_the_sentence_says_what_is_not_checked() -> None:
    assert judged({}).sentence(0) == (
        "Nothing is missing: 10 records were checked, and every message that entered a queue left it or is still in it."
    )
    assert judged({"end_row": 25}).sentence(0).endswith("15 records are not checked, because no snapshot follows them.")
    assert (
        judged({}, imbalances=1, certain=1).sentence(1)
        == "The log does not balance: 1 imbalance in 10 checked records."
    )
    assert "not certain" in judged({"duplicated": 1}).sentence(0)


@pytest.mark.parametrize(
    ("verdict", "fail_on", "status"),
    [
        *[(name, "incomplete", status) for name, status in (("balanced", 0), ("imbalanced", 1), ("incomplete", 2))],
        *[("sampled", "incomplete", 2), ("sampled", "imbalanced", 0), ("incomplete", "imbalanced", 0)],
        *[("imbalanced", "imbalanced", 1), ("imbalanced", "never", 0), ("balanced", "never", 0)],
    ],
)
def test_the_exit_status_is_the_verdict(verdict: str, fail_on: str, status: int) -> None:
    assert exit_status(verdict, fail_on) == status


@pytest.mark.parametrize("words", [["--input", "x"], ["--input", "x", "--output", "y", "--fail-on", "sampled"]])
def test_a_wrong_command_line_has_a_status_that_is_no_verdict(words: list[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(words)
    assert exited.value.code == 64


@pytest.mark.timeout(600)
def test_a_writer_that_died_and_a_disk_that_was_full_are_found_in_a_log(spark: SparkSession, tmp_path: Path) -> None:
    silent, full = Log(tmp_path / "log", "rabbit@silent"), Log(tmp_path / "log", "rabbit@full")
    fresh = Log(tmp_path / "log", "rabbit@fresh", start=datetime.now(UTC))
    for log in (silent, full, fresh):
        log.snapshot(schema.START)
        log.round_trip("work")
        log.snapshot()
        log.write()
    lost = [full.row + offset for offset in range(5)]
    full.round_trip("work")
    full.snapshot(schema.STOP)
    full.lost = 5  # as the writer counts them, which the snapshots of the broker do not
    full.write(*lost)
    check = checked(spark, tmp_path / "log", tmp_path / "report")
    assert check["status"] == "incomplete", check["imbalances"]
    dead = {boot["node"]: boot["silent"] for boot in check["boots"]}
    assert dead == {"rabbit@silent": True, "rabbit@full": False, "rabbit@fresh": False}
    assert [reason.rpartition("(")[2] for reason in check["reasons"]] == ["rabbit@full b1)", "rabbit@silent b1)"]
    assert check["lost_records"] == check["missing_records"] == 5


def report(**changed: Any) -> Values:
    """Return the content of a report without a row."""
    counts = ("checked_records", "unchecked_records", "lost_records", "duplicated_records", "missing_records")
    conservation: Values = {
        "balanced": True,
        "status": "balanced",
        "reasons": [],
        **dict.fromkeys((*counts, "imbalance_count"), 0),
        "files": {"missing": 0, "changed": 0, "unlisted": 0},
        **{name: [] for name in ("imbalances", "queues", "links", "boots", "restarts")},
    }
    totals = json.loads(REPORT_SCHEMA.read_text())["properties"]["totals"]["required"]
    selection = {"since": None, "until": None, "nodes": [], "vhosts": [], "queues": []}
    source = {"folder": "x", "selection": selection, "files": 1, "events": 1, "skipped": {}, "unprocessed_files": 0}
    return {
        "schema": 1,
        "verdict": "Nothing is missing.",
        "reasons": [],
        "rows": {},
        "durability": [],
        "timeline": None,
        "input": source | {name: [] for name in ("skipped_files", "missing_hours", "clock_jumps")},
        "totals": dict.fromkeys(totals, 0),
        "conservation": conservation | changed,
    }


def test_the_schema_of_reports_is_one() -> None:
    Draft202012Validator.check_schema(json.loads(REPORT_SCHEMA.read_text()))
    assert valid(report())
    assert valid(report() | {"anomalies": [{"node": "a", "z": 1.5}]})


@pytest.mark.parametrize(
    "wrong",
    [
        report(status="fine"),
        report(balanced=False),
        report(reasons=["a broker was killed"]),
        report(imbalance_count=1),
        report(status="imbalanced", balanced=False),
        report(status="sampled", balanced=False),
        report(checked_records=-1),
        report(boots=[{"node": "a"}]),
        report() | {"schema": 2},
        report() | {"verdict": ""},
        report() | {"anomalies": {}},
        {name: value for name, value in report().items() if name != "durability"},
    ],
)
def test_a_report_that_contradicts_itself_is_not_valid(wrong: Values) -> None:
    with pytest.raises(ValidationError):
        valid(wrong)
