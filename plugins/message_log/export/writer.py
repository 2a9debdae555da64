"""The writer process: writes the records from the broker's pipe (`pipe_format`) to files, and ends with the pipe.

It is a process of its own so that Parquet burdens neither the broker's loop nor its memory, and so that the records of
a killed broker still end in complete files. It reports to the broker's log on its standard output, in lines of JSON.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from warren.broker.core.messages.journal_port import Recovery

from ..file_format import schema
from ..file_format.arrow_schema import arrow_schema
from .arrow_columns import Batches, Boot
from .boot_files import next_sequences, remove_unfinished, unlisted_files
from .manifest import FinishedFile, Manifest
from .node_state import NodeState
from .parquet_file import Part
from .pipe_format import BATCH, BOOT, GROUP_ROWS, HEAD, METRICS, NODE_TAKEN, NOT_WRITTEN, READY, SNAPSHOT, STARTED
from .retention import Retention
from .snapshot_columns import Frame, Link, columns

READ_BYTES = 1 << 20
NICE = 10  # if processors are busy, the broker and its clients come first; its buffer holds the records meanwhile
LOOK_S = 1.0  # the time between two checks of the files' age
SWEEP_S = 3600.0  # the time between two sweeps of the retention
RETRY_S = 10.0  # the time between two attempts to write snapshots and metrics, and two reports of a full disk
LOCK_LOOK_S = 0.1  # the time between two attempts to lock the node's state at the end
LOCK_WAIT_S = 10.0  # the time for a killed broker's writer to finish its files; then its state is read without the lock
# Sizes of snapshots and metrics in memory: they are written from the first on, and the oldest dropped from the second.
PENDING_BYTES, KEPT_BYTES = 8 << 20, 32 << 20
UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # only Linux has the former
METRIC_BYTES = 500  # approximate memory for a row of metrics
STATE = "state"  # of a node, and manifests


class Task(Boot, frozen=True):
    """The first frame: the node, the folder of its files, and their limits.

    `resumed` is true if the messages at its start are not those that the boot before had stored, for example because
    the process has exported before. `continued` is true if an earlier writer of this boot has ended. `vhosts` are the
    exported virtual hosts, if not all. `recovery` is the state of the store's log at the start, or None. `exported` is
    the boot that exported last by the broker's data folder, and a time of it, or None.
    """

    directory: str
    file_bytes: int
    file_age_s: int
    retention_days: int | None
    resumed: bool = False
    continued: bool = False
    vhosts: tuple[str, ...] = ()
    recovery: Recovery | None = None
    exported: tuple[str, int] | None = None


class Pending:
    """Snapshots and metrics that are not written yet. `since_s` is the time of the oldest on the monotonic clock."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.metrics: list[dict[str, Any]] = []
        self.since_s = 0.0
        self.dropped = 0
        self._frames_bytes = 0

    @property
    def memory_bytes(self) -> int:
        return self._frames_bytes + METRIC_BYTES * len(self.metrics)

    def add_frame(self, frame: Frame) -> None:
        self._begin()
        self.frames.append(frame)
        self._frames_bytes += frame.memory_bytes
        self._limit()

    def add_metrics(self, rows: list[dict[str, Any]]) -> None:
        self._begin()
        self.metrics += rows
        self._limit()

    def clear_frames(self) -> None:
        self.frames, self._frames_bytes = [], 0

    def clear_metrics(self) -> None:
        self.metrics = []

    def _begin(self) -> None:
        if not self.frames and not self.metrics:
            self.since_s = time.monotonic()

    def _limit(self) -> None:
        """Drop the oldest ones, except the first snapshot, if there are too many."""
        if self.memory_bytes <= KEPT_BYTES:
            return
        self.dropped += 1
        del self.metrics[: len(self.metrics) // 2]
        starting = [frame for frame in self.frames if frame.head.kind == schema.START]
        others = [frame for frame in self.frames if frame.head.kind != schema.START]
        self.frames = starting + others[len(others) // 2 :]
        self._frames_bytes = sum(frame.memory_bytes for frame in self.frames)


class Writer:
    """The writer of tables to files. It raises no OSError: rows that cannot be written are counted and reported.

    `clock_s` is a clock without jumps, which also counts the time in which the machine sleeps.
    """

    def __init__(
        self,
        task: Task,
        now_s: Callable[[], float] = lambda: time.time(),
        clock_s: Callable[[], float] = lambda: time.clock_gettime(UPTIME),
    ) -> None:
        self.lost_rows = 0
        self.task = task
        self._now_s = now_s
        self._clock_s = clock_s
        self._folder = Path(task.directory)
        self._batches = Batches(task)
        self._part: Part | None = None
        self._used: set[str] = set()  # columns of events that had a value since the start
        self._pending = Pending()
        self._retry_s = 0.0
        self._begun_s = time.monotonic()
        self._sequences = dict.fromkeys(schema.TABLES, 0)
        self._manifest = Manifest(self._folder, schema.manifest_name(task.node, task.boot_id))
        self._state = NodeState(self._folder, task.node, task.boot_id, task.vhosts)
        self._retention = Retention(self._folder, task.node, task.retention_days, self._state, self._manifest)
        self._sweep_s = self._sweep_unfinished_s = 0.0
        self._clock_at_lock_s = self._exported_at_lock_s = 0.0
        self._faults = Faults()
        self._starting = False  # the first snapshot waits to be written
        self._linked = False  # the boot before this one is known, or that there is none
        self.look()

    def resume(self) -> tuple[int, bool]:
        """Continue a boot whose writer has ended. Raises OSError.

        Returns the number of events in files, and whether the first snapshot is in one.
        """
        node, boot_id = self.task.node, self.task.boot_id
        remove_unfinished(self._folder, node, boot_id)
        self._add_to_manifest(*unlisted_files(self._folder, node, boot_id, self._manifest))
        files = self._manifest.all_files()
        self._sequences = next_sequences(files)
        started = any(file.table == schema.QUEUE_STATS for file in files)
        return sum(file.rows for file in files if file.table == schema.EVENTS), started

    def take(self, what: int, payload: bytes) -> None:
        """Handle a frame."""
        if what == BATCH:
            if Batches.begins_anew(payload):
                self._write()
            self._batches.add(payload)
            self._state.reached(self._batches.next_row, self._batches.last_us, self._batches.stored)
            if self._batches.rows >= GROUP_ROWS:
                self._write()
        elif what == METRICS:
            self._pending.add_metrics(msgspec.json.decode(payload))
        else:
            assert what == SNAPSHOT
            self._take_snapshot(Frame(payload))
        if self._pending.memory_bytes >= PENDING_BYTES and self._linked and time.monotonic() >= self._retry_s:
            self.finish()

    def _take_snapshot(self, frame: Frame) -> None:
        self._pending.add_frame(frame)
        self._state.reached(frame.head.row, frame.head.ts_us, frame.head.durable_batch)
        if frame.closing and frame.head.kind == schema.START:
            self._starting = True
            self.look()  # the link to the boot before is written at once

    def look(self) -> None:
        """Finish files that are old enough, store the state, and sweep the retention."""
        self._save()
        if self._starting and self._linked:
            self.finish()
        part, pending, age_s, now_s = self._part, self._pending, self.task.file_age_s, time.monotonic()
        now = datetime.fromtimestamp(self._now_s(), UTC)
        events_due = part is not None and (now_s - part.begun_s >= age_s or part.hour != (now.date(), now.hour))
        events_due = events_due or bool(self._batches.rows) and now_s - self._batches.since_s >= age_s
        others_due = now_s >= self._retry_s > 0 or now_s - pending.since_s >= age_s
        if events_due or pending.memory_bytes and others_due and now_s >= self._retry_s:
            self.finish()
        if self._state.locked and now_s >= self._sweep_s:
            self._sweep(now, now_s)
        self._faults.look()

    def finish(self) -> None:
        """Write and finish all files: the events before the snapshots that count them."""
        self._write()
        self._close()
        self._finish_pending()

    def end(self) -> None:
        """Finish all files, after the last frame and once `lock` returns true."""
        self._retry_s = 0.0
        self.finish()
        self._state.boot.ended = True
        self._save()
        self._faults.report()
        self._state.close()

    # The state of the node

    def lock(self) -> bool:
        """Lock the node's state, which links this boot to the one before. Returns whether the link is final.

        It is final if the writer of the boot before has finished its files, or has had enough time for it.
        """
        if self._state.locked:
            return True
        taken = False
        try:
            taken = not self._state.lock()
            if not taken:
                self._linked = True
                self._clock_at_lock_s, self._exported_at_lock_s = self._clock_s(), self._state.exported_s
                self._list_previous()
        except OSError as error:
            self._faults.add(error)
        if not self._linked and time.monotonic() - self._begun_s >= LOCK_WAIT_S:
            self._state.read()
            self._linked = True
            if taken:
                reason = "another broker of this name exports to this folder, or the writer of the last one goes on"
                report(NODE_TAKEN, node=self.task.node, directory=self.task.directory, reason=reason)
        return self._linked

    def _list_previous(self) -> None:
        """Add the files to the manifest of the boot before that its killed writer did not add. Raises OSError."""
        previous, node = self._state.previous, self.task.node
        if previous is not None:
            manifest = Manifest(self._folder, schema.manifest_name(node, previous.boot_id))
            unlisted = unlisted_files(self._folder, node, previous.boot_id, manifest)
            if len(unlisted) <= len(schema.TABLES):  # more cannot be explained by that
                manifest.add(*unlisted)

    def _exported_s(self) -> float:
        """Return the time for which writers of this node have run, in seconds."""
        return self._exported_at_lock_s + self._clock_s() - self._clock_at_lock_s

    def _save(self, durable: bool = False) -> None:
        """Store the state of this boot, and the waiting lines of the manifest."""
        self.lock()
        try:
            self._manifest.flush()
            if self._state.locked:
                self._state.exported_s = self._exported_s()
                self._state.boot.lost = self._batches.lost + self.lost_rows
                self._state.save(durable)
        except OSError as error:
            self._faults.add(error)

    def _add_to_manifest(self, *entries: FinishedFile) -> None:
        try:
            self._manifest.add(*entries)
        except OSError as error:  # it is written later
            self._faults.add(error)

    def _sweep(self, now: datetime, now_s: float) -> None:
        try:
            if now_s >= self._sweep_unfinished_s:
                self._sweep_unfinished_s = now_s + SWEEP_S
                self._retention.sweep_unfinished(now.timestamp())
            again = self._retention.sweep(now.date(), self._exported_s())
        except OSError as error:
            again = False
            self._faults.add(error)
        self._sweep_s = now_s if again else now_s + SWEEP_S  # one day at a time

    # Files

    def _write(self) -> None:
        """Write the received records as a group of rows."""
        if not self._batches.rows:
            return
        columns = self._batches.take()
        self._used |= columns.keys()
        if self._part is not None and not columns.keys() <= self._part.names:
            self._close()
        try:
            if self._part is None:
                first_us = pc.min(columns["ts_us"].cast(pa.int64())).as_py()
                unused = {column.name for column in schema.EVENT_COLUMNS if column.optional} - self._used
                self._part = self._open(schema.EVENTS, arrow_schema(schema.EVENTS, unused), first_us)
            self._part.write(columns)
        except OSError as error:
            self._failed(error, len(columns["schema"]))
            return
        if self._part.written_bytes >= self.task.file_bytes:
            self._close()

    def _close(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        try:
            self._finish(part)
        except OSError as error:
            self._part = part
            self._failed(error, 0)

    def _failed(self, error: OSError, rows: int) -> None:
        """Abandon a file that cannot be written, for example because the disk is full; the next one may succeed."""
        part, self._part = self._part, None
        if part is not None:
            rows += part.rows
            part.abandon()
        self.lost_rows += rows
        self._faults.add(error, schema.EVENTS, rows)

    def _open(self, table: str, target: pa.Schema, first_us: int) -> Part:
        name = schema.file_name(self.task.node, self.task.boot_id, self._sequences[table])
        part = Part(self._folder, table, name, self._described(target), first_us)
        self._sequences[table] += 1
        return part

    def _described(self, target: pa.Schema) -> pa.Schema:
        return target.with_metadata({**(target.metadata or {}), schema.NODE_KEY: self.task.node})

    def _finish(self, part: Part) -> None:
        """Finish a file. Raises OSError."""
        entry = part.finish(self._batches.lost + self.lost_rows, self.task.file_age_s)
        if self._state.locked:
            self._state.days[part.hour[0].isoformat()] = self._exported_s()
        self._add_to_manifest(entry)
        self._save(durable=True)

    def _finish_pending(self) -> None:
        """Write a file of snapshots and one of metrics. After a fault they are kept for later."""
        pending = self._pending
        if time.monotonic() < self._retry_s:
            return
        # Whether there was a boot before this one must be known before the first snapshot is written.
        if pending.frames and self.lock():
            self._starting = False
            if self._write_small(schema.QUEUE_STATS, pending.frames[0].head.ts_us, self._snapshots):
                if pending.frames[0].head.kind == schema.START:
                    report(STARTED)
                pending.clear_frames()
        if pending.metrics and self._write_small(schema.METRICS, pending.metrics[0]["ts_us"], self._metrics):
            pending.clear_metrics()

    def _write_small(self, table: str, first_us: int, make: Callable[[], dict[str, pa.Array]]) -> bool:
        part: Part | None = None
        try:
            part = self._open(table, arrow_schema(table), first_us)
            part.write(make())
            self._finish(part)
            self._retry_s = 0.0
        except OSError as error:
            if part is not None:
                part.abandon()
            self._retry_s = time.monotonic() + RETRY_S
            self._faults.add(error, table)
            return False
        return True

    def _snapshots(self) -> dict[str, pa.Array]:
        task, previous = self.task, self._state.previous
        store = *(task.recovery or (None,) * 4), *(task.exported or (None,) * 2)
        link = Link(None, None, None, task.retention_days, None, None, *store)
        if previous is not None:
            comparable = previous.vhosts == task.vhosts and not task.resumed
            before = previous.boot_id, previous.row, previous.at_us, task.retention_days, comparable, previous.batch
            link = Link(*before, *store)
        return columns(self._pending.frames, (task.node, task.boot_id), self.lost_rows, link)

    def _metrics(self) -> dict[str, pa.Array]:
        common = {"schema": schema.SCHEMA, "node": self.task.node, "boot_id": self.task.boot_id}
        rows = [common | row | {"labels": [tuple(pair) for pair in row["labels"]]} for row in self._pending.metrics]
        filled = pa.Table.from_pylist(rows, schema=arrow_schema(schema.METRICS))  # JSON has only lists
        return {name: filled[name] for name in filled.column_names}


class Faults:
    """The faults of writing, reported when they begin and then every RETRY_S, not for each group of rows."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}  # by table, or STATE
        self._records = 0
        self._next_s = 0.0

    def add(self, error: OSError, table: str = STATE, records: int = 0) -> None:
        """Add a fault of a table, by which events were lost, or of the state and the manifest."""
        self._reasons[table] = error.strerror or str(error)
        self._records += records
        self.look()

    def look(self) -> None:
        if self._reasons and time.monotonic() >= self._next_s:
            self.report()

    def report(self) -> None:
        if not self._reasons:
            return
        reasons = sorted(set(self._reasons.values()))
        report(NOT_WRITTEN, reason=", ".join(reasons), of=sorted(self._reasons), records=self._records)
        self._reasons, self._records, self._next_s = {}, 0, time.monotonic() + RETRY_S


def report(event: str, **fields: object) -> None:
    """Report an event to the broker, for its log."""
    try:
        os.write(sys.stdout.fileno(), msgspec.json.encode({"event": event} | fields) + b"\n")
    except OSError:
        pass  # the broker has ended


def take_frames(gathered: bytearray) -> Iterator[tuple[int, bytes]]:
    """Take the complete frames from the beginning of what was received."""
    while len(gathered) >= HEAD.size:
        what, length = HEAD.unpack_from(gathered)
        end = HEAD.size + length
        if len(gathered) < end:
            return
        frame = bytes(gathered[HEAD.size : end])
        del gathered[:end]
        yield what, frame


def frames(pipe: int) -> Iterator[tuple[int, bytes] | None]:
    """Yield frames until the pipe ends, and None whenever nothing is received for LOOK_S."""
    gathered = bytearray()
    while True:
        yield from take_frames(gathered)
        if not select.select([pipe], [], [], LOOK_S)[0]:
            yield None
            continue
        received = os.read(pipe, READ_BYTES)
        if not received:
            return  # an incomplete frame is dropped
        gathered += received


def begin(what: int, payload: bytes) -> Writer:
    """Return the writer of a boot, by its first frame, after it has reported that it is ready. Raises OSError."""
    assert what == BOOT
    writer = Writer(msgspec.json.decode(payload, type=Task))
    written, started = writer.resume() if writer.task.continued else (0, False)
    report(READY, written=written, started=started)
    return writer


def main() -> None:
    # A signal to the broker may go to its whole process group; the writer ends with the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICE)
    incoming = frames(sys.stdin.fileno())
    first = next((frame for frame in incoming if frame is not None), None)
    if first is None:
        return
    writer = begin(*first)
    looked_s = time.monotonic()
    for frame in incoming:
        if frame is not None:
            writer.take(*frame)
        if frame is None or time.monotonic() - looked_s >= LOOK_S:
            looked_s = time.monotonic()
            writer.look()
    while not writer.lock():
        time.sleep(LOCK_LOOK_S)
    writer.end()


if __name__ == "__main__":
    main()
