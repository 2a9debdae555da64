"""The list of all reports, and the run that writes them to a folder."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ..aggregate_store import Aggregates
from ..aggregates import EXCHANGE, LINK, lags, tally
from ..conservation.check import check
from ..conservation.evidence import Evidence
from ..journeys import add_names
from ..report_inputs import QUEUE, ReportInputs, collect, kinds, make_inputs
from ..tables import LISTED, Columns, Tables, Values, WrittenTable, first_rows
from ..top_rows import most_attempts
from . import anomalies, backlog, capacity, churn, clients, consumers, failures, hot_keys, links, throughput, timeline

AT_ONCE = 3  # reports that are made concurrently, because most are too small to keep all cores busy
SCHEMA = 1  # of report.json
BUSIEST = ("-published", *EXCHANGE)


class Sources(NamedTuple):
    """The sources of reports: aggregates, rows made of them, and the series of messages by minute and by hour."""

    aggregates: Aggregates
    inputs: ReportInputs
    minutes: DataFrame
    hours: DataFrame


class Report(NamedTuple):
    """A report: a table, and its first rows as a list in report.json.

    `make` returns a DataFrame, which costs a query of Spark, or rows with the columns `columns`. `order` has the names
    by which the list is sorted, with `-` for descending order. `bounded` is true if the size of the table is bounded by
    the numbers of queues, users and nodes, and `messages` if the rows are messages, whose names are looked up for the
    list.
    """

    name: str
    make: Callable[[Sources], DataFrame | list[Values]]
    order: tuple[str, ...]
    columns: Columns | None = None
    listed: int = LISTED
    bounded: bool = True
    messages: bool = False


def rates(sources: Sources) -> DataFrame:
    rolled_up = sources.aggregates.rolled_up
    return throughput.throughput(throughput.whole(sources.hours, rolled_up and rolled_up.ever))


def capacities(sources: Sources) -> list[Values]:
    aggregates, known = sources.aggregates, sources.inputs
    costs = (
        collect(capacity.cpu_intervals(aggregates.metrics, aggregates.traffic, known.kinds)) if known.metrics else []
    )
    return capacity.capacity(known, costs + (aggregates.rolled_up.costs if aggregates.rolled_up is not None else []))


def federation_links(sources: Sources) -> DataFrame:
    aggregates = sources.aggregates
    tallies, histograms = tally(aggregates.crossings), lags(aggregates.crossings)
    if aggregates.rolled_up is not None:
        tallies = tallies.unionByName(aggregates.rolled_up.crossed)
        histograms = histograms.unionByName(aggregates.rolled_up.crossed_lags)
    return links.links(tallies, histograms, aggregates.readings)


def odd_minutes(sources: Sources) -> DataFrame | list[Values]:
    seconds = [kind[end] for kind in sources.inputs.kinds for end in ("first", "last")]
    long_enough = max(seconds, default=0) - min(seconds, default=0) >= (anomalies.MINUTES - 1) * 60
    return anomalies.anomalies(sources.minutes) if long_enough else []


LATENCY = {
    **dict.fromkeys((*QUEUE, "stage"), pa.string()),
    **dict.fromkeys(("messages", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"), pa.int64()),
}
REPORTS = (
    Report("throughput", rates, ("-messages", *throughput.SCOPED, "grain"), listed=3 * LISTED),
    Report("latency", lambda sources: sources.inputs.latency, ("-p99_us", *QUEUE, "stage"), LATENCY),
    Report("backlog", lambda sources: backlog.backlog(sources.inputs), ("-peak", *QUEUE), backlog.COLUMNS),
    Report("clients", lambda sources: clients.clients(sources.aggregates.transfers), ("-messages", *clients.CLIENT)),
    Report("flow", lambda sources: clients.flow(sources.aggregates.transfers), ("-messages", *clients.EDGE)),
    Report("hot_exchanges", lambda sources: hot_keys.hot_exchanges(sources.aggregates.routes), BUSIEST),
    Report(
        "hot_keys", lambda sources: hot_keys.hot_keys(sources.aggregates.routes), (*BUSIEST, "place"), bounded=False
    ),
    Report(
        *("unroutable", lambda sources: failures.unroutable(sources.aggregates.routes)),
        ("-unroutable", *EXCHANGE, "routing_key"),
        bounded=False,
    ),
    Report(
        *("given_up", lambda sources: failures.given_up(sources.inputs)),
        ("-messages", *QUEUE, "event", "reason"),
        failures.GIVEN_UP,
    ),
    Report(
        *("redelivered", lambda sources: failures.redelivered(sources.inputs)),
        ("-redelivered", *QUEUE),
        failures.REDELIVERED,
    ),
    Report(
        *("poison", lambda sources: most_attempts(sources.aggregates.attempts)),
        ("-redelivered", "-requeued", *QUEUE, "msg_seq"),
        bounded=False,
        messages=True,
    ),
    Report("links", federation_links, LINK),
    Report(
        "consumers", lambda sources: consumers.consumers(sources.inputs), ("-mean_ready", *QUEUE), consumers.COLUMNS
    ),
    Report("churn", lambda sources: churn.churn(sources.inputs), ("node", "name"), churn.COLUMNS),
    Report("anomalies", odd_minutes, ("start", *QUEUE, "flow", "kind"), anomalies.COLUMNS, bounded=False),
    Report("capacity", capacities, ("node",), capacity.COLUMNS),
)


def make_reports(
    spark: SparkSession, aggregates: Aggregates, events: DataFrame, evidence: Evidence, tables: Tables, read: Values
) -> Values:
    """Make all reports. Returns the content of report.json.

    `events` is the log, read again for details of faults; `read` is the section "input".
    """
    with ThreadPoolExecutor(AT_ONCE) as workers:
        checking = workers.submit(check, spark, aggregates, events, evidence, tables)
        of_kinds = kinds(aggregates.kinds)
        series = workers.submit(write_series, aggregates, of_kinds, tables)
        inputs = make_inputs(aggregates, of_kinds, workers)
        sources = Sources(aggregates, inputs, *series.result())
        times = workers.submit(timeline.timeline, aggregates, inputs)
        first = sorted(REPORTS, key=lambda each: each.bounded)  # the tables as large as the log take longest
        made = workers.map(lambda each: make(each, sources, events, tables), first)
        reports = {each.name: parts for each, parts in zip(first, made, strict=True)}
        checked = checking.result()
    keys, exchanges = reports["hot_keys"][0], reports["hot_exchanges"][0]
    busiest = exchanges.first(BUSIEST, hot_keys.EXCHANGES)
    return {
        "schema": SCHEMA,
        "verdict": checked.sentence,
        "reasons": checked.conservation["reasons"],
        "input": read,
        "totals": throughput.totals(inputs.kinds),
        "conservation": checked.conservation,
        "durability": checked.durability,
        "timeline": times.result(),
        **{each.name: reports[each.name][1] for each in REPORTS},
        "hash_advice": list(hot_keys.hash_advice(keys.first((*BUSIEST, "place"), hot_keys.ADVISED), busiest)),
        "rows": {"durability": checked.durability_rows, **{each.name: reports[each.name][0].count for each in REPORTS}},
    }


def write_series(aggregates: Aggregates, of_kinds: list[Values], tables: Tables) -> tuple[DataFrame, DataFrame]:
    """Write the series of messages by second, minute and hour, each made of the finer one. Returns the last two."""
    rolled_up = aggregates.rolled_up
    seconds = tables.write("throughput_1s", throughput.seconds(aggregates.traffic, of_kinds)).frame
    minutes = tables.write("throughput_1m", throughput.minutes(seconds, rolled_up and rolled_up.minutes)).frame
    hours = tables.write("throughput_1h", throughput.hours(minutes, rolled_up and rolled_up.hours)).frame
    return minutes, hours


def make(report: Report, sources: Sources, events: DataFrame, tables: Tables) -> tuple[WrittenTable, list[Values]]:
    """Make a report. Returns its table, and its first rows."""
    made = report.make(sources)
    if isinstance(made, DataFrame):
        written = tables.write(report.name, made, report.bounded)
    else:
        assert report.columns is not None
        written = tables.write_rows(report.name, made, report.columns)
    rows = written.first(report.order, report.listed) if written.count else []
    if report.messages and rows:
        named = add_names(written.first_frame(report.order, report.listed), events)
        rows = first_rows(named, report.order, report.listed)
    return written, rows
