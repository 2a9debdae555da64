"""The bounds of a stream's state: names of files as ranges, row numbers as runs, and few messages and connections."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from warren.plugins.message_log.analysis import row_numbers, top_rows
from warren.plugins.message_log.analysis.conservation import gaps
from warren.plugins.message_log.analysis.processed_files import ProcessedFiles
from warren.plugins.message_log.analysis.reports import clients
from warren.plugins.message_log.file_format import schema

ATTEMPTS = (
    "node string, boot_id string, vhost string, queue string, msg_seq long, redelivered long, requeued long, "
    "first timestamp, last timestamp, others long"
)
TRANSFERS = (
    "node string, vhost string, event string, exchange string, queue string, user string, conn_id string, "
    "link string, weight long, bytes long, redelivered long, others long, last timestamp"
)
NOW = datetime(2026, 11, 22, tzinfo=UTC)


def name(number: int, boot: str = "a-b1") -> str:
    return f"part-{boot}-{number:06}.parquet"


def merged(first: int, last: int, boot: str = "a-b1") -> str:
    return f"part-{boot}-{first:06}_{last:06}.parquet"


def test_names_of_files_that_are_numbered_are_ranges_and_no_other_name_is_in_them() -> None:
    rng = random.Random(1)
    numbers = [number for number in range(3000) if number not in (7, 1500)]
    rng.shuffle(numbers)
    names = ProcessedFiles(map(name, numbers[:1000]))
    for start in range(1000, len(numbers), 100):
        more = ProcessedFiles(map(name, numbers[start : start + 100]))
        names.update(ProcessedFiles.read(more.text()))
    names = ProcessedFiles.read(names.text())
    assert len(names) == 3
    assert all(name(number) in names for number in numbers)
    assert not any(other in names for other in (name(7), name(1500), name(3000), name(3, "a-b2"), name(0, "b-b1")))
    names.add([name(7), name(1500)])
    assert len(names) == 1 and name(7) in names


def test_a_file_of_a_compaction_is_known_if_all_between_its_ends_are() -> None:
    names = ProcessedFiles(map(name, [0, 1, 2, 4]))
    assert merged(0, 2) in names and merged(0, 4) not in names and merged(4, 5) not in names
    names.add([merged(0, 4)])
    assert merged(0, 4) in names and name(3) not in names, "the file of number 3 may still come"
    names.add([name(3)])
    assert ProcessedFiles.read(names.text()).lists(merged(0, 4)) is False
    assert merged(0, 4) in ProcessedFiles.read(names.text())


def test_names_of_another_kind_stay_as_they_are() -> None:
    odd = ["part-foreign.parquet", "part-a-b1-0000001.parquet", "part-a-b1-000009_000003.parquet", "part-x-12.parquet"]
    names = ProcessedFiles.read(ProcessedFiles(odd).text())
    assert all(one in names for one in odd) and len(names) == len(odd)
    assert name(1) not in names


def numbers_of(spark: SparkSession, *numbers: int) -> DataFrame:
    """Return the aggregate of a log with these row numbers."""
    log = [("a", "b1", number, NOW, 1000 * number, 1.0) for number in numbers]
    columns = "node string, boot_id string, row long, ts_us timestamp, mono_ns long, sample_rate float"
    return row_numbers.rows(spark.createDataFrame(log, columns))


def described(rows: DataFrame) -> list[tuple[int, int, int, int]]:
    return [tuple(row) for row in rows.select("block", "blocks", "bits", "records").orderBy("block").collect()]


def test_complete_blocks_are_one_row_and_late_records_fill_theirs(spark: SparkSession) -> None:
    last = 70_000  # more than a region
    late, lost = (130, 131), (40_000,)
    some = numbers_of(spark, *[number for number in range(last) if number not in (*late, *lost)])
    stored = row_numbers.runs(some).localCheckpoint()
    assert [row[:2] for row in described(stored)] == [(0, 2), (2, 1), (3, 622), (625, 1), (626, 467), (1093, 1)]
    spans = spark.createDataFrame([("a", "b1", 0, last)], "node string, boot_id string, first_row long, end_row long")
    for rows in (some, stored):
        found = gaps.gaps(rows, spans).orderBy("first_row").collect()
        assert [(gap["first_row"], gap["last_row"], gap["records"]) for gap in found] == [
            (130, 131, 2),
            (40_000,) * 2 + (1,),
        ]
    whole = row_numbers.runs(stored.unionByName(numbers_of(spark, *late)))
    assert [row[:2] for row in described(whole)] == [(0, 625), (625, 1), (626, 467), (1093, 1)]


def test_records_that_come_twice_are_counted_whatever_run_has_them(spark: SparkSession) -> None:
    stored = row_numbers.runs(numbers_of(spark, *range(640), *range(700, 720)))
    again = row_numbers.runs(numbers_of(spark, *range(100, 300), 639, *range(630, 720)))
    both = row_numbers.runs(stored.unionByName(again)).localCheckpoint()
    assert described(both) == [(0, 11, -1, 644 + 275), (11, 1, (1 << 16) - 1, 32)]
    total = both.selectExpr("sum(records)", "sum(records) - sum(bit_count(bits) * blocks)").collect()[0]
    assert tuple(total) == (951, 231)


def test_the_messages_with_most_attempts_are_kept_and_the_others_counted(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top_rows, "KEPT_MESSAGES", 2)
    rows = [("a", "b1", "/", queue, seq, seq, seq, NOW, NOW, 0) for queue in ("p", "q") for seq in range(1, 7)]
    attempts = spark.createDataFrame(rows[:9], ATTEMPTS)
    once = top_rows.most_attempts(attempts)
    again = top_rows.most_attempts(once.unionByName(spark.createDataFrame(rows[9:], ATTEMPTS)))
    for made, queue, kept in ((once, "p", [5, 6]), (again, "p", [5, 6]), (again, "q", [5, 6])):
        found = made.where(f"queue = '{queue}'").orderBy("msg_seq").collect()
        assert [(row["msg_seq"], row["redelivered"], row["others"]) for row in found] == [
            (None, None, 3),  # messages with one redelivery are in no report
            *[(seq, seq, 0) for seq in kept],
        ]


def test_the_connections_with_most_messages_are_kept_and_the_others_are_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top_rows, "KEPT_CONNECTIONS", 2)
    rows: list[tuple[object, ...]] = [
        ("a", "/", event, "x", None, "guest", f"c{number}", None, 1000 * number, number, 0, 0, NOW)
        for event in (schema.PUBLISH, schema.DELIVER)
        for number in range(1, 7)
    ]
    rows.append(("a", "/", schema.ENQUEUE, "x", "q", None, None, None, 42_000, 42, 0, 0, NOW))
    whole = spark.createDataFrame(rows, TRANSFERS)
    once = top_rows.busiest_connections(whole)
    sums = once.groupBy("conn_id").agg({"weight": "sum", "others": "sum"}).collect()
    kept = {row["conn_id"]: (row["sum(weight)"], row["sum(others)"]) for row in sums}
    assert kept == {"c6": (12_000, 0), "c5": (10_000, 0), "": (20_000, 4), None: (42_000, 0)}
    more = [("a", "/", schema.PUBLISH, "x", None, "guest", "c7", None, 70_000, 7, 0, 0, NOW)]
    shown = clients.clients(once.unionByName(spark.createDataFrame(more, TRANSFERS))).orderBy("messages").collect()
    assert [(row["connection"], row["messages"], row["others"]) for row in shown] == [
        ("c6", 12, 0),
        (None, 30, 5),
        ("c7", 70, 0),
    ]
    targets = {row["target"]: row["messages"] for row in clients.flow(whole.fillna("q", ["queue"])).collect()}
    assert targets == {"guest c6": 6, "guest c5": 5, "guest": 10, "q": 42}
