"""The imbalances: one row for each message, gap of the log, queue or link that violates conservation."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from ...file_format.schema import ENQUEUE, FED_IN, PUBLISH, boot_key
from ..aggregates import LINK, SIDES, by_link, count_if, is_event, upstream_nodes
from ..create_table import create_table
from .boots import Boot
from .checked_range import BOOT
from .evidence import key_of
from .manifest import FileFaults

COLUMNS: dict[str, t.DataType] = {
    **dict.fromkeys(("problem", "node", "boot_id", "vhost", "queue", "link", "file"), t.StringType()),
    "msg_seq": t.LongType(),
    "identity": t.StringType(),
    **dict.fromkeys(("first_row", "last_row", "records"), t.LongType()),
    "at": t.TimestampType(),
}
MISSING = "records are missing from the log"
UNEQUAL = "more or fewer messages entered than left and remain"
UNLOGGED_IN = "the queue counted more messages in than the log has"
UNLOGGED_ACKS = "the queue counted more acknowledgements than the log has"
UNROUTED = "published to more queues than it entered, or to fewer"
NOT_ARRIVED = "taken by the link and not arrived"
NOT_KEPT = "confirmed and persistent, and missing after the restart"
FILE_MISSING = "a file of the export is missing"
FILE_CHANGED = "a file of the export was changed"
OF_FILES = (FILE_MISSING, FILE_CHANGED)


def problem_rows(problem: str | Column, table: DataFrame, **columns: Column) -> DataFrame:
    """Return the rows of a table as rows of one problem, with the columns COLUMNS."""
    values = {"problem": F.lit(problem) if isinstance(problem, str) else problem, **columns}
    chosen = []
    for name, kind in COLUMNS.items():
        value = values.get(name, F.col(name) if name in table.columns else F.lit(None))
        chosen.append(value.cast(kind).alias(name))
    return table.select(*chosen)


def imbalances(
    impossible: DataFrame,
    gaps: DataFrame,
    queues: DataFrame,
    arrivals: DataFrame,
    unrouted: DataFrame,
    durability: DataFrame | None = None,
    files: DataFrame | None = None,
) -> DataFrame:
    """Return all imbalances; the arguments come from the functions of these names, `queues` from `balance`.

    `durability` and `files` are None if there are no restarts, and if no file is missing or changed.
    """
    off = F.col("difference")
    more_in, more_acks = F.col("unlogged_in"), F.col("unlogged_acks")
    parts = [
        problem_rows(F.col("problem"), impossible, records=F.lit(1), at=F.col("last")),
        problem_rows(MISSING, gaps, at=F.col("near")),
        problem_rows(UNEQUAL, queues.where(off != 0), records=F.abs(off)),
        problem_rows(UNLOGGED_IN, queues.where((more_in > 0) & off.isNotNull()), records=more_in),
        problem_rows(UNLOGGED_ACKS, queues.where((more_acks > 0) & off.isNotNull()), records=more_acks),
        problem_rows(NOT_ARRIVED, arrivals.where(F.col("missing") > 0), records=F.col("missing")),
        problem_rows(UNROUTED, unrouted, records=F.lit(1)),
    ]
    if durability is not None:
        parts.append(problem_rows(NOT_KEPT, durability.where(F.col("lost") > 0), records=F.col("lost")))
    if files is not None:
        parts.append(problem_rows(F.col("problem"), files))
    return reduce(DataFrame.unionByName, parts)


def files(spark: SparkSession, faults: FileFaults, boots: list[Boot]) -> DataFrame | None:
    """Return the missing and changed files as imbalances, or None if there are none."""
    names = {key_of(boot["node"], boot["boot_id"]): (boot["node"], boot["boot_id"]) for boot in boots}
    rows = [
        (
            *(problem, *names.get(boot_key(entry.path), (None, None))),
            *(entry.path, entry.first_row, entry.last_row, entry.rows),
        )
        for problem, entries in ((FILE_MISSING, faults.missing), (FILE_CHANGED, faults.changed))
        for entry in entries
    ]
    names_of_columns = ("problem", "node", "boot_id", "file", "first_row", "last_row", "records")
    return create_table(spark, {name: COLUMNS[name] for name in names_of_columns}, rows) if rows else None


def arrivals(crossings: DataFrame, spans: DataFrame, crossed: DataFrame | None = None) -> DataFrame:
    """Return one row for each message that a link took, with the numbers of `missing` and `pending` copies.

    `crossed` are tallies of messages that have arrived and are not among the crossings any more.

    They are pending if they may have arrived unlogged: if the downstream's log does not reach that far yet, or was cut
    short by a kill of the broker. Both columns are null if the other broker's log has no record of the link.
    """
    later = F.lead("first").over(Window.partitionBy("node").orderBy("first", "boot_id"))
    dark = F.struct(F.unix_micros("last").alias("since"), F.unix_micros("later").alias("until"))
    logs = (
        spans.withColumn("later", later)
        .groupBy(F.col("node").alias("downstream"))
        .agg(
            F.unix_micros(F.max("last")).alias("until"),
            F.max_by("stopped", "first").alias("stopped"),
            F.collect_list(F.when(~F.col("stopped") & F.col("later").isNotNull(), dark)).alias("dark"),
        )
    )
    ends = (*SIDES, "upstream_node")
    every = crossings.select(*ends) if crossed is None else crossings.select(*ends).unionByName(crossed.select(*ends))
    known = upstream_nodes(every)
    downstreams = by_link(every, known).groupBy(*LINK).agg(F.max("node").alias("downstream"))
    sides = downstreams.join(logs, "downstream", "left")
    short = F.greatest(F.col("taken") - F.col("arrived"), F.lit(0))
    unseen = F.exists("dark", lambda gap: F.col("left").between(gap["since"], gap["until"]))
    logged = (F.col("stopped") | (F.col("left") <= F.col("until"))) & ~unseen
    return (
        by_link(crossings, known)
        .select(*LINK, "identity", "taken", "arrived", "discarded", "left")
        .join(F.broadcast(sides), list(LINK), "left")
        .withColumn("missing", F.when(logged, short).when(F.col("until").isNotNull(), 0))
        .withColumn("pending", F.when(logged, 0).when(F.col("until").isNotNull(), short))
        .withColumn("node", F.col("upstream_node"))
        .withColumn("at", F.timestamp_micros("left"))
    )


def unrouted_boots(kinds: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the completely logged boots in which published messages entered more or fewer queues than routed to."""
    entered = is_event(ENQUEUE) & (F.col("reason") == "")
    sums = kinds.groupBy(*BOOT).agg(
        F.sum(F.when(is_event(PUBLISH, FED_IN), F.col("routed")).otherwise(0)).alias("routed"),
        F.sum(F.when(entered, F.col("records")).otherwise(0)).alias("entered"),
    )
    stopped = spans.where(F.col("stopped") & (F.col("first_row") == 0)).select(*BOOT)
    return sums.where(F.col("routed") != F.col("entered")).join(stopped, BOOT).select(*BOOT)


def unrouted(events: DataFrame, boots: DataFrame) -> DataFrame:
    """Return the messages of these boots that entered more or fewer queues than they were routed to."""
    entered = is_event(ENQUEUE) & (F.coalesce("reason", F.lit("")) == "")
    return (
        events.where(is_event(PUBLISH, FED_IN) | entered)
        .join(F.broadcast(boots), BOOT)
        .groupBy(*BOOT, "vhost", "msg_seq")
        .agg(
            F.coalesce(F.sum("routed"), F.lit(0)).alias("routed"),
            count_if(entered).alias("entered"),
            F.max("queue").alias("queue"),
            F.max("ts_us").alias("at"),
        )
        .where(F.col("routed") != F.col("entered"))
    )
