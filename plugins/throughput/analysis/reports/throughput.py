"""Throughput: totals, and the rates of queues, virtual hosts and users."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...file_format import schema
from ..facts import UNROUTABLE, WEIGHT, is_event

GRAINS_S = {"1s": 1, "1m": 60, "1h": 3600}
SCOPED = ("scope", "node", "vhost", "name", "flow")  # the keys of throughput
FLOWS = {
    "published": (schema.PUBLISH, schema.FED_IN),
    "enqueued": (schema.ENQUEUE,),
    "delivered": (schema.DELIVER,),
    "acknowledged": (schema.ACK, schema.FED_OUT),
}


def messages(weight: Column) -> Column:
    """Return the number of messages, which is an estimate if the log is a sample."""
    return F.coalesce(F.round(F.sum(weight) / WEIGHT), F.lit(0)).cast("long")


def totals(traffic: DataFrame) -> DataFrame:
    """Return one row with the number of messages by event; deliveries to federation links are not in `delivered`."""
    nack = F.col("reason") == "nack"
    to_client = is_event(schema.DELIVER) & ~F.col("linked")
    conditions = {
        "published": is_event(schema.PUBLISH),
        "unroutable": F.col("reason") == UNROUTABLE,
        "returned": is_event(schema.RETURN),
        "confirmed": is_event(schema.CONFIRM) & ~nack,
        "refused": is_event(schema.CONFIRM) & nack,
        "enqueued": is_event(schema.ENQUEUE),
        "delivered": to_client,
        "redelivered": to_client & F.col("redelivered"),
        "acknowledged": is_event(schema.ACK),
        "rejected": is_event(schema.NACK),
        "requeued": is_event(schema.REQUEUE),
        "expired": is_event(schema.EXPIRE),
        "dropped": is_event(schema.DROP),
        "dead_lettered": is_event(schema.DEAD_LETTER),
        "federated_in": is_event(schema.FED_IN),
        "federated_out": is_event(schema.FED_OUT),
    }
    return traffic.agg(
        *[messages(F.when(condition, F.col("weight"))).alias(name) for name, condition in conditions.items()],
        F.coalesce(F.sum("records"), F.lit(0)).alias("records"),
    )


def flows(traffic: DataFrame) -> DataFrame:
    """Return the traffic of queues, virtual hosts and users by second."""
    flow = F.lit(None)
    for name, events in FLOWS.items():
        flow = F.when(is_event(*events), name).otherwise(flow)
    scopes = F.array(*[F.struct(F.lit(scope).alias("scope"), F.col(scope).alias("name")) for scope in SCOPES])
    return (
        traffic.withColumn("flow", flow)
        .where(F.col("flow").isNotNull())
        .select("node", "vhost", "flow", "second", "weight", "bytes", F.explode(scopes).alias("of"))
        .select("of.scope", "node", "vhost", "of.name", "flow", "second", "weight", "bytes")
        .where(F.col("name").isNotNull())
        .where(F.col("flow") != F.when(F.col("scope") == "queue", "published").otherwise("enqueued"))
    )


SCOPES = ("queue", "vhost", "user")


def series(traffic: DataFrame, grain_s: int) -> DataFrame:
    """Return messages and bytes in windows of `grain_s` seconds; an empty window has no row."""
    start = F.timestamp_seconds(F.col("second") - F.col("second") % grain_s).alias("start")
    size = F.round(F.sum("bytes") / WEIGHT).cast("long")
    return flows(traffic).groupBy(*SCOPED, start).agg(messages(F.col("weight")).alias("messages"), size.alias("bytes"))


def throughput(traffic: DataFrame) -> DataFrame:
    """Return rates by grain: the mean from the first second to the last, and the window with most messages."""
    seconds = flows(traffic).groupBy(*SCOPED).agg((F.max("second") - F.min("second") + 1).alias("span_s"))
    parts = []
    for grain, grain_s in GRAINS_S.items():
        part = series(traffic, grain_s).groupBy(*SCOPED)
        parts.append(
            part.agg(
                F.lit(grain).alias("grain"),
                F.lit(grain_s).alias("grain_s"),
                F.sum("messages").alias("messages"),
                F.sum("bytes").alias("bytes"),
                F.max("messages").alias("peak_messages"),
                F.min("start").alias("first"),
                F.max("start").alias("last"),
            )
        )
    mean = F.col("messages") / F.col("span_s")
    peak = F.col("peak_messages") / F.least("grain_s", "span_s")
    both = reduce(DataFrame.unionByName, parts).join(seconds, list(SCOPED))
    rates = {
        "mean_per_s": F.round(mean, 3),
        "peak_per_s": F.round(peak, 3),
        "peak_to_mean": F.round(peak / mean, 3),
        "mean_bytes_per_s": F.round(F.col("bytes") / F.col("span_s"), 3),
    }
    return both.withColumns(rates).drop("grain_s")
