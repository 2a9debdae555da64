"""The lengths of queues before and after restarts of a broker."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from .checked_range import BOOT, counts_at


def restarts(queue_stats: DataFrame, spans: DataFrame) -> DataFrame:
    """Return one row for each queue that had messages before or after a restart; transient messages may be fewer.

    `told` is false if the boot before was killed, so that the queue's last length is unknown.
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
