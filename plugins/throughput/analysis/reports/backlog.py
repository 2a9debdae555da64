"""The backlog of queues: length, growth, and the time until it is drained or doubled."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def backlog(queue_stats: DataFrame) -> DataFrame:
    """Return the backlog by queue. `slope_per_s` is a linear regression over all snapshots; times extrapolate it."""
    depth, at = F.col("ready") + F.col("unacked"), F.unix_micros("ts_us") / 1e6
    grouped = (
        queue_stats.where(F.col("queue").isNotNull())
        .groupBy("node", "vhost", "queue")
        .agg(
            F.count("*").alias("snapshots"),
            F.max_by("ready", "ts_us").alias("ready"),
            F.max_by("unacked", "ts_us").alias("unacked"),
            F.max(depth).alias("peak"),
            F.round(F.avg(depth), 3).alias("mean"),
            F.round(F.regr_slope(depth, at), 3).alias("slope_per_s"),
            F.max_by("consumers", "ts_us").alias("consumers"),
        )
    )
    waiting, slope = F.col("ready") + F.col("unacked"), F.col("slope_per_s")
    return grouped.withColumn("drained_in_s", F.when(slope < 0, F.round(waiting / -slope, 1))).withColumn(
        "doubled_in_s", F.when((slope > 0) & (waiting > 0), F.round(waiting / slope, 1))
    )
