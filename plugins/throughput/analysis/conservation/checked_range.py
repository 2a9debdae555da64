"""What part of each boot's log is checked: from one snapshot, with the numbers of its queues, to another."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...schema import STOP

BOOT = ["node", "boot_id"]


def snapshots(queue_stats: DataFrame) -> DataFrame:
    """Those that are whole: with the closing row, and as many queues as that says."""
    closing = F.col("queue").isNull()
    whole = queue_stats.groupBy(*BOOT, "snapshot").agg(
        F.sum((~closing).cast("int")).alias("has"),
        F.max(F.when(closing, F.col("queues"))).alias("queues"),
        *[F.max(name).alias(name) for name in ("kind", "row", "lost_records", "ts_us", "sample_rate")],
    )
    return whole.where(F.col("has") == F.col("queues"))


def spans(queue_stats: DataFrame, rows: DataFrame) -> DataFrame:
    """One row for each boot. `from_row` and `to_row` (exclusive) bound what is checked, by the snapshots taken there.

    A snapshot counts as the end if the log reaches up to it; that of a stop always does, as everything was written
    then. Without any the whole log is looked at, and `from_snapshot` and `to_snapshot` are null; so they are where the
    log is a sample, which no snapshot can be compared with.

    `first_row` to `end_row` (exclusive) are the numbers that ought to be there; `last` is when the log ends.
    """
    whole = snapshots(queue_stats)
    bounded = bounds(whole, rows)
    usable = (
        whole.select(*BOOT, "snapshot", "row")
        .join(bounded.select(*BOOT, "first_row", "end_row", F.col("sample_rate").alias("rate")), BOOT)
        .where(F.col("rate") == 1)
        .where((F.col("row") >= F.col("first_row")) & (F.col("row") <= F.col("end_row")))
        .groupBy(*BOOT)
        .agg(
            F.min("snapshot").alias("from_snapshot"),
            F.min("row").alias("from_row"),
            F.max("snapshot").alias("to_snapshot"),
            F.max("row").alias("to_row"),
        )
    )
    return (
        bounded.join(usable, BOOT, "left")
        .withColumn("from_row", F.coalesce("from_row", "first_row"))
        .withColumn("to_row", F.coalesce("to_row", "end_row"))
    )


def bounds(whole: DataFrame, rows: DataFrame) -> DataFrame:
    """What is known of each boot by its log and its snapshots, before any of these is chosen."""
    logs = rows.groupBy(*BOOT).agg(
        F.min("first_row").alias("first_row"),
        (F.max("last_row") + 1).alias("end_row"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.min("sample_rate").alias("sample_rate"),
        F.sum("records").alias("records"),
        (F.sum("records") - F.sum(F.bit_count("bits"))).alias("duplicated"),
        (F.max("greatest_offset") - F.min("least_offset")).alias("clock_moved_us"),
    )
    known = whole.groupBy(*BOOT).agg(
        F.min("row").alias("starts"),
        F.max(F.when(F.col("kind") == STOP, F.col("row"))).alias("stops"),
        F.max("lost_records").alias("lost_records"),
        F.min("ts_us").alias("first_snapshot_at"),
        F.max("ts_us").alias("last_snapshot_at"),
        F.min("sample_rate").alias("told_rate"),
    )
    boots = logs.join(known, BOOT, "full_outer")
    first = F.when(F.col("starts") == 0, F.lit(0)).otherwise(F.coalesce("first_row", "starts"))
    return boots.select(
        *BOOT,
        F.coalesce(first, "first_row", F.lit(0)).cast("long").alias("first_row"),
        F.greatest("stops", F.coalesce("end_row", F.lit(0)).cast("long")).alias("end_row"),
        F.col("stops").isNotNull().alias("stopped"),
        F.coalesce("lost_records", F.lit(0)).alias("lost_records"),
        F.least("first", "first_snapshot_at").alias("first"),
        F.greatest("last", "last_snapshot_at").alias("last"),
        F.least("sample_rate", "told_rate").alias("sample_rate"),
        *[F.coalesce(name, F.lit(0)).cast("long").alias(name) for name in ("records", "duplicated", "clock_moved_us")],
    )


def counts_at(queue_stats: DataFrame, spans: DataFrame, which: str) -> DataFrame:
    """What each queue had in the snapshot that the column `which` names."""
    named = spans.select(*BOOT, F.col(which).alias("snapshot")).where(F.col("snapshot").isNotNull())
    return (
        queue_stats.where(F.col("queue").isNotNull())
        .join(F.broadcast(named), [*BOOT, "snapshot"])
        .select(*BOOT, "vhost", "queue", "ready", "unacked", "published", "acked", "durable")
    )
