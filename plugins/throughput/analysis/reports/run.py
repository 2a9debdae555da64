"""The list of all reports, and the run that writes them to a folder."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .. import message_paths
from ..conservation.check import Checked, check
from ..conservation.evidence import Evidence
from ..fact_store import Facts
from ..facts import LINK
from ..message_names import add_names
from ..report_rows import LISTED, Values, first_rows, sorting, values
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
        self,
        spark: SparkSession,
        facts: Facts,
        events: DataFrame,
        evidence: Evidence,
        folder: str,
        log: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._facts = facts
        self._events = events
        self._evidence = evidence
        self._folder = folder
        self._log = log

    def run(self, read: Values) -> Values:
        """Make all reports. Returns the content of report.json; `read` is its section "input"."""
        checked = self.conservation()
        report: Values = {
            "schema": SCHEMA,
            "verdict": checked.sentence,
            "reasons": checked.conservation["reasons"],
            "input": read,
            "totals": values(throughput.totals(self._facts.traffic).collect()[0]),
            "conservation": checked.conservation,
            "durability": checked.durability,
        }
        counts = {"durability": checked.durability_rows}
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

    def conservation(self) -> Checked:
        """Make the conservation check."""
        return check(self._spark, self._facts, self._events, self._evidence, self._table)

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
