"""The timeline: rates, lag, redeliveries, latencies and metrics in equal steps, for charts.

A step without messages has the rate 0, and one without a reading of a metric has null.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as t

from ...file_format import schema
from ..aggregate_store import Aggregates
from ..aggregates import ACK_BUCKETS, WEIGHT, by_kind
from ..create_table import create_table
from ..report_inputs import QUEUE, ReportInputs, collect
from ..tables import Values, keyed
from .capacity import ENDLESS, p99_bound

Ends = dict[tuple[str, str], int]  # the last second of each boot, by node and boot
Queue = tuple[str, str | None, str]  # node, vhost, name
SCOPE = ("node", "vhost")
QUEUE_OF_BOOT = ("node", "boot_id", "vhost", "queue")
STEPS = 240  # at most
STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
READING_S = 3 * schema.SNAPSHOT_S // 2  # the age up to which a reading is valid
LINES = 10  # queues that each measure selects
SCOPES = 20  # nodes and virtual hosts with most messages
LEFT_UNDELIVERED = {schema.DROP: ("maxlen", "purged", "moved"), schema.DEAD_LETTER: ("expired", "maxlen")}
COUNTED = {  # the events of each count; "redelivered" and "left" have some of the deliveries, too
    "published": (schema.PUBLISH, schema.FED_IN),
    "entered": (schema.ENQUEUE,),
    "delivered": (schema.DELIVER,),
    "redelivered": (),
    "acknowledged": (schema.ACK, schema.FED_OUT),
    "left": schema.LEAVING,
}
GAUGES = {  # by metric, the value that is kept of a step
    schema.RESIDENT_BYTES: F.max,
    schema.MEMORY_LIMIT_BYTES: F.max,
    schema.DISK_FREE_BYTES: F.min,
    schema.DISK_LIMIT_BYTES: F.max,
    schema.OPEN_DESCRIPTORS: F.max,
    schema.DESCRIPTOR_LIMIT: F.max,
    schema.CONNECTIONS: F.max,
}


def lengths_s() -> Iterator[int]:
    """Yield the possible lengths of a step. Each length of days or more is a multiple of the shorter ones."""
    yield from STEPS_S
    length_s = STEPS_S[-1]
    while True:
        length_s *= 2
        yield length_s


class Steps:
    """The steps of a timeline: `count` of `step_s` seconds each, from `first`, in seconds since 1970."""

    def __init__(self, first_s: int, last_s: int) -> None:
        span_s = last_s - first_s + 1
        self.step_s = next(step_s for step_s in lengths_s() if span_s <= step_s * (STEPS - 1))
        self.first = first_s - first_s % self.step_s
        self.count = (last_s - self.first) // self.step_s + 1

    def of(self, second: Column) -> Column:
        """Return the number of the step of a second."""
        return F.floor((second - self.first) / self.step_s).cast("int")

    def end(self, step: int) -> int:
        return self.first + (step + 1) * self.step_s

    def filled(self, values: dict[int, Any]) -> list[Any]:
        """Return a value for each step, 0 for those without one."""
        return [values.get(step, 0) for step in range(self.count)]

    def read(self, values: dict[int, Any]) -> list[Any]:
        """Return a reading for each step: the last one, if it is not older than READING_S, or null."""
        kept: list[Any] = [None] * self.count
        for step, value in sorted((step, value) for step, value in values.items() if 0 <= step < self.count):
            end = min(max(step + 1, (step * self.step_s + READING_S) // self.step_s), self.count)
            kept[step:end] = [value] * (end - step)
        return kept


def timeline(aggregates: Aggregates, known: ReportInputs) -> Values | None:
    """Return the section "timeline" of report.json, or null if there are neither events nor snapshots."""
    boots = collect(by_boot(aggregates.snapshots))
    seconds = [row[name] for row in [*known.kinds, *boots] for name in ("first", "last")]
    if not seconds:
        return None
    steps = Steps(min(seconds), max(seconds))
    ends: Ends = defaultdict(int)
    for row in [*known.kinds, *boots]:
        boot = row["node"], row["boot_id"]
        ends[boot] = max(ends[boot], row["last"])
    oldest = collect(undelivered(aggregates.journeys))
    chosen = choose(known, oldest, ends)
    counts = by_step(aggregates.whole_traffic, known.kinds, steps, chosen)
    depths = collect(lengths(aggregates.snapshots, steps, chosen))
    return {
        "start": datetime.fromtimestamp(steps.first, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "step_s": steps.step_s,
        "steps": steps.count,
        "rates": rates(counts, steps),
        "queues": queues(counts, depths, oldest, ends, chosen, steps),
        "ack_latency": ack_latency(counts, steps),
        "nodes": nodes(collect(readings(aggregates.readings, steps)), steps),
    }


def departs(kind: Values) -> bool:
    """Return whether an event shows that messages stopped being ready for the first time."""
    event = kind["event"]
    first = event == schema.DELIVER and not kind["redelivered"]
    return first or event == schema.EXPIRE or kind["reason"] in LEFT_UNDELIVERED.get(event, ())


# Queries, each with a result that is bounded by the numbers of queues, nodes and steps


def by_boot(queue_stats: DataFrame) -> DataFrame:
    """Return the seconds of the first and the last snapshot by boot."""
    second = F.unix_seconds("ts_us")
    return queue_stats.groupBy("node", "boot_id").agg(F.min(second).alias("first"), F.max(second).alias("last"))


def undelivered(journeys: DataFrame) -> DataFrame:
    """Return when the oldest message that was neither delivered nor removed entered, by queue and boot."""
    waits = (F.col("entered") > 0) & (F.col("delivered") == 0) & (F.col("left") == 0)
    at = F.min(F.floor(F.unix_micros("last") / 1_000_000)).alias("second")  # its only event is its enqueue
    return journeys.where(waits).groupBy("node", "boot_id", "vhost", "queue").agg(at)


def by_step(traffic: DataFrame, kinds: list[Values], steps: Steps, chosen: Sequence[Queue]) -> list[Values]:
    """Return counts by step and chosen queue; the other queues together have the queue null.

    `wait_us` is the longest wait of a message that left for the first time, `entered_us` when it entered.
    """
    shown = set(chosen)
    numbers: dict[tuple[Any, ...], int] = {}
    numbered = []
    for kind in kinds:
        queue = kind["queue"] if name_of(kind) in shown else None
        line = kind["node"], kind["boot_id"], kind["vhost"], queue, counts_of(kind), departs(kind)
        numbered.append((kind["kind"], numbers.setdefault(line, len(numbers))))
    timed = F.col("timed") > 0
    sums = (
        by_kind(traffic, {"line": t.IntegerType()}, numbered)
        .groupBy("line", steps.of(F.col("second")).alias("step"), "ack_bucket")
        .agg(
            F.sum("weight").alias("weight"),
            F.max(F.when(timed, F.col("highest_us"))).alias("wait_us"),
            F.min(F.when(timed, F.col("entered_us"))).alias("entered_us"),
        )
    )
    lines, rows = list(numbers), []
    for row in collect(sums):
        *names, counted, departed = lines[row["line"]]
        of_step = {name: row[name] for name in ("step", "ack_bucket")}
        counts = {name: row["weight"] if name in counted else 0 for name in COUNTED}
        waits = {name: row[name] if departed else None for name in ("wait_us", "entered_us")}
        rows.append({**dict(zip(QUEUE_OF_BOOT, names, strict=True)), **of_step, **counts, **waits})
    return rows


def counts_of(kind: Values) -> tuple[str, ...]:
    """Return the names of the counts that include a kind of events."""
    event = kind["event"]
    names = [name for name, events in COUNTED.items() if event in events]
    if event == schema.DELIVER:
        names += ["redelivered"] * bool(kind["redelivered"]) + ["left"] * bool(kind["no_ack"])
    return tuple(names)


def lengths(queue_stats: DataFrame, steps: Steps, chosen: Sequence[Queue]) -> DataFrame:
    return (
        marked(queue_stats, chosen)
        .where(F.col("chosen").isNotNull())
        .groupBy("node", "vhost", F.col("chosen").alias("queue"), steps.of(F.unix_seconds("ts_us")).alias("step"))
        .agg(F.max(F.col("ready") + F.col("unacked")).alias("messages"))
    )


def marked(table: DataFrame, chosen: Sequence[Queue]) -> DataFrame:
    """Add the column `chosen`: the queue, or null if it is not one of the chosen ones."""
    columns = dict.fromkeys((*QUEUE, "chosen"), t.StringType())
    local = create_table(table.sparkSession, columns, [(*queue, queue[2]) for queue in chosen])
    same = [F.equal_null(table[name], local[name]) for name in QUEUE]
    return table.join(F.broadcast(local), same, "left").select(table["*"], local["chosen"])


def readings(metrics: DataFrame, steps: Steps) -> DataFrame:
    """Return the gauges by node and step, and the last state of the loop's histogram."""
    gauges = [how(F.when(F.col("name") == name, F.col("value"))).alias(name) for name, how in GAUGES.items()]
    lag = F.when(F.col("name") == schema.LOOP_LAG_US, F.col("mono_ns"))
    return (
        metrics.where(F.col("name").isin(*GAUGES, schema.LOOP_LAG_US))
        .groupBy("node", "boot_id", steps.of(F.unix_seconds("ts_us")).alias("step"))
        .agg(*gauges, F.max_by("buckets", lag).alias("buckets"))
    )


# The series, from rows of the queries


def choose(known: ReportInputs, oldest: list[Values], ends: Ends) -> list[Queue]:
    """Return the queues to show: the first LINES by age, by messages, by redeliveries and by length."""
    measures: list[dict[Queue, float]] = [defaultdict(float) for _ in range(4)]
    ages, entered, redelivered, peaks = measures
    for row in known.kinds:
        if row["queue"] is not None:
            name, of_event = name_of(row), row["event"]
            again = of_event == schema.DELIVER and row["redelivered"]
            entered[name] += row["weight"] if of_event == schema.ENQUEUE else 0
            redelivered[name] += row["weight"] if again else 0
            if departs(row):
                ages[name] = max(ages[name], row["highest_us"])
    for row in oldest:
        age_s = ends[row["node"], row["boot_id"]] + 1 - row["second"]
        ages[name_of(row)] = max(ages[name_of(row)], age_s * 1_000_000)
    for row in known.queues:
        peaks[name_of(row)] = row["peak"]
    chosen: dict[Queue, None] = {}
    for measure in measures:
        order = sorted((-size, [part or "" for part in name], name) for name, size in measure.items() if size > 0)
        chosen.update(dict.fromkeys(name for _, _, name in order[:LINES]))
    return list(chosen)


def name_of(row: Values) -> Queue:
    return row["node"], row["vhost"], row["queue"]


def rates(counts: list[Values], steps: Steps) -> list[Values]:
    """Return the rates by node and virtual host, those with most messages first."""
    scopes = keyed(counts, *SCOPE)
    flows = ("published", "entered", "delivered", "acknowledged", "left")
    order = sorted(scopes, key=lambda scope: (-sum(row["entered"] for row in scopes[scope]), str(scope)))
    return [
        {**dict(zip(SCOPE, scope, strict=True)), **{flow: per_s(scopes[scope], flow, steps) for flow in flows}}
        for scope in order[:SCOPES]
    ]


def per_s(rows: Iterable[Values], name: str, steps: Steps) -> list[float]:
    """Return messages a second, 0 for a silent step."""
    sums: dict[int, int] = defaultdict(int)
    for row in rows:
        sums[row["step"]] += row[name]
    return steps.filled({step: round(weight / WEIGHT / steps.step_s, 3) for step, weight in sums.items()})


def queues(
    counts: list[Values],
    depths: list[Values],
    oldest: list[Values],
    ends: Ends,
    chosen: Sequence[Queue],
    steps: Steps,
) -> list[Values]:
    """Return the series of the chosen queues, those with the greatest lag first."""
    rows, lengths, waiting = (keyed(each, *QUEUE) for each in (counts, depths, oldest))
    series = []
    for queue in chosen:
        length = {row["step"]: row["messages"] for row in lengths.get(queue, [])}
        of_queue = rows.get(queue, [])
        series.append(
            {
                **dict(zip(QUEUE, queue, strict=True)),
                "entered": per_s(of_queue, "entered", steps),
                "left": per_s(of_queue, "left", steps),
                "redelivered": per_s(of_queue, "redelivered", steps),
                "lag_s": lag(of_queue, waiting.get(queue, []), ends, steps),
                "messages": steps.read(length),
            }
        )
    return sorted(series, key=lambda each: -max(each["lag_s"]))


def lag(rows: list[Values], oldest: list[Values], ends: Ends, steps: Steps) -> list[float]:
    """Return the age in seconds of the oldest ready message by step.

    It is the greatest age of a message that left in the step, or of one that was still there at its end. Ages of
    messages from before their boot are unknown.
    """
    ages = [0.0] * steps.count
    still = {(row["node"], row["boot_id"]): row["second"] for row in oldest}
    by_boot = keyed(rows, "node", "boot_id")
    for boot in {**by_boot, **still}:
        waits = keyed([row for row in by_boot.get(boot, []) if row["wait_us"] is not None], "step")
        last = min((ends[boot] - steps.first) // steps.step_s, steps.count - 1)
        entered_s = float(still.get(boot, ends[boot] + 1))
        for step in range(last, -1, -1):
            end_s = min(steps.end(step), ends[boot] + 1)
            ages[step] = max(ages[step], round(end_s - entered_s, 3))
            for row in waits.get((step,), []):
                ages[step] = max(ages[step], round(row["wait_us"] / 1e6, 6))
                entered_s = min(entered_s, row["entered_us"] / 1e6)
    return ages


def ack_latency(counts: list[Values], steps: Steps) -> Values | None:
    """Return the number of acknowledged messages by the time since their publish, and by step."""
    cells: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in counts:
        if row["ack_bucket"] is not None:
            cells[row["ack_bucket"]][row["step"]] += row["acknowledged"]
    if not cells:
        return None
    present = [number for number in ACK_BUCKETS if number in cells]
    numbers = range(present[0], present[-1] + 1)
    return {
        "from_us": [0 if number == ACK_BUCKETS[0] else round(10 ** (number / 2)) for number in numbers],
        "messages": [
            steps.filled({step: round(weight / WEIGHT) for step, weight in cells[number].items()}) for number in numbers
        ],
    }


def nodes(rows: list[Values], steps: Steps) -> list[Values]:
    """Return the series of each node's metrics; null: no reading, or no such limit."""
    series = []
    for (node,), of_node in sorted(keyed(rows, "node").items()):
        gauges = {
            name: steps.read(
                {row["step"]: row[name] for row in of_node if row[name] is not None and row[name] < ENDLESS}
            )
            for name in GAUGES
        }
        series.append({"node": node, **gauges, "loop_lag_p99_us": steps.read(loop_lag(of_node))})
    return series


def loop_lag(rows: list[Values]) -> dict[int, int]:
    """Return the 99th percentile of the loop's turns by step, as the upper bound of its bucket."""
    quantiles: dict[int, int] = {}
    for of_boot in keyed([row for row in rows if row["buckets"]], "boot_id").values():
        before: list[int] = []
        for row in sorted(of_boot, key=lambda row: row["step"]):
            now = row["buckets"]
            turns = [count - (before[place] if place < len(before) else 0) for place, count in enumerate(now)]
            before, bound = now, p99_bound(turns)
            if bound is not None:
                quantiles[row["step"]] = max(quantiles.get(row["step"], 0), bound)
    return quantiles
