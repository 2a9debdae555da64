"""The checked range of each boot's log: from one snapshot of the queues' lengths to another."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...file_format.schema import START, STOP
from ..row_numbers import present

BOOT = ["node", "boot_id"]
LINK = ("previous_boot", "previous_row", "previous_at", "retention_days", "comparable")  # of a start


def snapshots(queue_stats: DataFrame) -> DataFrame:
    """Return the complete snapshots: those with a closing row and as many queues as it states."""
    closing = F.col("queue").isNull()
    whole = queue_stats.groupBy(*BOOT, "snapshot").agg(
        F.sum((~closing).cast("int")).alias("has"),
        F.max(F.when(closing, F.col("queues"))).alias("queues"),
        *[F.max(name).alias(name) for name in ("kind", "row", "lost_records", "ts_us", "sample_rate", *LINK)],
    )
    return whole.where(F.col("has") == F.col("queues"))


def spans(queue_stats: DataFrame, rows: DataFrame) -> DataFrame:
    """Return one row for each boot, with its checked range: `from_row` to `to_row` (exclusive), each at a snapshot.

    The rows before a snapshot are finished before it, so rows that the log lacks there are missing. Without snapshots
    the range is the whole log, and `from_snapshot` and `to_snapshot` are null. They are also null if the log is a
    sample, which cannot be compared with a snapshot.

    `first_row` to `end_row` (exclusive) are the row numbers that the log should have; `last` is the time of its end.
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
    """Return one row for each boot, with the figures of its log and of all its snapshots."""
    logs = rows.groupBy(*BOOT).agg(
        F.min("first_row").alias("first_row"),
        (F.max("last_row") + 1).alias("end_row"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.min("sample_rate").alias("sample_rate"),
        F.sum("records").alias("records"),
        (F.sum("records") - F.sum(present())).alias("duplicated"),
        (F.max("greatest_offset") - F.min("least_offset")).alias("clock_moved_us"),
    )
    known = whole.groupBy(*BOOT).agg(
        F.min("row").alias("starts"),
        F.max("row").alias("counted"),
        F.max(F.col("kind") == STOP).alias("stopped"),
        F.max(F.col("kind") == START).alias("started"),
        *[F.max(name).alias(name) for name in LINK],
        F.max("lost_records").alias("lost_records"),
        F.min("ts_us").alias("first_snapshot_at"),
        F.max("ts_us").alias("last_snapshot_at"),
        F.min("sample_rate").alias("snapshot_rate"),
    )
    boots = logs.join(known, BOOT, "full_outer")
    first = F.when(F.col("starts") == 0, F.lit(0)).otherwise(F.coalesce("first_row", "starts"))
    return boots.select(
        *BOOT,
        F.coalesce(first, "first_row", F.lit(0)).cast("long").alias("first_row"),
        F.greatest("counted", F.coalesce("end_row", F.lit(0)).cast("long")).alias("end_row"),
        *[F.coalesce(name, F.lit(False)).alias(name) for name in ("stopped", "started")],
        *LINK,
        F.coalesce("lost_records", F.lit(0)).alias("lost_records"),
        F.least("first", "first_snapshot_at").alias("first"),
        F.greatest("last", "last_snapshot_at").alias("last"),
        F.least("sample_rate", "snapshot_rate").alias("sample_rate"),
        *[F.coalesce(name, F.lit(0)).cast("long").alias(name) for name in ("records", "duplicated", "clock_moved_us")],
    )


def counts_at(queue_stats: DataFrame, spans: DataFrame, which: str) -> DataFrame:
    """Return the counts of each queue in the snapshot that the column `which` of `spans` names."""
    named = spans.select(*BOOT, F.col(which).alias("snapshot")).where(F.col("snapshot").isNotNull())
    return (
        queue_stats.where(F.col("queue").isNotNull())
        .join(F.broadcast(named), [*BOOT, "snapshot"])
        .select(*BOOT, "vhost", "queue", "ready", "unacked", "published", "acked", "durable")
    )
