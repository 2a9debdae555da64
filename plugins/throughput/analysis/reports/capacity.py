"""The capacity of brokers: processor time per message, and the time until memory or disk reaches its limit."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ...file_format import schema
from ..facts import WEIGHT, is_event

ENDLESS = 2**62  # bytes: exported by a broker without such a limit
HISTOGRAMS = (schema.LOOP_LAG_US, schema.SYNC_US, schema.BATCH_RECORDS)


def capacity(metrics: DataFrame, traffic: DataFrame) -> DataFrame:
    """Return the capacity by node. `cpu_us_per_message` is the slope of processor time over messages in and out."""
    return (
        cpu_cost(metrics, traffic)
        .join(hours_left(metrics, schema.DISK_FREE_BYTES, schema.DISK_LIMIT_BYTES, "disk", -1), "node", "full_outer")
        .join(hours_left(metrics, schema.RESIDENT_BYTES, schema.MEMORY_LIMIT_BYTES, "memory", 1), "node", "full_outer")
        .join(waits(metrics), "node", "full_outer")
    )


def cpu_cost(metrics: DataFrame, traffic: DataFrame) -> DataFrame:
    """Return processor time in relation to messages, from the intervals between two readings."""
    readings = metrics.where(F.col("name") == schema.CPU_S).withColumn("at", F.unix_seconds("ts_us"))
    order = Window.partitionBy("node", "boot_id").orderBy("mono_ns")
    intervals = (
        readings.withColumn("cpu", F.col("value") - F.lag("value").over(order))
        .withColumn("from", F.lag("at").over(order))
        .where(F.col("from").isNotNull() & (F.col("at") > F.col("from")))
        .select("node", "boot_id", "from", "at", "cpu", (F.col("at") - F.col("from")).alias("interval_s"))
    )
    handled = (
        traffic.where(is_event(schema.PUBLISH, schema.FED_IN, schema.DELIVER))
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
    slope = F.regr_slope(F.col("cpu"), F.col("messages"))
    return together.groupBy("node").agg(
        F.round(F.max(rate), 3).alias("peak_messages_per_s"),
        F.round(F.max(busy), 4).alias("peak_cpu"),
        F.round(slope * 1e6, 3).alias("cpu_us_per_message"),
        F.when(slope > 0, F.round(1 / slope, 0)).alias("messages_per_s_at_one_cpu"),
    )


def hours_left(metrics: DataFrame, name: str, limit: str, what: str, sign: int) -> DataFrame:
    """Return a gauge and the hours until it reaches its limit from below (`sign` 1) or above (-1)."""
    gauge, bound = F.when(F.col("name") == name, F.col("value")), F.when(F.col("name") == limit, F.col("value"))
    grouped = (
        metrics.where(F.col("name").isin(name, limit))
        .groupBy("node")
        .agg(
            F.max_by(gauge, F.when(gauge.isNotNull(), F.col("ts_us"))).alias("now"),
            F.max(bound).alias("bound"),
            F.regr_slope(gauge, F.unix_micros("ts_us") / 3.6e9).alias("slope"),
        )
    )
    nearing = F.col("slope") * sign > 0
    hours = (F.col("bound") - F.col("now")) / F.col("slope")
    return grouped.select(
        "node",
        F.when(F.col("now") < ENDLESS, F.col("now")).cast("long").alias(f"{what}_bytes"),
        F.when(nearing & (hours > 0), F.round(hours, 1)).alias(f"{what}_full_in_h"),
    )


def waits(metrics: DataFrame) -> DataFrame:
    """Return the 99th percentile of each histogram, as the upper bound of its bucket."""
    last = (
        metrics.where(F.col("name").isin(*HISTOGRAMS) & F.col("buckets").isNotNull())
        .groupBy("node", "boot_id", "name")
        .agg(F.max_by("buckets", "mono_ns").alias("buckets"))
        .select("node", "name", F.posexplode("buckets").alias("bucket", "count"))
        .groupBy("node", "name", "bucket")
        .agg(F.sum("count").alias("count"))
    )
    by_name = Window.partitionBy("node", "name")
    upto = F.sum("count").over(by_name.orderBy("bucket"))
    stood = last.withColumn("upto", upto).withColumn("all", F.sum("count").over(by_name))
    reached = F.when((F.col("all") > 0) & (F.col("upto") * 100 >= F.col("all") * 99), F.col("bucket"))
    return stood.groupBy("node").agg(*[p99(name, reached).alias(f"{name}_p99") for name in HISTOGRAMS])


def p99(name: str, reached: Column) -> Column:
    return F.pow(F.lit(2.0), F.min(F.when(F.col("name") == name, reached))).cast("long")
