"""The names of messages in reports: message_id, exchange and routing key, looked up in the log."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

MESSAGE = ["node", "boot_id", "msg_seq"]
NAMED = 1000  # messages that are looked up at most


def add_names(found: DataFrame, events: DataFrame) -> DataFrame:
    """Add message_id, exchange and routing key, as far as the log has them, to rows about messages."""
    wanted = found.where(F.col("msg_seq").isNotNull()).select(*MESSAGE).distinct().limit(NAMED)
    names = (
        events.select(*MESSAGE, "message_id", "exchange", "routing_key")
        .join(F.broadcast(wanted), MESSAGE)
        .groupBy(*MESSAGE)
        .agg(*[F.max(name).alias(name) for name in ("message_id", "exchange", "routing_key")])
    )
    return found.join(F.broadcast(names), MESSAGE, "left")
