"""The stored facts of hours: a run over a log that has changed gives what one over the whole log does."""

import json
import random
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warren.plugins.message_log.analysis import ledger as module
from warren.plugins.message_log.analysis.boots import Known
from warren.plugins.message_log.analysis.engine import InProcess
from warren.plugins.message_log.analysis.ledger import make_ledger
from warren.plugins.message_log.analysis.report import make_report
from warren.plugins.message_log.file_format import schema
from warren.plugins.message_log.file_format.folder import Folder

from . import scenes
from .checking import report_of
from .log import START, Log


def write_hours(
    folder: Path, hours: int = 3, step_s: int = 3_600, nodes: tuple[str, ...] = ("rabbit@a", "rabbit@b")
) -> None:
    """Brokers over some hours, or longer times; each ends with messages that leave in the next one."""
    for node in nodes:
        log = Log(folder, node).begin("work", "slow")
        waiting: list[int] = []
        for hour in range(hours):
            for number in waiting:
                log.deliver(number, "slow")
                log.ack(number, "slow")
            for number in range(10):
                log.round_trip("work", routing_key=f"key.{number % 3}", message_id=f"{node}-{hour}-{number}")
            waiting = [log.publish("slow") for _ in range(5)]
            log.snapshot()
            log.write()
            log.now_us = (hour + 1) * step_s * 1_000_000
        log.stop()


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    write_hours(tmp_path / "whole")
    return tmp_path / "whole"


def report(folder: Path, stored: Path) -> dict[str, Any]:
    """The report, but for the name of its folder and what depends on the clock of this machine."""
    listed_us = int((START + timedelta(hours=5)).timestamp() * 1_000_000)
    ledger = make_ledger(InProcess(), Folder(str(folder)), Folder(str(stored)), known=Known(listed_us=listed_us))
    made: dict[str, Any] = json.loads(json.dumps(make_report(InProcess(), ledger).values))
    return made | {"input": made["input"] | {"folder": ""}}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files of events that were reduced."""
    found: list[str] = []
    reduce = module.facts_of_source

    def counted(*arguments: Any) -> Any:
        source = arguments[-1]
        found.append(source.stored or source.file.path)
        return reduce(*arguments)

    monkeypatch.setattr(module, "facts_of_source", counted)
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
        for path in [events.pop() for _ in range(min(6, len(events)))]:
            (tmp_path / "grown" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(whole / path, tmp_path / "grown" / path)
        made = report(tmp_path / "grown", tmp_path / "stored")
    assert made == report(whole, tmp_path / "at once")
    assert made["conservation"]["status"] == "balanced" and made["totals"]["published"] == 2 * 3 * 15


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


def test_facts_of_changed_bytes_do_not_outlive_them(tmp_path: Path, whole: Path) -> None:
    path = min((whole / schema.EVENTS).rglob("*hour=06/*.parquet"))
    sound = path.read_bytes()
    rows = pq.ParquetFile(path).read()
    names = ["drop" if name == "ack" else name for name in rows["event"].to_pylist()]
    place = rows.schema.get_field_index("event")
    pq.write_table(rows.set_column(place, rows.schema.field(place), pa.array(names).dictionary_encode()), path)
    assert report(whole, tmp_path / "stored")["conservation"]["status"] == "imbalanced"
    path.write_bytes(sound)
    assert report(whole, tmp_path / "stored")["conservation"]["status"] == "balanced"


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_stored_facts_that_are_damaged_are_made_again(tmp_path: Path, whole: Path, damage: str) -> None:
    first = report(whole, tmp_path / "stored")
    (path,) = (tmp_path / "stored" / "hours").glob("*hour=07/00.parquet")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    if damage != "gone":
        path.write_bytes(data if damage == "flipped" else data[: len(data) // 2])
    assert report(whole, tmp_path / "stored") == first


def test_a_run_that_was_killed_leaves_no_record_of_files_that_it_replaced(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = min((whole / schema.EVENTS).rglob("*hour=07/*.parquet"))
    data = late.read_bytes()
    late.unlink()
    without = report(whole, tmp_path / "stored")
    late.write_bytes(data)
    monkeypatch.setattr(module.store, "save", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report(whole, tmp_path / "stored")
    monkeypatch.undo()
    late.unlink()
    assert report(whole, tmp_path / "stored") == without


def test_a_file_of_no_manifest_is_known_by_its_bytes(tmp_path: Path, whole: Path) -> None:
    shutil.rmtree(whole / schema.MANIFEST)
    for path in (whole / schema.EVENTS).rglob("*.parquet"):
        pq.write_table(pq.ParquetFile(path).read(), path, compression="none")
    assert report(whole, tmp_path / "stored")["conservation"]["status"] == "incomplete"
    path = min((whole / schema.EVENTS).rglob("*hour=06/*.parquet"))
    path.write_bytes(path.read_bytes().replace(b"work", b"wirk"))
    assert report(whole, tmp_path / "stored")["conservation"]["status"] == "imbalanced"


def test_files_that_are_removed_during_a_run_are_listed_anew(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retention removes all files of snapshots of an hour once they were read the first time."""
    removed = [path for table in schema.TABLES for path in (whole / table).rglob("*hour=05/*.parquet")]
    reading = module.edge_rows

    def vanish(*arguments: Any) -> Any:
        monkeypatch.setattr(module, "edge_rows", reading)
        for path in removed:
            (manifest,) = (whole / schema.MANIFEST).glob(f"{schema.boot_key(path.name)}.jsonl")
            line = {"removed": path.relative_to(whole).as_posix(), "reason": "retention"}
            manifest.write_text(f"{manifest.read_text()}{json.dumps(line)}\n")
            path.unlink()
        return reading(*arguments)

    monkeypatch.setattr(module, "edge_rows", vanish)
    made = report_of(whole, tmp_path / "report")
    assert made["conservation"]["imbalance_count"] == 0 and made["input"]["skipped"] == {}


def test_hours_of_earlier_days_become_days_and_facts_of_removed_files_are_removed(
    tmp_path: Path, reads: Iterator[list[str]]
) -> None:
    read = next(reads)
    whole, grown, stored = (tmp_path / name for name in ("whole", "grown", "stored"))
    write_hours(whole, 4, 24 * 3_600, ("rabbit@a",))
    shutil.copytree(whole, grown)
    newest = sorted((grown / schema.EVENTS).rglob("*.parquet"), key=lambda path: path.parent)[-3:]
    held = {path: path.read_bytes() for path in newest}
    for path in held:
        path.unlink()
    report(grown, stored)
    assert all(path.name.startswith("dt=") for path in (stored / "hours").iterdir())
    read.clear()
    for path, data in held.items():
        path.write_bytes(data)
    made = report(grown, stored)
    days = {path.name for path in (stored / "hours").iterdir() if path.name.startswith("day=")}
    assert days == {"day=2026-11-22", "day=2026-11-23"}
    merged = {path for path in read if not path.startswith(schema.EVENTS)}
    assert set(read) - merged == {str(path.relative_to(grown)) for path in held}
    assert merged == {"hours/dt=2026-11-22-hour=05/00.parquet"}
    assert made == report(whole, tmp_path / "at once")
    read.clear()
    assert report(grown, stored) == made and read == []
    shutil.rmtree(grown / schema.EVENTS / "dt=2026-11-22")
    removed = report(grown, stored)
    assert "day=2026-11-22" not in {path.name for path in (stored / "hours").iterdir()}
    assert removed["totals"]["published"] == made["totals"]["published"] - 15


@pytest.mark.rest("many runs")
def test_a_log_that_is_divided_into_slices_is_reported_as_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenes.well(tmp_path / "log")
    scenes.damaged(tmp_path / "log")
    whole = report_of(tmp_path / "log", tmp_path / "whole")
    monkeypatch.setattr(module.store, "SLICE_BYTES", 150_000)
    assert report_of(tmp_path / "log", tmp_path / "divided") == whole


def test_a_file_that_is_reduced_in_parts_is_reported_as_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenes.well(tmp_path / "log")
    whole = report_of(tmp_path / "log", tmp_path / "whole")
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(module.store, "SLICE_BYTES", 150_000)
    assert report_of(tmp_path / "log", tmp_path / "divided") == whole
