"""The whole conservation check: its tables, and its sections of report.json."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..fact_store import Facts
from ..facts import LINK
from ..message_names import add_names
from ..report_rows import first_rows
from ..summaries import QUEUE
from ..tables import Written
from . import boots, checked_range, durability, gaps, imbalances, queues, restarts, verdict
from .evidence import Evidence

CROSSED = ("taken", "came", "discarded", "missing", "pending")
ORDER = ("problem", "node", "boot_id", "vhost", "queue", "msg_seq", "file", "first_row")


class WriteTable(Protocol):
    """The writer of a table that is computed once; `bounded`: by the numbers of queues and boots."""

    def __call__(self, name: str, table: DataFrame, bounded: bool = False) -> Written: ...


class Checked(NamedTuple):
    """The sections "conservation" and "durability", the number of rows of the latter, and the verdict in words."""

    conservation: dict[str, Any]
    durability: list[dict[str, Any]]
    durability_rows: int
    sentence: str


def check(spark: SparkSession, facts: Facts, events: DataFrame, evidence: Evidence, write: WriteTable) -> Checked:
    """Make the tables of the check. `events` is the log, for restarts and for details of faults."""
    spans = checked_range.spans(facts.snapshots, facts.rows)
    all_boots = boots.describe(spans.collect(), evidence)
    told = write("boots", boots.table(spark, all_boots, spans), True)
    spans = told.frame
    balance = write("queues", queues.balance(facts.journeys, facts.balances, facts.snapshots, spans), True)
    arrivals = write("arrivals", imbalances.arrivals(facts.crossings, spans, facts.folded and facts.folded.crossed))
    unrouted = imbalances.unrouted_boots(facts.kinds, spans if evidence.routes_compared else spans.limit(0))
    odd = imbalances.unrouted(events if unrouted.head(1) else events.limit(0), unrouted)
    lacking = any(boot["records"] - boot["duplicated"] != boot["end_row"] - boot["first_row"] for boot in all_boots)
    missing_rows = gaps.gaps(facts.rows if lacking else facts.rows.limit(0), spans if lacking else spans.limit(0))
    impossible = queues.impossible(facts.journeys, balance.frame, spans)
    judged_queues = durability.durability(spark, facts, events, boots.restarts(all_boots))
    kept = write("durability", judged_queues) if judged_queues is not None else None
    files = imbalances.files(spark, evidence.faults, all_boots)
    kept_frame = kept.frame if kept is not None else None
    parts = imbalances.imbalances(impossible, missing_rows, balance.frame, arrivals.frame, odd, kept_frame, files)
    found = write("imbalances", parts)
    count = found.count
    certain = verdict.certain_imbalances(found.frame, spans).count() if count else 0
    named = write("imbalances_named", add_names(found.frame, events)) if count else found
    durable = durability.summary(kept.frame) if kept is not None else durability.NONE
    uncertain = verdict.not_kept(durable.uncertain_after_stops, durable.uncertain_after_kills)
    judged = verdict.verdict(all_boots, evidence, count, certain, uncertain)
    gap_rows = found.frame.where(F.col("problem") == imbalances.MISSING) if count else None
    missing = gap_rows.agg(F.sum("records")).collect()[0][0] if gap_rows is not None else 0
    counts = arrivals.frame.select(*LINK, *CROSSED)
    if facts.folded is not None:
        pending = F.lit(0).cast("long").alias("pending")  # nor is any missing
        counts = counts.unionByName(facts.folded.crossed.select(*LINK, *CROSSED[:-1], pending))
    crossed = counts.groupBy(*LINK).agg(*[F.sum(name).alias(name) for name in CROSSED])
    back = write("restarts", restarts.restarts(facts.snapshots, spans), True)
    section = {
        "balanced": judged.balanced,
        **judged._asdict(),
        "missing_records": missing or 0,
        "imbalance_count": count,
        "imbalances": named.first(ORDER),
        "queues": balance.first(("-entered", *QUEUE, "boot_id")),
        "links": first_rows(crossed, LINK) if arrivals.count or facts.folded is not None else [],
        "boots": told.first(("node", "first")),
        "restarts": back.first((*QUEUE, "boot_id")),
        "files": {
            "missing": len(evidence.faults.missing),
            "changed": len(evidence.faults.changed),
            "unlisted": len(evidence.faults.unlisted),
        },
    }
    order = ("-lost", "-missing", *QUEUE, "boot_id")
    rows = kept.first(order) if kept is not None else []
    return Checked(section, rows, durable.rows, judged.sentence(count))
