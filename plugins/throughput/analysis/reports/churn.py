"""The churn of connections, channels and queues, and suspected leaks."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...file_format import schema

COUNTED = (
    *(schema.CONNECTIONS_CREATED, schema.CONNECTIONS_CLOSED, schema.CHANNELS_CREATED, schema.CHANNELS_CLOSED),
    *(schema.QUEUES_CREATED, schema.QUEUES_DELETED),
)
LEAK = 50  # the minimum increase of a suspected leak, which also has doubled and still grows


def churn(metrics: DataFrame) -> DataFrame:
    """Return by node how many were opened and closed, the rate, the present number, and whether a leak is suspected."""
    hours = (F.unix_micros(F.max("ts_us")) - F.unix_micros(F.min("ts_us"))) / 3.6e9
    counted = (
        metrics.where(F.col("name").isin(*COUNTED))
        .groupBy("node", "boot_id", "name")
        .agg((F.max("value") - F.min("value")).alias("count"), hours.alias("hours"))
        .groupBy("node", "name")
        .agg(F.sum("count").cast("long").alias("count"), F.sum("hours").alias("hours"))
        .withColumn("per_hour", F.when(F.col("hours") > 0, F.round(F.col("count") / F.col("hours"), 3)))
    )
    open_now = (
        metrics.where(F.col("name").isin(schema.CONNECTIONS, schema.CHANNELS))
        .groupBy("node", "name")
        .agg(
            F.max_by("value", "ts_us").cast("long").alias("now"),
            F.min_by("value", "ts_us").cast("long").alias("at_start"),
            F.regr_slope("value", F.unix_micros("ts_us") / 3.6e9).alias("slope"),
        )
    )
    more = F.col("now") - F.col("at_start")
    leaks = (F.col("slope") > 0) & (more >= LEAK) & (F.col("now") >= 2 * F.col("at_start"))
    return counted.select("node", "name", "count", "per_hour").unionByName(
        open_now.select("node", "name", "now", F.coalesce(leaks, F.lit(False)).alias("leak_suspected")), True
    )
