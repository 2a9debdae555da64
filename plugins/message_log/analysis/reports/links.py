"""Federation links: messages that they took from one broker and brought to another, lag, and failures."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...file_format import schema
from ..aggregates import LINK, by_link, quantiles


def links(tallies: DataFrame, lags: DataFrame, metrics: DataFrame) -> DataFrame:
    """Return one row for each link, from the crossings as `aggregates.tally` and `aggregates.lags` reduce them.

    taken         messages that left the upstream queue
    arrived          messages that arrived downstream
    discarded     arrived messages that were dropped: by max-hops or as repeats
    duplicates    messages that arrived more often than they were taken
    missing       messages that were taken and did not arrive; null if the downstream exported nothing of the link
    lag_*         from the publish at the upstream to the arrival, by the clocks of both brokers
    negative_lags  the number of negative lags
    """
    any_arrived = F.sum("arrived") > 0
    # Messages with the same content have the same identity.
    seconds = (F.max("last_entered") - F.min("entered")) / 1e6
    sums = (
        by_link(tallies)
        .groupBy(*LINK)
        .agg(
            *[F.max(name).alias(name) for name in ("node", "vhost", "upstream")],
            *[F.sum(name).alias(name) for name in ("taken", "arrived", "discarded")],
            F.sum("duplicates").alias("duplicates"),
            F.when(any_arrived, F.sum("missing")).alias("missing"),
            F.when(seconds > 0, F.round(F.sum("arrived") / seconds, 3)).alias("messages_per_s"),
            F.max("most_hops").alias("most_hops"),
            F.round(F.sum("hops") / F.sum("hopped"), 3).alias("mean_hops"),
            F.sum("negative_lags").alias("negative_lags"),
        )
    )
    quantile = quantiles(lags, *LINK).drop("messages")
    renamed = quantile.toDF(*LINK, *[f"lag_{name}" for name in quantile.columns[len(LINK) :]])
    return sums.join(renamed, list(LINK), "left").join(flaps(metrics), ["link", "node"], "left")


def flaps(metrics: DataFrame) -> DataFrame:
    """Return how often each link of each broker was started and how often it failed."""
    counted = (
        metrics.where(F.col("name").isin(schema.LINK_STARTS, schema.LINK_FAILURES))
        .groupBy("node", "boot_id", "name", F.col("labels")["link"].alias("link"))
        .agg(F.max("value").alias("count"))
    )
    return counted.groupBy("link", "node").agg(
        *[
            F.sum(F.when(F.col("name") == name, F.col("count"))).cast("long").alias(short)
            for name, short in ((schema.LINK_STARTS, "starts"), (schema.LINK_FAILURES, "failures"))
        ]
    )
