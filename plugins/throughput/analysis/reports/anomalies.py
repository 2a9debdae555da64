"""Anomalies: minutes that differ from the other minutes of their queue in the same hour of the week.

If fewer than WEEKS weeks are known, they are compared with all minutes. The distance from the median is measured in
median absolute deviations, on which a few extreme minutes have no effect.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

KEY = ("node", "vhost", "queue", "flow")
DEVIATIONS = 8  # a minute is odd if it is farther than this from the median
FACTOR = 3  # and differs from it by this factor
MINUTES = 10  # the minimum of minutes of a queue
WEEKS = 3  # the minimum of weeks to compare the same hour of the week
HOUR_OF_WEEK = 168


def anomalies(series: DataFrame) -> DataFrame:
    """Return the odd minutes of the table of minutes. `kind` is silence (no messages), surge, slump or latency."""
    minutes = fill_gaps(by_minute(series))
    season = (F.floor(F.col("minute") / 60) % HOUR_OF_WEEK).alias("season")
    seasonal = minutes.select("*", season, F.floor(F.col("minute") / 60 / HOUR_OF_WEEK).alias("week"))
    judged = judge(seasonal, "messages").unionByName(judge(seasonal.where(F.col("timed") > 0), "latency_us"))
    return judged.select(
        *KEY,
        F.timestamp_seconds(F.col("minute") * 60).alias("start"),
        "kind",
        F.round("value", 3).alias("value"),
        F.round("median", 3).alias("usual"),
    )


def by_minute(series: DataFrame) -> DataFrame:
    """Return the minutes of queues, from the table of minutes."""
    wanted = series.where((F.col("scope") == "queue") & F.col("flow").isin("enqueued", "delivered"))
    return wanted.select(
        "node",
        "vhost",
        F.col("name").alias("queue"),
        "flow",
        F.floor(F.unix_seconds("start") / 60).alias("minute"),
        F.col("messages").cast("double").alias("messages"),
        "timed",
        (F.col("latency_us") / F.col("timed")).alias("latency_us"),
    )


def fill_gaps(minutes: DataFrame) -> DataFrame:
    """Add rows for the minutes without messages between the first and the last of a queue."""
    span = minutes.groupBy(*KEY).agg(F.min("minute").alias("first"), F.max("minute").alias("last"))
    every = span.select(*KEY, F.explode(F.sequence("first", "last")).alias("minute"))
    return every.join(minutes, [F.equal_null(every[k], minutes[k]) for k in (*KEY, "minute")], "left").select(
        *[every[k] for k in (*KEY, "minute")],
        F.coalesce("messages", F.lit(0.0)).alias("messages"),
        F.coalesce("timed", F.lit(0)).alias("timed"),
        "latency_us",
    )


def judge(minutes: DataFrame, measure: str) -> DataFrame:
    """Return the minutes that are odd by one measure."""
    value = F.col(measure).cast("double")
    own, all_hours = Window.partitionBy(*KEY, "season"), Window.partitionBy(*KEY)
    weeks = F.size(F.collect_set("week").over(own)) >= WEEKS
    usual = minutes.withColumn("value", value).withColumn(
        "median", F.when(weeks, F.median("value").over(own)).otherwise(F.median("value").over(all_hours))
    )
    off = usual.withColumn("off", F.abs(F.col("value") - F.col("median"))).withColumn(
        "count", F.count("*").over(all_hours)
    )
    far = F.when(weeks, F.median("off").over(own)).otherwise(F.median("off").over(all_hours))
    odd = (F.col("off") > DEVIATIONS * F.col("deviation")) & (F.col("off") > 0) & (F.col("count") >= MINUTES)
    above = odd & (F.col("value") > FACTOR * F.col("median"))
    below = odd & (F.col("value") * FACTOR < F.col("median"))
    if measure == "messages":
        kind = F.when(odd & (F.col("value") == 0), "silence").when(above, "surge").when(below, "slump")
    else:
        kind = F.when(above, "latency")
    return off.withColumn("deviation", far).withColumn("kind", kind).where(F.col("kind").isNotNull())
