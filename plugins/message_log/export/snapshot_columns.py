"""Snapshots as Arrow columns of `schema.QUEUE_STATS`."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from ..file_format import schema
from ..file_format.arrow_schema import ARROW
from .pipe_format import READING, SNAPSHOT_HEAD, SNAPSHOT_KINDS

COUNTERS = (*("ready", "unacked", "ready_bytes", "unacked_bytes", "published", "delivered", "redelivered", "acked"),)
READINGS = np.dtype(
    [(name, "<i8") for name in (*COUNTERS, "recovered", "prefetch")] + [("consumers", "<i4"), ("utilisation", "<f4")]
)


class Head(NamedTuple):
    """The values that all rows of a snapshot share; `queues` is -1 in all but its last frame."""

    ts_us: int
    mono_ns: int
    number: int
    row: int
    lost: int
    durable_batch: int
    last_batch: int
    sample_rate: float
    kind: str
    queues: int


class Frame:
    """Some of the queues of a snapshot, and in its last frame the closing row."""

    def __init__(self, payload: bytes) -> None:
        *counts, rate, kind, queues, names_bytes = SNAPSHOT_HEAD.unpack_from(payload)
        self.head = Head._make([*counts, rate, SNAPSHOT_KINDS[kind], queues])
        self.names = payload[SNAPSHOT_HEAD.size : SNAPSHOT_HEAD.size + names_bytes]
        self.readings = payload[SNAPSHOT_HEAD.size + names_bytes :]

    @property
    def closing(self) -> bool:
        return self.head.queues >= 0

    @property
    def rows(self) -> int:
        return len(self.readings) // READING.size + self.closing

    @property
    def memory_bytes(self) -> int:
        return len(self.names) + len(self.readings) + SNAPSHOT_HEAD.size


class Link(NamedTuple):
    """The columns of the closing row of a start."""

    previous_boot: str | None
    previous_row: int | None
    previous_at_us: int | None
    retention_days: int | None
    comparable: bool | None = None
    previous_batch: int | None = None
    store: int | None = None
    recovered_batch: int | None = None
    settling_batch: int | None = None
    damage: int | None = None
    exported_boot: str | None = None
    exported_at_us: int | None = None


def columns(frames: list[Frame], boot: tuple[str, str], lost: int, link: Link) -> dict[str, pa.Array]:
    """Return the rows of some frames. `boot` is node and boot id, `lost` counts records that the writer has lost."""
    counts = np.array([frame.rows for frame in frames])
    total = int(counts.sum())
    heads = [frame.head for frame in frames]

    def each(values: list[Any], kind: str) -> pa.Array:
        """Repeat the value of each frame for its rows."""
        return pa.array(np.repeat(np.array(values), counts)).cast(ARROW[kind])

    ends = np.cumsum(counts) - 1
    closing = ends[[frame.closing for frame in frames]]
    starting = ends[[frame.closing and frame.head.kind == schema.START for frame in frames]]
    of_queue = np.ones(total, bool)
    of_queue[closing] = False
    readings = np.zeros(total, READINGS)
    readings[of_queue] = np.frombuffer(b"".join(frame.readings for frame in frames), READINGS)
    names = [name for frame in frames for name in (*msgspec.json.decode(frame.names), *[NOBODY] * frame.closing)]
    queues = np.zeros(total, np.int32)
    of_start = np.repeat([head.kind == schema.START for head in heads], counts)
    queues[closing] = [frame.head.queues for frame in frames if frame.closing]

    def some(values: np.ndarray[Any, Any], known: np.ndarray[Any, Any], kind: str) -> pa.Array:
        return pa.array(values, mask=~known).cast(ARROW[kind])

    def linked(value: object, kind: str) -> pa.Array:
        column: list[object] = [None] * total
        for place in starting:
            column[place] = value
        return pa.array(column, ARROW[kind])

    def at_end(name: str) -> np.ndarray[Any, Any]:
        return np.repeat([getattr(head, name) for head in heads], counts)

    def texts(place: int) -> pa.Array:
        return pa.array([name[place] for name in names], pa.string()).dictionary_encode()

    prefetch, utilisation = readings["prefetch"], readings["utilisation"]
    return {
        "schema": pa.array(np.full(total, schema.SCHEMA, np.int16)),
        "ts_us": each([head.ts_us for head in heads], "timestamp"),
        "mono_ns": each([head.mono_ns for head in heads], "int64"),
        "node": pa.array([boot[0]] * total).dictionary_encode(),
        "boot_id": pa.array([boot[1]] * total).dictionary_encode(),
        "snapshot": each([head.number for head in heads], "int64"),
        "kind": each([head.kind for head in heads], "string").dictionary_encode(),
        "row": each([head.row for head in heads], "int64"),
        "lost_records": each([head.lost + lost for head in heads], "int64"),
        "queues": some(queues, ~of_queue, "int32"),
        "vhost": texts(0),
        "queue": texts(1),
        "queue_type": texts(2),
        **{
            flag: pa.array([name[at] for name in names], pa.bool_()) for at, flag in ((3, "durable"), (4, "unattended"))
        },
        **{name: some(readings[name], of_queue, KINDS[name]) for name in (*COUNTERS, "consumers")},
        "recovered": some(readings["recovered"], of_queue & of_start, "int64"),
        "prefetch": some(np.minimum(prefetch, INT32_MAX), of_queue & (prefetch >= 0), "int32"),
        "utilisation": some(utilisation, of_queue & ~np.isnan(utilisation), "float32"),
        "sample_rate": each([head.sample_rate for head in heads], "float32"),
        "previous_boot": linked(link.previous_boot, "string"),
        "previous_row": linked(link.previous_row, "int64"),
        "previous_at": linked(link.previous_at_us, "timestamp"),
        "retention_days": linked(link.retention_days, "int32"),
        "exported_boot": linked(link.exported_boot, "string"),
        "exported_at": linked(link.exported_at_us, "timestamp"),
        "comparable": linked(link.comparable, "bool"),
        **{name: linked(getattr(link, name), "int64") for name in STORE},
        **{name: some(at_end(name), ~of_queue, "int64") for name in ("durable_batch", "last_batch")},
    }


STORE = ("previous_batch", "store", "recovered_batch", "settling_batch", "damage")
INT32_MAX = (1 << 31) - 1
NOBODY = (None,) * 5  # the names of the closing row
KINDS = {column.name: column.type for column in schema.QUEUE_STATS_COLUMNS}
