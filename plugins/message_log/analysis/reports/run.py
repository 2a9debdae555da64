"""The list of all reports, and the run that writes them to a folder."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ..conservation.check import Checked, check
from ..conservation.evidence import Evidence
from ..fact_store import Facts
from ..facts import EXCHANGE, LINK, lags, tally
from ..message_names import add_names
from ..report_rows import LISTED, Values, first_rows
from ..summaries import QUEUE, Summaries, collect, kinds, summarise
from ..tables import Columns, Tables, Written
from . import (
    anomalies,
    backlog,
    capacity,
    churn,
    clients,
    consumers,
    failures,
    hot_keys,
    links,
    throughput,
    timeline,
)

AT_ONCE = 3  # reports that are made concurrently: most are too small to keep all cores busy
SCHEMA = 1  # of report.json


class Sources(NamedTuple):
    """The sources of reports: facts, their summaries, and the series of messages by minute and by hour."""

    facts: Facts
    summaries: Summaries
    minutes: DataFrame
    hours: DataFrame


class Report(NamedTuple):
    """A report: a table, and its first rows as a list in report.json.

    `make` returns a DataFrame, which costs a query of Spark, or rows with the columns `columns`. `order` has the names
    by which the list is sorted, with `-` for descending order. `bounded`: the table's size is bounded by the numbers of
    queues, users and nodes. `messages`: the rows are messages, whose names are looked up for the list.
    """

    name: str
    make: Callable[[Sources], DataFrame | list[Values]]
    order: tuple[str, ...]
    columns: Columns | None = None
    listed: int = LISTED
    bounded: bool = True
    messages: bool = False


class Reported(NamedTuple):
    """A report that was made: its table, the list of its first rows, and the number of all."""

    written: Written
    listed: list[Values]
    rows: int


def capacity_report(sources: Sources) -> list[Values]:
    facts = sources.facts
    known = sources.summaries
    costs = collect(capacity.cpu_intervals(facts.metrics, facts.traffic, known.kinds)) if known.metrics else []
    return capacity.capacity(known, costs + (facts.folded.costs if facts.folded is not None else []))


def link_report(sources: Sources) -> DataFrame:
    facts = sources.facts
    tallies, histograms = tally(facts.crossings), lags(facts.crossings)
    if facts.folded is not None:
        tallies, histograms = (
            tallies.unionByName(facts.folded.crossed),
            histograms.unionByName(facts.folded.crossed_lags),
        )
    return links.links(tallies, histograms, facts.readings)


def anomaly_report(sources: Sources) -> DataFrame | list[Values]:
    seconds = [kind[end] for kind in sources.summaries.kinds for end in ("first", "last")]
    long_enough = max(seconds, default=0) - min(seconds, default=0) >= (anomalies.MINUTES - 1) * 60
    return anomalies.anomalies(sources.minutes) if long_enough else []


LATENCY = {
    **dict.fromkeys((*QUEUE, "stage"), pa.string()),
    **dict.fromkeys(("messages", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"), pa.int64()),
}
REPORTS = (
    Report(
        "throughput",
        lambda sources: throughput.throughput(
            throughput.whole(sources.hours, sources.facts.folded and sources.facts.folded.ever)
        ),
        ("-messages", "scope", "node", "vhost", "name", "flow", "grain"),
        listed=3 * LISTED,
    ),
    Report("latency", lambda sources: sources.summaries.latency, ("-p99_us", *QUEUE, "stage"), LATENCY),
    Report("backlog", lambda sources: backlog.backlog(sources.summaries), ("-peak", *QUEUE), backlog.COLUMNS),
    Report("clients", lambda sources: clients.clients(sources.facts.transfers), ("-messages", *clients.CLIENT)),
    Report("flow", lambda sources: clients.flow(sources.facts.transfers), ("-messages", *clients.EDGE)),
    Report(
        "hot_exchanges",
        lambda sources: hot_keys.hot_exchanges(sources.facts.routes),
        ("-published", *EXCHANGE),
    ),
    Report(
        "hot_keys",
        lambda sources: hot_keys.hot_keys(sources.facts.routes),
        ("-published", *EXCHANGE, "place"),
        bounded=False,
    ),
    Report(
        "unroutable",
        lambda sources: failures.unroutable(sources.facts.routes),
        ("-unroutable", *EXCHANGE, "routing_key"),
        bounded=False,
    ),
    Report(
        "given_up",
        lambda sources: failures.given_up(sources.summaries),
        ("-messages", *QUEUE, "event", "reason"),
        failures.GIVEN_UP,
    ),
    Report(
        "redelivered",
        lambda sources: failures.redelivered(sources.summaries),
        ("-redelivered", *QUEUE),
        failures.REDELIVERED,
    ),
    Report(
        "poison",
        lambda sources: failures.poison(sources.facts.attempts),
        ("-redelivered", "-requeued", *QUEUE, "msg_seq"),
        bounded=False,
        messages=True,
    ),
    Report("links", link_report, LINK),
    Report(
        "consumers", lambda sources: consumers.consumers(sources.summaries), ("-mean_ready", *QUEUE), consumers.COLUMNS
    ),
    Report("churn", lambda sources: churn.churn(sources.summaries), ("node", "name"), churn.COLUMNS),
    Report(
        "anomalies",
        anomaly_report,
        ("start", *QUEUE, "flow", "kind"),
        anomalies.COLUMNS,
        bounded=False,
    ),
    Report("capacity", capacity_report, ("node",), capacity.COLUMNS),
)


class Reporting:
    """A run of all reports. `events` is the log, read again for details of faults."""

    def __init__(
        self, spark: SparkSession, facts: Facts, events: DataFrame, evidence: Evidence, tables: Tables
    ) -> None:
        self._spark = spark
        self._facts = facts
        self._events = events
        self._evidence = evidence
        self._tables = tables
        self.series: dict[str, DataFrame] = {}  # by grain

    def run(self, read: Values) -> Values:
        """Make all reports. Returns the content of report.json; `read` is its section "input"."""
        with ThreadPoolExecutor(AT_ONCE) as workers:
            checking = workers.submit(self.conservation)
            of_kinds = kinds(self._facts.kinds)
            series = workers.submit(self._series, of_kinds)
            self.summaries = summarise(self._facts, of_kinds, workers)
            sources = Sources(self._facts, self.summaries, *series.result())
            times = workers.submit(lambda: timeline.timeline(self._facts, self.summaries))
            # Those as large as the log take longest.
            first = sorted(REPORTS, key=lambda each: each.bounded)
            reported = workers.map(lambda each: self._report(each, sources), first)
            made = {each.name: of_report for each, of_report in zip(first, reported, strict=True)}
            checked = checking.result()
        report: Values = {
            "schema": SCHEMA,
            "verdict": checked.sentence,
            "reasons": checked.conservation["reasons"],
            "input": read,
            "totals": throughput.totals(sources.summaries.kinds),
            "conservation": checked.conservation,
            "durability": checked.durability,
            "timeline": times.result(),
        }
        counts = {"durability": checked.durability_rows}
        for each in REPORTS:
            report[each.name], counts[each.name] = made[each.name].listed, made[each.name].rows
        by_name = {name: of_report.written for name, of_report in made.items()}
        report["hash_advice"] = advice(by_name["hot_keys"], by_name["hot_exchanges"])
        report["rows"] = counts
        return report

    def _series(self, of_kinds: list[Values]) -> tuple[DataFrame, DataFrame]:
        """Write the series of messages by second, minute and hour, each made of the finer one."""
        folded = self._facts.folded
        seconds = self._tables.write("throughput_1s", throughput.seconds(self._facts.traffic, of_kinds)).frame
        minutes = self._tables.write("throughput_1m", throughput.minutes(seconds, folded and folded.minutes)).frame
        hours = self._tables.write("throughput_1h", throughput.hours(minutes, folded and folded.hours)).frame
        self.series = {"1s": seconds, "1m": minutes, "1h": hours}
        return minutes, hours

    def _report(self, each: Report, sources: Sources) -> Reported:
        made = each.make(sources)
        if isinstance(made, DataFrame):
            written = self._tables.write(each.name, made, each.bounded)
        else:
            assert each.columns is not None
            written = self._tables.write_rows(each.name, made, each.columns)
        return Reported(written, self._listed(each, written), written.count)

    def _listed(self, each: Report, written: Written) -> list[Values]:
        rows = written.first(each.order, each.listed)
        if each.messages and rows:
            first = written.first_frame(each.order, each.listed)
            rows = first_rows(add_names(first, self._events), each.order, each.listed)
        return rows

    def conservation(self) -> Checked:
        """Make the conservation check."""
        return check(self._spark, self._facts, self._events, self._evidence, self._tables.write)


def advice(keys: Written, exchanges: Written) -> list[Values]:
    top = exchanges.first(("-published", *EXCHANGE), hot_keys.EXCHANGES)
    return list(hot_keys.hash_advice(keys.first(("-published", *EXCHANGE, "place"), hot_keys.ADVISED), top))
