"""An export without other processes: a broker and the writer of its log in this process."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.in_process import InProcessPeer
from warren.broker.core.queues.traffic_log import Origin
from warren.plugins.message_log.export.message_recorder import MessageRecorder
from warren.plugins.message_log.export.pipe_format import BATCH, SNAPSHOT_HEAD, SNAPSHOT_KINDS
from warren.plugins.message_log.export.record_buffer import RecordBuffer
from warren.plugins.message_log.export.snapshot_columns import Frame, Link, columns
from warren.plugins.message_log.export.snapshots import ChangedQueues, Snapshot, Snapshots
from warren.plugins.message_log.export.writer import Task, Writer
from warren.plugins.message_log.file_format import schema

Row = dict[str, Any]

NODE, BOOT_ID = "rabbit@test", "b00f"


def task(folder: Path, begun_ns: int, **changed: Any) -> Task:
    given: dict[str, Any] = {
        "node": NODE,
        "boot_id": BOOT_ID,
        "begun_ns": begun_ns,
        "sample_rate": 1.0,
        "headers": (),
        "directory": str(folder),
        "file_bytes": 64 << 20,
        "file_age_s": 300,
        "retention_days": None,
    }
    return Task(**(given | changed))


def whole_files(folder: Path, table: str = schema.EVENTS) -> list[Path]:
    """Return the files that a reader finds, without those that begin with a dot."""
    return sorted(path for path in folder.glob(f"{table}/dt=*/hour=*/*.parquet") if not path.name.startswith("."))


def rows_of(folder: Path, table: str = schema.EVENTS) -> list[Row]:
    """Return the rows of all files, with null for columns that a file lacks."""
    names = [column.name for column in schema.TABLES[table]]
    found: list[Row] = []
    for path in whole_files(folder, table):
        rows = pq.ParquetFile(path).read().to_pylist()
        found += [dict.fromkeys(names) | row for row in rows]
    return found


class Exporting:
    """A broker and a writer. `soon` counts the calls for a large batch."""

    def __init__(self, folder: Path, one_in: int = 1, limit_bytes: int = 64 << 20, headers: tuple[str, ...] = ()):
        self.folder = folder
        self.peer = InProcessPeer()
        self.soon = 0
        self.buffer = RecordBuffer(limit_bytes, self._soon)
        changed = ChangedQueues()
        self.recording = MessageRecorder(self.buffer, one_in, bool(headers), changed)
        self.vhost = self.peer.node.vhosts["/"]
        self.vhost.traffic_log = self.recording
        self.snapshots = Snapshots(self.peer.node, self.buffer, 1 / one_in, changed)
        self.peer.node.observers.add(self.snapshots)
        self._task = task(folder, self.recording.begun_ns, sample_rate=1 / one_in, headers=headers)
        self.writer = Writer(self._task)

    def _soon(self) -> None:
        self.soon += 1

    def flush(self) -> None:
        """Send the records so far to the writer."""
        self.peer.settle()
        pieces = self.buffer.take()
        if pieces:
            self.writer.take(BATCH, b"".join(pieces))

    def events(self, *names: str) -> list[Row]:
        """Return the rows of all files in order, or only those of some events."""
        self.flush()
        self.writer.finish()
        rows = sorted(rows_of(self.folder), key=lambda row: row["row"])
        return [row for row in rows if not names or row["event"] in names]

    def snapshot(self, kind: str = schema.PERIODIC) -> list[Row]:
        for _ in self.snapshots.prepare():
            pass
        return snapshot_rows(self.snapshots.take(kind))

    def close(self) -> None:
        self.peer.close()


def snapshot_rows(snapshot: Snapshot) -> list[Row]:
    """Return the rows of a snapshot as the writer makes them, the closing row last."""
    frames = [Frame(b"".join(pieces)) for pieces in snapshot.frames()]
    made = columns(frames, (NODE, BOOT_ID), 0, Link(None, None, None, None))
    rows: list[Row] = pa.Table.from_pydict(made).to_pylist()
    return rows


def empty_snapshot(
    number: int, row: int, kind: str = schema.PERIODIC, at_us: int = 0, lost: int = 0, batch: int = 0
) -> bytes:
    """Return a snapshot without queues, as the broker sends it. `batch` is durable, and one more follows."""
    counts = (at_us or time.time_ns() // 1000, 5, number, row, lost, batch, batch + 1)
    return SNAPSHOT_HEAD.pack(*counts, 1.0, SNAPSHOT_KINDS.index(kind), 0, 2) + b"[]"


def imbalance(events: list[Row], before: list[Row], after: list[Row]) -> dict[str, int]:
    """Return by queue the difference in the equation of conservation (`schema`), without queues where it holds."""
    missing: Counter[str] = Counter()
    for sign, snapshot in ((1, before), (-1, after)):
        for row in snapshot[:-1]:
            missing[row["queue"]] += sign * (row["ready"] + row["unacked"])
    for row in events:
        if row["event"] == schema.ENQUEUE:
            missing[row["queue"]] += 1
        elif row["event"] in schema.LEAVING or row["event"] == schema.DELIVER and row["no_ack"]:
            missing[row["queue"]] -= 1
    return {queue: count for queue, count in missing.items() if count}


def origin(name: str = "publisher") -> Origin:
    return Origin(name, 1, "/", "guest")
