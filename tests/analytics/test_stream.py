"""A day of stream: files that come in any order, also very late, merged files, and a job that dies between."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from warren.plugins.throughput.analysis import folding, streaming
from warren.plugins.throughput.analysis.fact_store import Store
from warren.plugins.throughput.analysis.reports import run
from warren.plugins.throughput.compaction import merge
from warren.plugins.throughput.file_format import schema

from .checking import ON_THE_PAGE, batch_of, valid
from .log import Log

pytestmark = pytest.mark.timeout(900)
Report = dict[str, Any]
DAY = datetime(2026, 11, 20, tzinfo=UTC)
HOUR_US = 3_600_000_000
LATE = timedelta(days=10)


class Crash(Exception):
    """The job dies."""


class Brokers:
    """Two brokers, one of them ten days before the other, whose files come last. Messages stay for hours."""

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
        """The records between two files: a part of the messages stays in the queue for hours."""
        log = self.log
        for _ in range(3):
            log.round_trip("work")
        self.waiting.append(log.publish("kept"))
        if len(self.waiting) > 5:
            oldest = self.waiting.pop(0)
            log.deliver(oldest, "kept")
            log.ack(oldest, "kept")
        log.snapshot()
        log.write()

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


def processed(spark: SparkSession, folder: Path, state: Path) -> Store:
    return streaming.process_new_files(spark, str(folder), str(state), lambda what: None)


@pytest.fixture(scope="module")
def early_folds() -> Iterator[list[int]]:
    """Folds what is older than six hours; the times before which everything was folded."""
    times: list[int] = []
    fold = folding.fold

    def noted(store: Store, before_s: int, oldest_s: int) -> None:
        times.append(before_s)
        fold(store, before_s, oldest_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "KEPT_S", 6 * 3600)
        patch.setattr(folding, "fold", noted)
        yield times


@pytest.fixture(scope="module")
def reports(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, early_folds: list[int]
) -> tuple[Report, Report]:
    """The report of the stream, and of a batch over the same files."""
    place = tmp_path_factory.mktemp("stream")
    folder, output, state = place / "input", place / "output", place / "output.state"
    brokers = Brokers(folder)
    brokers.hours(0, 6)
    moved = list(folder.rglob("*-000011.parquet"))  # the second file of hour 5 comes later
    contents = {path: path.read_bytes() for path in moved}
    for path in moved:
        path.unlink()
    processed(spark, folder, state)
    for path, content in contents.items():
        path.write_bytes(content)
    merge.compact(folder, DAY + timedelta(hours=10))  # known files, and one that is known in part
    brokers.hours(6, 16)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        patch.setattr(streaming.TableStream, "_update_journeys", crash)
        processed(spark, folder, state)
    processed(spark, folder, state)
    brokers.hours(16, 24)
    brokers.end()
    brokers.late()
    (state / "input").write_text(str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "REPORTS", [report for report in run.REPORTS if report.name in ON_THE_PAGE])
        patch.setattr(streaming, "FILES_PER_BATCH", 9)
        streaming.follow(spark, str(folder), str(output), None, lambda what: None)
    streamed = valid(json.loads((output / "report.json").read_text()))
    return streamed, batch_of(spark, folder, place / "batch")


def crash(*arguments: object) -> None:
    raise Crash


def test_it_says_the_same_as_a_batch(reports: tuple[Report, Report], early_folds: list[int]) -> None:
    streamed, batch = reports
    assert streamed == batch
    assert len(early_folds) == 2


def test_all_files_are_processed_however_late_they_came(reports: tuple[Report, Report]) -> None:
    streamed, _ = reports
    assert streamed["input"]["unprocessed_files"] == 0
    assert {boot["node"] for boot in streamed["conservation"]["boots"]} == {"rabbit@day", "rabbit@late"}
    assert streamed["conservation"]["status"] == "balanced", streamed["reasons"]
    assert streamed["totals"]["records"] == streamed["input"]["events"]


def test_files_of_compactions_are_known_by_those_that_they_replace() -> None:
    replaced = {"b": {"b1", "b2"}, "c": {"b", "b3"}}
    assert streaming.originals("a", replaced) == {"a"}
    assert streaming.originals("c", replaced) == {"b1", "b2", "b3"}
