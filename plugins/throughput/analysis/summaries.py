"""The summaries: facts reduced to what is bounded by the numbers of queues, users and nodes, as rows in this process.

Each costs Spark one query. The reports that need no more are made of them in plain Python.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from . import message_paths
from .fact_store import Facts
from .facts import TRAFFIC, TRAFFIC_KEYS
from .quantiles import quantiles

Values = dict[str, Any]
QUEUE = ("node", "vhost", "queue")
KIND = tuple(key for key in TRAFFIC_KEYS if key not in ("ack_bucket", "second"))


class Summaries(NamedTuple):
    """The summaries, as lists of rows.

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


def summarise(facts: Facts, workers: Executor) -> Summaries:
    """Make all summaries, some at once."""
    parts = (
        kinds(facts.traffic),
        queues(facts.queue_stats),
        metrics(facts.metrics),
        quantiles(facts.latencies.unionByName(waits(facts)), *QUEUE, "stage"),
    )
    return Summaries(*workers.map(collect, parts))


def collect(table: DataFrame) -> list[Values]:
    rows: list[Values] = table.toArrow().to_pylist()
    return rows


def waits(facts: Facts) -> DataFrame:
    """Return the histograms of the stages within queues, of closed and of open journeys."""
    return facts.stages.unionByName(message_paths.stages(facts.journeys))


def kinds(traffic: DataFrame) -> DataFrame:
    merged = [F.expr(f"{how}({name})").alias(name) for name, how in TRAFFIC.merge.items()]
    return traffic.groupBy(*KIND).agg(*merged, F.min("second").alias("first"), F.max("second").alias("last"))


def queues(queue_stats: DataFrame) -> DataFrame:
    """Summarise the snapshots of each queue; `slope_per_s` is a linear regression of its length."""
    depth, at = F.col("ready") + F.col("unacked"), F.unix_micros("ts_us") / 1e6
    consumed = F.col("consumers") > 0
    means = ("consumers", "prefetch", "utilisation", "unacked", "ready")
    return (
        queue_stats.where(F.col("queue").isNotNull())
        .groupBy(*QUEUE)
        .agg(
            F.count("*").alias("snapshots"),
            *[F.max_by(name, "ts_us").alias(name) for name in ("ready", "unacked", "consumers")],
            F.max(depth).alias("peak"),
            F.avg(depth).alias("mean"),
            F.regr_slope(depth, at).alias("slope_per_s"),
            *[F.avg(F.when(consumed, F.col(name))).alias(f"consumed_{name}") for name in means],
            F.min("ts_us").alias("first"),
            F.max("ts_us").alias("last"),
        )
    )


def metrics(table: DataFrame) -> DataFrame:
    """Summarise each metric of each boot, with what a linear regression over the hours needs."""
    hours = F.unix_micros("ts_us") / 3.6e9
    return table.groupBy("node", "boot_id", "name", F.col("labels")["link"].alias("link")).agg(
        *pair("first", F.min_by, F.min),
        *pair("last", F.max_by, F.max),
        F.min("value").alias("least"),
        F.max("value").alias("greatest"),
        F.max_by("buckets", "mono_ns").alias("buckets"),
        F.count("value").alias("readings"),
        F.avg(hours).alias("mean_hours"),
        F.avg("value").alias("mean"),
        F.var_pop(hours).alias("variance"),
        F.covar_pop("value", hours).alias("covariance"),
    )


def pair(name: str, value_by: Any, end: Any) -> list[Column]:
    """Return the first or last value, and its time."""
    return [value_by("value", "ts_us").alias(name), end("ts_us").alias(f"{name}_at")]


def slope(rows: list[Values]) -> float | None:
    """Return the slope of a linear regression over the hours, from summaries of parts of the values."""
    count = sum(row["readings"] for row in rows)
    if not count:
        return None
    hours = sum(row["readings"] * row["mean_hours"] for row in rows) / count
    mean = sum(row["readings"] * row["mean"] for row in rows) / count
    square = sum(row["readings"] * (row["variance"] + (row["mean_hours"] - hours) ** 2) for row in rows)
    product = sum(
        row["readings"] * (row["covariance"] + (row["mean_hours"] - hours) * (row["mean"] - mean)) for row in rows
    )
    return float(product / square) if square else None
