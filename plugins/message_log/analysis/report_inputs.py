"""The inputs of reports: rows in this process, made from the aggregates, whose number depends on queues, users and
nodes.

Each costs one query of Spark. Most reports are made from them in plain Python.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as t

from . import journeys
from .aggregate_store import Aggregates
from .aggregates import KIND, STAGES, by_kind, quantiles
from .tables import Values, keyed

QUEUE = ("node", "vhost", "queue")
METRIC = ("node", "boot_id", "name", "link")
CONSUMED = ("consumers", "prefetch", "utilisation", "unacked", "ready")  # means over snapshots with consumers
QUEUE_SUMS = ("snapshots", "length_sum", *[f"{name}_{what}" for name in CONSUMED for what in ("sum", "count")])
MOMENTS = ("readings", "mean_x", "mean_y", "variance", "covariance")


class ReportInputs(NamedTuple):
    """The inputs of reports, as lists of rows.

    kinds    traffic by KIND, with the seconds of the first and the last event
    queues   snapshots by queue
    metrics  values by node, boot, name and link
    latency  quantiles by queue and stage; the stages `publish_*` are times since the publish, the others times within
             the queue
    """

    kinds: list[Values]
    queues: list[Values]
    metrics: list[Values]
    latency: list[Values]


class AmbiguousKind(Exception):
    """An error of one line, for two kinds of events with the same number."""


def make_inputs(aggregates: Aggregates, of_kinds: list[Values], workers: Executor) -> ReportInputs:
    """Make all inputs except `kinds`, some concurrently."""
    parts = (
        queues(aggregates.queue_stats),
        metrics(aggregates.metrics),
        quantiles(ages(aggregates, of_kinds).unionByName(waits(aggregates)), *QUEUE, "stage"),
    )
    of_queues, of_metrics, latency = workers.map(collect, parts)
    if aggregates.rolled_up is not None:
        of_queues = merge_queues([*aggregates.rolled_up.queues, *of_queues])
        of_metrics = merge_metrics([*aggregates.rolled_up.metrics, *of_metrics])
    return ReportInputs(of_kinds, [queue_figures(row) for row in of_queues], of_metrics, latency)


def collect(table: DataFrame) -> list[Values]:
    rows: list[Values] = table.toArrow().to_pylist()
    return rows


def ages(aggregates: Aggregates, of_kinds: list[Values]) -> DataFrame:
    """Return the histograms of the times since the publish."""
    staged = [kind for kind in of_kinds if kind["event"] in STAGES]
    rows = [(kind["kind"], *[kind[name] for name in QUEUE], STAGES[kind["event"]]) for kind in staged]
    named = by_kind(aggregates.latencies, dict.fromkeys((*QUEUE, "stage"), t.StringType()), rows)
    return named.drop("kind")


def waits(aggregates: Aggregates) -> DataFrame:
    """Return the histograms of the stages within queues, of closed and of open journeys."""
    return aggregates.stages.unionByName(journeys.stages(aggregates.journeys))


def kinds(table: DataFrame) -> list[Values]:
    """Return the aggregate of this name. Raises AmbiguousKind."""
    rows = collect(table)
    for same in keyed(rows, "kind").values():
        if len(same) > 1:
            both = " and ".join(", ".join(str(row[name]) for name in KIND) for row in same)
            raise AmbiguousKind(f"these kinds of events cannot be told apart, select one of their queues: {both}")
    return rows


def queues(queue_stats: DataFrame) -> DataFrame:
    """Summarise the snapshots of each queue, in sums that can be merged (`queue_figures`)."""
    depth, at = F.col("ready") + F.col("unacked"), F.unix_micros("ts_us") / 1e6
    consumed = F.col("consumers") > 0
    return (
        queue_stats.where(F.col("queue").isNotNull())
        .groupBy(*QUEUE)
        .agg(
            F.count("*").alias("snapshots"),
            *[F.max_by(name, "ts_us").alias(name) for name in ("ready", "unacked", "consumers")],
            F.max(depth).alias("peak"),
            F.sum(depth).alias("length_sum"),
            *moments(at, depth),
            *[F.sum(F.when(consumed, F.col(name)).cast("double")).alias(f"{name}_sum") for name in CONSUMED],
            *[F.count(F.when(consumed, F.col(name))).alias(f"{name}_count") for name in CONSUMED],
            F.min("ts_us").alias("first"),
            F.max("ts_us").alias("last"),
        )
    )


def queue_figures(row: Values) -> Values:
    """Return the summary of a queue with means; `slope_per_s` is a linear regression of its length."""
    counts = {name: row[f"{name}_count"] for name in CONSUMED}
    means = {f"consumed_{name}": row[f"{name}_sum"] / count if count else None for name, count in counts.items()}
    return {**row, "mean": row["length_sum"] / row["snapshots"], "slope_per_s": slope([row]), **means}


def metrics(table: DataFrame) -> DataFrame:
    """Summarise each metric of each boot, with what a linear regression over the hours needs."""
    hours = F.unix_micros("ts_us") / 3.6e9
    return table.groupBy("node", "boot_id", "name", F.col("labels")["link"].alias("link")).agg(
        *pair("first", F.min_by, F.min),
        *pair("last", F.max_by, F.max),
        F.min("value").alias("least"),
        F.max("value").alias("greatest"),
        F.max_by("buckets", "mono_ns").alias("buckets"),
        *moments(hours, F.col("value")),
    )


def moments(x: Column, y: Column) -> list[Column]:
    """Return what a linear regression of y over x needs, of parts that can be merged."""
    return [
        F.count(y).alias("readings"),
        F.avg(x).alias("mean_x"),
        F.avg(y).alias("mean_y"),
        F.var_pop(x).alias("variance"),
        F.covar_pop(y, x).alias("covariance"),
    ]


def pair(name: str, value_by: Any, end: Any) -> list[Column]:
    """Return the first or last value, and its time."""
    return [value_by("value", "ts_us").alias(name), end("ts_us").alias(f"{name}_at")]


def slope(rows: list[Values]) -> float | None:
    """Return the slope of a linear regression, from the moments of parts of the values."""
    merged = merge_moments(rows)
    return float(merged["covariance"] / merged["variance"]) if merged["readings"] and merged["variance"] else None


def merge_moments(rows: list[Values]) -> Values:
    """Merge the moments of parts of the values."""
    rows = [row for row in rows if row["readings"]]
    count = sum(row["readings"] for row in rows)
    if len(rows) < 2:
        return {name: row[name] for row in rows for name in MOMENTS} or dict.fromkeys(MOMENTS, 0)
    x = sum(row["readings"] * row["mean_x"] for row in rows) / count
    y = sum(row["readings"] * row["mean_y"] for row in rows) / count
    square = sum(row["readings"] * (row["variance"] + (row["mean_x"] - x) ** 2) for row in rows)
    product = sum(row["readings"] * (row["covariance"] + (row["mean_x"] - x) * (row["mean_y"] - y)) for row in rows)
    return {"readings": count, "mean_x": x, "mean_y": y, "variance": square / count, "covariance": product / count}


def merge_queues(rows: list[Values]) -> list[Values]:
    """Merge summaries of the same queues at different times."""
    merged = []
    for parts in keyed(rows, *QUEUE).values():
        newest = max(parts, key=lambda part: part["last"])
        sums = {name: sum(part[name] or 0 for part in parts) for name in QUEUE_SUMS}
        ends = {"first": min(part["first"] for part in parts), "peak": max(part["peak"] for part in parts)}
        merged.append({**newest, **sums, **ends, **merge_moments(parts)})
    return merged


def merge_metrics(rows: list[Values]) -> list[Values]:
    """Merge summaries of the same metrics at different times."""
    merged = []
    for parts in keyed(rows, *METRIC).values():
        oldest, newest = min(parts, key=lambda part: part["first_at"]), max(parts, key=lambda part: part["last_at"])
        values = [part[name] for part in parts for name in ("least", "greatest") if part[name] is not None]
        ends = {name: oldest[name] for name in ("first", "first_at")}
        extremes = {"least": min(values, default=None), "greatest": max(values, default=None)}
        merged.append({**newest, **ends, **extremes, **merge_moments(parts)})
    return merged
