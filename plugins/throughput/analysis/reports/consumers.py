"""The consumers of queues: whether they keep up, and which prefetch is advised."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...file_format import schema
from ..facts import is_event
from ..quantiles import quantiles
from .throughput import messages

QUEUE = ["node", "vhost", "queue"]
BUSY = 0.95  # the utilisation from which on consumers are not the bottleneck
FULL = 0.8  # the share of the prefetch from which on it counts as used up
QUICK_US = 5_000  # messages held for less wait for the network rather than for the consumer
AHEAD_S = 0.1  # the work that a consumer should have prefetched


def consumers(queue_stats: DataFrame, stages: DataFrame, traffic: DataFrame) -> DataFrame:
    """Return the queues that had consumers. `advised_prefetch` is what one consumer handles in AHEAD_S."""
    held = quantiles(stages.where(F.col("stage") == "deliver_ack"), *QUEUE)
    span = F.max("second") - F.min("second") + 1
    acknowledged = (
        traffic.where(is_event(schema.ACK, schema.FED_OUT) | (is_event(schema.DELIVER) & F.col("no_ack")))
        .groupBy(*QUEUE)
        .agg(F.round(messages(F.col("weight")) / span, 3).alias("handled_per_s"))
    )
    seen = (
        queue_stats.where(F.col("queue").isNotNull() & (F.col("consumers") > 0))
        .groupBy(*QUEUE)
        .agg(
            F.round(F.avg("consumers"), 3).alias("consumers"),
            F.round(F.avg("prefetch"), 3).alias("prefetch"),
            F.round(F.avg("utilisation"), 4).alias("utilisation"),
            F.round(F.avg("unacked"), 3).alias("mean_unacked"),
            F.round(F.avg("ready"), 3).alias("mean_ready"),
        )
    )
    joined = (
        seen.join(held.select(*QUEUE, "p50_us", "p99_us", "max_us"), QUEUE, "left")
        .join(acknowledged, QUEUE, "left")
        .withColumnsRenamed({"p50_us": "held_p50_us", "p99_us": "held_p99_us", "max_us": "held_max_us"})
    )
    prefetch = F.greatest(F.ceil(F.col("handled_per_s") / F.col("consumers") * AHEAD_S), F.lit(1)).cast("long")
    return joined.withColumn("advised_prefetch", prefetch).withColumn("advice", advice())


def advice() -> Column:
    full = F.col("mean_unacked") >= F.col("prefetch") * FULL
    return (
        F.when(F.col("mean_ready") < 1, "they keep up")
        .when(F.col("prefetch").isNull(), "they take all there is: set a prefetch")
        .when(F.col("utilisation") >= BUSY, "they always have room: the queue's backlog is not theirs")
        .when(full & (F.col("held_p50_us") < QUICK_US), "they wait for the network: raise the prefetch")
        .when(full, "they are the limit: more consumers, or quicker ones")
        .otherwise("they keep up")
    )
