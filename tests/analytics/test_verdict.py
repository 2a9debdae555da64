"""The verdict: the conditions for balanced, imbalanced and incomplete, its words, and the exit status."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator, ValidationError

from warren.plugins.message_log.analysis import facts, snapshots
from warren.plugins.message_log.analysis.beginnings import micros, predecessors
from warren.plugins.message_log.analysis.boots import Boot, Known, boots_of
from warren.plugins.message_log.analysis.report import conservation_of
from warren.plugins.message_log.analysis.verdict import MISSING, Imbalance, Verdict, verdict
from warren.plugins.message_log.cli import exit_status, main
from warren.plugins.message_log.file_format import schema

from .checking import REPORT_SCHEMA, ledger_of, report_of, valid
from .log import Log

Values = dict[str, Any]
BEGUN = datetime(2026, 11, 22, 5, 30, tzinfo=UTC)
ENDED = BEGUN + timedelta(minutes=10)
LINK = dict.fromkeys(("previous_boot", "previous_row", "previous_at", "retention_days", "comparable"))
Names = tuple[str | None, str | None]
BOOT = {
    "node": "a",
    "boot_id": "b1",
    "records": 10,
    "rows": 10,
    "end": 10,
    "lost_records": 0,
    "sample_rate": 1.0,
    "offset": 0,
    "stopped": True,
    "snapshot": True,
    "first": BEGUN,
    "last": ENDED,
    **LINK,
}
KEY = schema.boot_key(schema.file_name("a", "b1", 0))
AT_ONCE = Known(listed_us=micros(ENDED))
A_FILE_S = 300 + 30  # the longest silence of a running boot: a file, and three snapshots


def described(*changed: Values, known: Known = AT_ONCE) -> list[Boot]:
    """Return boots that differ from BOOT: with `records` records of `rows` rows, and a last snapshot at row `end`."""
    rows, closings = [], []
    for each in ({**BOOT, **one} for one in changed):
        name = {"node": each["node"], "boot_id": each["boot_id"]}
        span = {"first_row": 0, "last_row": each["rows"] - 1, "records": each["records"]}
        offsets = {"least_offset": each["offset"], "greatest_offset": each["offset"]}
        clock = {**offsets, "sample_rate": each["sample_rate"]}
        rows.append({**name, **span, **clock, "first": each["first"], "last": each["last"]})
        about = {**name, "queues": 0, "queue_rows": 0, "lost_records": each["lost_records"]}
        rate = {"sample_rate": each["sample_rate"]}
        for number, at, row in ((0, each["first"], 0), (1, each["last"], each["end"])) if each["snapshot"] else ():
            kind = schema.START if not number else schema.STOP if each["stopped"] else schema.PERIODIC
            link = {name: each[name] for name in LINK} if not number else LINK
            closings.append({**about, **rate, **link, "snapshot": number, "row": row, "kind": kind, "at": at})
    tables = (facts.ROWS.schema, rows), (snapshots.CLOSINGS.schema, closings)
    return boots_of(*(pa.Table.from_pylist(of_table, columns) for columns, of_table in tables), known)


def test_a_clock_that_is_set_between_two_ranges_of_rows_has_moved() -> None:
    (boot,) = described({}, {"snapshot": False, "offset": -5})
    assert boot.clock_moved_us == 5


def judged(*changed: Values, known: Known = AT_ONCE, lost: int = 0, reasons: tuple[str, ...] = ()) -> Verdict:
    """Judge boots, of which the first one lacks `lost` records."""
    found = [Imbalance(MISSING, "a", "b1", records=lost)] if lost else []
    return verdict(described(*changed, known=known), found, reasons)


@pytest.mark.parametrize(
    ("boot", "lost", "status"),
    [
        ({}, 0, "balanced"),
        ({}, 1, "imbalanced"),
        ({"lost_records": 5}, 0, "incomplete"),
        ({"lost_records": 5}, 5, "incomplete"),
        ({"lost_records": 5}, 6, "imbalanced"),
        ({"records": 11}, 0, "incomplete"),
        ({"snapshot": False}, 0, "incomplete"),
        ({"sample_rate": 0.5}, 0, "sampled"),
        ({"sample_rate": 0.5}, 1, "imbalanced"),
        ({"sample_rate": 0.5, "lost_records": 1}, 1, "incomplete"),
    ],
)
def test_it_is_balanced_only_if_nothing_speaks_against_it(boot: Values, lost: int, status: str) -> None:
    result = judged(boot, lost=lost)
    assert result.status == status
    assert bool(result.reasons) == bool(boot or lost)


def test_without_a_log_nothing_is_balanced() -> None:
    assert verdict([], [], []).status == "incomplete"


def after(seconds: float) -> Known:
    return Known(listed_us=micros(ENDED) + round(seconds * 1_000_000))


def test_a_boot_that_is_silent_for_three_snapshots_longer_than_files_are_open_is_dead() -> None:
    running = {"stopped": False}
    assert judged(running, known=after(A_FILE_S)).status == "balanced"
    dead = judged(running, known=after(A_FILE_S + 1))
    assert dead.status == "incomplete" and "is dead (a b1)" in dead.reasons[0]
    assert judged({}, known=after(1e6)).status == "balanced", "it has stopped"


def test_files_that_are_open_for_longer_are_waited_for() -> None:
    longer = Known(file_age_s={KEY: 3600}, listed_us=after(3600).listed_us)
    assert judged({"stopped": False}, known=longer).status == "balanced"


def test_a_boot_that_did_not_stop_and_is_followed_by_another_was_killed() -> None:
    later = {"boot_id": "b2", "first": BEGUN + timedelta(hours=1), "last": BEGUN + timedelta(hours=2)}
    result = judged(later | {"previous_boot": "b1", "previous_row": 10}, {"stopped": False}, known=after(7200))
    assert [reason.partition(",")[0] for reason in result.reasons] == ["a broker was killed"]
    assert "(a b1)" in result.reasons[0]


@pytest.mark.parametrize(
    ("row", "days_before", "retention", "lacks"),
    [(100, 1, 14, True), (0, 1, 14, False), (100, 15, 14, False), (100, 14, 14, True), (100, 99, None, True)],
)
def test_the_boot_before_is_missing_unless_it_had_no_record_or_is_too_old(
    row: int, days_before: int, retention: int | None, lacks: bool
) -> None:
    before = {"previous_boot": "b0", "previous_row": row, "previous_at": ENDED - timedelta(days=days_before)}
    result = judged(before | {"retention_days": retention})
    assert [reason.partition(" (")[0] for reason in result.reasons] == (
        ["the log of the boot before is missing"] if lacks else []
    )
    asked = Known(listed_us=AT_ONCE.listed_us, since_us=micros(BEGUN))
    assert judged(before, known=asked).reasons == [], "it was not asked for"


@pytest.mark.parametrize(
    ("starts", "before"),
    [
        ({"a": (None, None), "b": ("c", "a"), "c": ("a", "b")}, {"a": None, "b": "a", "c": "b"}),  # the state is late
        ({"a": ("b", None), "b": (None, "a")}, {"a": None, "b": "a"}),  # likewise, of the first boots of a node
        ({"b": ("a", "a"), "c": ("b", "a")}, {"b": "a", "c": "b"}),  # the data folder is an earlier copy
        ({"b": ("a", "a"), "c": ("a", "b")}, {"b": "a", "c": "b"}),  # the state is an earlier copy
        ({"b": ("a", None)}, {"b": "a"}),  # the data folder was lost
        ({"b": (None, "a")}, {"b": "a"}),  # the state was lost
        ({"c": ("a", "b")}, {"c": "a"}),  # the log of a boot was lost
        ({"a": ("x", "b"), "b": ("y", "a")}, {"a": "x", "b": "y"}),  # damaged
    ],
)
def test_a_boot_follows_the_later_one_of_those_that_the_state_and_the_data_folder_name(
    starts: dict[str, Names], before: dict[str, str | None]
) -> None:
    common = {"node": "n", "kind": schema.START}
    rows = [
        common | {"boot_id": name, "previous_boot": by_state, "exported_boot": by_data}
        for name, (by_state, by_data) in starts.items()
    ]
    assert predecessors(rows) == {("n", name): previous for name, previous in before.items()}


def test_a_boot_reaches_as_far_as_the_next_one_says() -> None:
    later = {"boot_id": "b2", "first": BEGUN + timedelta(hours=1), "previous_boot": "b1", "previous_row": 15}
    finished = Known(listed_us=AT_ONCE.listed_us, finished={KEY: 10})
    for stopped, known, expected in ((True, finished, (15, 0)), (False, AT_ONCE, (15, 0)), (False, finished, (10, 5))):
        first, _ = described({"stopped": stopped}, later, known=known)
        assert (first.end_row, first.unfinished) == expected


def test_the_boots_of_a_reason_are_named_and_many_counted() -> None:
    result = judged(*[{"boot_id": f"b{number}", "node": f"n{number}", "records": 11} for number in range(5)])
    assert result.reasons == ["records are in the log twice (n0 b0, n1 b1, n2 b2 and 2 more)"]


def test_a_reason_of_the_input_makes_it_incomplete() -> None:
    assert judged({}, reasons=("3 skipped files are damaged",)).status == "incomplete"


def test_what_the_footers_say_was_lost_makes_it_incomplete() -> None:
    result = judged({}, known=Known(lost_records={KEY: 7}, listed_us=AT_ONCE.listed_us))
    assert (result.status, result.lost_records) == ("incomplete", 7)


def test_the_sentence_says_what_is_not_checked() -> None:
    assert judged({}).sentence() == (
        "Nothing is missing: 10 records were checked, and every message that entered a queue left it or is still in it."
    )
    more = judged({"rows": 25, "records": 25}).sentence()
    assert more.endswith("15 records are not checked: no snapshot follows.")
    assert judged({}, lost=1).sentence() == (
        "The log does not balance: 1 record missing from the log (a b1). 10 records were checked."
    )
    assert "not certain" in judged({"records": 11}).sentence()


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


def test_a_writer_that_died_and_a_disk_that_was_full_are_found_in_a_log(tmp_path: Path) -> None:
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
    check = conservation_of(ledger_of(tmp_path / "log", tmp_path / "stored"))
    assert check["status"] == "incomplete", check["imbalances"]
    dead = {boot["node"]: boot["silent"] for boot in check["boots"]}
    assert dead == {"rabbit@silent": True, "rabbit@full": False, "rabbit@fresh": False}
    assert [reason.rpartition("(")[2] for reason in check["reasons"]] == ["rabbit@full b1)", "rabbit@silent b1)"]
    assert check["lost_records"] == check["missing_records"] == 5


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Values:
    folder = tmp_path_factory.mktemp("well")
    log = Log(folder / "log").begin()
    log.stop()
    return report_of(folder / "log", folder / "report")


def test_the_schema_of_reports_is_one(report: Values) -> None:
    Draft202012Validator.check_schema(json.loads(REPORT_SCHEMA.read_text()))
    assert valid(report) and report["conservation"]["balanced"]
    assert valid(report | {"churn": [{"node": "a", "value": 1.5}]})


@pytest.mark.parametrize(
    "wrong",
    [
        *[{"schema": 2}, {"verdict": ""}, {"churn": {}}, {"durability": None}],
        *[
            {"conservation": changed}
            for changed in (
                *(
                    {"status": "fine"},
                    {"balanced": False},
                    {"reasons": ["a broker was killed"]},
                    {"imbalance_count": 1},
                ),
                *({"status": "imbalanced", "balanced": False}, {"status": "sampled", "balanced": False}),
                *({"checked_records": -1}, {"boots": [{"node": "a"}]}),
            )
        ],
    ],
)
def test_a_report_that_contradicts_itself_is_not_valid(report: Values, wrong: Values) -> None:
    made = report | wrong
    if "conservation" in wrong:
        made["conservation"] = report["conservation"] | wrong["conservation"]
    with pytest.raises(ValidationError):
        valid({name: value for name, value in made.items() if value is not None})
