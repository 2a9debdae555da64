"""The stored facts of hours: a run over a log that has changed gives what one over the whole log does."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from warren.plugins.message_log.file_format import schema
from warren.plugins.message_log.ledger import ledger as module
from warren.plugins.message_log.ledger.boots import Known
from warren.plugins.message_log.ledger.engine import InProcess
from warren.plugins.message_log.ledger.input import Folder
from warren.plugins.message_log.ledger.ledger import make_ledger
from warren.plugins.message_log.ledger.report import make_report

from .log import START, Log


def write_hours(folder: Path) -> None:
    """Two brokers over four hours; each hour ends with messages that leave in the next one."""
    for node in ("rabbit@a", "rabbit@b"):
        log = Log(folder, node)
        log.declare("work", "slow")
        log.snapshot(schema.START)
        waiting: list[int] = []
        for hour in range(4):
            for number in waiting:
                log.deliver(number, "slow")
                log.ack(number, "slow")
            for number in range(10):
                log.round_trip("work", routing_key=f"key.{number % 3}", message_id=f"{node}-{hour}-{number}")
            waiting = [log.publish("slow") for _ in range(5)]
            log.snapshot()
            log.write()
            log.now_us = (hour + 1) * 3_600_000_000
        log.snapshot(schema.STOP)
        log.write()


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    write_hours(tmp_path / "whole")
    return tmp_path / "whole"


def report(folder: Path, stored: Path) -> dict[str, Any]:
    """The report, but for the name of its folder and what depends on the clock of this machine."""
    listed_us = int((START + timedelta(hours=5)).timestamp() * 1_000_000)
    ledger = make_ledger(InProcess(), Folder(str(folder)), Folder(str(stored)), known=Known(listed_us=listed_us))
    made: dict[str, Any] = json.loads(json.dumps(make_report(InProcess(), ledger)))
    return made | {"input": made["input"] | {"folder": ""}}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files of events that were reduced."""
    found: list[str] = []
    reduce = module.reduce_events

    def counted(folder: Folder, ranges: Any, file: Any) -> Any:
        found.append(file.path)
        return reduce(folder, ranges, file)

    monkeypatch.setattr(module, "reduce_events", counted)
    return iter([found])


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_grows_is_reported_as_a_whole_one(tmp_path: Path, whole: Path, seed: int) -> None:
    chosen = random.Random(seed)
    files = [path.relative_to(whole) for path in sorted(whole.rglob("*")) if path.is_file()]
    events = [path for path in files if path.parts[0] == schema.EVENTS]
    chosen.shuffle(events)  # files may come late
    for path in files:
        if path not in events:
            (tmp_path / "grown" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(whole / path, tmp_path / "grown" / path)
    made = {}
    while events:
        for path in [events.pop() for _ in range(min(3, len(events)))]:
            (tmp_path / "grown" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(whole / path, tmp_path / "grown" / path)
        made = report(tmp_path / "grown", tmp_path / "stored")
    assert made == report(whole, tmp_path / "at once")
    assert made["conservation"]["status"] == "balanced" and made["totals"]["published"] == 2 * 4 * 15


def test_hours_whose_files_are_the_same_are_not_read_again(
    tmp_path: Path, whole: Path, reads: Iterator[list[str]]
) -> None:
    read = next(reads)
    first = report(whole, tmp_path / "stored")
    assert len(read) == len(list((whole / schema.EVENTS).rglob("*.parquet")))
    read.clear()
    assert report(whole, tmp_path / "stored") == first and read == []
    (record,) = (tmp_path / "stored" / "hours").glob("*hour=06/record.json")
    record.write_text("{")
    assert report(whole, tmp_path / "stored") == first
    assert {path.split("/")[2] for path in read} == {"hour=06"}


def test_a_file_that_was_changed_or_removed_makes_its_hour_again(tmp_path: Path, whole: Path) -> None:
    report(whole, tmp_path / "stored")
    path = min((whole / schema.EVENTS).rglob("*hour=07/*.parquet"))
    path.unlink()
    made = report(whole, tmp_path / "stored")
    assert made == report(whole, tmp_path / "at once") and made["conservation"]["status"] == "imbalanced"


def test_a_file_that_cannot_be_read_is_named_in_each_run(tmp_path: Path, whole: Path) -> None:
    path = min((whole / schema.EVENTS).rglob("*hour=07/*.parquet"))
    data = bytearray(path.read_bytes())
    data[4:400] = bytes(396)  # a page; the footer is as it was
    path.write_bytes(data)
    for _ in range(2):
        made = report(whole, tmp_path / "stored")
        assert made["input"]["skipped_files"] == [str(path.relative_to(whole))]
        assert made["conservation"]["status"] == "imbalanced"
