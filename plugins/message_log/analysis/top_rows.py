"""The messages with most attempts and the busiest connections, which keep their rows; the others are only counted.

So aggregates with a row for each message or connection have bounded sizes. The rows in reports do not change: a stream
keeps the top rows among ended messages and connections (`rollup`), and a report selects from these and from all others.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ..file_format.schema import DELIVER, PUBLISH
from .aggregates import TRANSFER_KEYS, TRANSFERS, is_event, merged
from .report_inputs import QUEUE

USER = ("node", "vhost", "user")
KEPT_MESSAGES = 1000  # messages of one queue, with most attempts
KEPT_CONNECTIONS = 1000  # connections of one user and virtual host, with most messages
OTHERS = ""  # the conn_id of the row for all other connections


def most_attempts(attempts: DataFrame) -> DataFrame:
    """Return the messages that came back more than once: KEPT_MESSAGES of each queue, and one row for the others.

    That row has their number, `others`, and no message and counts.
    """
    again = attempts.where((F.greatest("redelivered", "requeued") > 1) | (F.col("others") > 0))
    own = F.col("others") == 0
    order = (F.desc("own"), F.desc("redelivered"), F.desc("requeued"), F.asc("boot_id"), F.asc("msg_seq"))
    place = F.row_number().over(Window.partitionBy(*QUEUE).orderBy(*order))
    kept = F.col("kept")
    return (
        again.withColumn("own", own)
        .withColumn("kept", F.col("own") & (place <= KEPT_MESSAGES))
        .select(
            *QUEUE,
            *[F.when(kept, F.col(name)).alias(name) for name in ("boot_id", "msg_seq", "redelivered", "requeued")],
            *("first", "last"),
            F.when(kept, 0).otherwise(F.greatest("others", F.lit(1))).alias("others"),
        )
        .groupBy(*QUEUE, "boot_id", "msg_seq")
        .agg(
            *[F.sum(name).alias(name) for name in ("redelivered", "requeued", "others")],
            F.min("first").alias("first"),
            F.max("last").alias("last"),
        )
        .select(*attempts.columns)
    )


def busiest_connections(transfers: DataFrame) -> DataFrame:
    """Return transfers in which all but the first KEPT_CONNECTIONS of a user's connections are joined as OTHERS.

    The first ones are those with most messages that they published and consumed. `others` is the number of connections
    that are in a row; a connection counts in one of its rows, if possible one about a client.
    """
    of_connection = Window.partitionBy(*USER, "conn_id")
    of_client = is_event(PUBLISH, DELIVER) & F.col("link").isNull()
    messages = F.coalesce(F.sum(F.when(of_client, F.col("weight"))).over(of_connection), F.lit(0))
    place = F.dense_rank().over(Window.partitionBy(*USER, "own").orderBy(F.desc("messages"), "conn_id"))
    first = F.row_number().over(of_connection.orderBy(F.desc(of_client), *TRANSFER_KEYS)) == 1
    kept = ~F.col("own") | (F.col("place") <= KEPT_CONNECTIONS)
    return merged(
        transfers.withColumn("own", F.coalesce(F.col("conn_id") != OTHERS, F.lit(False)))
        .withColumn("messages", messages)
        .withColumn("place", place)
        .withColumn("one", first.cast("long"))
        .withColumn("others", F.when(kept, F.col("others")).otherwise(F.col("one")))
        .withColumn("conn_id", F.when(kept, F.col("conn_id")).otherwise(OTHERS)),
        TRANSFER_KEYS,
        TRANSFERS.merge,
    ).select(*transfers.columns)
