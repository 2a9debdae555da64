"""The reduction of a file of snapshots of queues (`queue_stats`) to facts.

    closings  the closing row of each snapshot, with `queue_rows`, the number of rows of queues that precede it
    lengths   the lengths and consumers of each queue, in sums
    latest    the last snapshot of each queue, apart from that of a stop, before which clients have left
    turns     the last times at which a queue had consumers, and at which it had no ready or unacknowledged message

The rows of single snapshots, which the check of conservation compares, are read again (`rows_of`), and so are those of
the last time of a boot (`trends_in`).
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format.schema import QUEUE_STATS, STOP
from .facts import BOOL, BOOT, INT, TIME, Fact, Facts, Measure, Table, group, measures, names, numbers_of, of_boots

MILLIONTHS = 1_000_000  # in which utilisations are summed
STORE = ("store", "recovered_batch", "settling_batch", "damage", "previous_batch")  # of the snapshot of a start
CLOSINGS = Fact(
    {**names(*BOOT), "snapshot": INT},
    {
        **measures("sum", "queue_rows"),
        **measures("max", "kind", "previous_boot", "exported_boot", type=pa.string()),
        **measures("max", "row", "lost_records", "queues", "previous_row", "retention_days", "durable_batch"),
        **measures("max", "last_batch", *STORE),
        **measures("max", "at", "previous_at", "exported_at", type=TIME),
        "comparable": Measure("max", pa.bool_()),
        "sample_rate": Measure("min", pa.float32()),
    },
)
CONSUMED = ("consumers", "prefetch", "utilisation", "unacked", "ready")  # whose mean is that of times with consumers
LENGTHS = Fact(
    names("node", "vhost", "queue"),
    {
        **measures("sum", "snapshots", "length_sum"),
        **measures("sum", *[f"{name}_{what}" for name in CONSUMED for what in ("sum", "count")]),
        **measures("max", "peak"),
    },
)
LATEST = Fact(
    {**names(*BOOT, "vhost", "queue"), "stopping": BOOL},
    {
        "at": Measure("last", TIME),
        **measures("last", "ready", "unacked", "consumers"),
        "unattended": Measure("last", BOOL),
    },
)
TURNS = Fact(
    names(*BOOT, "vhost", "queue"),
    {
        **measures("min", "first", type=TIME),
        **measures("max", "consumed", "none_ready", "none_unacked", type=TIME),
    },
)
FACTS: dict[str, Fact] = {"closings": CLOSINGS, "lengths": LENGTHS, "latest": LATEST, "turns": TURNS}
COUNTERS = ("published", "delivered", "acked")
TREND = Fact(
    {**names("node", "vhost", "queue"), "interval": INT},
    {
        **measures("sum", "length", "snapshots"),
        **measures("min", "least", "published_before"),
        **measures("max", *COUNTERS),
    },
)


class Window(NamedTuple):
    """The last time of a boot, in intervals of `interval_us` before `end_us`, which is that of a snapshot."""

    end_us: int
    interval_us: int
    intervals: int


def reduce_snapshots(rows: pa.Table) -> Facts:
    """Reduce rows of `queue_stats`, with some or all of its columns, to facts. Raises ValueError for bad rows."""
    table = Table(QUEUE_STATS, rows)
    closing = ~table.has("queue")
    if not (closing | table.has("vhost") & table.has("ready") & table.has("unacked")).all():
        raise ValueError("a queue without its length")
    ready, unacked, consumers = (table.number(name) for name in ("ready", "unacked", "consumers"))
    consumed = ~closing & (consumers > 0)
    stopping = numbers_of(pc.equal(table["kind"].cast(pa.string()), STOP).fill_null(False))
    at = table.number("ts_us")
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
            snapshots=np.ones(table.count, "i8"),
            length_sum=ready + unacked,
            peak=ready + unacked,
            **sums,
        ),
        "latest": table.grouped(LATEST, ~closing, at=table["ts_us"], stopping=stopping),
        "turns": table.grouped(
            TURNS,
            ~closing & ~stopping,
            first=table["ts_us"],
            consumed=pa.array(at, mask=consumers == 0),
            none_ready=pa.array(at, mask=ready > 0),
            none_unacked=pa.array(at, mask=unacked > 0),
        ),
    }


def trends_in(rows: pa.Table, windows: Mapping[tuple[str, str], Window]) -> pa.Table:
    """Return the lengths and the counters of queues in the intervals of the windows of boots."""
    table = Table(QUEUE_STATS, rows)
    chosen = of_boots(table.rows, windows, Window(0, 1, 0))
    interval = chosen[:, 2] - 1 - (chosen[:, 0] - table.number("ts_us")) // chosen[:, 1]
    return table.grouped(
        TREND,
        table.has("queue") & (interval >= 0) & (interval < chosen[:, 2]),
        interval=interval,
        length=table.number("ready") + table.number("unacked"),
        least=table.number("ready") + table.number("unacked"),
        snapshots=np.ones(table.count, "i8"),
        published_before=table["published"],
    )


def merge_trends(parts: list[pa.Table]) -> pa.Table:
    return group(TREND, pa.concat_tables([TREND.schema.empty_table(), *parts]))


def scaled(table: Table, name: str, scale: int) -> np.ndarray:
    """Return a column in whole numbers of its parts."""
    return np.round(numbers_of(table[name].cast(pa.float64()).fill_null(0.0)) * scale).astype("i8")


def rows_of(rows: pa.Table, wanted: Collection[tuple[str, str, int]]) -> pa.Table:
    """Return the rows of queues in the wanted snapshots: node, boot and number."""
    numbers = pa.array(sorted({number for _, _, number in wanted}), INT)
    table = Table(QUEUE_STATS, rows)
    rows = table.rows.filter(pc.and_(pc.is_in(table["snapshot"], numbers), table["queue"].is_valid()))
    keys = zip(*(rows[name].to_pylist() for name in (*BOOT, "snapshot")), strict=True)
    return rows.filter(pa.array([key in wanted for key in keys], pa.bool_()))
