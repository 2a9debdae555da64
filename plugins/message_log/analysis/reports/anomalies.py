"""Anomalies: minutes that differ from the other minutes of their queue.

A queue whose messages span WEEKS weeks is compared with the same hour of other weeks, others with all their minutes.
The distance from the median is measured in median absolute deviations, on which a few extreme minutes have no effect.
The silent minutes of an hour are one row with their number, so a queue costs its hours and the minutes with messages.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

COLUMNS = {
    **dict.fromkeys(("node", "vhost", "queue", "flow"), pa.string()),
    "start": pa.timestamp("us", "UTC"),
    "kind": pa.string(),
    "value": pa.float64(),
    "usual": pa.float64(),
}
KEY = ("node", "vhost", "queue", "flow")
GROUP = (*KEY, "season")  # minutes that are compared with each other
DEVIATIONS = 8  # a minute is odd if it is farther than this from the median
FACTOR = 3  # and differs from it by this factor
MINUTES = 10  # the minimum of minutes to compare with
HOUR, WEEK = 60, 7 * 24 * 60  # minutes
WEEKS = 3
NO_SEASON = -1


def anomalies(series: DataFrame) -> DataFrame:
    """Return the odd minutes of the table of minutes. `kind` is silence (no messages), surge, slump or latency."""
    minutes = by_minute(series)
    spans = minutes.groupBy(*KEY).agg(F.min("minute").alias("from"), F.max("minute").alias("to"))
    present = with_season(minutes.withColumn("hour", F.floor(F.col("minute") / HOUR)).join(spans, list(KEY)))
    columns = (*GROUP, "hour", "from", "to", "minute")
    once = F.lit(1).cast("long").alias("times")
    silent = silent_hours(present, spans).withColumn("minute", F.lit(None).cast("long"))
    messages = present.select(*columns, F.col("messages").alias("value"), once).unionByName(
        silent.select(*columns, F.lit(0.0).alias("value"), "times")
    )
    latencies = present.where(F.col("timed") > 0).select(*columns, F.col("latency_us").alias("value"), once)
    odd = judge(messages, kinds_of_counts).unionByName(judge(latencies, kinds_of_latencies))
    every = F.when(F.col("minute").isNotNull(), F.array("minute")).otherwise(F.sequence(*inside_hour()))
    each = odd.withColumn("silent", F.col("minute").isNull()).withColumn("minute", F.explode(every))
    loud = minutes.select(*KEY, "minute", F.lit(True).alias("silent"))  # a silent hour has these columns too
    alone = each.join(loud, [*KEY, "minute", "silent"], "left_anti")
    return alone.select(
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
        F.when(F.col("timed") > 0, F.col("latency_us") / F.col("timed")).alias("latency_us"),  # or unknown
    )


def with_season(hours: DataFrame) -> DataFrame:
    weekly = F.col("to") - F.col("from") >= WEEKS * WEEK
    return hours.withColumn("season", F.when(weekly, F.col("hour") % (WEEK // HOUR)).otherwise(NO_SEASON))


def silent_hours(present: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the hours with minutes without messages, between the first and the last minute; `times`: how many."""
    counts = present.groupBy(*KEY, "hour").agg(F.count("*").alias("present"))
    hour = F.explode(F.sequence(F.floor(F.col("from") / HOUR), F.floor(F.col("to") / HOUR)))
    every = with_season(spans.withColumn("hour", hour))
    first, last = inside_hour()
    times = last - first + 1 - F.coalesce("present", F.lit(0))
    return every.join(counts, [*KEY, "hour"], "left").withColumn("times", times).where(F.col("times") > 0)


def inside_hour() -> tuple[Column, Column]:
    """Return the first and the last minute of an hour, within those of the queue."""
    start = F.col("hour") * HOUR
    return F.greatest("from", start), F.least("to", start + HOUR - 1)


def judge(values: DataFrame, kinds: Callable[[], Column]) -> DataFrame:
    """Return the values that are odd, with the median."""
    middle = values.groupBy(*GROUP).agg(
        F.percentile("value", 0.5, F.col("times")).alias("median"), F.sum("times").alias("minutes")
    )
    off = values.join(middle, list(GROUP)).withColumn("off", F.abs(F.col("value") - F.col("median")))
    spread = off.groupBy(*GROUP).agg(F.percentile("off", 0.5, F.col("times")).alias("deviation"))
    odd = (F.col("off") > DEVIATIONS * F.col("deviation")) & (F.col("off") > 0) & (F.col("minutes") >= MINUTES)
    return off.join(spread, list(GROUP)).where(odd).withColumn("kind", kinds()).where(F.col("kind").isNotNull())


def kinds_of_counts() -> Column:
    value, median = F.col("value"), F.col("median")
    return F.when(value == 0, "silence").when(value > FACTOR * median, "surge").when(value * FACTOR < median, "slump")


def kinds_of_latencies() -> Column:
    return F.when(F.col("value") > FACTOR * F.col("median"), "latency")
