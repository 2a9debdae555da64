"""The rollup of a stream's state: rows older than a day are reduced to the resolution of reports.

Without it the state would have a row for each second of each queue, each snapshot, each reading of a metric and each
message of a link. A report of a longer time than KEPT_S has steps of at least ten minutes, and the longer it is the
longer they are (`reports.timeline`), so sums, maxima and last values of such intervals give the same report. Figures
that need the seconds themselves (peaks, processor time for a message, the minutes of which odd ones are reported) are
calculated when the seconds are rolled up, and merged with those of later ones.

Of redelivered messages that have left their queue, and of silent connections, as many are kept as reports show
(`top_rows`). Row numbers need no rollup (`row_numbers`).

The size of the rolled up rows is bounded by the numbers of queues, users, nodes and links. Reports are the same as
without a rollup, except for files that arrive more than KEPT_S late: if a second, minute or hour of one queue is
divided between such a file and others, its peak is that of the larger part. The same is true of the attempts of a
message, and of the messages of a connection that was silent for so long. Every message counts in any case.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..file_format import schema
from .aggregate_store import PARTS, RolledUp, Store
from .aggregates import (
    ATTEMPTS,
    CROSSING_LAG,
    CROSSING_TALLY,
    CROSSINGS,
    METRICS,
    STATS,
    TALLY_MERGE,
    TRAFFIC,
    TRAFFIC_KEYS,
    TRANSFERS,
    lags,
    merged,
    tally,
    with_entry,
)
from .conservation.checked_range import BOOT
from .conservation.checked_range import snapshots as complete_snapshots
from .conservation.durability import paces
from .journeys import QUEUE
from .report_inputs import collect, kinds, merge_metrics, merge_queues, metrics, queues
from .reports import capacity, throughput
from .reports.timeline import Steps
from .row_numbers import ROWS
from .tables import Values, keyed
from .top_rows import USER, busiest_connections, most_attempts

DAY_S = 86_400
KEPT_S = DAY_S  # the age up to which rows are kept unchanged
MINUTES_S = 28 * DAY_S  # the age up to which minutes are kept: reports compare weeks
HOURS_S = 120 * DAY_S
# Intervals by age: each divides the steps of a report about a time of that length.
INTERVALS_S = ((10 * DAY_S, 600), (HOURS_S, 7200))
EDGE_S = 7200  # rows are rolled up to a multiple of this


def edge(newest_s: int) -> int:
    """Return the second before which everything is rolled up, if the newest record is of this second."""
    return (newest_s - KEPT_S) // EDGE_S * EDGE_S


def interval(second: Column, before_s: int, oldest_s: int) -> Column:
    """Return the start of the interval of a second before `before_s`."""
    newest_s = before_s + KEPT_S
    longest = max(Steps(oldest_s, newest_s).step_s, DAY_S)
    start = second - second % longest
    for age_s, length_s in reversed(INTERVALS_S):
        whole = longest if age_s == HOURS_S else EDGE_S
        since = (newest_s - age_s) // whole * whole
        start = F.when(second >= since, second - second % length_s).otherwise(start)
    return start


def tidy(store: Store) -> None:
    """Merge the parts of the aggregates and roll up old rows, if either is due. No batch may run meanwhile."""
    before_s = store.rollup.before_s
    times = span(store)
    if times is not None and edge(times[1]) - (before_s if before_s is not None else times[0]) >= KEPT_S:
        roll_up(store, edge(times[1]), times[0])
    elif max(map(store.batches, schema.TABLES)) > PARTS:
        store.replace(store.merged(), store.rolled_up(), before_s)
    else:
        store.remove_replaced()


def span(store: Store) -> tuple[int, int] | None:
    """Return the seconds of the first and the last record, or None if there are none."""
    row = store.load(ROWS).agg(F.unix_seconds(F.min("first")), F.unix_seconds(F.max("last"))).collect()[0]
    return (row[0], row[1]) if row[0] is not None else None


def roll_up(store: Store, before_s: int, oldest_s: int) -> None:
    """Roll up all rows before a second."""
    aggregates, earlier = store.aggregates(), store.rolled_up()
    traffic, second = aggregates.traffic, F.col("second")
    of_traffic = kinds(aggregates.kinds)
    snapshots, readings, at = aggregates.queue_stats, aggregates.metrics, F.unix_seconds("ts_us")
    crossed = aggregates.crossings.where(is_crossed(before_s))
    was = at < before_s
    parts: dict[str, Any] = {
        "traffic": roll_up_traffic(traffic.where(second < before_s), earlier, before_s, oldest_s),
        **roll_up_series(traffic.where(second < before_s), of_traffic, earlier, before_s),
        "snapshots": roll_up_snapshots(old_and(snapshots, was, earlier and earlier.snapshots), before_s, oldest_s),
        "readings": roll_up_readings(old_and(readings, was, earlier and earlier.readings), before_s, oldest_s),
        **roll_up_crossings(crossed, earlier),
    }
    rows: dict[str, Any] = {
        "queues": collect(queues(snapshots.where(was))),
        "metrics": collect(metrics(readings.where(was))),
        "costs": collect(capacity.cpu_intervals(readings, traffic, of_traffic, before_s)),
        "paces": collect(paces(traffic.where(second < before_s), of_traffic)),
    }
    if earlier is not None:
        rows["queues"] = merge_queues([*earlier.queues, *rows["queues"]])
        rows["metrics"] = merge_metrics([*earlier.metrics, *rows["metrics"]])
        rows["costs"] = capacity.merge_costs([*earlier.costs, *rows["costs"]])
        rows["paces"] = highest_paces([*earlier.paces, *rows["paces"]])
    recent = {
        TRAFFIC.name: traffic.where(second >= before_s),
        STATS.name: snapshots.where(at >= before_s),
        METRICS.name: readings.where(at >= before_s),
        CROSSINGS.name: aggregates.crossings.where(~is_crossed(before_s)),
        TRANSFERS.name: roll_up_transfers(aggregates.transfers, before_s),
        ATTEMPTS.name: roll_up_attempts(aggregates.attempts, aggregates.journeys, before_s),
    }
    store.replace({**store.merged(), **recent}, RolledUp(**parts, **rows), before_s)


def old_and(rows: DataFrame, old: Column, earlier: DataFrame | None) -> DataFrame:
    """Return the old rows, and the rows of the earlier rollup."""
    return rows.where(old) if earlier is None else rows.where(old).unionByName(earlier)


def highest_paces(rows: list[Values]) -> list[Values]:
    return [max(parts, key=lambda row: row["settled_per_s"]) for parts in keyed(rows, "node").values()]


def roll_up_traffic(seconds: DataFrame, earlier: RolledUp | None, before_s: int, oldest_s: int) -> DataFrame:
    """Return traffic by interval."""
    rows = with_entry(seconds)
    rows = rows if earlier is None else rows.unionByName(earlier.traffic)
    how = {**TRAFFIC.merge, "entered_us": "min"}
    return merged(rows.withColumn("second", interval(F.col("second"), before_s, oldest_s)), TRAFFIC_KEYS, how)


def roll_up_series(
    seconds: DataFrame, of_traffic: list[Values], earlier: RolledUp | None, before_s: int
) -> dict[str, DataFrame]:
    """Return the tables `minutes`, `hours` and `ever`."""
    newest_s = before_s + KEPT_S
    minutes_from, hours_from = ((newest_s - age_s) // EDGE_S * EDGE_S for age_s in (MINUTES_S, HOURS_S))
    start = F.unix_seconds("start")
    minutes = throughput.minutes(throughput.seconds(seconds, of_traffic), earlier and earlier.minutes)
    hours = throughput.hours(minutes.where(start < minutes_from), earlier and earlier.hours)
    return {
        "minutes": minutes.where(start >= minutes_from),
        "hours": hours.where(start >= hours_from),
        "ever": throughput.whole(hours.where(start < hours_from), earlier and earlier.ever),
    }


def roll_up_snapshots(queue_stats: DataFrame, before_s: int, oldest_s: int) -> DataFrame:
    """Return the snapshots that are kept."""
    at = F.unix_seconds("ts_us")
    rows = queue_stats.withColumn("interval", interval(at, before_s, oldest_s))
    starts = rows.groupBy(*BOOT, "snapshot").agg(F.max("interval").alias("interval"))
    complete = complete_snapshots(queue_stats).select(*BOOT, "snapshot").join(starts, [*BOOT, "snapshot"])
    last = complete.groupBy(*BOOT, "interval").agg(F.max("snapshot").alias("snapshot")).drop("interval")
    first = complete.groupBy(*BOOT).agg(F.min("snapshot").alias("snapshot"))
    kept = last.unionByName(first).distinct().withColumn("kept", F.lit(True))
    by_length = Window.partitionBy("node", "vhost", "queue", "interval").orderBy(
        F.desc(F.col("ready") + F.col("unacked")), F.desc("ts_us")
    )
    longest = F.col("queue").isNotNull() & (F.row_number().over(by_length) == 1)
    edges = F.coalesce(F.col("kind").isin(schema.START, schema.STOP), F.lit(False))
    return (
        rows.withColumn("longest", longest)
        .join(F.broadcast(kept), [*BOOT, "snapshot"], "left")
        .where(F.col("longest") | edges | F.coalesce("kept", F.lit(False)))
        .select(*queue_stats.columns)
    )


def roll_up_readings(metrics: DataFrame, before_s: int, oldest_s: int) -> DataFrame:
    """Return the readings of metrics that are kept."""
    of_interval = Window.partitionBy(
        *BOOT, "name", F.col("labels")["link"], interval(F.unix_seconds("ts_us"), before_s, oldest_s)
    )
    orders = (F.desc("mono_ns"), F.desc("value"), F.asc("value"))
    rows = metrics
    for place, order in enumerate(orders):
        rows = rows.withColumn(f"place{place}", F.row_number().over(of_interval.orderBy(order, F.desc("mono_ns"))))
    first_of_any = F.least(*[F.col(f"place{place}") for place in range(len(orders))]) == 1
    return rows.where(first_of_any).select(*metrics.columns)


def is_crossed(before_s: int) -> Column:
    """Return whether a message of a link has left the upstream and arrived, both before this second."""
    ended = F.greatest("left", "last_entered") < before_s * 1_000_000
    return F.coalesce((F.col("taken") == 1) & (F.col("arrived") == 1) & ended, F.lit(False))


def roll_up_crossings(crossed: DataFrame, earlier: RolledUp | None) -> dict[str, DataFrame]:
    """Return the tables `crossed` and `crossed_lags`, with further messages that have crossed."""
    tallies, histograms = tally(crossed), lags(crossed)
    if earlier is not None:
        tallies, histograms = tallies.unionByName(earlier.crossed), histograms.unionByName(earlier.crossed_lags)
    how = {"records": "sum", "highest_us": "max"}
    return {
        "crossed": merged(tallies, CROSSING_TALLY, TALLY_MERGE),
        "crossed_lags": merged(histograms, CROSSING_LAG, how),
    }


def roll_up_transfers(transfers: DataFrame, before_s: int) -> DataFrame:
    """Return transfers in which only the busiest ones of the connections that are silent since then are kept each."""
    last = F.max("last").over(Window.partitionBy(*USER, "conn_id"))
    marked = transfers.withColumn("silent", F.coalesce(F.unix_seconds(last) < before_s, F.lit(True)))
    return busiest_connections(marked.where("silent").drop("silent")).unionByName(
        marked.where(~F.col("silent")).drop("silent")
    )


def roll_up_attempts(attempts: DataFrame, open_journeys: DataFrame, before_s: int) -> DataFrame:
    """Return attempts in which, of messages that left their queue before, only those with most attempts are kept each.

    Messages that were redelivered once are dropped, because no report shows them.
    """
    here = open_journeys.select(*QUEUE, "msg_seq").withColumn("here", F.lit(True))
    over = (F.unix_seconds("last") < before_s) & F.col("here").isNull()
    marked = attempts.join(here, [*QUEUE, "msg_seq"], "left").withColumn("over", over).drop("here")
    return most_attempts(marked.where("over").drop("over")).unionByName(marked.where(~F.col("over")).drop("over"))
