"""Journeys: how each message entered, was delivered from, and left each queue. An aggregate as large as the log.

A journey is closed when the message has entered once and left once. The stream reduces closed journeys to two small
aggregates, `balances` and `stages`, and keeps only open ones. Pure functions of DataFrames.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..file_format.schema import ACK, DEAD_LETTER, DELIVER, DROP, ENQUEUE, EVENTS, EXPIRE, FED_OUT, LEAVING
from .aggregates import Aggregate, bucket, count_if, is_event

BOOT = ("node", "boot_id")
QUEUE = (*BOOT, "vhost", "queue")
WAYS_OUT = {
    "acknowledged": ACK,
    "federated": FED_OUT,
    "expired": EXPIRE,
    "dropped": DROP,
    "dead_lettered": DEAD_LETTER,
}
OUT = ("delivered_without_ack", *WAYS_OUT)  # events by which a message leaves a queue


def journeys(events: DataFrame) -> DataFrame:
    """Return one row for each message in each queue. Times are monotonic, in nanoseconds of the boot."""
    without_ack = is_event(DELIVER) & F.col("no_ack")
    leaves = is_event(*LEAVING) | without_ack
    number, time = F.col("row"), F.col("mono_ns")
    return (
        events.where(is_event(ENQUEUE, DELIVER, *LEAVING))
        .groupBy(*QUEUE, "msg_seq")
        .agg(
            count_if(is_event(ENQUEUE)).alias("entered"),
            count_if(is_event(DELIVER)).alias("delivered"),
            count_if(leaves).alias("left"),
            count_if(without_ack).alias("delivered_without_ack"),
            *[count_if(is_event(event)).alias(name) for name, event in WAYS_OUT.items()],
            F.min(F.when(is_event(ENQUEUE), number)).alias("enter_row"),
            F.max(F.when(leaves, number)).alias("leave_row"),
            F.min(F.when(is_event(ENQUEUE), time)).alias("enter_ns"),
            F.min(F.when(is_event(DELIVER), time)).alias("deliver_ns"),
            F.max(F.when(is_event(DELIVER), time)).alias("last_deliver_ns"),
            F.max(F.when(leaves, time)).alias("leave_ns"),
            F.max("ts_us").alias("last"),
        )
    )


_SUMS = ("entered", "delivered", "left", *OUT)
_MERGE = {
    **dict.fromkeys(_SUMS, "sum"),
    **dict.fromkeys(("enter_row", "enter_ns", "deliver_ns"), "min"),
    **dict.fromkeys(("leave_row", "last_deliver_ns", "leave_ns", "last"), "max"),
}
JOURNEYS = Aggregate("journeys", EVENTS, journeys, (*QUEUE, "msg_seq"), _MERGE)


def closed(journey_cut: Column, before: Column) -> Column:
    """Return whether a journey is closed: the message left before row `journey_cut`, and it is older than `before`."""
    once = (F.col("entered") == 1) & (F.col("left") == 1)
    shown = (F.col("acknowledged") + F.col("federated") == 0) | (F.col("delivered") > 0)
    return F.coalesce(once & shown & (F.col("leave_row") < journey_cut) & (F.col("last") < before), F.lit(False))


def mark_closed(some_journeys: DataFrame, spans: DataFrame, before: Column) -> DataFrame:
    """Add the column `closed`. `spans` has the checked range of each boot, and what the column `before` needs."""
    bounds = spans.select(
        *BOOT,
        "from_row",
        F.when(F.col("to_snapshot").isNotNull() | (F.col("sample_rate") < 1), F.col("to_row")).alias("cut"),
        before.alias("before"),
    )
    known = F.coalesce(F.col("enter_row") >= F.col("from_row"), F.lit(False))
    over = F.coalesce(closed(F.col("cut"), F.col("before")) & known, F.lit(False))
    held = some_journeys.join(F.broadcast(bounds), list(BOOT), "left")
    return held.withColumn("closed", over).drop("from_row", "cut", "before")


def balances(closed_journeys: DataFrame) -> DataFrame:
    """Count closed journeys by queue."""
    return closed_journeys.groupBy(*QUEUE).agg(*[F.sum(name).alias(name) for name in ("entered", *OUT)])


def stages(some_journeys: DataFrame) -> DataFrame:
    """Return histograms of the waits within queues, with the columns of `aggregates.latencies`."""
    waits = {
        "enqueue_deliver": F.col("deliver_ns") - F.col("enter_ns"),
        "deliver_ack": F.when(F.col("acknowledged") + F.col("federated") > 0, F.col("leave_ns"))
        - F.col("last_deliver_ns"),
    }
    pairs = [F.struct(F.lit(name).alias("stage"), F.floor(ns / 1000).alias("us")) for name, ns in waits.items()]
    return (
        some_journeys.select("node", "vhost", "queue", F.explode(F.array(*pairs)).alias("wait"))
        .where(F.col("wait.us").isNotNull())
        .select("node", "vhost", "queue", "wait.stage", bucket(F.col("wait.us")).alias("bucket"), "wait.us")
        .groupBy("node", "vhost", "queue", "stage", "bucket")
        .agg(F.count("*").alias("records"), F.max(F.greatest("us", F.lit(0))).alias("highest_us"))
    )


BALANCES = Aggregate(
    "balances", EVENTS, lambda events: balances(journeys(events)), QUEUE, dict.fromkeys(("entered", *OUT), "sum")
)
STAGES = Aggregate(
    "stages",
    EVENTS,
    lambda events: stages(journeys(events)),
    ("node", "vhost", "queue", "stage", "bucket"),
    {"records": "sum", "highest_us": "max"},
)


MESSAGE = ["node", "boot_id", "msg_seq"]
NAMED = 1000  # the maximum of messages that are looked up in the log


def add_names(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Add message_id, exchange and routing key to rows about messages, as far as the log has them."""
    wanted = rows.where(F.col("msg_seq").isNotNull()).select(*MESSAGE).distinct().limit(NAMED)
    names = (
        events.select(*MESSAGE, "message_id", "exchange", "routing_key")
        .join(F.broadcast(wanted), MESSAGE)
        .groupBy(*MESSAGE)
        .agg(*[F.max(name).alias(name) for name in ("message_id", "exchange", "routing_key")])
    )
    return rows.join(F.broadcast(names), MESSAGE, "left")
