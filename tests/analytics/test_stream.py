"""A day of a stream: files in any order, very late files, merged files, and a job that is interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from warren.plugins.message_log.analysis import rollup, streaming, top_rows
from warren.plugins.message_log.analysis.aggregate_store import ALL, Store
from warren.plugins.message_log.analysis.conservation.manifest import Manifest
from warren.plugins.message_log.analysis.input_files import AcceptedFile
from warren.plugins.message_log.analysis.processed_files import ProcessedFiles
from warren.plugins.message_log.analysis.reports import run
from warren.plugins.message_log.compaction import merge
from warren.plugins.message_log.file_format import schema

from .checking import ON_THE_PAGE, batch_of, process_new_files, valid
from .log import Log

pytestmark = pytest.mark.timeout(900)
Report = dict[str, Any]
DAY = datetime(2026, 11, 20, tzinfo=UTC)
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
LATE = timedelta(days=10)
CHOSEN = (*ON_THE_PAGE, "clients", "flow", "poison")


class Crash(Exception):
    """The job dies."""


class Brokers:
    """Two brokers, of which one ran ten days earlier and its files arrive last. Messages stay for hours."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = Log(folder, "rabbit@day", "b1", DAY)
        self.log.snapshot(schema.START)
        self.waiting: list[int] = []

    def hours(self, first: int, last: int) -> None:
        for hour in range(first, last):
            for part in range(2):
                self.log.now_us = hour * HOUR_US + part * HOUR_US // 4
                self.half()

    def half(self) -> None:
        """Log the records between two files: a part of the messages stays in the queue for hours."""
        log = self.log
        for _ in range(3):
            log.round_trip("work")
        self.come_back(hour_of(log))
        self.waiting.append(log.publish("kept"))
        if len(self.waiting) > 5:
            oldest = self.waiting.pop(0)
            log.deliver(oldest, "kept")
            log.ack(oldest, "kept")
        log.snapshot()
        log.write()

    def come_back(self, hour: int) -> None:
        """Requeue a message up to five times, at one of three connections of these hours."""
        log = self.log
        log.connection = f"{hour // 2}:{log.row % 3}"
        number = log.publish("again")
        log.deliver(number, "again")
        for _ in range(log.row % 6):
            log.requeue(number, "again")
            log.deliver(number, "again", redelivered=True)
        log.ack(number, "again")
        log.connection = None

    def end(self) -> None:
        self.log.snapshot(schema.STOP)
        self.log.write()

    def late(self) -> None:
        late = Log(self.folder, "rabbit@late", "b1", DAY - LATE)
        late.snapshot(schema.START)
        for _ in range(5):
            late.round_trip("work")
        late.snapshot(schema.STOP)
        for path in late.write():
            os.utime(path, ((DAY - LATE).timestamp(),) * 2)


def hour_of(log: Log) -> int:
    return log.now_us // HOUR_US


@pytest.fixture(scope="module")
def early_rollups() -> Iterator[list[int]]:
    """Roll up rows that are older than six hours, and keep few messages and connections.

    Returns the times before which everything was rolled up.
    """
    times: list[int] = []
    roll_up = rollup.roll_up

    def noted(store: Store, before_s: int, oldest_s: int) -> None:
        times.append(before_s)
        roll_up(store, before_s, oldest_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollup, "KEPT_S", 6 * 3600)
        patch.setattr(top_rows, "KEPT_MESSAGES", 4)
        patch.setattr(top_rows, "KEPT_CONNECTIONS", 3)
        patch.setattr(rollup, "roll_up", noted)
        yield times


@pytest.fixture(scope="module")
def reports(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, early_rollups: list[int]
) -> tuple[Report, Report]:
    """Return the report of the stream, and of a batch over the same files."""
    place = tmp_path_factory.mktemp("stream")
    folder, output, state = place / "input", place / "output", place / "output.state"
    brokers = Brokers(folder)
    brokers.hours(0, 6)
    moved = list(folder.rglob("*-000011.parquet"))  # the second file of hour 5 comes later
    contents = {path: path.read_bytes() for path in moved}
    for path in moved:
        path.unlink()
    process_new_files(spark, folder, state)
    for path, content in contents.items():
        path.write_bytes(content)
    merge.compact(folder, DAY + timedelta(hours=10))  # known files, and a partly known one
    brokers.hours(6, 16)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        patch.setattr(streaming.TableStream, "_update_journeys", crash)
        process_new_files(spark, folder, state)
    process_new_files(spark, folder, state)
    brokers.hours(16, 24)
    brokers.end()
    brokers.late()
    (state / "input").write_text(str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "REPORTS", [report for report in run.REPORTS if report.name in CHOSEN])
        patch.setattr(streaming, "FILES_PER_BATCH", 9)
        streaming.follow(spark, str(folder), str(output), None, lambda what: None)
    streamed = valid(json.loads((output / "report.json").read_text()))
    return streamed, batch_of(spark, folder, place / "batch", *CHOSEN)


def crash(*arguments: object) -> None:
    raise Crash


def test_it_says_the_same_as_a_batch(reports: tuple[Report, Report], early_rollups: list[int]) -> None:
    streamed, batch = reports
    assert streamed == batch
    assert len(early_rollups) == 2


def test_all_files_are_processed_however_late_they_came(reports: tuple[Report, Report]) -> None:
    streamed, _ = reports
    assert streamed["input"]["unprocessed_files"] == 0
    assert {boot["node"] for boot in streamed["conservation"]["boots"]} == {"rabbit@day", "rabbit@late"}
    assert streamed["conservation"]["status"] == "balanced", streamed["reasons"]
    assert streamed["totals"]["records"] == streamed["input"]["events"]


def test_messages_that_come_back_and_connections_are_few_and_the_others_are_counted(
    reports: tuple[Report, Report],
) -> None:
    streamed, _ = reports
    others = [row for row in streamed["poison"] if row["msg_seq"] is None]
    kept = [row for row in streamed["poison"] if row["msg_seq"] is not None]
    assert len(kept) == 4 and {(row["redelivered"], row["requeued"]) for row in kept} == {(5, 5)}
    assert len(others) == 1 and others[0]["others"] > 10
    named = [row for row in streamed["clients"] if row["connection"] is not None]
    (rest,) = [row for row in streamed["clients"] if row["connection"] is None]
    assert len(named) == 3 and rest["others"] == 10
    assert rest["messages"] > 0 and all(row["others"] == 0 for row in named)


class Names:
    """The names of processed files, in place of a store."""

    def __init__(self) -> None:
        self.kept = ProcessedFiles()
        self.batches: list[tuple[list[str], bool]] = []

    def names(self, table: str) -> ProcessedFiles:
        names = ProcessedFiles()
        names.update(self.kept)
        return names

    def note(self, table: str, batch: int, names: ProcessedFiles) -> None:
        self.kept.update(names)

    def next_batch(self, table: str) -> int:
        return 0


def test_files_of_compactions_are_processed_once_however_often_they_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = Names()

    def batch(stream: Any, files: list[AcceptedFile], again: bool) -> None:
        store.batches.append(([file.path for file in files], again))
        stream._note(0, files)

    def processed_of(replaced: dict[str, tuple[str, ...]], *names: str) -> list[tuple[list[str], bool]]:
        files = [AcceptedFile(f"part-a-{name}.parquet", 1, 0) for name in names]
        manifest = Manifest(replaced={file(by): tuple(map(file, paths)) for by, paths in replaced.items()})
        store.batches = []
        streaming.TableStream(store, schema.EVENTS, lambda what: None).process(files, manifest)
        return [([path[7:-8] for path in paths], again) for paths, again in store.batches]

    def file(name: str) -> str:
        return f"part-a-{name}.parquet"

    monkeypatch.setattr(streaming.TableStream, "_batch", batch)
    assert processed_of({}, "000000") == [(["000000"], False)]
    merged: dict[str, tuple[str, ...]] = {"000001_000003": ("000001", "000003")}
    assert processed_of(merged, "000000", "000001_000003") == [(["000001_000003"], False)]
    merged |= {"000000_000003": ("000000", "000001_000003")}
    assert processed_of(merged, "000000_000003") == [], "merged again"
    merged |= {"000000_000004": ("000000_000003", "000004")}
    assert processed_of(merged, "000000_000004") == [(["000000_000004"], True)]
    assert processed_of(merged, "000000_000004", "000002") == [(["000002"], False)], "a late one"
    assert processed_of(merged, "000000_000004", "000002") == []
    assert len(store.kept) == 1 or ProcessedFiles.read(store.kept.text()).text() == store.kept.text()
    assert '"names": []' in store.kept.text() and "[[0, 4]]" in store.kept.text()


def test_the_state_does_not_grow_with_the_age_of_the_stream(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top_rows, "KEPT_MESSAGES", 4)
    monkeypatch.setattr(top_rows, "KEPT_CONNECTIONS", 3)
    brokers = Brokers(tmp_path / "input")
    sizes: list[dict[str, int]] = []
    for day in range(40):
        brokers.log.now_us = day * DAY_US
        for _ in range(2):
            brokers.half()
        if day and day % 13 == 0:
            store = process_new_files(spark, brokers.folder, tmp_path / "state")
            names = {f"names of {table}": len(store.names(table)) for table in schema.TABLES}
            sizes.append({aggregate.name: store.load(aggregate).count() for aggregate in ALL} | names)
    month, last = sizes[-2:]
    assert store.rollup.before_s is not None and store.rollup.before_s > (DAY + timedelta(days=36)).timestamp()
    for aggregate in (*("rows", "attempts", "transfers", "traffic", "queue_stats", "journeys"), *names):
        assert last[aggregate] < month[aggregate] + 6, (aggregate, month, last)  # messages and connections of a day
    assert last["rows"] <= 2 and last["names of events"] == 1
    assert last["attempts"] <= 2 * 2 + 4 + 1, "those of the last day, and of all others the first four and a count"


def test_files_of_compactions_are_known_by_those_that_they_replace() -> None:
    replaced = {"b": {"b1", "b2"}, "c": {"b", "b3"}}
    assert streaming.originals("a", replaced) == {"a"}
    assert streaming.originals("c", replaced) == {"b1", "b2", "b3"}
