"""The retention: the files that a node deletes, and that no wrong clock makes it delete others."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from warren.plugins.message_log.export.parquet_file import HashedFile
from warren.plugins.message_log.export.pipe_format import SNAPSHOT
from warren.plugins.message_log.export.writer import Writer
from warren.plugins.message_log.file_format import schema

from .exporting import NODE, empty_snapshot, rows_of, task, whole_files

TODAY = datetime(2026, 11, 22, 5, tzinfo=UTC)
DAY_S = 86_400
KEPT = 14


class Clocks:
    """The wall clock, and a clock without jumps."""

    def __init__(self) -> None:
        self.now = TODAY
        self.jump = timedelta(0)
        self.since_s = 0.0

    def advance(self, days: float) -> None:
        self.now += timedelta(days)
        self.since_s += days * DAY_S

    @property
    def wall(self) -> datetime:
        return self.now + self.jump

    def writer(self, folder: Path, boot_id: str = "b1", node: str = NODE, retention_days: int | None = KEPT) -> Writer:
        given = task(folder, 0, boot_id=boot_id, node=node, retention_days=retention_days)
        return Writer(given, lambda: self.wall.timestamp(), lambda: self.since_s)

    def export(self, writer: Writer, number: int = 1) -> None:
        """Make a file of this day."""
        writer.take(SNAPSHOT, empty_snapshot(number, 0, at_us=int(self.wall.timestamp() * 1_000_000)))
        writer.finish()
        self.sweep(writer)

    def sweep(self, writer: Writer) -> None:
        """Sweep as often as there is something to do."""
        for _ in range(100):
            writer._sweep_s = 0.0
            writer.look()


def days(folder: Path) -> list[date]:
    """Return the days that have files."""
    names = {path.parent.parent.name for table in schema.TABLES for path in whole_files(folder, table)}
    return sorted(date.fromisoformat(name.removeprefix("dt=")) for name in names)


def removed(folder: Path) -> list[str]:
    """Return the paths of all lines about removed files."""
    lines = [line for path in (folder / schema.MANIFEST).iterdir() for line in path.read_bytes().splitlines()]
    decoded = [msgspec.json.decode(line) for line in lines]
    assert all(line["reason"] == schema.RETENTION for line in decoded if "removed" in line)
    return [line["removed"] for line in decoded if "removed" in line]


def run_days(clocks: Clocks, folder: Path, count: int, boot_id: str = "b1") -> Writer:
    """Export a file on each of some days."""
    writer = clocks.writer(folder, boot_id)
    for number in range(count):
        clocks.export(writer, number)
        clocks.advance(1)
    return writer


def test_days_beyond_the_retention_are_deleted_and_noted(tmp_path: Path) -> None:
    clocks = Clocks()
    before = whole_files(tmp_path, schema.QUEUE_STATS)
    writer = run_days(clocks, tmp_path, 20)
    clocks.sweep(writer)
    last = (clocks.now - timedelta(1)).date()
    kept = days(tmp_path)
    assert kept == [last - timedelta(number) for number in reversed(range(KEPT))]
    assert before == [] and len(removed(tmp_path)) == 20 - KEPT
    assert not any((tmp_path / path).exists() for path in removed(tmp_path))
    writer.end()


def test_days_are_counted_across_restarts(tmp_path: Path) -> None:
    clocks = Clocks()
    for number in range(20):
        run_days(clocks, tmp_path, 1, f"b{number}").end()
    writer = clocks.writer(tmp_path, "last")
    clocks.sweep(writer)
    assert len(days(tmp_path)) == KEPT
    names = {path.name for path in (tmp_path / schema.MANIFEST).iterdir()}
    assert schema.manifest_name(NODE, "b0") not in names and schema.manifest_name(NODE, "b19") in names
    writer.end()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_jumps_ahead_deletes_nothing(tmp_path: Path, restarted: bool) -> None:
    clocks = Clocks()
    writer = run_days(clocks, tmp_path, 5)
    whole = days(tmp_path)
    clocks.jump = timedelta(20)
    if restarted:
        writer.end()
        writer = clocks.writer(tmp_path, "b2")
    clocks.export(writer, 5)
    clocks.advance(2)
    clocks.export(writer, 6)
    assert set(whole) < set(days(tmp_path)) and removed(tmp_path) == []
    clocks.jump = timedelta(0)
    clocks.export(writer, 7)
    assert set(whole) < set(days(tmp_path)) and removed(tmp_path) == []
    writer.end()


def test_a_clock_that_was_wrong_at_first_deletes_nothing_too_early(tmp_path: Path) -> None:
    clocks = Clocks()
    clocks.jump = timedelta(-1000)  # a machine without a battery
    writer = run_days(clocks, tmp_path, 2)
    first = days(tmp_path)
    clocks.jump = timedelta(0)
    for number in range(2, KEPT):
        clocks.export(writer, number)
        clocks.advance(1)
    assert set(first) < set(days(tmp_path))
    clocks.advance(2)
    clocks.export(writer, 100)
    assert not set(first) & set(days(tmp_path))
    writer.end()


def test_a_clock_that_jumps_back_deletes_nothing(tmp_path: Path) -> None:
    clocks = Clocks()
    writer = run_days(clocks, tmp_path, 5)
    whole = days(tmp_path)
    clocks.jump = timedelta(-400)
    clocks.export(writer, 5)
    clocks.advance(1)
    clocks.export(writer, 6)
    assert set(whole) < set(days(tmp_path)) and removed(tmp_path) == []
    writer.end()


def test_files_of_an_earlier_version_are_kept_from_the_day_on_on_which_they_are_found(tmp_path: Path) -> None:
    old = tmp_path / "events/dt=2026-01-01/hour=05" / schema.file_name(NODE, "b0", 0)
    other = tmp_path / "events/dt=strange/hour=05" / schema.file_name(NODE, "b0", 1)
    for path in (old, other):
        path.parent.mkdir(parents=True)
        path.touch()
    clocks = Clocks()
    writer = run_days(clocks, tmp_path, KEPT)
    assert old.exists()
    clocks.advance(1)
    clocks.sweep(writer)
    assert not old.exists() and not old.parent.parent.exists() and other.exists()
    writer.end()


def test_for_ever_is_for_ever(tmp_path: Path) -> None:
    clocks = Clocks()
    writer = clocks.writer(tmp_path, retention_days=None)
    for number in range(3):
        clocks.export(writer, number)
        clocks.advance(1000)
    clocks.sweep(writer)
    assert len(days(tmp_path)) == 3
    writer.end()


@pytest.mark.parametrize("other", ["other@b", "a@my_host", "a@my-host-b1"])
def test_files_of_other_nodes_in_the_same_folder_are_theirs_to_delete(tmp_path: Path, other: str) -> None:
    clocks = Clocks()
    nodes = {node: clocks.writer(tmp_path, boot_id, node) for node, boot_id in (("a@my-host", "b1"), (other, "b2"))}
    for writer in nodes.values():
        clocks.export(writer)
    nodes[other].end()
    clocks.advance(2 * KEPT)
    clocks.sweep(nodes["a@my-host"])
    assert {row["node"] for row in rows_of(tmp_path, schema.QUEUE_STATS)} == {other}
    manifests = {path.name for path in (tmp_path / schema.MANIFEST).iterdir()}
    assert schema.manifest_name(other, "b2") in manifests
    nodes["a@my-host"].end()


def test_an_unfinished_file_is_deleted_only_if_no_writer_has_it(tmp_path: Path) -> None:
    clocks = Clocks()
    path = tmp_path / "events/dt=2026-11-22/hour=05" / f".{schema.file_name(NODE, 'b0', 0)}.tmp"
    path.parent.mkdir(parents=True)
    file = HashedFile(path)
    clocks.jump = timedelta(1000)  # so the file is old
    for held in (True, False):
        if not held:
            file.close()
        writer = clocks.writer(tmp_path)
        assert path.exists() == held
        writer.end()
