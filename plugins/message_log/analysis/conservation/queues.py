"""The conservation equation of each queue, impossible journeys of messages, and lengths before and after restarts."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..aggregates import count_if
from ..journeys import OUT, QUEUE
from .checked_range import BOOT, counts_at

COUNTS = ("entered", *OUT, "orphans", "remaining")

ENTERED_TWICE = "entered twice"
LEFT_TWICE = "left twice"
UNDELIVERED = "acknowledged without a delivery"
NEVER_ENTERED = "left without having entered"
VANISHED = "entered, and neither left nor remains"


def in_range(journeys: DataFrame, spans: DataFrame) -> DataFrame:
    """Add to journeys how often the message entered and left within the checked range of its boot."""
    bounds = F.broadcast(spans.select(*BOOT, "from_row", "to_row"))
    counts = {"entered_in_range": ("enter_row", "entered"), "left_in_range": ("leave_row", "left")}
    return journeys.join(bounds, BOOT).withColumns(
        {
            name: F.when((F.col(row) >= F.col("from_row")) & (F.col(row) < F.col("to_row")), F.col(count)).otherwise(0)
            for name, (row, count) in counts.items()
        }
    )


def balance(journeys: DataFrame, balances: DataFrame, queue_stats: DataFrame, spans: DataFrame) -> DataFrame:
    """Return one row for each queue of each boot. `difference` is 0 if the equation holds, null if figures are missing.

    orphans    messages that left without having entered: at most as many as were in the queue before
    remaining  messages that entered and did not leave: at most as many as are in the queue after
    """
    entered, left = F.col("entered_in_range") > 0, F.col("left_in_range") > 0
    open_ones = (
        in_range(journeys, spans)
        .groupBy(*QUEUE)
        .agg(
            F.sum("entered_in_range").alias("entered"),
            *[F.sum(F.when(left, F.col(name)).otherwise(0)).alias(name) for name in OUT],
            count_if(left & (F.col("entered") == 0)).alias("orphans"),
            count_if(entered & ~left).alias("remaining"),
        )
    )
    all_ways = (
        open_ones.unionByName(balances, allowMissingColumns=True)
        .groupBy(*QUEUE)
        .agg(*[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in COUNTS])
    )
    before = add_suffix(counts_at(queue_stats, spans, "from_snapshot"), "before")
    after = add_suffix(counts_at(queue_stats, spans, "to_snapshot"), "after")
    known = F.col("to_snapshot").isNotNull()
    all_left = sum((F.col(name) for name in OUT), F.lit(0))
    return (
        all_ways.join(before, list(QUEUE), "full_outer")
        .join(after, list(QUEUE), "full_outer")
        .join(F.broadcast(spans.select(*BOOT, "to_snapshot")), BOOT)
        .select(
            *QUEUE,
            *[F.coalesce(name, F.lit(0)).alias(name) for name in COUNTS],
            *[at(known, f"{name}_{when}") for when in ("before", "after") for name in ("ready", "unacked")],
            (grown("published") - F.col("entered")).alias("unlogged_in"),
            (grown("acked") - F.col("acknowledged") - F.col("federated")).alias("unlogged_acks"),
        )
        .withColumn("before", F.col("ready_before") + F.col("unacked_before"))
        .withColumn("after", F.col("ready_after") + F.col("unacked_after"))
        .withColumn("difference", F.col("before") + F.col("entered") - all_left - F.col("after"))
    )


def grown(counter: str) -> Column:
    """Return the increase of one of the broker's counters between the snapshots; that of a new queue began at 0."""
    return F.col(f"{counter}_after") - F.coalesce(f"{counter}_before", F.lit(0))


def at(known: Column, name: str) -> Column:
    """Return a count of a snapshot: 0 for a queue that is not in it, null without a snapshot."""
    return F.when(known, F.coalesce(name, F.lit(0))).alias(name)


def add_suffix(counts: DataFrame, suffix: str) -> DataFrame:
    names = ("ready", "unacked", "published", "acked")
    return counts.select(*QUEUE, *[F.col(name).alias(f"{name}_{suffix}") for name in names])


def impossible(journeys: DataFrame, queues: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the messages whose journey is impossible, with the problem.

    To leave without having entered is a fault only in a queue with more such messages than it had before, and to enter
    without leaving only in a queue with more such messages than it has after. Then all such messages of the queue are
    returned, since the faulty ones cannot be distinguished.
    """
    limits = queues.select(
        *QUEUE,
        (F.col("orphans") > F.coalesce("before", "orphans")).alias("too_many_orphans"),
        (F.col("remaining") > F.coalesce("after", "remaining")).alias("too_many_remaining"),
    )
    entered, left = F.col("entered_in_range"), F.col("left_in_range")
    undelivered = F.col("acknowledged") + F.col("federated") > F.col("delivered")
    complete = (entered > 0) | (F.col("from_row") == 0)
    problem = (
        F.when(entered > 1, ENTERED_TWICE)
        .when(left > 1, LEFT_TWICE)
        .when((left > 0) & undelivered & complete, UNDELIVERED)
        .when((left > 0) & (F.col("entered") == 0) & F.col("too_many_orphans"), NEVER_ENTERED)
        .when((entered > 0) & (left == 0) & F.col("too_many_remaining"), VANISHED)
    )
    odd = in_range(journeys, spans).where((entered != 1) | (left != 1) | undelivered)
    joined = odd.join(F.broadcast(limits), [F.equal_null(odd[k], limits[k]) for k in QUEUE], "left")
    return joined.select(*[odd[k] for k in QUEUE], "msg_seq", "last", problem.alias("problem")).where(
        F.col("problem").isNotNull()
    )


def restarts(queue_stats: DataFrame, spans: DataFrame) -> DataFrame:
    """Return one row for each queue that had messages before or after a restart; transient messages may be fewer.

    `stopped` is false if the boot before was killed, so that the queue's last length is unknown.
    """
    order = Window.partitionBy("node").orderBy("first", "boot_id")
    pairs = spans.select("node", "boot_id", F.lead("boot_id").over(order).alias("next_boot_id"), "stopped")
    waiting = F.col("ready") + F.col("unacked")
    before = counts_at(queue_stats, spans, "to_snapshot").select(
        *BOOT, "vhost", "queue", "durable", waiting.alias("before")
    )
    after = counts_at(queue_stats, spans, "from_snapshot").select(
        "node", F.col("boot_id").alias("next_boot_id"), "vhost", "queue", waiting.alias("after")
    )
    old = before.join(F.broadcast(pairs), BOOT).where(F.col("next_boot_id").isNotNull())
    key = ["node", "next_boot_id", "vhost", "queue"]
    both = old.join(after, key, "left").withColumn("after", F.coalesce("after", F.lit(0)))
    return both.where((F.col("before") > 0) | (F.col("after") > 0)).select(
        *key, "boot_id", "durable", "stopped", "before", "after", (F.col("before") - F.col("after")).alias("fewer")
    )
