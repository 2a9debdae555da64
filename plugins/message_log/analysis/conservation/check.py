"""The whole conservation check: its tables, and its sections of report.json."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..aggregate_store import Aggregates
from ..aggregates import LINK
from ..journeys import add_names
from ..report_inputs import QUEUE
from ..tables import Tables, Values, first_rows
from . import boots, checked_range, durability, gaps, imbalances, queues, verdict
from .evidence import Evidence

CROSSED = ("taken", "arrived", "discarded", "missing", "pending")
ORDER = ("problem", "node", "boot_id", "vhost", "queue", "msg_seq", "file", "first_row")


class CheckResult(NamedTuple):
    """The sections "conservation" and "durability", the number of rows of the latter, and the verdict in words."""

    conservation: Values
    durability: list[Values]
    durability_rows: int
    sentence: str


def check(spark: SparkSession, known: Aggregates, events: DataFrame, evidence: Evidence, tables: Tables) -> CheckResult:
    """Make the tables of the check. `events` is the log, for restarts and for details of faults."""
    spans = checked_range.spans(known.snapshots, known.rows)
    all_boots = boots.describe(spans.collect(), evidence)
    boot_table = tables.write("boots", boots.table(spark, all_boots, spans), True)
    spans = boot_table.frame
    balance = tables.write("queues", queues.balance(known.journeys, known.balances, known.snapshots, spans), True)
    crossed = known.rolled_up and known.rolled_up.crossed
    arrivals = tables.write("arrivals", imbalances.arrivals(known.crossings, spans, crossed))
    unrouted = imbalances.unrouted_boots(known.kinds, spans if evidence.routes_compared else spans.limit(0))
    odd = imbalances.unrouted(events if unrouted.head(1) else events.limit(0), unrouted)
    lacking = any(boot["records"] - boot["duplicated"] != boot["end_row"] - boot["first_row"] for boot in all_boots)
    missing_rows = gaps.gaps(known.rows if lacking else known.rows.limit(0), spans if lacking else spans.limit(0))
    impossible = queues.impossible(known.journeys, balance.frame, spans)
    restarted = durability.durability(spark, known, events, boots.restarts(all_boots))
    kept = tables.write("durability", restarted) if restarted is not None else None
    files = imbalances.files(spark, evidence.faults, all_boots)
    kept_frame = kept.frame if kept is not None else None
    parts = imbalances.imbalances(impossible, missing_rows, balance.frame, arrivals.frame, odd, kept_frame, files)
    written = tables.write("imbalances", parts)
    count = written.count
    certain = verdict.certain_imbalances(written.frame, spans).count() if count else 0
    named = tables.write("imbalances_named", add_names(written.frame, events)) if count else written
    durable = durability.summary(kept.frame) if kept is not None else durability.NONE
    uncertain = verdict.not_kept(durable.uncertain_after_stops, durable.uncertain_after_kills)
    result = verdict.verdict(all_boots, evidence, count, certain, uncertain)
    gap_rows = written.frame.where(F.col("problem") == imbalances.MISSING) if count else None
    missing = gap_rows.agg(F.sum("records")).collect()[0][0] if gap_rows is not None else 0
    counts = arrivals.frame.select(*LINK, *CROSSED)
    if crossed is not None:
        pending = F.lit(0).cast("long").alias("pending")  # and no file is missing
        counts = counts.unionByName(crossed.select(*LINK, *CROSSED[:-1], pending))
    by_link = counts.groupBy(*LINK).agg(*[F.sum(name).alias(name) for name in CROSSED])
    restarts = tables.write("restarts", queues.restarts(known.snapshots, spans), True)
    section = {
        "balanced": result.balanced,
        **result._asdict(),
        "missing_records": missing or 0,
        "imbalance_count": count,
        "imbalances": named.first(ORDER),
        "queues": balance.first(("-entered", *QUEUE, "boot_id")),
        "links": first_rows(by_link, LINK) if arrivals.count or crossed is not None else [],
        "boots": boot_table.first(("node", "first")),
        "restarts": restarts.first((*QUEUE, "boot_id")),
        "files": {name: len(getattr(evidence.faults, name)) for name in ("missing", "changed", "unlisted")},
    }
    rows = kept.first(("-lost", "-missing", *QUEUE, "boot_id")) if kept is not None else []
    return CheckResult(section, rows, durable.rows, result.sentence(count))
