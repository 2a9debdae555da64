"""Throughput: totals, and the rates of queues, virtual hosts and users."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as t

from ...file_format import schema
from ..aggregates import UNROUTABLE, WEIGHT, by_kind, messages
from ..create_table import create_table
from ..tables import Values

GRAINS_S = {"1s": 1, "1m": 60, "1h": 3600}
SCOPED = ("scope", "node", "vhost", "name", "flow")  # the keys of throughput
SCOPES = ("queue", "vhost", "user")
FLOWS = {
    "published": (schema.PUBLISH, schema.FED_IN),
    "enqueued": (schema.ENQUEUE,),
    "delivered": (schema.DELIVER,),
    "acknowledged": (schema.ACK, schema.FED_OUT),
}


def estimate(kinds: Iterable[Values]) -> int:
    """Return the number of messages of these kinds, which is an estimate if the log is a sample."""
    weight: int = sum(kind["weight"] for kind in kinds)
    return (weight + WEIGHT // 2) // WEIGHT


def totals(kinds: list[Values]) -> Values:
    """Return the number of messages by event; deliveries to federation links are not in `delivered`."""

    def count(*events: str, **columns: object) -> int:
        of_these = [kind for kind in kinds if kind["event"] in events]
        return estimate(kind for kind in of_these if all(kind[name] == value for name, value in columns.items()))

    refused = count(schema.CONFIRM, reason="nack")
    return {
        "published": count(schema.PUBLISH),
        "unroutable": count(*schema.EVENT_NAMES, reason=UNROUTABLE),
        "returned": count(schema.RETURN),
        "confirmed": count(schema.CONFIRM) - refused,
        "refused": refused,
        "enqueued": count(schema.ENQUEUE),
        "delivered": count(schema.DELIVER, linked=False),
        "redelivered": count(schema.DELIVER, linked=False, redelivered=True),
        "acknowledged": count(schema.ACK),
        "rejected": count(schema.NACK),
        "requeued": count(schema.REQUEUE),
        "expired": count(schema.EXPIRE),
        "dropped": count(schema.DROP),
        "dead_lettered": count(schema.DEAD_LETTER),
        "federated_in": count(schema.FED_IN),
        "federated_out": count(schema.FED_OUT),
        "records": sum(kind["records"] for kind in kinds),
    }


def of_series(traffic: DataFrame, kinds: list[Values], *scopes: str) -> tuple[DataFrame, DataFrame]:
    """Return traffic by the series of these scopes, each with a number, and the names of the series."""
    flow_of = {event: flow for flow, events in FLOWS.items() for event in events}
    numbers: dict[tuple[str, ...], int] = {}
    pairs = []
    for kind in kinds:
        flow = flow_of.get(kind["event"])
        for scope in scopes:
            absent = "published" if scope == "queue" else "enqueued"
            if flow not in (None, absent) and kind[scope] is not None:
                key = scope, kind["node"], kind["vhost"], kind[scope], flow
                pairs.append((kind["kind"], numbers.setdefault(key, len(numbers))))
    number = {"series": t.IntegerType()}
    names = [(*key, place) for key, place in numbers.items()]
    columns = {**dict.fromkeys(SCOPED, t.StringType()), **number}
    return by_kind(traffic, number, pairs), create_table(traffic.sparkSession, columns, names)


def seconds(traffic: DataFrame, kinds: list[Values]) -> DataFrame:
    """Return messages and bytes by second; a second without messages has no row.

    `latency_us` is the sum of the time since the publish, of `timed` messages.
    """
    of_queues, queues = of_series(traffic, kinds, "queue")
    of_others, others = of_series(traffic, kinds, "vhost", "user")
    # There are almost as many seconds of queues as rows of traffic: to combine them first would only cost. The seconds
    # of an hour are together, so that they are combined to minutes where they are.
    apart = of_queues.withColumn("hour", F.floor(F.col("second") / GRAINS_S["1h"])).repartition("series", "hour")
    return summed(apart, queues, "hour").unionByName(summed(of_others, others))


def summed(rows: DataFrame, named: DataFrame, *further: str) -> DataFrame:
    """Return the sums of traffic by series and second; `further` are columns that depend on these keys."""
    return (
        rows.groupBy("series", *further, "second")
        .agg(
            messages(F.sum("weight")).alias("messages"),
            messages(F.sum("bytes")).alias("bytes"),
            F.sum("latency_us").alias("latency_us"),
            F.sum("timed").alias("timed"),
        )
        .join(F.broadcast(named), "series")
        .select(*SCOPED, F.timestamp_seconds("second").alias("start"), "messages", "bytes", "latency_us", "timed")
    )


def minutes(series: DataFrame, further: DataFrame | None = None) -> DataFrame:
    """Return the table of seconds by minute, with the peak of a second, and the first and the last second.

    `further` are rolled up minutes, whose seconds are gone.
    """
    made = coarser(series, "1m", F.max("messages").alias("peak_1s"), *ends("start", "start"))
    if further is None:
        return made
    return coarser(made.unionByName(further), "1m", F.max("peak_1s").alias("peak_1s"), *ends("first", "last"))


def hours(series: DataFrame, further: DataFrame | None = None) -> DataFrame:
    """Return the table of minutes by hour, with the peaks of a second and a minute.

    `further` are rolled up hours, whose minutes are gone.
    """
    peaks = F.max("peak_1s").alias("peak_1s"), F.max("messages").alias("peak_1m")
    made = coarser(series, "1h", *peaks, *outer_windows("1m", "start", "start"), *ends("first", "last"))
    if further is None:
        return made
    peaks = F.max("peak_1s").alias("peak_1s"), F.max("peak_1m").alias("peak_1m")
    return coarser(made.unionByName(further), "1h", *peaks, *same_windows("1m"), *ends("first", "last"))


def coarser(series: DataFrame, grain: str, *further: Column) -> DataFrame:
    second = F.unix_seconds("start")
    start = F.timestamp_seconds(second - second % GRAINS_S[grain]).alias("start")
    sums = [F.sum(name).alias(name) for name in ("messages", "bytes", "latency_us", "timed")]
    return series.groupBy(*SCOPED, start).agg(*sums, *further)


def outer_windows(
    grain: str, first: str, last: str, first_messages: str = "messages", last_messages: str = "messages"
) -> list[Column]:
    """Return the starts and messages of the first and the last window."""
    return [
        F.min(first).alias(f"first_{grain}"),
        F.max(last).alias(f"last_{grain}"),
        F.min_by(first_messages, first).alias(f"first_{grain}_messages"),
        F.max_by(last_messages, last).alias(f"last_{grain}_messages"),
    ]


def same_windows(grain: str) -> list[Column]:
    """Return the first and the last window of merged rows."""
    names = (f"{end}_{grain}{what}" for what in ("", "_messages") for end in ("first", "last"))
    return outer_windows(grain, *names)


def ends(first: str, last: str) -> list[Column]:
    return [F.min(first).alias("first"), F.max(last).alias("last")]


def whole(series: DataFrame, further: DataFrame | None = None) -> DataFrame:
    """Return the table of hours without times: sums, peaks, the first and the last windows.

    `further` are such rows about rolled up hours.
    """
    peaks = F.max("peak_1s").alias("peak_1s"), F.max("peak_1m").alias("peak_1m")
    sums = [F.sum(name).alias(name) for name in ("messages", "bytes")]
    windows = *ends("first", "last"), *same_windows("1m")
    made = series.groupBy(*SCOPED).agg(
        *sums, *peaks, F.max("messages").alias("peak_1h"), *windows, *outer_windows("1h", "start", "start")
    )
    if further is None:
        return made
    every = made.unionByName(further).groupBy(*SCOPED)
    return every.agg(*sums, *peaks, F.max("peak_1h").alias("peak_1h"), *windows, *same_windows("1h"))


def throughput(totals: DataFrame) -> DataFrame:
    """Return rates by grain, from `whole`: the mean from the first second to the last, and the peak.

    The first and the last window count only with their seconds between the first and the last message. So no peak is
    below the mean or the peak of a coarser grain.
    """
    span_s = F.unix_seconds("last") - F.unix_seconds("first") + 1
    bounds = {"1s": ("first", "last"), "1m": ("first_1m", "last_1m"), "1h": ("first_1h", "last_1h")}
    grains = [
        F.struct(
            F.lit(grain).alias("grain"),
            F.col(f"peak_{grain}").alias("peak_messages"),
            peak(grain, grain_s, span_s).alias("peak_per_s"),
            F.col(bounds[grain][0]).alias("first"),
            F.col(bounds[grain][1]).alias("last"),
        )
        for grain, grain_s in GRAINS_S.items()
    ]
    each = totals.select(*SCOPED, "messages", "bytes", span_s.alias("span_s"), F.explode(F.array(*grains)).alias("of"))
    mean = F.col("messages") / F.col("span_s")
    peak_per_s = F.col("of.peak_per_s")
    return each.select(
        *SCOPED,
        "of.grain",
        "messages",
        "bytes",
        "of.peak_messages",
        "of.first",
        "of.last",
        "span_s",
        F.round(mean, 3).alias("mean_per_s"),
        F.round(peak_per_s, 3).alias("peak_per_s"),
        F.round(peak_per_s / mean, 3).alias("peak_to_mean"),
        F.round(F.col("bytes") / F.col("span_s"), 3).alias("mean_bytes_per_s"),
    )


def peak(grain: str, grain_s: int, span_s: Column) -> Column:
    """Return the rate of the window with most messages a second."""
    whole = F.col(f"peak_{grain}") / F.least(F.lit(grain_s), span_s)
    if grain_s == 1:
        return whole
    first, last = F.unix_seconds("first"), F.unix_seconds("last") + 1
    window, last_window = F.unix_seconds(f"first_{grain}"), F.unix_seconds(f"last_{grain}")
    in_first = F.col(f"first_{grain}_messages") / (F.least(window + grain_s, last) - first)
    in_last = F.col(f"last_{grain}_messages") / (last - F.greatest(last_window, first))
    return F.greatest(whole, in_first, in_last)
