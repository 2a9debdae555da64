"""The list of all reports, and the run that writes them to a folder."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from .. import message_paths
from ..conservation import checked_range, gaps, imbalances, queues, restarts, verdict
from ..fact_store import Facts
from ..facts import LINK
from ..message_names import add_names
from . import (
    anomalies,
    backlog,
    capacity,
    churn,
    consumers,
    failures,
    hot_keys,
    latency,
    links,
    throughput,
)

AT_ONCE = 3  # reports that are made concurrently: most are too small to keep all cores busy
SCHEMA = 1  # of report.json
LISTED = 200  # rows of one list of report.json; the tables have all rows
Values = dict[str, Any]


class Report(NamedTuple):
    """A report: a table, and its first rows as a list in report.json.

    `order` has the columns by which the list is sorted, with `-` for descending order; without it there is no list.
    `messages`: the rows are messages, whose names are looked up for the list.
    """

    name: str
    make: Callable[[Facts], DataFrame]
    order: tuple[str, ...] = ()
    listed: int = LISTED
    messages: bool = False


def waits(facts: Facts) -> DataFrame:
    """Return the stages within queues, of closed and of open journeys."""
    return facts.stages.unionByName(message_paths.stages(facts.journeys))


def consumer_report(facts: Facts) -> DataFrame:
    return consumers.consumers(facts.queue_stats, waits(facts), facts.traffic)


QUEUE = ("node", "vhost", "queue")
REPORTS = (
    *[
        Report(f"throughput_{grain}", lambda facts, grain_s=grain_s: throughput.series(facts.traffic, grain_s))  # type: ignore[misc]
        for grain, grain_s in throughput.GRAINS_S.items()
    ],
    Report(
        "throughput",
        lambda facts: throughput.throughput(facts.traffic),
        ("-messages", "scope", "node", "vhost", "name", "flow", "grain"),
        3 * LISTED,
    ),
    Report("latency", lambda facts: latency.latency(facts.latencies, waits(facts)), ("-p99_us", *QUEUE, "stage")),
    Report("backlog", lambda facts: backlog.backlog(facts.queue_stats), ("-peak", *QUEUE)),
    Report("hot_exchanges", lambda facts: hot_keys.hot_exchanges(facts.routes), ("-published", *hot_keys.EXCHANGE)),
    Report("hot_keys", lambda facts: hot_keys.hot_keys(facts.routes), ("-published", *hot_keys.EXCHANGE, "place")),
    Report(
        "unroutable",
        lambda facts: failures.unroutable(facts.routes),
        ("-unroutable", *hot_keys.EXCHANGE, "routing_key"),
    ),
    Report("given_up", lambda facts: failures.given_up(facts.traffic), ("-messages", *QUEUE, "event", "reason")),
    Report("redelivered", lambda facts: failures.redelivered(facts.traffic), ("-redelivered", *QUEUE)),
    Report(
        "poison",
        lambda facts: failures.poison(facts.attempts),
        ("-redelivered", "-requeued", *QUEUE, "msg_seq"),
        messages=True,
    ),
    Report("links", lambda facts: links.links(facts.crossings, facts.metrics), LINK),
    Report("consumers", consumer_report, ("-mean_ready", *QUEUE)),
    Report("churn", lambda facts: churn.churn(facts.metrics), ("node", "name")),
    Report("anomalies", lambda facts: anomalies.anomalies(facts.traffic), ("start", *QUEUE, "flow", "kind")),
    Report("capacity", lambda facts: capacity.capacity(facts.metrics, facts.traffic), ("node",)),
)


class Reporting:
    """A run of all reports, written below `folder`. `events` is the log, read again for details of faults."""

    def __init__(
        self, spark: SparkSession, facts: Facts, events: DataFrame, folder: str, log: Callable[[str], None]
    ) -> None:
        self._spark = spark
        self._facts = facts
        self._events = events
        self._folder = folder
        self._log = log

    def run(self, read: Values) -> Values:
        """Make all reports. Returns the content of report.json; `read` is its section "input"."""
        report: Values = {"schema": SCHEMA, "input": read}
        report["totals"] = values(throughput.totals(self._facts.traffic).collect()[0])
        report["conservation"] = self.conservation()
        counts: dict[str, int] = {}
        with ThreadPoolExecutor(AT_ONCE) as workers:
            for each, (count, rows) in zip(REPORTS, workers.map(self._report, REPORTS), strict=True):
                if each.order:
                    counts[each.name] = count
                    report[each.name] = rows
        report["hash_advice"] = self._advice()
        report["rows"] = counts
        return report

    def _report(self, each: Report) -> tuple[int, list[Values]]:
        """Make one report. Returns the number of its rows and the listed ones."""
        table = self._table(each.name, each.make(self._facts))
        if not each.order:
            return 0, []
        rows = first_rows(table, each.order, each.listed)
        count = len(rows) if len(rows) < each.listed else table.count()
        if each.messages and rows:
            first = table.orderBy(*sorting(each.order)).limit(each.listed)
            rows = first_rows(add_names(first, self._events), each.order, each.listed)
        return count, rows

    def conservation(self) -> Values:
        """Make the tables of the conservation check. Returns its section of report.json."""
        facts = self._facts
        spans = self._table("boots", verdict.with_killed(checked_range.spans(facts.queue_stats, facts.rows)))
        balance = self._table("queues", queues.balance(facts.journeys, facts.balances, facts.queue_stats, spans))
        arrivals = self._table("arrivals", imbalances.arrivals(facts.crossings, spans))
        boots = imbalances.unrouted_boots(facts.traffic, spans)
        odd = imbalances.unrouted(self._events if boots.head(1) else self._events.limit(0), boots)
        missing_rows = gaps.gaps(facts.rows, spans)
        impossible = queues.impossible(facts.journeys, balance, spans)
        table = self._table("imbalances", imbalances.imbalances(impossible, missing_rows, balance, arrivals, odd))
        count, found_ones = table.count(), table
        if count:
            table = self._table("imbalances_named", add_names(table, self._events))
        sure = verdict.certain_imbalances(found_ones, spans).count() if count else 0
        judged = verdict.verdict(spans.collect(), count, sure)
        missing = table.where(F.col("problem") == imbalances.MISSING).agg(F.sum("records")).collect()[0][0]
        crossed = arrivals.groupBy(*LINK).agg(
            *[F.sum(name).alias(name) for name in ("taken", "came", "discarded", "missing", "pending")]
        )
        back = self._table("restarts", restarts.restarts(facts.queue_stats, spans))
        return {
            "balanced": judged.balanced,
            **judged._asdict(),
            "missing_records": missing or 0,
            "imbalance_count": count,
            "imbalances": first_rows(table, ("problem", "node", "boot_id", "vhost", "queue", "msg_seq", "first_row")),
            "queues": first_rows(balance, ("-entered", *QUEUE, "boot_id")),
            "links": first_rows(crossed, LINK),
            "boots": first_rows(spans, ("node", "first")),
            "restarts": first_rows(back, (*QUEUE, "boot_id")),
        }

    def _advice(self) -> list[Values]:
        keys = self._spark.read.parquet(f"{self._folder}/tables/hot_keys")
        exchanges = self._spark.read.parquet(f"{self._folder}/tables/hot_exchanges")
        top = exchanges.orderBy(F.desc("published"), *hot_keys.EXCHANGE).limit(hot_keys.EXCHANGES)
        joined = [F.equal_null(keys[name], top[name]) for name in hot_keys.EXCHANGE]
        return list(hot_keys.hash_advice(keys.join(F.broadcast(top), joined, "left_semi").collect(), top.collect()))

    def _table(self, name: str, table: DataFrame) -> DataFrame:
        """Write a table, and return it as read from its file."""
        self._log(name)
        place = f"{self._folder}/tables/{name}"
        table.write.parquet(place)
        return self._spark.read.schema(table.schema).parquet(place)


def first_rows(table: DataFrame, order: tuple[str, ...], limit: int = LISTED) -> list[Values]:
    """Return the first rows in this order, with values for JSON."""
    return [values(row) for row in table.orderBy(*sorting(order)).limit(limit).collect()]


def sorting(order: tuple[str, ...]) -> list[Column]:
    """Return sort columns; a name with `-` is sorted in descending order."""
    return [F.desc_nulls_last(name[1:]) if name.startswith("-") else F.asc_nulls_first(name) for name in order]


def values(row: Row) -> Values:
    return {name: plain(value) for name, value in row.asDict().items()}


def plain(value: Any) -> Any:
    """Return a value for JSON: times as text in UTC, NaN as null."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, float) and value != value:
        return None
    return value
