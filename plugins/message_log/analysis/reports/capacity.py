"""The capacity of brokers: processor time per message, and the time until memory or disk reaches its limit."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from ...file_format import schema
from ..aggregates import WEIGHT, by_kind
from ..report_inputs import ReportInputs, merge_moments, moments, slope
from ..tables import Values, keyed
from .backlog import foreseeable, rounded

ENDLESS = 2**62  # bytes: exported by a broker without such a limit
HISTOGRAMS = (schema.LOOP_LAG_US, schema.SYNC_US, schema.BATCH_RECORDS)
COST = ("peak_messages_per_s", "peak_cpu", "cpu_us_per_message", "messages_per_s_at_one_cpu")
COLUMNS = {
    "node": pa.string(),
    **dict.fromkeys(COST, pa.float64()),
    "disk_bytes": pa.int64(),
    "disk_full_in_h": pa.float64(),
    "disk_too_short": pa.bool_(),
    "memory_bytes": pa.int64(),
    "memory_full_in_h": pa.float64(),
    "memory_too_short": pa.bool_(),
    **{f"{name}_p99": pa.int64() for name in HISTOGRAMS},
}


def capacity(known: ReportInputs, costs: list[Values]) -> list[Values]:
    """Return the capacity by node; `costs` are rows of `cpu_intervals`.

    `*_full_in_h` is null if the limit is not approached, or if `*_too_short`: the log is too short to tell.
    """
    nodes = keyed(known.metrics, "node")
    by_node = {cost["node"]: cost for cost in cpu_cost(costs)}
    rows = []
    for (node,), metrics in nodes.items():
        named = keyed(metrics, "name")
        row = {"node": node, **by_node.get(node, {})}
        for what, gauge, limit, sign in (
            ("disk", schema.DISK_FREE_BYTES, schema.DISK_LIMIT_BYTES, -1),
            ("memory", schema.RESIDENT_BYTES, schema.MEMORY_LIMIT_BYTES, 1),
        ):
            gauges, limits = named.get((gauge,), []), named.get((limit,), [])
            if gauges:
                now = max(gauges, key=lambda boot: boot["last_at"])["last"]
                row[f"{what}_bytes"] = int(now) if now < ENDLESS else None
                bound = max((boot["greatest"] for boot in limits), default=None)
                hours = hours_left(now, bound, slope(gauges), sign)
                first, last = (how(boot[end] for boot in gauges) for how, end in ((min, "first_at"), (max, "last_at")))
                known_long = hours is None or foreseeable((last - first).total_seconds(), hours * 3600)
                row[f"{what}_full_in_h"] = hours if known_long else None
                row[f"{what}_too_short"] = not known_long
        for name in HISTOGRAMS:
            row[f"{name}_p99"] = p99([boot["buckets"] for boot in named.get((name,), []) if boot["buckets"]])
        if len(row) > 1 and any(value is not None for name, value in row.items() if name != "node"):
            rows.append(row)
    return rows


def hours_left(now: float, bound: float | None, per_hour: float | None, sign: int) -> float | None:
    """Return the hours until a gauge reaches its limit from below (`sign` 1) or above (-1)."""
    if bound is None or per_hour is None or per_hour * sign <= 0:
        return None
    hours = (bound - now) / per_hour
    return rounded(hours, 1) if hours > 0 else None


def p99(histograms: list[list[int]]) -> int | None:
    """Return the 99th percentile of histograms together, as the upper bound of its bucket."""
    counts: list[int] = []
    for histogram in histograms:
        counts += [0] * (len(histogram) - len(counts))
        for bucket, count in enumerate(histogram):
            counts[bucket] += count
    return p99_bound(counts)


def p99_bound(counts: list[int]) -> int | None:
    """Return the upper bound of the bucket with the 99th percentile, or None for an empty histogram."""
    cumulated, total = 0, sum(counts)
    for bucket, count in enumerate(counts):
        cumulated += count
        if total > 0 and cumulated * 100 >= total * 99:
            return 1 << bucket
    return None


def cpu_cost(costs: list[Values]) -> list[Values]:
    """Return processor time in relation to messages by node, from rows of `cpu_intervals`.

    `cpu_us_per_message` is the slope of processor time over messages in and out.
    """
    rows = []
    for cost in merge_costs(costs):
        per_message = slope([cost])
        row = {
            "node": cost["node"],
            "peak_messages_per_s": round(cost["rate"], 3),
            "peak_cpu": round(cost["busy"], 4),
            "cpu_us_per_message": rounded(per_message and per_message * 1e6, 3),
            "messages_per_s_at_one_cpu": round(1 / per_message, 0) if per_message and per_message > 0 else None,
        }
        rows.append(row)
    return rows


def merge_costs(rows: list[Values]) -> list[Values]:
    """Merge rows of `cpu_intervals` about different times."""
    return [
        {"node": node, **{name: max(part[name] for part in parts) for name in ("rate", "busy")}, **merge_moments(parts)}
        for (node,), parts in keyed(rows, "node").items()
    ]


def cpu_intervals(
    metrics: DataFrame, traffic: DataFrame, kinds: list[Values], before_s: int | None = None
) -> DataFrame:
    """Summarise messages and processor time of the intervals between two readings by node.

    With `before_s` only those that begin before that second are included.
    """
    readings = metrics.where(F.col("name") == schema.CPU_S).withColumn("at", F.unix_seconds("ts_us"))
    order = Window.partitionBy("node", "boot_id").orderBy("mono_ns")
    intervals = (
        readings.withColumn("cpu", F.col("value") - F.lag("value").over(order))
        .withColumn("from", F.lag("at").over(order))
        .where(F.col("from").isNotNull() & (F.col("at") > F.col("from")))
        .where(F.lit(True) if before_s is None else F.col("from") < before_s)
        .select("node", "boot_id", "from", "at", "cpu", (F.col("at") - F.col("from")).alias("interval_s"))
    )
    events = schema.PUBLISH, schema.FED_IN, schema.DELIVER
    boots = [(kind["kind"], kind["node"], kind["boot_id"]) for kind in kinds if kind["event"] in events]
    handled = (
        by_kind(traffic, dict.fromkeys(("node", "boot_id"), t.StringType()), boots)
        .groupBy("node", "boot_id", "second")
        .agg((F.sum("weight") / WEIGHT).alias("messages"))
    )
    seconds = intervals.withColumn("second", F.explode(F.sequence("from", F.col("at") - 1)))
    together = (
        seconds.join(handled, ["node", "boot_id", "second"], "left")
        .groupBy("node", "boot_id", "from", "interval_s", "cpu")
        .agg(F.coalesce(F.sum("messages"), F.lit(0.0)).alias("messages"))
    )
    rate, busy = F.col("messages") / F.col("interval_s"), F.col("cpu") / F.col("interval_s")
    measures = F.max(rate).alias("rate"), F.max(busy).alias("busy"), *moments(F.col("messages"), F.col("cpu"))
    return together.groupBy("node").agg(*measures)
