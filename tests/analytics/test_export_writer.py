"""The writer: its files, their times, and records that cannot be written."""

import errno
import os
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warren.broker.amqp.framing import content_frames
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import Message as CoreMessage
from warren.broker.core.messages.message import RoutingAddress
from warren.plugins.message_log.export.manifest import Manifest
from warren.plugins.message_log.export.message_recorder import MessageRecorder
from warren.plugins.message_log.export.parquet_file import HashedFile
from warren.plugins.message_log.export.pipe_format import BATCH, HEAD, METRICS, SNAPSHOT
from warren.plugins.message_log.export.record_buffer import RecordBuffer
from warren.plugins.message_log.export.snapshots import ChangedQueues
from warren.plugins.message_log.export.writer import Task, Writer, frames
from warren.plugins.message_log.file_format import schema
from warren.plugins.message_log.file_format.arrow_schema import arrow_schema

from .exporting import NODE, empty_snapshot, origin, rows_of, task, whole_files


class Publishes:
    """A log with nothing but publishes, in batches for a writer."""

    def __init__(self) -> None:
        self.buffer = RecordBuffer(1 << 20, lambda: None)
        self.recording = MessageRecorder(self.buffer, 1, False, ChangedQueues())

    def task(self, folder: Path, **changed: Any) -> Task:
        return task(folder, self.recording.begun_ns, **changed)

    def written(self, folder: Path, count: int, **changed: Any) -> Writer:
        """Return a writer that has written a file of publishes."""
        writer = Writer(self.task(folder, **changed))
        writer.take(BATCH, self.batch(count))
        writer.finish()
        return writer

    def batch(self, count: int, **properties: Any) -> bytes:
        frames_ = content_frames(1, Properties(**properties).encode(), b"body")
        messages = [CoreMessage(RoutingAddress("", "q"), frames_, 1, 4, 0, False) for _ in range(count)]
        self.recording.publishing(origin(), messages, True, 0)
        self.recording.published(())
        return b"".join(self.buffer.take())


@pytest.fixture
def publishes() -> Publishes:
    return Publishes()


def test_a_reader_sees_a_file_when_it_is_whole_and_nothing_of_it_before(tmp_path: Path, publishes: Publishes) -> None:
    writer = Writer(publishes.task(tmp_path))
    writer.take(BATCH, publishes.batch(3))
    writer._write()
    assert whole_files(tmp_path) == [] and len(list(tmp_path.rglob(".part-*.tmp"))) == 1
    writer.finish()
    (path,) = whole_files(tmp_path)
    assert list(tmp_path.rglob(".part-*")) == [] and len(rows_of(tmp_path)) == 3
    first = rows_of(tmp_path)[0]["ts_us"]
    assert path.relative_to(tmp_path).as_posix() == (
        f"events/dt={first:%Y-%m-%d}/hour={first:%H}/{schema.file_name(NODE, 'b00f', 0)}"
    )


def test_a_writer_that_dies_leaves_nothing_that_a_reader_takes_for_a_file(tmp_path: Path, publishes: Publishes) -> None:
    aside = tmp_path / "events/dt=2026-11-22/hour=05" / f".{schema.file_name(NODE, 'dead', 0)}.tmp"
    aside.parent.mkdir(parents=True)
    aside.write_bytes(b"PAR1 and then no more")
    assert whole_files(tmp_path) == []
    Writer(publishes.task(tmp_path)).end()
    assert aside.exists(), "it may be one that is being written"
    os.utime(aside, (time.time() - 100_000,) * 2)
    Writer(publishes.task(tmp_path, node="other@host")).end()
    assert aside.exists(), "it is another node's"
    Writer(publishes.task(tmp_path)).end()
    assert not aside.exists()


def test_files_are_as_the_schema_says(tmp_path: Path, publishes: Publishes) -> None:
    writer = Writer(publishes.task(tmp_path))
    writer.take(BATCH, publishes.batch(1, message_id="m", headers=None))
    moment = {"ts_us": 1_790_000_000_000_000, "mono_ns": 5}
    metric = moment | {"name": "lag", "labels": [("a", "b")], "kind": "histogram", "value": 1.5, "buckets": [0, 2]}
    writer.take(METRICS, msgspec.json.encode([metric]))
    writer.take(SNAPSHOT, empty_snapshot(0, 0))
    writer.finish()
    for table in schema.TABLES:
        (path,) = whole_files(tmp_path, table)
        file = pq.ParquetFile(path)
        assert file.metadata.metadata[schema.SCHEMA_KEY.encode()] == str(schema.SCHEMA).encode()
        assert file.metadata.metadata[schema.LOST_KEY.encode()] == b"0"
        wanted = {field.name: field.type for field in arrow_schema(table)}
        for field in file.schema_arrow:
            plain = pa.string() if pa.types.is_dictionary(wanted[field.name]) else wanted[field.name]
            assert (pa.string() if pa.types.is_dictionary(field.type) else field.type) == plain
        missing = set(wanted) - set(file.schema_arrow.names)
        assert missing <= {column.name for column in schema.TABLES[table] if column.optional}
    (row,) = rows_of(tmp_path, schema.METRICS)
    assert (row["labels"], row["buckets"], row["value"]) == ([("a", "b")], [0, 2], 1.5)


def test_a_file_is_followed_by_the_next_when_it_is_large_enough(
    tmp_path: Path, publishes: Publishes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.plugins.message_log.export.writer.GROUP_ROWS", 10)
    writer = Writer(publishes.task(tmp_path, file_bytes=1))
    for _ in range(3):
        writer.take(BATCH, publishes.batch(10))
    assert [path.name[-14:] for path in whole_files(tmp_path)] == [f"{number:06}.parquet" for number in range(3)]
    assert [row["row"] for row in rows_of(tmp_path)] == list(range(30))


def test_a_file_is_finished_when_it_is_old_enough_or_its_hour_is_over(tmp_path: Path, publishes: Publishes) -> None:
    now = [time.time()]
    writer = Writer(publishes.task(tmp_path), now_s=lambda: now[0])
    writer.take(BATCH, publishes.batch(1))
    writer._write()
    assert writer._part is not None
    day, hour = writer._part.hour
    now[0] = datetime(day.year, day.month, day.day, hour, 30, tzinfo=UTC).timestamp()
    writer.look()
    assert whole_files(tmp_path) == []
    now[0] += 3600
    writer.look()
    assert len(whole_files(tmp_path)) == 1
    others = Publishes()
    old = Writer(others.task(tmp_path / "old", file_age_s=0))
    old.take(BATCH, others.batch(1))
    old.look()
    assert len(whole_files(tmp_path / "old")) == 1


def test_a_column_that_was_missing_from_a_file_begins_another(tmp_path: Path, publishes: Publishes) -> None:
    writer = Writer(publishes.task(tmp_path))
    for properties in ({}, {"message_id": "m"}, {}):
        writer.take(BATCH, publishes.batch(2, **properties))
        writer._write()
    writer.finish()
    assert ["message_id" in pq.ParquetFile(path).schema_arrow.names for path in whole_files(tmp_path)] == [False, True]
    assert [row["message_id"] for row in rows_of(tmp_path)] == [None, None, "m", "m", None, None]


def test_files_are_for_the_owner_and_the_group_alone(tmp_path: Path, publishes: Publishes) -> None:
    publishes.written(tmp_path, 1)
    assert {stat.S_IMODE(path.stat().st_mode) for path in whole_files(tmp_path)} == {0o640}


def test_what_cannot_be_written_is_counted_and_what_follows_is_written(
    tmp_path: Path, publishes: Publishes, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[dict[str, object]] = []
    monkeypatch.setattr(
        "warren.plugins.message_log.export.writer.report",
        lambda event, **fields: said.append({"event": event} | fields),
    )
    monkeypatch.setattr("warren.plugins.message_log.export.writer.RETRY_S", 0.0)
    (tmp_path / "events").write_text("no folder")
    writer = publishes.written(tmp_path, 5)
    assert writer.lost_rows == 5 and [line["records"] for line in said] == [5]
    (tmp_path / "events").unlink()
    writer.take(BATCH, publishes.batch(2))
    writer.finish()
    assert [row["row"] for row in rows_of(tmp_path)] == [5, 6]
    (path,) = whole_files(tmp_path)
    assert pq.ParquetFile(path).metadata.metadata[schema.LOST_KEY.encode()] == b"5"


def test_rows_of_a_file_that_readers_have_are_not_counted_as_lost(
    tmp_path: Path, publishes: Publishes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("warren.plugins.message_log.export.parquet_file.sync_folder", fail)
    writer = publishes.written(tmp_path, 5)
    assert len(rows_of(tmp_path)) == 5 and writer.lost_rows == 0


class Disk:
    """A disk on which `free_bytes` more can be written, by replacing what writes to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free_bytes = 1 << 40
        write, pwrite = HashedFile.write, os.pwrite
        monkeypatch.setattr(HashedFile, "write", lambda file, data: write(file, self._taken(data)))
        monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, self._taken(data), at))

    def _taken(self, data: Any) -> Any:
        if self.free_bytes < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.free_bytes -= len(data)
        return data


@pytest.mark.parametrize("free_bytes", [0, 1000, 6000])
def test_a_full_disk_loses_records_and_says_so_once_there_is_space(
    tmp_path: Path, publishes: Publishes, monkeypatch: pytest.MonkeyPatch, free_bytes: int
) -> None:
    disk = Disk(monkeypatch)
    monkeypatch.setattr("warren.plugins.message_log.export.writer.RETRY_S", 0.0)
    writer = Writer(publishes.task(tmp_path))
    writer.take(SNAPSHOT, empty_snapshot(0, 0, schema.START))
    disk.free_bytes = free_bytes
    for number in range(3):
        for _ in range(50):
            writer.take(BATCH, publishes.batch(10, message_id=str(number)))
            writer._write()
        writer.take(SNAPSHOT, empty_snapshot(1 + number, 500 * (number + 1)))
        writer.finish()
        writer.look()
    assert writer.lost_rows > 0
    disk.free_bytes = 1 << 40
    writer.look()
    writer.take(BATCH, publishes.batch(10))
    writer.take(SNAPSHOT, empty_snapshot(4, 1510, schema.STOP))
    writer.end()
    rows, stats = rows_of(tmp_path), sorted(rows_of(tmp_path, schema.QUEUE_STATS), key=lambda row: row["snapshot"])
    assert len(rows) + writer.lost_rows == 1510 and len({row["row"] for row in rows}) == len(rows)
    assert [row["snapshot"] for row in stats] == list(range(5)), "snapshots wait until they can be written"
    assert (stats[0]["lost_records"], stats[-1]["lost_records"]) == (0, writer.lost_rows)
    last = max(whole_files(tmp_path))
    assert pq.ParquetFile(last).metadata.metadata[schema.LOST_KEY.encode()] == b"%d" % writer.lost_rows
    listed = {line.path for line in Manifest(tmp_path, schema.manifest_name(NODE, "b00f")).finished_files()}
    there = {path.relative_to(tmp_path).as_posix() for table in schema.TABLES for path in whole_files(tmp_path, table)}
    assert listed == there and list(tmp_path.rglob(".*.tmp")) == []


def test_snapshots_that_cannot_be_written_for_long_take_bounded_memory(
    tmp_path: Path, publishes: Publishes, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.free_bytes = 0
    monkeypatch.setattr("warren.plugins.message_log.export.writer.KEPT_BYTES", 10_000)
    writer = Writer(publishes.task(tmp_path))
    writer.take(SNAPSHOT, empty_snapshot(0, 0, schema.START))
    for number in range(1, 1000):
        writer.take(SNAPSHOT, empty_snapshot(number, 0))
        writer.take(METRICS, msgspec.json.encode([{"ts_us": 1, "labels": []}]))
        assert writer._pending.memory_bytes <= 10_000
    assert writer._pending.frames[0].head.kind == schema.START
    assert writer._pending.frames[-1].head.number == 999


def test_a_writer_that_continues_a_boot_finds_what_is_in_files(tmp_path: Path, publishes: Publishes) -> None:
    first = Writer(publishes.task(tmp_path))
    first.take(SNAPSHOT, empty_snapshot(0, 0, schema.START))
    for _ in range(2):
        first.take(BATCH, publishes.batch(10))
        first.finish()
    first.take(BATCH, publishes.batch(10))
    first._write()
    assert first._part is not None
    first._state.close()  # it is killed
    first._part._file.abandoned = True
    first._part._file.close()
    (manifest,) = (tmp_path / schema.MANIFEST).iterdir()
    lines = manifest.read_bytes().splitlines(keepends=True)
    manifest.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # before it had added its last file
    second = Writer(publishes.task(tmp_path, continued=True))
    assert second.resume() == (20, True)
    assert manifest.read_bytes().splitlines(keepends=True)[-1] == lines[-1]
    assert list(tmp_path.rglob(".*.tmp")) == []
    publishes.buffer.resume(20)
    second.take(BATCH, publishes.batch(10))
    second.end()
    assert sorted(row["row"] for row in rows_of(tmp_path)) == [*range(20), *range(30, 40)]
    assert publishes.buffer.lost == 10
    last = max(whole_files(tmp_path))
    assert last.name == schema.file_name(NODE, "b00f", 2)
    assert pq.ParquetFile(last).metadata.metadata[schema.LOST_KEY.encode()] == b"10"


def test_a_boot_is_continued_after_all_its_files_are_gone_too(tmp_path: Path, publishes: Publishes) -> None:
    second = Writer(publishes.task(tmp_path, continued=True))
    assert second.resume() == (0, False)
    second.end()


def test_a_pipe_that_is_cut_gives_the_frames_that_are_whole() -> None:
    reading, writing = os.pipe()
    frame = HEAD.pack(BATCH, 3) + b"abc"
    os.write(writing, frame + frame + frame[:-1])
    os.close(writing)
    assert list(frames(reading)) == [(BATCH, b"abc"), (BATCH, b"abc")]
    os.close(reading)
