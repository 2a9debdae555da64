"""Durability: whether queues still have their persistent messages after a restart.

For each durable queue and each restart of which both boots are in the input, the persistent messages that were in the
queue when the log of the first boot ends are compared with the number that the next process found in its store
(`recovered`, before it dropped any by age or by a limit). The former are the messages at the start of the boot, which
were on the disk then, and those published as persistent during the boot, without the messages that left. Dead letters
are not required, because the log does not say whether they are persistent.

What is certain:

- After a stop, nothing is unlogged: no client is connected, and no timer runs, from the last snapshot on. Messages that
  were confirmed, or on the disk before, and are not recovered, are lost: `lost` is exact if each recovered message is
  one of these, and too small by at most `unconfirmed` and the number of dead letters otherwise. What no confirm
  promised may be lost, and is not counted.
- After a kill, the last records of the broker are unknown: those of FLUSH_S (0.1 s), and what its writer had not yet
  taken. Messages may have been settled in them. At most those can have been that were unacknowledged (`taken`), and
  those that consumers could get and settle in that time: a second is allowed for, and the greatest number that left
  one queue of the node in any second is the measure, twice, since a second touches two seconds of the clock. What is
  missing beyond that is lost. This is wrong only if the writer was more than a second behind, if the first fast
  consumer of the node came in its last second, or if the queue was purged or deleted, or very many messages expired,
  then.
- Nothing is certain (`lost` is 0) about a boot whose log lacks records (`whole` is false), and about queues that no
  snapshot shows, whose durability is unknown (`durable` is null).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from ...file_format.schema import CONFIRM, DELIVER, FED_IN, LEAVING, PUBLISH, START
from ..aggregate_store import Aggregates
from ..aggregates import by_kind, count_if, is_event
from ..create_table import create_table
from ..report_inputs import kinds
from ..tables import Values, keyed
from .boots import Boot
from .checked_range import BOOT

QUEUE = (*BOOT, "vhost", "queue")
PAIR: dict[str, t.DataType] = {
    **dict.fromkeys(("node", "boot_id", "next_boot_id"), t.StringType()),
    **dict.fromkeys(("stopped", "stored", "whole"), t.BooleanType()),
}


def durability(
    spark: SparkSession, aggregates: Aggregates, events: DataFrame, restarts: list[tuple[Boot, Boot]]
) -> DataFrame | None:
    """Return one row for each queue and restart, or None if there is no restart that can be checked.

    confirmed_before  persistent messages that were confirmed, or on the disk before, and had not left
    unconfirmed       other persistent messages that had not left
    there_after       messages that the next process found
    missing           `confirmed_before` minus `there_after`, or 0
    lost              missing messages that are certainly lost
    """
    restarts = [pair for pair in restarts if all((boot["sample_rate"] or 1) == 1 for boot in pair)]
    if not restarts:
        return None
    pairs = create_table(spark, PAIR, [pair_row(*pair) for pair in restarts])
    kept, after = waiting(aggregates.journeys, events, pairs), recovered(aggregates.snapshots, pairs)
    before = lengths(aggregates.snapshots, pairs)
    keys = [F.equal_null(kept[name], before[name]) for name in QUEUE]
    named = [F.coalesce(kept[name], before[name]).alias(name) for name in QUEUE]
    counts = [F.coalesce(name, F.lit(0)).alias(name) for name in ("confirmed", "unconfirmed", "departed", "taken")]
    both = kept.join(before, keys, "full_outer").select(*named, *counts, "durable_before", "at_start")
    whole = (
        both.join(F.broadcast(pairs), BOOT)
        .join(after, ["node", "next_boot_id", "vhost", "queue"], "left")
        .join(pace(aggregates, restarts), "node", "left")
        .withColumn("durable", F.coalesce("durable_after", "durable_before"))
        .where(F.coalesce("durable", F.lit(True)))
    )
    stored = F.when(F.col("stored"), F.greatest(F.coalesce("at_start", F.lit(0)) - F.col("departed"), F.lit(0)))
    return judge(whole.withColumn("confirmed_before", F.col("confirmed") + F.coalesce(stored, F.lit(0))))


def pair_row(boot: Boot, later: Boot) -> tuple[Any, ...]:
    """Return a row of PAIR. `stored`: what the boot had at its start was on the disk."""
    stored = boot["comparable"] is not False
    rows = boot["end_row"] - boot["first_row"] + boot["unfinished"] + boot["lost_records"]
    whole = boot["records"] - boot["duplicated"] == rows
    return boot["node"], boot["boot_id"], later["boot_id"], boot["stopped"], stored, whole


def judge(queues: DataFrame) -> DataFrame:
    """Add what is missing and what is certainly lost."""
    kept, there = F.col("confirmed_before"), F.coalesce("recovered", F.lit(0))
    stopped = F.col("stopped")
    missing = at_least_0(kept - there)
    settled = F.col("taken") + F.coalesce("settled_per_s", F.lit(0)) * 2
    certain = F.col("whole") & F.coalesce("durable", F.lit(False))
    lost = F.when(stopped, missing).otherwise(at_least_0(missing - settled))
    return queues.where((kept + F.col("unconfirmed") > 0) | (there > 0)).select(
        *QUEUE,
        *("next_boot_id", "stopped", "whole", "durable", "confirmed_before", "unconfirmed"),
        there.alias("there_after"),
        missing.alias("missing"),
        F.when(certain, lost).otherwise(0).alias("lost"),
    )


class Summary(NamedTuple):
    """The number of rows, and of messages that are missing and not certainly lost, of boots with a whole log."""

    rows: int
    uncertain_after_stops: int
    uncertain_after_kills: int


NONE = Summary(0, 0, 0)


def summary(kept: DataFrame) -> Summary:
    """Sum up the table of `durability`."""
    uncertain, stopped = F.when(F.col("whole"), F.col("missing") - F.col("lost")), F.col("stopped")
    row = kept.agg(
        F.count("*"),
        F.coalesce(F.sum(F.when(stopped, uncertain)), F.lit(0)),
        F.coalesce(F.sum(F.when(~stopped, uncertain)), F.lit(0)),
    ).collect()[0]
    return Summary(*row)


def at_least_0(number: Column) -> Column:
    return F.greatest(number, F.lit(0)).cast("long")


def waiting(journeys: DataFrame, events: DataFrame, pairs: DataFrame) -> DataFrame:
    """Count by queue the messages that had not left at the end of each boot, and those that left and never entered.

    `departed` were in the queue at the start of the boot. `taken` were delivered and not settled.
    """
    boots = F.broadcast(pairs.select(*BOOT))
    promises = (
        events.where(is_event(PUBLISH, FED_IN, CONFIRM))
        .join(boots, BOOT)
        .groupBy(*BOOT, "vhost", "msg_seq")
        .agg(
            F.max("persistent").alias("persistent"),
            F.max(is_event(CONFIRM) & (F.coalesce("reason", F.lit("")) == "")).alias("confirmed"),
        )
    )
    here, entered = F.col("left") == 0, F.col("entered") > 0
    persistent = here & entered & F.coalesce("persistent", F.lit(False))
    return (
        journeys.join(boots, BOOT)
        .where(here | ~entered)
        .join(promises, [*BOOT, "vhost", "msg_seq"], "left")
        .groupBy(*QUEUE)
        .agg(
            count_if(persistent & F.col("confirmed")).alias("confirmed"),
            count_if(persistent & ~F.col("confirmed")).alias("unconfirmed"),
            count_if(~entered & ~here).alias("departed"),
            count_if((persistent | ~entered) & here & (F.col("delivered") > 0)).alias("taken"),
        )
    )


def lengths(queue_stats: DataFrame, pairs: DataFrame) -> DataFrame:
    """Return for each queue of the first boots whether it was durable when last seen, and its length at the start."""
    at_start = F.when(F.col("kind") == START, F.col("ready") + F.col("unacked"))
    return (
        queue_stats.where(F.col("queue").isNotNull())
        .join(F.broadcast(pairs.select(*BOOT)), BOOT)
        .groupBy(*QUEUE)
        .agg(F.max_by("durable", "snapshot").alias("durable_before"), F.max(at_start).alias("at_start"))
    )


def recovered(queue_stats: DataFrame, pairs: DataFrame) -> DataFrame:
    """Return how many messages the second boots found in each queue at their start."""
    later = pairs.select("node", "next_boot_id")
    return (
        queue_stats.where(F.col("queue").isNotNull() & (F.col("kind") == START))
        .withColumnRenamed("boot_id", "next_boot_id")
        .join(F.broadcast(later), ["node", "next_boot_id"])
        .select(
            *("node", "next_boot_id", "vhost", "queue"),
            F.col("durable").alias("durable_after"),
            F.coalesce("recovered", F.col("ready") + F.col("unacked")).alias("recovered"),
        )
    )


def pace(aggregates: Aggregates, restarts: list[tuple[Boot, Boot]]) -> DataFrame:
    """Return `paces` of the nodes of which a boot was killed."""
    killed = {boot["node"] for boot, _ in restarts if not boot["stopped"]}
    of_killed = [kind for kind in kinds(aggregates.kinds) if kind["node"] in killed] if killed else []
    present = paces(aggregates.traffic, of_killed)
    if aggregates.rolled_up is None:
        return present
    rows = [(row["node"], row["settled_per_s"]) for row in aggregates.rolled_up.paces if row["node"] in killed]
    earlier = create_table(present.sparkSession, {"node": t.StringType(), "settled_per_s": t.LongType()}, rows)
    return present.unionByName(earlier).groupBy("node").agg(F.max("settled_per_s").alias("settled_per_s"))


def paces(traffic: DataFrame, of_traffic: list[Values]) -> DataFrame:
    """Return by node the greatest number of messages that left one queue in a second."""
    left = [kind for kind in of_traffic if kind["event"] in LEAVING or kind["event"] == DELIVER and kind["no_ack"]]
    queues = enumerate(keyed(left, "node", "vhost", "queue").values())
    rows = [(kind["kind"], kind["node"], number) for number, of_queue in queues for kind in of_queue]
    return (
        by_kind(traffic, {"node": t.StringType(), "of_queue": t.IntegerType()}, rows)
        .groupBy("node", "of_queue", "second")
        .agg(F.sum("records").alias("settled"))
        .groupBy("node")
        .agg(F.max("settled").alias("settled_per_s"))
    )
