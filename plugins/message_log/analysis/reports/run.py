"""The list of all reports, and the run that writes them to a folder."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ..conservation.check import check
from ..conservation.evidence import Evidence
from ..fact_store import Facts
from ..facts import EXCHANGE, LINK, lags, tally
from ..kept_rows import most_attempts
from ..message_paths import add_names
from ..summaries import QUEUE, Summaries, collect, kinds, summarise
from ..tables import LISTED, Columns, Tables, Values, Written, first_rows
from . import anomalies, backlog, capacity, churn, clients, consumers, failures, hot_keys, links, throughput, timeline

AT_ONCE = 3  # reports that are made concurrently: most are too small to keep all cores busy
SCHEMA = 1  # of report.json
BUSIEST = ("-published", *EXCHANGE)


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


def rates(sources: Sources) -> DataFrame:
    folded = sources.facts.folded
    return throughput.throughput(throughput.whole(sources.hours, folded and folded.ever))


def capacities(sources: Sources) -> list[Values]:
    facts, known = sources.facts, sources.summaries
    costs = collect(capacity.cpu_intervals(facts.metrics, facts.traffic, known.kinds)) if known.metrics else []
    return capacity.capacity(known, costs + (facts.folded.costs if facts.folded is not None else []))


def federation_links(sources: Sources) -> DataFrame:
    facts = sources.facts
    tallies, histograms = tally(facts.crossings), lags(facts.crossings)
    if facts.folded is not None:
        tallies = tallies.unionByName(facts.folded.crossed)
        histograms = histograms.unionByName(facts.folded.crossed_lags)
    return links.links(tallies, histograms, facts.readings)


def odd_minutes(sources: Sources) -> DataFrame | list[Values]:
    seconds = [kind[end] for kind in sources.summaries.kinds for end in ("first", "last")]
    long_enough = max(seconds, default=0) - min(seconds, default=0) >= (anomalies.MINUTES - 1) * 60
    return anomalies.anomalies(sources.minutes) if long_enough else []


LATENCY = {
    **dict.fromkeys((*QUEUE, "stage"), pa.string()),
    **dict.fromkeys(("messages", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"), pa.int64()),
}
REPORTS = (
    Report("throughput", rates, ("-messages", *throughput.SCOPED, "grain"), listed=3 * LISTED),
    Report("latency", lambda sources: sources.summaries.latency, ("-p99_us", *QUEUE, "stage"), LATENCY),
    Report("backlog", lambda sources: backlog.backlog(sources.summaries), ("-peak", *QUEUE), backlog.COLUMNS),
    Report("clients", lambda sources: clients.clients(sources.facts.transfers), ("-messages", *clients.CLIENT)),
    Report("flow", lambda sources: clients.flow(sources.facts.transfers), ("-messages", *clients.EDGE)),
    Report("hot_exchanges", lambda sources: hot_keys.hot_exchanges(sources.facts.routes), BUSIEST),
    Report("hot_keys", lambda sources: hot_keys.hot_keys(sources.facts.routes), (*BUSIEST, "place"), bounded=False),
    Report(
        *("unroutable", lambda sources: failures.unroutable(sources.facts.routes)),
        ("-unroutable", *EXCHANGE, "routing_key"),
        bounded=False,
    ),
    Report(
        *("given_up", lambda sources: failures.given_up(sources.summaries)),
        ("-messages", *QUEUE, "event", "reason"),
        failures.GIVEN_UP,
    ),
    Report(
        *("redelivered", lambda sources: failures.redelivered(sources.summaries)),
        ("-redelivered", *QUEUE),
        failures.REDELIVERED,
    ),
    Report(
        *("poison", lambda sources: most_attempts(sources.facts.attempts)),
        ("-redelivered", "-requeued", *QUEUE, "msg_seq"),
        bounded=False,
        messages=True,
    ),
    Report("links", federation_links, LINK),
    Report(
        "consumers", lambda sources: consumers.consumers(sources.summaries), ("-mean_ready", *QUEUE), consumers.COLUMNS
    ),
    Report("churn", lambda sources: churn.churn(sources.summaries), ("node", "name"), churn.COLUMNS),
    Report("anomalies", odd_minutes, ("start", *QUEUE, "flow", "kind"), anomalies.COLUMNS, bounded=False),
    Report("capacity", capacities, ("node",), capacity.COLUMNS),
)


def make_reports(
    spark: SparkSession, facts: Facts, events: DataFrame, evidence: Evidence, tables: Tables, read: Values
) -> Values:
    """Make all reports. Returns the content of report.json.

    `events` is the log, read again for details of faults; `read` is the section "input".
    """
    with ThreadPoolExecutor(AT_ONCE) as workers:
        checking = workers.submit(check, spark, facts, events, evidence, tables)
        of_kinds = kinds(facts.kinds)
        series = workers.submit(write_series, facts, of_kinds, tables)
        summaries = summarise(facts, of_kinds, workers)
        sources = Sources(facts, summaries, *series.result())
        times = workers.submit(timeline.timeline, facts, summaries)
        first = sorted(REPORTS, key=lambda each: each.bounded)  # those as large as the log take longest
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
        "totals": throughput.totals(summaries.kinds),
        "conservation": checked.conservation,
        "durability": checked.durability,
        "timeline": times.result(),
        **{each.name: reports[each.name][1] for each in REPORTS},
        "hash_advice": list(hot_keys.hash_advice(keys.first((*BUSIEST, "place"), hot_keys.ADVISED), busiest)),
        "rows": {"durability": checked.durability_rows, **{each.name: reports[each.name][0].count for each in REPORTS}},
    }


def write_series(facts: Facts, of_kinds: list[Values], tables: Tables) -> tuple[DataFrame, DataFrame]:
    """Write the series of messages by second, minute and hour, each made of the finer one. Returns the last two."""
    folded = facts.folded
    seconds = tables.write("throughput_1s", throughput.seconds(facts.traffic, of_kinds)).frame
    minutes = tables.write("throughput_1m", throughput.minutes(seconds, folded and folded.minutes)).frame
    hours = tables.write("throughput_1h", throughput.hours(minutes, folded and folded.hours)).frame
    return minutes, hours


def make(report: Report, sources: Sources, events: DataFrame, tables: Tables) -> tuple[Written, list[Values]]:
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
