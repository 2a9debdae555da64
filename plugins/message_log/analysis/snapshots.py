"""The reduction of a file of snapshots of queues (`queue_stats`) to facts.

    closings  the closing row of each snapshot, with `queue_rows`, the number of rows of queues that precede it
    lengths   the lengths and consumers of each queue, in sums by intervals of INTERVAL_S
    latest    the last snapshot of each queue

The rows of single snapshots, which the check of conservation compares, are read again (`rows_of`).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from ..file_format.schema import QUEUE_STATS
from .facts import BOOT, INT, TIME, Fact, Facts, Measure, Table, measures, names, numbers_of

INTERVAL_S = 600
MILLIONTHS = 1_000_000  # in which utilisations are summed
STORE = ("store", "recovered_batch", "settling_batch", "damage", "previous_batch")  # of the snapshot of a start
CLOSINGS = Fact(
    {**names(*BOOT), "snapshot": INT},
    {
        **measures("sum", "queue_rows"),
        **measures("max", "kind", "previous_boot", type=pa.string()),
        **measures("max", "row", "lost_records", "queues", "previous_row", "retention_days", "durable_batch"),
        **measures("max", "last_batch", *STORE),
        **measures("max", "at", "previous_at", type=TIME),
        "comparable": Measure("max", pa.bool_()),
        "sample_rate": Measure("min", pa.float32()),
    },
)
CONSUMED = ("consumers", "prefetch", "utilisation", "unacked", "ready")  # whose mean is that of times with consumers
LENGTHS = Fact(
    {**names("node", "vhost", "queue"), "interval": INT},
    {
        **measures("sum", "snapshots", "length_sum"),
        **measures("sum", *[f"{name}_{what}" for name in CONSUMED for what in ("sum", "count")]),
        **measures("max", "peak"),
        **measures("min", "first", type=TIME),
        **measures("max", "last", type=TIME),
    },
)
LATEST = Fact(
    names("node", "vhost", "queue"),
    {"at": Measure("last", TIME), **measures("last", "ready", "unacked", "consumers")},
)
FACTS: dict[str, Fact] = {"closings": CLOSINGS, "lengths": LENGTHS, "latest": LATEST}


def reduce_snapshots(rows: pa.Table) -> Facts:
    """Reduce rows of `queue_stats`, with some or all of its columns, to facts."""
    table = Table(QUEUE_STATS, rows)
    closing = ~table.has("queue")
    ready, unacked, consumers = (table.number(name) for name in ("ready", "unacked", "consumers"))
    consumed = ~closing & (consumers > 0)
    sums: dict[str, np.ndarray] = {}
    for name in CONSUMED:
        there = consumed & table.has(name)
        scale = MILLIONTHS if name == "utilisation" else 1
        sums |= {f"{name}_sum": np.where(there, scaled(table, name, scale), 0), f"{name}_count": there.astype("i8")}
    return {
        "closings": table.grouped(CLOSINGS, queue_rows=(~closing).astype("i8"), at=table["ts_us"]),
        "lengths": table.grouped(
            LENGTHS,
            ~closing,
            interval=table.number("ts_us") // (INTERVAL_S * 1_000_000) * INTERVAL_S,
            snapshots=np.ones(table.count, "i8"),
            length_sum=ready + unacked,
            peak=ready + unacked,
            first=table["ts_us"],
            last=table["ts_us"],
            **sums,
        ),
        "latest": table.grouped(LATEST, ~closing, at=table["ts_us"]),
    }


def scaled(table: Table, name: str, scale: int) -> np.ndarray:
    """Return a column in whole numbers of its parts."""
    return np.round(numbers_of(table[name].cast(pa.float64()).fill_null(0.0)) * scale).astype("i8")


def rows_of(rows: pa.Table, wanted: Collection[tuple[str, str, int]]) -> pa.Table:
    """Return the rows of queues in the wanted snapshots: node, boot and number."""
    table = Table(QUEUE_STATS, rows)
    keys = zip(table["node"].to_pylist(), table["boot_id"].to_pylist(), table["snapshot"].to_pylist(), strict=True)
    chosen = np.fromiter((key in wanted for key in keys), bool, table.count)
    return table.rows.filter(pa.array(chosen & table.has("queue")))
