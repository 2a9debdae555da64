"""What queues had when a broker stopped, and when it was there again."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from .checked_range import BOOT, counts_at


def restarts(queue_stats: DataFrame, spans: DataFrame) -> DataFrame:
    """One row for each queue that had messages on either side. That of transient messages fewer are there is no fault.

    `told` is false where the boot before did not stop in order, so that its last moments are unknown.
    """
    order = Window.partitionBy("node").orderBy("first", "boot_id")
    pairs = spans.select(
        "node", "boot_id", F.lead("boot_id").over(order).alias("next_boot_id"), F.col("stopped").alias("told")
    )
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
        *key, "boot_id", "durable", "told", "before", "after", (F.col("before") - F.col("after")).alias("fewer")
    )
