"""The failures of messages: unroutable, expired, dropped, dead-lettered, redelivered."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...file_format import schema
from ..facts import WEIGHT, is_event
from .hot_keys import EXCHANGE
from .throughput import messages


def unroutable(routes: DataFrame) -> DataFrame:
    """Return unroutable and returned messages by exchange and routing key."""
    lost = F.greatest("unroutable", "returned")
    return routes.where(lost > 0).select(
        *EXCHANGE,
        "routing_key",
        *[F.round(F.col(name) / WEIGHT).cast("long").alias(name) for name in ("published", "unroutable", "returned")],
    )


def given_up(traffic: DataFrame) -> DataFrame:
    """Return messages that queues expired, dropped or dead-lettered, with the reason."""
    return (
        traffic.where(is_event(schema.EXPIRE, schema.DROP, schema.DEAD_LETTER))
        .groupBy("node", "vhost", "queue", "event", "reason")
        .agg(messages(F.col("weight")).alias("messages"))
    )


def redelivered(traffic: DataFrame) -> DataFrame:
    """Return the queues with redelivered or requeued messages."""
    out = is_event(schema.DELIVER)
    counts = traffic.groupBy("node", "vhost", "queue").agg(
        messages(F.when(out, F.col("weight"))).alias("delivered"),
        messages(F.when(out & F.col("redelivered"), F.col("weight"))).alias("redelivered"),
        messages(F.when(is_event(schema.REQUEUE), F.col("weight"))).alias("requeued"),
    )
    again = counts.where(F.col("queue").isNotNull() & (F.col("redelivered") + F.col("requeued") > 0))
    return again.withColumn("share", F.round(F.col("redelivered") / F.greatest("delivered", F.lit(1)), 6))


def poison(attempts: DataFrame) -> DataFrame:
    """Return the messages that were redelivered or requeued more than once."""
    return attempts.where(F.greatest("redelivered", "requeued") > 1)
