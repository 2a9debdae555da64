"""Quantiles from histograms, independent of the order in which parts of a histogram were merged."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from .facts import bucket_middle

THOUSANDTHS = {"p50_us": 500, "p90_us": 900, "p99_us": 990, "p999_us": 999}


def quantiles(histograms: DataFrame, *keys: str) -> DataFrame:
    """Return a row with quantiles, `messages` and `max_us` for each key of histograms.

    A histogram has the columns `bucket`, `records` and `highest_us`.
    """
    totals = histograms.groupBy(*keys, "bucket").agg(
        F.sum("records").alias("records"), F.max("highest_us").alias("highest_us")
    )
    by_key = Window.partitionBy(*keys)
    upto = by_key.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    stood = totals.withColumn("upto", F.sum("records").over(upto)).withColumn("all", F.sum("records").over(by_key))
    reached = {
        name: F.min(F.when(F.col("upto") * 1000 >= F.col("all") * share, F.col("bucket")))
        for name, share in THOUSANDTHS.items()
    }
    return stood.groupBy(*keys).agg(
        F.sum("records").alias("messages"),
        *[F.least(bucket_middle(bucket), F.max("highest_us")).alias(name) for name, bucket in reached.items()],
        F.max("highest_us").alias("max_us"),
    )
