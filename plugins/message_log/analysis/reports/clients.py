"""The clients by their messages, and the flow of messages from exchanges to queues to consumers."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...file_format import schema
from ..aggregates import is_event, messages
from ..top_rows import OTHERS, busiest_connections

CLIENT = ("node", "vhost", "user", "connection")
EDGE = ("node", "vhost", "source_kind", "source", "target_kind", "target")
EXCHANGE, QUEUE, CONSUMER, LINK = "exchange", "queue", "consumer", "link"  # kinds of sources and targets


def clients(transfers: DataFrame) -> DataFrame:
    """Return the connections of clients, with the messages and bytes that they published and consumed.

    Those of a user that are not kept each (`top_rows`) are one row without a name, with their number, `others`.
    """
    out = is_event(schema.DELIVER)
    counts = {
        "published": F.when(is_event(schema.PUBLISH), F.col("weight")),
        "published_bytes": F.when(is_event(schema.PUBLISH), F.col("bytes")),
        "delivered": F.when(out, F.col("weight")),
        "delivered_bytes": F.when(out, F.col("bytes")),
        "redelivered": F.when(out, F.col("redelivered")),
    }
    of_clients = busiest_connections(transfers).where(
        is_event(schema.PUBLISH, schema.DELIVER) & F.col("link").isNull() & F.col("conn_id").isNotNull()
    )
    sums = (
        of_clients.withColumn("connection", F.nullif(F.col("conn_id"), F.lit(OTHERS)))
        .groupBy(*CLIENT)
        .agg(
            *[messages(F.coalesce(F.sum(weight), F.lit(0))).alias(name) for name, weight in counts.items()],
            F.sum("others").alias("others"),
        )
    )
    return sums.withColumn("messages", F.col("published") + F.col("delivered"))


def flow(transfers: DataFrame) -> DataFrame:
    """Return the messages that went from each exchange to each queue, and from each queue to each consumer or link.

    The connections of a user that are not kept each (`top_rows`) are one consumer, with the name of the user.
    """
    consumer = F.concat_ws(" ", "user", F.nullif(F.col("conn_id"), F.lit(OTHERS)))
    entered = is_event(schema.ENQUEUE)
    return (
        busiest_connections(transfers)
        .where((entered | is_event(schema.DELIVER)) & F.col("queue").isNotNull())
        .select(
            "node",
            "vhost",
            F.when(entered, EXCHANGE).otherwise(QUEUE).alias("source_kind"),
            F.when(entered, F.col("exchange")).otherwise(F.col("queue")).alias("source"),
            F.when(entered, QUEUE).when(F.col("link").isNull(), CONSUMER).otherwise(LINK).alias("target_kind"),
            F.when(entered, F.col("queue")).otherwise(F.coalesce("link", consumer)).alias("target"),
            "weight",
        )
        .groupBy(*EDGE)
        .agg(messages(F.sum("weight")).alias("messages"))
    )
