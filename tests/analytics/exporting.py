"""The export as tests see it: a broker in this process whose log goes to a writer in this process too."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.in_process import InProcessPeer
from warren.broker.core.queues.message_log import Origin
from warren.plugins.throughput.export.message_recorder import MessageRecorder
from warren.plugins.throughput.export.pipe_format import BATCH, ROWS
from warren.plugins.throughput.export.record_buffer import RecordBuffer
from warren.plugins.throughput.export.snapshots import Changed, Snapshots
from warren.plugins.throughput.export.writer import Task, Writer
from warren.plugins.throughput.file_format import schema

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
    """`soon` counts how often there was much to take."""

    def __init__(self, folder: Path, one_in: int = 1, limit_bytes: int = 64 << 20, headers: tuple[str, ...] = ()):
        self.folder = folder
        self.peer = InProcessPeer()
        self.soon = 0
        self.buffer = RecordBuffer(limit_bytes, self._soon)
        changed = Changed()
        self.recording = MessageRecorder(self.buffer, one_in, bool(headers), changed)
        self.vhost = self.peer.node.vhosts["/"]
        self.vhost.message_log = self.recording
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
        """All that is in files, in order; of these events alone, where any is named."""
        self.flush()
        self.writer.finish()
        rows = sorted(rows_of(self.folder), key=lambda row: row["row"])
        return [row for row in rows if not names or row["event"] in names]

    def escape_text(self, *fields: str) -> list[tuple[Any, ...]]:
        """These fields of each event, in order."""
        return [tuple(row[field] for field in fields) for row in self.events()]

    def snapshot(self, kind: str = schema.PERIODIC) -> list[Row]:
        for _ in self.snapshots.prepare():
            pass
        return [row for rows in self.snapshots.take(kind).slices() for row in rows]

    def close(self) -> None:
        self.peer.close()


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


__all__ = ["BATCH", "ROWS", "Exporting", "Row", "imbalance", "origin", "rows_of", "task", "whole_files"]
