"""Minutes that are unlike the others of their queue: in the same hour of the week, where enough weeks are known.

How far from the median is told in median absolute deviations, which a few wild minutes do not move.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ... import schema
from ..facts import WEIGHT, is_event

KEY = ("node", "vhost", "queue", "flow")
DEVIATIONS = 8  # beyond which a minute is odd
FACTOR = 3  # and by which it has to be off as well
MINUTES = 10  # of a queue, below which nothing is said
WEEKS = 3  # of an hour of the week, below which all hours stand in for it
HOUR_OF_WEEK = 168


def anomalies(traffic: DataFrame) -> DataFrame:
    """`kind` is silence (minutes without any), surge, slump or latency."""
    minutes = filled(by_minute(traffic))
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


def by_minute(traffic: DataFrame) -> DataFrame:
    flow = F.when(is_event(schema.ENQUEUE), "enqueued").when(is_event(schema.DELIVER), "delivered")
    return (
        traffic.withColumn("flow", flow)
        .where(F.col("flow").isNotNull())
        .groupBy(*KEY, F.floor(F.col("second") / 60).alias("minute"))
        .agg(
            (F.sum("weight") / WEIGHT).alias("messages"),
            F.sum("timed").alias("timed"),
            (F.sum("latency_us") / F.sum("timed")).alias("latency_us"),
        )
    )


def filled(minutes: DataFrame) -> DataFrame:
    """With a row for each minute between the first and the last of a queue."""
    span = minutes.groupBy(*KEY).agg(F.min("minute").alias("first"), F.max("minute").alias("last"))
    every = span.select(*KEY, F.explode(F.sequence("first", "last")).alias("minute"))
    return every.join(minutes, [F.equal_null(every[k], minutes[k]) for k in (*KEY, "minute")], "left").select(
        *[every[k] for k in (*KEY, "minute")],
        F.coalesce("messages", F.lit(0.0)).alias("messages"),
        F.coalesce("timed", F.lit(0)).alias("timed"),
        "latency_us",
    )


def judge(minutes: DataFrame, measure: str) -> DataFrame:
    """Odd minutes by one measure."""
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
