"""The aggregates of the log's rows, from which all reports are made; parts of an aggregate can be merged.

Every aggregate has keys and aggregated columns (sums, minima, maxima). It is therefore the same whether it is made from
all files at once or from successive batches, on one machine or on a cluster: sums are of integers, and quantiles are
read from histograms with fixed bounds. Pure functions of DataFrames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from ..file_format import schema
from ..file_format.schema import ACK, CONFIRM, DELIVER, ENQUEUE, FED_IN, FED_OUT, PUBLISH, REQUEUE, RETURN
from .create_table import create_table

WEIGHT = 1000  # weight of a record that represents one message; at a sampling rate of 0.5 it is twice that
FINENESS = 128  # buckets of a histogram for each factor of e: a quantile is off by 0.4 % at most
UNROUTABLE = "unroutable"


class Aggregate(NamedTuple):
    """An aggregate. `merge` has the aggregate that merges each column other than the keys: sum, min, max or bit_or.

    `shorten` is applied to a part that is stored, if its size is not bounded otherwise. `join` merges parts whose rows
    may overlap although their keys differ.
    """

    name: str
    table: str
    make: Callable[[DataFrame], DataFrame]
    keys: tuple[str, ...]
    merge: Mapping[str, str]
    shorten: Callable[[DataFrame], DataFrame] | None = None
    join: Callable[[DataFrame], DataFrame] | None = None


def merge_parts(aggregate: Aggregate, parts: DataFrame) -> DataFrame:
    """Merge parts of one aggregate."""
    if aggregate.join is not None:
        return aggregate.join(parts)
    return merged(parts, aggregate.keys, aggregate.merge) if aggregate.keys else parts


def merged(rows: DataFrame, keys: Sequence[str], merge: Mapping[str, str]) -> DataFrame:
    """Merge rows with the same keys."""
    return rows.groupBy(*keys).agg(*[F.expr(f"{how}({name})").alias(name) for name, how in merge.items()])


def bucket(microseconds: Column) -> Column:
    """Return the histogram bucket of a time; negative times count as 0."""
    return F.floor(F.log(F.greatest(microseconds, F.lit(0)) + 1) * FINENESS).cast("int")


def bucket_middle(bucket_number: Column) -> Column:
    """Return the middle of a bucket, in whole microseconds."""
    return F.round(F.exp((bucket_number + 0.5) / FINENESS) - 1).cast("long")


THOUSANDTHS = {"p50_us": 500, "p90_us": 900, "p99_us": 990, "p999_us": 999}


def quantiles(histograms: DataFrame, *keys: str) -> DataFrame:
    """Return a row with quantiles, `messages` and `max_us` for each key of histograms.

    A histogram has the columns `bucket`, `records` and `highest_us`. The order in which parts of it were merged has no
    effect on the result.
    """
    totals = histograms.groupBy(*keys, "bucket").agg(
        F.sum("records").alias("records"), F.max("highest_us").alias("highest_us")
    )
    by_key = Window.partitionBy(*keys)
    so_far = by_key.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sums = {"cumulated": F.sum("records").over(so_far), "all": F.sum("records").over(by_key)}
    reached = {
        name: F.min(F.when(F.col("cumulated") * 1000 >= F.col("all") * share, F.col("bucket")))
        for name, share in THOUSANDTHS.items()
    }
    return (
        totals.withColumns(sums)
        .groupBy(*keys)
        .agg(
            F.sum("records").alias("messages"),
            *[F.least(bucket_middle(bucket), F.max("highest_us")).alias(name) for name, bucket in reached.items()],
            F.max("highest_us").alias("max_us"),
        )
    )


def messages(weight: Column | str) -> Column:
    """Return the number of messages of a weight, which is an estimate if the log is a sample."""
    return F.round((F.col(weight) if isinstance(weight, str) else weight) / WEIGHT).cast("long")


def weight() -> Column:
    # without F.round, which makes a text and a decimal of each number
    return F.floor(F.lit(WEIGHT) / F.col("sample_rate") + 0.5).cast("long")


def count_if(condition: Column) -> Column:
    return F.sum(condition.cast("long"))


def is_event(*names: str) -> Column:
    return F.col("event").isin(*names)


def kinds(events: DataFrame) -> DataFrame:
    """Count events by KIND, with the seconds of the first and the last one, and with the number of the kind, `kind`.

    The other aggregates have the number in place of the names.
    """
    second = F.unix_seconds("ts_us")
    sums = (
        described(events)
        .groupBy(*KIND)
        .agg(
            *counts(),
            F.coalesce(F.sum("routed"), F.lit(0)).alias("routed"),
            F.min(second).alias("first"),
            F.max(second).alias("last"),
        )
    )
    return sums.withColumn("kind", kind_number())


def traffic(events: DataFrame) -> DataFrame:
    """Count events by kind and second, acknowledgements also by the time since the publish."""
    return (
        of_kinds(events)
        .withColumn("ack_bucket", F.when(is_event(ACK), ack_bucket(F.col("lat_us"))))
        .withColumn("second", F.unix_seconds("ts_us"))
        .groupBy(*TRAFFIC_KEYS)
        .agg(
            *counts(),
            F.coalesce(F.sum(F.col("size") * weight()), F.lit(0)).alias("bytes"),
            F.coalesce(F.sum(F.greatest("lat_us", F.lit(0))), F.lit(0)).alias("latency_us"),
            F.count("lat_us").alias("timed"),
        )
    )


def of_kinds(events: DataFrame) -> DataFrame:
    """Add the columns of KIND that the log does not have, and the number of the kind."""
    return described(events).withColumn("kind", kind_number())


def described(events: DataFrame) -> DataFrame:
    unrouted = is_event(PUBLISH, FED_IN) & (F.col("routed") == 0) & F.col("reason").isNull()
    return (
        events.withColumn("reason", F.nullif(F.col("reason"), F.lit("")))
        .withColumn("reason", F.when(unrouted, UNROUTABLE).otherwise(F.coalesce("reason", F.lit(""))))
        .withColumn("linked", F.col("link").isNotNull())
    )


def kind_number() -> Column:
    """Return the number of the kind, a hash of the columns KIND.

    So all batches have the same number for a kind, without a table that they share. `report_inputs.kinds` checks that
    no two kinds have the same number.
    """
    absent = [F.col(name).isNull() for name in KIND]  # a hash of values ignores nulls
    return F.xxhash64(*KIND, *absent)


def by_kind(traffic: DataFrame, columns: Mapping[str, t.DataType], rows: Sequence[Sequence[Any]]) -> DataFrame:
    """Add columns to traffic. Each row has the number of a kind and its values; kinds without a row are left out."""
    of_kind = create_table(traffic.sparkSession, {"kind": t.LongType(), **columns}, rows)
    return traffic.join(F.broadcast(of_kind), "kind")


def counts() -> list[Column]:
    """Return the columns that both kinds and traffic have."""
    return [
        F.count("*").alias("records"),
        F.sum(weight()).alias("weight"),
        F.coalesce(F.max("lat_us"), F.lit(0)).alias("highest_us"),
    ]


def with_entry(seconds: DataFrame) -> DataFrame:
    """Add to traffic `entered_us`, when the message that waited longest entered.

    That is the earliest time, as the latest possible moment of the second is taken for the end of its wait.
    """
    waited = F.when(F.col("timed") > 0, (F.col("second") + 1) * 1_000_000 - F.col("highest_us"))
    return seconds.withColumn("entered_us", waited)


def ack_bucket(microseconds: Column) -> Column:
    """Return the bucket of the time from the publish to the acknowledgement, two for each power of ten.

    Bucket n begins at 10**(n / 2) microseconds; the first has all shorter times too, the last all longer ones.
    """
    bucket_number = F.floor(F.log10(F.greatest(microseconds, F.lit(1)).cast("double")) * 2).cast("int")
    return F.least(F.greatest(bucket_number, F.lit(ACK_BUCKETS[0])), F.lit(ACK_BUCKETS[-1]))


ACK_BUCKETS = range(4, 18)  # from 100 microseconds to 5 minutes
OF_EVENT = ("event", "reason", "no_ack", "redelivered", "linked")
KIND = ("node", "boot_id", "vhost", "queue", "user", *OF_EVENT)
TRAFFIC_KEYS = ("kind", "ack_bucket", "second")
STAGES = {ENQUEUE: "publish_enqueue", CONFIRM: "publish_confirm", DELIVER: "publish_deliver", ACK: "publish_ack"}


def latencies(events: DataFrame) -> DataFrame:
    """Return histograms of the time since a message was published; only first deliveries count."""
    first = ~F.coalesce("redelivered", F.lit(False)) | ~is_event(DELIVER)
    return (
        of_kinds(events.where(is_event(*STAGES) & F.col("lat_us").isNotNull() & first))
        .groupBy("kind", bucket(F.col("lat_us")).alias("bucket"))
        .agg(F.count("*").alias("records"), F.max(F.greatest("lat_us", F.lit(0))).alias("highest_us"))
    )


EXCHANGE = ("node", "vhost", "exchange")
KEPT_KEYS = 10_000  # keys of one exchange that a stored part counts separately
ROUTE_COUNTS = ("published", "bytes", "unroutable", "returned")


def routes(events: DataFrame) -> DataFrame:
    """Count published, returned and unroutable messages by exchange and routing key.

    `others` and `bound` are those of `busiest_keys`.
    """
    published = is_event(PUBLISH, FED_IN)
    nowhere = published & (F.col("routed") == 0) & (F.coalesce("reason", F.lit("")) == "")
    return (
        events.where(is_event(PUBLISH, FED_IN, RETURN))
        .groupBy(*EXCHANGE, "routing_key")
        .agg(
            F.sum(F.when(published, weight()).otherwise(0)).alias("published"),
            F.sum(F.when(published, F.coalesce("size", F.lit(0)) * weight()).otherwise(0)).alias("bytes"),
            F.sum(F.when(nowhere, weight()).otherwise(0)).alias("unroutable"),
            F.sum(F.when(is_event(RETURN), weight()).otherwise(0)).alias("returned"),
            F.lit(0).cast("long").alias("others"),
            F.lit(0).cast("long").alias("bound"),
        )
    )


def busiest_keys(part: DataFrame) -> DataFrame:
    """Return routes with one row for all keys of an exchange that are not among its KEPT_KEYS first ones.

    The first ones are those with most messages, and those with most unroutable ones. `others` is the number of keys in
    the further row, at most if parts were merged; its `routing_key` is null. `bound`, which all rows of the exchange
    have, is the greatest number of messages that one of the others can have: at most one KEPT_KEYS-th of all. If a key
    was among the others of some parts that were merged, its count is too low: by the bound of the others without its
    own at most.
    """
    own, lost = own_keys(part), F.greatest("unroutable", "returned")
    cuts = last_kept(own, F.col("published"), "cut").join(last_kept(own, lost, "lost_cut"), list(EXCHANGE), "left")
    renamed = cuts.select(*[F.col(name).alias(f"cut_{name}") for name in EXCHANGE], "cut", "lost_cut")
    same = [F.equal_null(name, f"cut_{name}") for name in EXCHANGE]
    kept = (F.col("published") > F.coalesce("cut", F.lit(-1))) | (lost > F.coalesce("lost_cut", F.lit(0)))
    return (
        part.join(F.broadcast(renamed), same, "left")
        .withColumn("kept", (F.col("others") == 0) & kept)
        .withColumn("routing_key", F.when(F.col("kept"), F.col("routing_key")))
        .groupBy(*EXCHANGE, "routing_key", "kept")
        .agg(
            *[F.sum(name).alias(name) for name in ROUTE_COUNTS],
            F.sum(F.when(F.col("kept"), 0).otherwise(F.greatest("others", F.lit(1)))).alias("others"),
            (F.max("bound") + F.coalesce(F.max("cut"), F.lit(0))).alias("bound"),
        )
        .drop("kept")
    )


def own_keys(routes: DataFrame) -> DataFrame:
    """Return the keys that have a row of their own."""
    return routes.where(F.col("others") == 0)


def last_kept(keys: DataFrame, measure: Column, name: str) -> DataFrame:
    """Return the measure of the key at place KEPT_KEYS of each exchange that has so many keys with such messages."""
    place = F.row_number().over(Window.partitionBy(*EXCHANGE).orderBy(F.desc("measure")))
    return (
        keys.withColumn("measure", measure)
        .where(F.col("measure") > 0)
        .withColumn("place", place)
        .where(F.col("place") <= KEPT_KEYS)
        .groupBy(*EXCHANGE)
        .agg(F.min("measure").alias(name), F.max("place").alias("places"))
        .where(F.col("places") == KEPT_KEYS)
        .drop("places")
    )


def transfers(events: DataFrame) -> DataFrame:
    """Count the messages between clients, exchanges and queues. `others` is that of `top_rows`."""
    return (
        events.where(is_event(PUBLISH, FED_IN, ENQUEUE, DELIVER))
        .groupBy(*TRANSFER_KEYS)
        .agg(
            F.sum(weight()).alias("weight"),
            F.coalesce(F.sum(F.col("size") * weight()), F.lit(0)).alias("bytes"),
            F.sum(F.when(F.col("redelivered"), weight()).otherwise(0)).alias("redelivered"),
            F.lit(0).cast("long").alias("others"),
            F.max("ts_us").alias("last"),
        )
    )


TRANSFER_KEYS = ("node", "vhost", "event", "exchange", "queue", "user", "conn_id", "link")


def attempts(events: DataFrame) -> DataFrame:
    """Return the messages that were redelivered or requeued. `others` is that of `top_rows`."""
    again = is_event(DELIVER) & F.col("redelivered")
    return (
        events.where(again | is_event(REQUEUE))
        .groupBy("node", "boot_id", "vhost", "queue", "msg_seq")
        .agg(
            count_if(again).alias("redelivered"),
            count_if(is_event(REQUEUE)).alias("requeued"),
            F.min("ts_us").alias("first"),
            F.max("ts_us").alias("last"),
            F.lit(0).cast("long").alias("others"),
        )
    )


def crossings(events: DataFrame) -> DataFrame:
    """Return the messages that links took from one broker and brought to another, by identity."""
    arrived, discarded = is_event(FED_IN), F.coalesce("reason", F.lit("")) != ""
    published = F.unix_micros("ts_us") - F.col("lat_us")
    return (
        events.where(is_event(FED_IN, FED_OUT))
        .groupBy("link", "identity")
        .agg(
            count_if(is_event(FED_OUT)).alias("taken"),
            count_if(arrived).alias("arrived"),
            count_if(arrived & discarded).alias("discarded"),
            F.max(F.when(arrived, F.col("node"))).alias("node"),
            F.max(F.when(arrived, F.col("vhost"))).alias("vhost"),
            F.max(F.when(arrived, F.col("upstream"))).alias("upstream"),
            F.max(F.when(~arrived, F.col("node"))).alias("upstream_node"),
            F.max("hops").alias("hops"),
            F.min(F.when(~arrived, published)).alias("published"),
            F.max(F.when(~arrived, F.unix_micros("ts_us"))).alias("left"),
            F.min(F.when(arrived, F.unix_micros("ts_us"))).alias("entered"),
            F.max(F.when(arrived, F.unix_micros("ts_us"))).alias("last_entered"),
        )
    )


LINK = ("link", "upstream_node")  # upstream queues at several brokers may have the same name


SIDES = ("link", "node", "upstream")


def by_link(some_crossings: DataFrame, known: DataFrame | None = None) -> DataFrame:
    """Fill in `upstream_node` for messages that the upstream did not log, if it logged others of the same link.

    `known` is the result of `upstream_nodes` if there are more crossings than these.
    """
    known = upstream_nodes(some_crossings) if known is None else known
    joined = some_crossings.join(F.broadcast(known), list(SIDES), "left")
    return joined.withColumn("upstream_node", F.coalesce("upstream_node", "known")).drop("known")


def upstream_nodes(some_crossings: DataFrame) -> DataFrame:
    """Return the upstream node of each link that the upstream logged, as the column `known`."""
    nodes = some_crossings.groupBy(*SIDES).agg(F.max("upstream_node").alias("known"))
    return nodes.where(F.col("known").isNotNull())


def lag_us() -> Column:
    """Return the time from the publish of a crossing's message at the upstream to its arrival."""
    return F.col("entered") - F.col("published")


def tally(some_crossings: DataFrame) -> DataFrame:
    """Count crossings by link and by the brokers at its ends."""
    return some_crossings.groupBy(*CROSSING_TALLY).agg(
        *[F.sum(name).alias(name) for name in ("taken", "arrived", "discarded")],
        F.sum(F.greatest(F.col("arrived") - F.greatest("taken", F.lit(1)), F.lit(0))).alias("duplicates"),
        F.sum(F.greatest(F.col("taken") - F.col("arrived"), F.lit(0))).alias("missing"),
        F.min("entered").alias("entered"),
        F.max("last_entered").alias("last_entered"),
        F.max("hops").alias("most_hops"),
        F.sum("hops").alias("hops"),
        F.count("hops").alias("hopped"),
        F.sum((lag_us() < 0).cast("long")).alias("negative_lags"),
    )


def lags(some_crossings: DataFrame) -> DataFrame:
    """Return histograms of the lag of crossings by link."""
    return (
        some_crossings.where(lag_us().isNotNull())
        .select(*LINK, bucket(lag_us()).alias("bucket"), F.greatest(lag_us(), F.lit(0)).alias("lag"))
        .groupBy(*CROSSING_LAG)
        .agg(F.count("*").alias("records"), F.max("lag").alias("highest_us"))
    )


CROSSING_TALLY = (*SIDES, "vhost", "upstream_node")
CROSSING_LAG = (*LINK, "bucket")
TALLY_MERGE = {
    **dict.fromkeys(("taken", "arrived", "discarded", "duplicates", "missing"), "sum"),
    **dict.fromkeys(("hops", "hopped", "negative_lags"), "sum"),
    "entered": "min",
    **dict.fromkeys(("last_entered", "most_hops"), "max"),
}


def unchanged(table: DataFrame) -> DataFrame:
    """Return a table that is small enough without aggregation."""
    return table


_CROSSING = {
    **dict.fromkeys(("taken", "arrived", "discarded"), "sum"),
    **dict.fromkeys(("node", "vhost", "upstream", "upstream_node", "hops", "left", "last_entered"), "max"),
    **dict.fromkeys(("published", "entered"), "min"),
}
_TRAFFIC = {**dict.fromkeys(("records", "weight", "bytes", "latency_us", "timed"), "sum"), "highest_us": "max"}
_KINDS = {**dict.fromkeys(("records", "weight", "routed"), "sum"), "highest_us": "max", "first": "min", "last": "max"}
_ATTEMPTS = {
    **dict.fromkeys(("redelivered", "requeued", "others"), "sum"),
    "first": "min",
    "last": "max",
}
_TRANSFERS = {**dict.fromkeys(("weight", "bytes", "redelivered", "others"), "sum"), "last": "max"}
_ROUTES = dict.fromkeys((*ROUTE_COUNTS, "others", "bound"), "sum")
_LATENCY = {"records": "sum", "highest_us": "max"}

KINDS = Aggregate("kinds", schema.EVENTS, kinds, ("kind", *KIND), _KINDS)
TRAFFIC = Aggregate("traffic", schema.EVENTS, traffic, TRAFFIC_KEYS, _TRAFFIC)
LATENCIES = Aggregate("latencies", schema.EVENTS, latencies, ("kind", "bucket"), _LATENCY)
ROUTES = Aggregate("routes", schema.EVENTS, routes, (*EXCHANGE, "routing_key"), _ROUTES, busiest_keys)
TRANSFERS = Aggregate("transfers", schema.EVENTS, transfers, TRANSFER_KEYS, _TRANSFERS)
ATTEMPTS = Aggregate("attempts", schema.EVENTS, attempts, ("node", "boot_id", "vhost", "queue", "msg_seq"), _ATTEMPTS)
CROSSINGS = Aggregate("crossings", schema.EVENTS, crossings, ("link", "identity"), _CROSSING)
STATS = Aggregate("queue_stats", schema.QUEUE_STATS, unchanged, (), {})
METRICS = Aggregate("metrics", schema.METRICS, unchanged, (), {})
