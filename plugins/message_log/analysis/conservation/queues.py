"""The conservation equation of each queue, and the journeys of messages through it that are impossible."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..message_paths import OUT, QUEUE
from .checked_range import BOOT, counts_at

COUNTS = ("entered", *OUT)

ENTERED_TWICE = "entered twice"
LEFT_TWICE = "left twice"
UNDELIVERED = "acknowledged without a delivery"
NEVER_ENTERED = "left without having entered"
VANISHED = "entered, and is neither gone nor there"


def inside(journeys: DataFrame, spans: DataFrame) -> DataFrame:
    """Add to journeys how often the message entered (`came`) and left (`went`) within the checked range of its boot."""
    bounds = F.broadcast(spans.select(*BOOT, "from_row", "to_row"))
    came = F.when(between("enter_row"), F.col("entered")).otherwise(0)
    went = F.when(between("leave_row"), F.col("left")).otherwise(0)
    return journeys.join(bounds, BOOT).withColumn("came", came).withColumn("went", went)


def between(row: str) -> Column:
    return F.coalesce((F.col(row) >= F.col("from_row")) & (F.col(row) < F.col("to_row")), F.lit(False))


def balance(journeys: DataFrame, balances: DataFrame, queue_stats: DataFrame, spans: DataFrame) -> DataFrame:
    """Return one row for each queue of each boot. `difference` is 0 if the equation holds, null if figures are missing.

    orphans  messages that left without having entered: at most as many as were in the queue before
    still    messages that entered and did not leave: at most as many as are in the queue after
    """
    open_ones = (
        inside(journeys, spans)
        .groupBy(*QUEUE)
        .agg(
            F.sum("came").alias("entered"),
            *[F.sum(F.when(F.col("went") > 0, F.col(name)).otherwise(0)).alias(name) for name in OUT],
            F.sum(((F.col("went") > 0) & (F.col("entered") == 0)).cast("long")).alias("orphans"),
            F.sum(((F.col("came") > 0) & (F.col("went") == 0)).cast("long")).alias("still"),
        )
    )
    all_ways = (
        open_ones.unionByName(balances, allowMissingColumns=True)
        .groupBy(*QUEUE)
        .agg(*[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in (*COUNTS, "orphans", "still")])
    )
    before = add_suffix(counts_at(queue_stats, spans, "from_snapshot"), "before")
    after = add_suffix(counts_at(queue_stats, spans, "to_snapshot"), "after")
    known = F.col("to_snapshot").isNotNull()
    left_it = sum((F.col(name) for name in OUT), F.lit(0))
    return (
        all_ways.join(before, list(QUEUE), "full_outer")
        .join(after, list(QUEUE), "full_outer")
        .join(F.broadcast(spans.select(*BOOT, "to_snapshot")), BOOT)
        .select(
            *QUEUE,
            *[F.coalesce(name, F.lit(0)).alias(name) for name in (*COUNTS, "orphans", "still")],
            *[at(known, f"{name}_{when}") for when in ("before", "after") for name in ("ready", "unacked")],
            (grown("published") - F.col("entered")).alias("unlogged_in"),
            (grown("acked") - F.col("acknowledged") - F.col("federated")).alias("unlogged_acks"),
        )
        .withColumn("before", F.col("ready_before") + F.col("unacked_before"))
        .withColumn("after", F.col("ready_after") + F.col("unacked_after"))
        .withColumn("difference", F.col("before") + F.col("entered") - left_it - F.col("after"))
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
        (F.col("still") > F.coalesce("after", "still")).alias("too_many_still"),
    )
    came, went = F.col("came"), F.col("went")
    undelivered = F.col("acknowledged") + F.col("federated") > F.col("delivered")
    seen_whole = (came > 0) | (F.col("from_row") == 0)
    problem = (
        F.when(came > 1, ENTERED_TWICE)
        .when(went > 1, LEFT_TWICE)
        .when((went > 0) & undelivered & seen_whole, UNDELIVERED)
        .when((went > 0) & (F.col("entered") == 0) & F.col("too_many_orphans"), NEVER_ENTERED)
        .when((came > 0) & (went == 0) & F.col("too_many_still"), VANISHED)
    )
    odd = inside(journeys, spans).where((came != 1) | (went != 1) | undelivered)
    joined = odd.join(F.broadcast(limits), [F.equal_null(odd[k], limits[k]) for k in QUEUE], "left")
    return joined.select(*[odd[k] for k in QUEUE], "msg_seq", "last", problem.alias("problem")).where(
        F.col("problem").isNotNull()
    )
