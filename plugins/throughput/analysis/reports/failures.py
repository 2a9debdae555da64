"""What went wrong with messages: unroutable, given up by queues, out more than once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ... import schema
from ..facts import WEIGHT, is_event
from .hot_keys import EXCHANGE
from .throughput import messages


def unroutable(routes: DataFrame) -> DataFrame:
    """By exchange and key."""
    lost = F.greatest("unroutable", "returned")
    return routes.where(lost > 0).select(
        *EXCHANGE,
        "routing_key",
        *[F.round(F.col(name) / WEIGHT).cast("long").alias(name) for name in ("published", "unroutable", "returned")],
    )


def given_up(traffic: DataFrame) -> DataFrame:
    """What queues gave up, and why: expired, dropped, dead-lettered."""
    return (
        traffic.where(is_event(schema.EXPIRE, schema.DROP, schema.DEAD_LETTER))
        .groupBy("node", "vhost", "queue", "event", "reason")
        .agg(messages(F.col("weight")).alias("messages"))
    )


def redelivered(traffic: DataFrame) -> DataFrame:
    """Queues whose messages went out more than once."""
    out = is_event(schema.DELIVER)
    counts = traffic.groupBy("node", "vhost", "queue").agg(
        messages(F.when(out, F.col("weight"))).alias("delivered"),
        messages(F.when(out & F.col("redelivered"), F.col("weight"))).alias("redelivered"),
        messages(F.when(is_event(schema.REQUEUE), F.col("weight"))).alias("requeued"),
    )
    again = counts.where(F.col("queue").isNotNull() & (F.col("redelivered") + F.col("requeued") > 0))
    return again.withColumn("share", F.round(F.col("redelivered") / F.greatest("delivered", F.lit(1)), 6))


def poison(attempts: DataFrame) -> DataFrame:
    """Messages by how often they came back."""
    return attempts.where(F.greatest("redelivered", "requeued") > 1)
