"""Hot exchanges and routing keys, how uneven they are, and how hash exchanges would distribute them."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ..aggregates import EXCHANGE, messages, own_keys
from ..simulated_exchange import HASH_TYPES, SimulatedExchange
from ..tables import Values, keyed

KEYS = 1000  # keys of one exchange that are hashed; the others are assumed to be spread evenly
EXCHANGES = 20  # for which advice is given
ADVISED = EXCHANGES * KEYS  # keys that it regards at most
QUEUES = (2, 4, 8, 16, 32)
FAIR = 1.25  # the most that the busiest queue may get, relative to an equal share


def hot_keys(routes: DataFrame) -> DataFrame:
    """Return the keys with most messages of each exchange; `published` may be too low by `too_low_by`, mostly 0."""
    by_exchange = Window.partitionBy(*EXCHANGE)
    place = F.row_number().over(by_exchange.orderBy(F.desc("published"), "routing_key"))
    whole = routes.groupBy(*EXCHANGE).agg(F.sum("published").alias("all"), F.max("bound").alias("greatest"))
    return (
        own_keys(routes)
        .where(F.col("published") > 0)
        .withColumn("place", place)
        .where(F.col("place") <= KEYS)
        .join(whole, list(EXCHANGE))
        .withColumn("share", F.round(F.col("published") / F.col("all"), 6))
        .withColumn("too_low_by", F.col("greatest") - F.col("bound"))
        .select(
            *(*EXCHANGE, "routing_key", "place"),
            *(messages(name).alias(name) for name in ("published", "bytes", "too_low_by")),
            "share",
        )
    )


def hot_exchanges(routes: DataFrame) -> DataFrame:
    """Return the exchanges. `gini` is 0 if all keys have equally many messages, and almost 1 if one key has all.

    Keys without a count of their own are assumed to have equally many messages.
    """
    published = routes.where(F.col("published") > 0).withColumn("number", F.greatest("others", F.lit(1)))
    each = (F.col("published") / F.col("number")).alias("each")
    counts = published.groupBy(*EXCHANGE, each).agg(F.sum("number").alias("keys"))
    order = Window.partitionBy(*EXCHANGE).orderBy("each")
    before = F.sum("keys").over(order.rowsBetween(Window.unboundedPreceding, Window.currentRow)) - F.col("keys")
    each, number = F.col("each"), F.col("keys")
    ranks = number * before + number * (number + 1) / 2  # the sum of the ranks of keys with the same count
    total, keys = F.sum(each * number), F.sum(number)
    gini = 2 * F.sum(each * F.col("ranks")) / (keys * total) - (keys + 1) / keys
    uneven = (
        counts.withColumn("ranks", ranks).groupBy(*EXCHANGE).agg(F.round(gini, 6).alias("gini"), keys.alias("keys"))
    )
    own = F.when(F.col("others") == 0, F.col("published"))
    sums = published.groupBy(*EXCHANGE).agg(
        *[messages(F.sum(name)).alias(name) for name in ("published", "bytes")],
        F.max_by("routing_key", F.struct(own, "routing_key")).alias("top_key"),
        F.round(F.coalesce(F.max(own), F.lit(0)) / F.sum("published"), 6).alias("top_share"),
    )
    return sums.join(uneven, list(EXCHANGE))


def hash_advice(keys: list[Values], exchanges: list[Values]) -> Iterator[dict[str, object]]:
    """Yield the share of the busiest queue behind each type of hash exchange, for several numbers of queues.

    `keys` are rows of `hot_keys`, `exchanges` of `hot_exchanges`.
    """
    by_exchange = keyed(keys, *EXCHANGE)
    for exchange in exchanges[:EXCHANGES]:
        place = tuple(exchange[name] for name in EXCHANGE)
        known = by_exchange.get(place, [])
        rest = exchange["published"] - sum(key["published"] for key in known)
        for type_name in HASH_TYPES:
            yield advice(place, type_name, known, rest, exchange["published"])


def advice(place: tuple[object, ...], type_name: str, keys: list[Values], rest: int, total: int) -> dict[str, object]:
    busiest = {}
    for count in QUEUES:
        routes = SimulatedExchange(type_name, count).routes([(key["routing_key"] or "",) for key in keys])
        loads: dict[str, float] = {}
        for destination, key in zip(routes, keys, strict=True):
            loads[destination.name] = loads.get(destination.name, rest / count) + key["published"]
        busiest[count] = max([*loads.values(), rest / count]) / total
    fair = [count for count, share in busiest.items() if share * count <= FAIR]
    return {
        **dict(zip(EXCHANGE, place, strict=True)),
        "type": type_name,
        "busiest_share": {str(count): round(share, 6) for count, share in busiest.items()},
        "queues": max(fair, default=1),
        "advice": f"up to {max(fair)} queues share evenly"
        if fair
        else "a few keys have most messages: do not partition by key",
    }
