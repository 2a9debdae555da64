"""The whole conservation check: its tables, and its sections of report.json."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..fact_store import Facts
from ..facts import LINK
from ..message_names import add_names
from ..report_rows import first_rows
from . import boots, checked_range, durability, gaps, imbalances, queues, restarts, verdict
from .evidence import Evidence

QUEUE = ("node", "vhost", "queue")
ORDER = ("problem", "node", "boot_id", "vhost", "queue", "msg_seq", "file", "first_row")
WriteTable = Callable[[str, DataFrame], DataFrame]  # writes a table, and returns it as read from its file


class Checked(NamedTuple):
    """The sections "conservation" and "durability", the number of rows of the latter, and the verdict in words."""

    conservation: dict[str, Any]
    durability: list[dict[str, Any]]
    durability_rows: int
    sentence: str


def check(spark: SparkSession, facts: Facts, events: DataFrame, evidence: Evidence, write: WriteTable) -> Checked:
    """Make the tables of the check. `events` is the log, for restarts and for details of faults."""
    spans = checked_range.spans(facts.queue_stats, facts.rows)
    all_boots = boots.describe(spans.collect(), evidence)
    spans = write("boots", boots.table(spark, all_boots, spans))
    balance = write("queues", queues.balance(facts.journeys, facts.balances, facts.queue_stats, spans))
    arrivals = write("arrivals", imbalances.arrivals(facts.crossings, spans))
    unrouted = imbalances.unrouted_boots(facts.traffic, spans)
    odd = imbalances.unrouted(events if unrouted.head(1) else events.limit(0), unrouted)
    missing_rows = gaps.gaps(facts.rows, spans)
    impossible = queues.impossible(facts.journeys, balance, spans)
    kept = durability.durability(spark, facts, events, boots.restarts(all_boots))
    if kept is not None:
        kept = write("durability", kept)
    files = imbalances.files(spark, evidence.faults, all_boots)
    parts = imbalances.imbalances(impossible, missing_rows, balance, arrivals, odd, kept, files)
    found = write("imbalances", parts)
    count = found.count()
    certain = verdict.certain_imbalances(found, spans).count() if count else 0
    named = write("imbalances_named", add_names(found, events)) if count else found
    durable = durability.summary(kept) if kept is not None else durability.NONE
    uncertain = verdict.not_kept(durable.uncertain_after_stops, durable.uncertain_after_kills)
    judged = verdict.verdict(all_boots, evidence, count, certain, uncertain)
    missing = found.where(F.col("problem") == imbalances.MISSING).agg(F.sum("records")).collect()[0][0]
    crossed = arrivals.groupBy(*LINK).agg(
        *[F.sum(name).alias(name) for name in ("taken", "came", "discarded", "missing", "pending")]
    )
    back = write("restarts", restarts.restarts(facts.queue_stats, spans))
    section = {
        "balanced": judged.balanced,
        **judged._asdict(),
        "missing_records": missing or 0,
        "imbalance_count": count,
        "imbalances": first_rows(named, ORDER),
        "queues": first_rows(balance, ("-entered", *QUEUE, "boot_id")),
        "links": first_rows(crossed, LINK),
        "boots": first_rows(spans, ("node", "first")),
        "restarts": first_rows(back, (*QUEUE, "boot_id")),
        "files": {
            "missing": len(evidence.faults.missing),
            "changed": len(evidence.faults.changed),
            "unlisted": len(evidence.faults.unlisted),
        },
    }
    order = ("-lost", "-missing", *QUEUE, "boot_id")
    rows = first_rows(kept, order) if kept is not None else []
    return Checked(section, rows, durable.rows, judged.sentence(count))
