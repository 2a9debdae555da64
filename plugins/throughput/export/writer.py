"""The writer process: writes what it reads from the broker's pipe (`pipe_format`) to files, and ends with the pipe.

It is a process of its own so that Parquet burdens neither the broker's loop nor its memory, and so that the records of
a killed broker still end in complete files. It reports to the broker's log on its standard output, in lines of JSON.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format import schema
from .arrow_columns import Batches, Boot, arrow_schema
from .manifest import FinishedFile, Manifest, RemovedFile
from .node_state import NodeState
from .parquet_file import Part
from .pipe_format import BOOT, HEAD, ROWS

GROUP_ROWS = 1 << 18  # rows that are sorted and written together, which takes some 50 MB of memory
READ_BYTES = 1 << 20
NICE = 10  # if processors are busy, the broker and its clients come first; its buffer holds the records meanwhile
LOOK_S = 1.0  # between two checks of the files' age
STALE_S = 86_400  # the age from which on an unfinished file is abandoned
LOCK_LOOK_S = 0.1  # between two looks at the lock of the node's state at the end
LOCK_WAIT_S = 10.0  # for the writer of a killed broker to finish its files, before its state is read all the same
SMALL_TABLES = (schema.QUEUE_STATS, schema.METRICS)


class Task(Boot, frozen=True):
    """The first frame: the node, the folder of its files, and their limits."""

    directory: str
    file_bytes: int
    file_age_s: int
    retention_days: int | None
    resumed: bool = False  # the process has exported before
    vhosts: tuple[str, ...] = ()


class Writer:
    """The writer of tables to files. It raises no OSError: rows that cannot be written are counted and reported."""

    def __init__(self, task: Task, now_s: Any = time.time) -> None:
        self.lost_rows = 0
        self._task = task
        self._now_s = now_s
        self._folder = Path(task.directory)
        self._batches = Batches(task)
        self._part: Part | None = None
        self._used: set[str] = set()  # columns of events that had a value since the start
        self._rows: dict[str, list[dict[str, Any]]] = {table: [] for table in SMALL_TABLES}
        self._rows_since_s = self._begun_s = time.monotonic()
        self._sequences = dict.fromkeys(schema.TABLES, 0)
        self._swept: date | None = None
        self._manifest = Manifest(self._folder, schema.manifest_name(task.node, task.boot_id))
        self._state = NodeState(self._folder, task.node, task.boot_id, task.vhosts)
        self._state_fault = ""  # the last one that was reported
        self._starting = False  # the first snapshot waits to be written
        self._linked = False  # the boot before this one is known, or that there is none
        self.look()

    def take(self, what: int, payload: bytes) -> None:
        """Handle a frame."""
        if what == ROWS:
            table, rows = msgspec.json.decode(payload)
            self._rows[table] += rows
            if table == schema.QUEUE_STATS:
                self._state.reached(rows[-1]["row"], rows[-1]["ts_us"])
                if rows[-1]["kind"] == schema.START and "queues" in rows[-1]:
                    self._starting = True
                    self.look()  # the link to the boot before does not wait for the age of a file
            return
        if Batches.begins_anew(payload):
            self._write()
        self._batches.add(payload)
        self._state.reached(self._batches.next_row, self._batches.last_us)
        if self._batches.rows >= GROUP_ROWS:
            self._write()

    def look(self) -> None:
        """Finish files that are old enough, store the state, and delete days beyond the retention."""
        self._save()
        if self._starting and self._linked:
            self._starting = False
            self._finish_rows(schema.QUEUE_STATS)
        part, age_s = self._part, self._task.file_age_s
        now = datetime.fromtimestamp(self._now_s(), UTC)
        oldest_s = part.begun_s if part is not None else self._rows_since_s
        if time.monotonic() - oldest_s >= age_s or part is not None and part.hour != (now.date(), now.hour):
            self.finish()
        if self._swept != now.date():
            self._swept = now.date()
            self._sweep(now.date())

    def finish(self) -> None:
        """Write all that was received, and finish the files."""
        self._write()
        self._close()
        for table in self._rows:
            self._finish_rows(table)
        self._rows_since_s = time.monotonic()

    def end(self) -> None:
        """Finish all files, after the last frame."""
        while not self._lock() and time.monotonic() - self._begun_s < LOCK_WAIT_S:
            time.sleep(LOCK_LOOK_S)
        self.finish()
        self._save()
        self._state.close()

    # The state of the node

    def _lock(self) -> bool:
        """Lock the node's state, which links this boot to the one before. Returns whether no more is to be expected."""
        try:
            self._linked = self._state.lock() or self._linked
        except OSError as error:
            self._report_state(error)
        if not self._linked and time.monotonic() - self._begun_s >= LOCK_WAIT_S:
            self._state.read()
            self._linked = True
        return self._linked

    def _save(self, durable: bool = False) -> None:
        """Store what is known of this boot, and lines of the manifest that could not be written before."""
        self._lock()
        try:
            self._manifest.flush()
            self._state.save(durable)
        except OSError as error:
            self._report_state(error)

    def _report_state(self, error: OSError) -> None:
        reason = error.strerror or str(error)
        if reason != self._state_fault:
            self._state_fault = reason
            report("throughput_state_not_written", reason=reason)

    def _add_to_manifest(self, *entries: FinishedFile | RemovedFile) -> bool:
        """Add lines to the manifest. Returns whether they are written, and not to be written later."""
        try:
            self._manifest.add(*entries)
        except OSError as error:
            self._report_state(error)
            return False
        return True

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
        if self._part.written_bytes >= self._task.file_bytes:
            self._close()

    def _close(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        try:
            entry = part.finish(self._batches.lost + self.lost_rows, self._task.file_age_s)
        except OSError as error:
            self._part = part
            self._failed(error, 0)
            return
        self._add_to_manifest(entry)
        self._save(durable=True)

    def _failed(self, error: OSError, rows: int) -> None:
        """Abandon a file that cannot be written, for example because the disk is full; the next one may succeed."""
        part, self._part = self._part, None
        if part is not None:
            rows += part.rows
            part.abandon()
        self.lost_rows += rows
        report("throughput_not_written", reason=error.strerror or str(error), records=rows)

    def _open(self, table: str, target: pa.Schema, first_us: int) -> Part:
        name = schema.file_name(self._task.node, self._task.boot_id, self._sequences[table])
        self._sequences[table] += 1
        return Part(self._folder, table, name, target, first_us)

    def _finish_rows(self, table: str) -> None:
        """Write the rows of a small table as a file, unless the boot before this one is still to be known."""
        rows = self._rows[table]
        if rows and (table != schema.QUEUE_STATS or self._lock()):
            self._rows[table] = []
            self._write_rows(table, rows)

    def _link(self) -> dict[str, object]:
        """Return the columns of the closing row of a start that name the boot before."""
        link: dict[str, object] = {"retention_days": self._task.retention_days}
        previous = self._state.previous
        if previous is not None:
            same = previous.vhosts == self._task.vhosts
            link |= {
                "comparable": same and not previous.unlogged and not self._task.resumed,
                "previous_boot": previous.boot_id,
                "previous_row": previous.row,
                "previous_at": previous.at_us,
            }
        return link

    def _write_rows(self, table: str, rows: list[dict[str, Any]]) -> None:
        target = arrow_schema(table)
        node = {"schema": schema.SCHEMA, "node": self._task.node, "boot_id": self._task.boot_id}
        part: Part | None = None
        try:
            part = self._open(table, target, rows[0]["ts_us"])
            for row in rows:
                if "labels" in row:
                    row["labels"] = [tuple(pair) for pair in row["labels"]]  # JSON has only lists
                if "queues" in row and row["kind"] == schema.START:
                    row |= self._link()
            filled = pa.Table.from_pylist([node | row for row in rows], schema=target)
            part.write({name: filled[name] for name in target.names})
            entry = part.finish(self._batches.lost + self.lost_rows, self._task.file_age_s)
        except OSError as error:
            if part is not None:
                part.abandon()
            report("throughput_not_written", reason=error.strerror or str(error), table=table, rows=len(rows))
            return
        self._add_to_manifest(entry)
        self._save(durable=True)

    def _sweep(self, today: date) -> None:
        """Delete this node's files of days beyond the retention, and files that an earlier writer did not finish.

        Files of other nodes, which may share the folder, have their own retention.
        """
        name = schema.file_name(self._task.node, "*", 0).removesuffix("000000.parquet")
        days = self._task.retention_days
        oldest = today - timedelta(days) if days is not None else date.min
        for table in schema.TABLES:
            for folder in self._folder.glob(f"{table}/dt=*"):
                if (day := day_of(folder.name)) is not None and day < oldest:
                    self._remove_day(folder, name)
            for aside in self._folder.glob(f"{table}/dt=*/hour=*/.{name}*.tmp"):
                try:
                    if self._now_s() - aside.stat().st_mtime > STALE_S:
                        aside.unlink()
                except FileNotFoundError:
                    pass

    def _remove_day(self, folder: Path, prefix: str) -> None:
        """Delete the files of a day with this prefix, finished or not, and the folders that are then empty."""
        finished = list(folder.glob(f"hour=*/{prefix}*.parquet"))
        entries = [RemovedFile(path.relative_to(self._folder).as_posix(), schema.RETENTION) for path in finished]
        if entries and not self._add_to_manifest(*entries):
            return  # what is missing without a line counts as lost
        for path in (*finished, *folder.glob(f"hour=*/.{prefix}*.tmp")):
            path.unlink(missing_ok=True)
        for emptied in (*folder.glob("hour=*"), folder):
            with contextlib.suppress(OSError):  # it has files of other nodes
                emptied.rmdir()


def day_of(name: str) -> date | None:
    """Return the day of a folder such as dt=2026-11-22."""
    try:
        return date.fromisoformat(name.removeprefix("dt="))
    except ValueError:
        return None


def report(event: str, **fields: object) -> None:
    """Report an event to the broker, for its log."""
    try:
        os.write(sys.stdout.fileno(), msgspec.json.encode({"event": event} | fields) + b"\n")
    except OSError:
        pass  # the broker has ended


def frames(pipe: int) -> Iterator[tuple[int, bytes] | None]:
    """Yield frames until the pipe ends, and None whenever nothing is received for LOOK_S."""
    gathered = bytearray()
    while True:
        while len(gathered) >= HEAD.size:
            what, length = HEAD.unpack_from(gathered)
            end = HEAD.size + length
            if len(gathered) < end:
                break
            frame = bytes(gathered[HEAD.size : end])
            del gathered[:end]
            yield what, frame
        if not select.select([pipe], [], [], LOOK_S)[0]:
            yield None
            continue
        received = os.read(pipe, READ_BYTES)
        if not received:
            return  # an incomplete frame is dropped
        gathered += received


def main() -> None:
    # A signal to the broker may go to its whole process group; the writer ends with the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICE)
    incoming = frames(sys.stdin.fileno())
    first = next((frame for frame in incoming if frame is not None), None)
    if first is None:
        return
    assert first[0] == BOOT
    writer = Writer(msgspec.json.decode(first[1], type=Task))
    report("ready")
    looked_s = time.monotonic()
    for frame in incoming:
        if frame is not None:
            writer.take(*frame)
        if frame is None or time.monotonic() - looked_s >= LOOK_S:
            looked_s = time.monotonic()
            writer.look()
    writer.end()


if __name__ == "__main__":
    main()
