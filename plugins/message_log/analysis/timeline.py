"""The timeline: rates, lag, redeliveries, latencies and metrics in equal steps, for charts.

A step without messages has the rate 0, and one without a reading of a metric has null.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import accumulate, chain, count, pairwise, zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format import schema
from .beginnings import micros
from .boots import Boot
from .facts import Numbers, Values, group, is_one_of, keyed, numbers_of
from .health import Queue, queue_of
from .hours import COUNTED, LEFT_UNDELIVERED, MOMENTS, WAITS
from .reduction import ACK_BUCKETS, WEIGHT
from .traffic import QUEUE

Extents = dict[tuple[str, str], tuple[int, int]]  # the first and the last second of each boot, by node and boot
Lengths = dict[tuple[Queue, int], tuple[int, int]]
"""The greatest number of messages in a snapshot, and the least number of ready ones, by queue and step."""
SCOPE = ("node", "vhost")
STEPS = 240  # at most
DAY_S = 86_400
STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200)
"""The lengths that a step may have, beside those of 2 ** N days: each longer one consists of whole ones of a minute."""
READING_S = 3 * schema.SNAPSHOT_S // 2  # the age up to which a reading counts
LINES = 10  # queues that are chosen by each measure
SCOPES = 20  # nodes and virtual hosts with most messages
ENDLESS = 2**62  # bytes: exported by a broker without such a limit
GAUGES: dict[str, Callable[[list[float]], float]] = {  # each with what is kept of a step
    schema.RESIDENT_BYTES: max,
    schema.MEMORY_LIMIT_BYTES: max,
    schema.DISK_FREE_BYTES: min,
    schema.DISK_LIMIT_BYTES: max,
    schema.OPEN_DESCRIPTORS: max,
    schema.DESCRIPTOR_LIMIT: max,
    schema.CONNECTIONS: max,
}


class Steps:
    """The steps of a timeline: `count` of `step_s` seconds each, from `first`, in seconds since 1970."""

    def __init__(self, first_s: int, last_s: int) -> None:
        lengths_s = chain(STEPS_S, (DAY_S << exponent for exponent in count()))
        self.step_s = next(step_s for step_s in lengths_s if last_s - first_s + 1 <= step_s * (STEPS - 1))
        self.first = first_s - first_s % self.step_s
        self.count = (last_s - self.first) // self.step_s + 1

    def of(self, seconds: Numbers) -> Numbers:
        """Return the number of the step of each second."""
        return (seconds - self.first) // self.step_s

    def at(self, time: datetime) -> int:
        """Return the number of the step of a time."""
        return (micros(time) // 1_000_000 - self.first) // self.step_s

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


class Frame:
    """The frame of a timeline: its steps, None without events and snapshots, and the queues that it shows.

    kinds   traffic of all seconds (`hours.KINDS`)
    oldest  when the oldest message that is still waiting entered, by queue and boot
    extents the first and the last second of each boot
    """

    def __init__(
        self, kinds: list[Values], oldest: list[Values], boots: list[Boot], lengths: Mapping[Queue, int]
    ) -> None:
        """`lengths` has the greatest length of each queue."""
        seconds = [kind[name] for kind in kinds for name in ("first", "last")]
        seconds += [micros(at) // 1_000_000 for boot in boots for at in (boot.first, boot.last) if at is not None]
        self.steps = Steps(min(seconds), max(seconds)) if seconds else None
        self.extents: Extents = {
            boot.name: (micros(boot.first) // 1_000_000, micros(boot.last) // 1_000_000) for boot in boots
        }
        self.oldest = [row for row in oldest if row["second"] is not None]
        self.chosen = choose(kinds, self.oldest, self.extents, lengths)


def timeline(
    frame: Frame, counts: list[Values], lengths: Lengths, readings: Iterable[Values], lags: Iterable[Values]
) -> Values | None:
    """Return the section "timeline" of report.json, or null if there are neither events nor snapshots.

    `counts` are rows of `by_step`; `lengths` are of the chosen queues; `readings` are rows of `metrics`, and `lags` of
    `lags_by_step`.
    """
    steps = frame.steps
    if steps is None:
        return None
    return {
        "start": datetime.fromtimestamp(steps.first, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "step_s": steps.step_s,
        "steps": steps.count,
        "rates": rates(counts, steps),
        "queues": queues(counts, lengths, frame, steps),
        "links": links(lags, steps),
        "ack_latency": ack_latency(counts, steps),
        "nodes": nodes(readings, steps),
    }


def departs(kind: Values) -> bool:
    """Return whether messages left the ready ones of their queue for the first time, as far as an event shows."""
    event = kind["event"]
    first = event == schema.DELIVER and not kind["redelivered"]
    return first or event == schema.EXPIRE or kind["reason"] in LEFT_UNDELIVERED.get(event, ())


def by_step(moments: pa.Table, waits: pa.Table, steps: Steps, chosen: Collection[Queue]) -> list[Values]:
    """Return counts by step and chosen queue; the other queues together have the queue null.

    `moments` and `waits` are those of `hours`; rows of the latter have an `ack_bucket`, and only the count `timed`.
    """
    queues = pc.if_else(pa.array(are_chosen(moments, chosen)), moments["queue"].cast(pa.string()), None)
    step = pa.array(steps.of(numbers_of(moments["second"])))
    table = moments.set_column(3, "queue", queues.dictionary_encode()).set_column(4, "second", step)
    rows = group(MOMENTS, table.cast(MOMENTS.schema)).rename_columns(
        ["step" if name == "second" else name for name in MOMENTS.schema.names]
    )
    step = pa.array(steps.of(numbers_of(waits["second"])))
    timed = group(WAITS, waits.set_column(3, "second", step))
    timed = timed.rename_columns(["node", "vhost", "ack_bucket", "step", "timed"])
    absent = dict.fromkeys(("queue", "boot_id", "wait_us", "entered_us")) | dict.fromkeys(COUNTED, 0)
    return [{"ack_bucket": None, "timed": 0} | row for row in rows.to_pylist()] + [
        absent | row for row in timed.to_pylist()
    ]


def are_chosen(moments: pa.Table, chosen: Collection[Queue]) -> Numbers:
    """Return which rows are of the chosen queues."""
    found = np.zeros(moments.num_rows, bool)
    for queue in chosen:
        found |= np.logical_and.reduce(
            [is_one_of(moments[name], (text,)) for name, text in zip(QUEUE, queue, strict=True) if text is not None]
        )
    return found


def lengths_by_step(snapshots: pa.Table, steps: Steps, chosen: Collection[Queue]) -> Lengths:
    """Return the lengths of each chosen queue in each step."""
    names = set(chosen)
    wanted = pa.array(sorted({name for _, _, name in names if name is not None}), pa.string())
    rows = snapshots.filter(pc.is_in(snapshots["queue"].cast(pa.string()), wanted)).to_pylist()
    return merge_lengths(
        {(queue_of(row), steps.at(row["ts_us"])): (row["ready"] + row["unacked"], row["ready"])}
        for row in rows
        if queue_of(row) in names
    )


def merge_lengths(parts: Iterable[Lengths]) -> Lengths:
    merged: Lengths = {}
    for part in parts:
        for key, (length, ready) in part.items():
            before = merged.get(key, (length, ready))
            merged[key] = max(length, before[0]), min(ready, before[1])
    return merged


def choose(kinds: list[Values], oldest: list[Values], extents: Extents, lengths: Mapping[Queue, int]) -> list[Queue]:
    """Return the queues to show: the first LINES by age, by messages, by redeliveries and by length."""
    measures: list[dict[Queue, float]] = [defaultdict(float) for _ in range(4)]
    ages, entered, redelivered, peaks = measures
    for row in kinds:
        if row["queue"] is not None:
            name, of_event = queue_of(row), row["event"]
            again = of_event == schema.DELIVER and row["redelivered"]
            entered[name] += row["weight"] if of_event == schema.ENQUEUE else 0
            redelivered[name] += row["weight"] if again else 0
            if departs(row):
                ages[name] = max(ages[name], row["highest_us"])
    for row in oldest:
        age_s = extents[row["node"], row["boot_id"]][1] + 1 - row["second"]
        ages[queue_of(row)] = max(ages[queue_of(row)], age_s * 1_000_000)
    peaks.update(lengths)
    found: dict[Queue, None] = {}
    for measure in measures:
        order = sorted((-size, [part or "" for part in name], name) for name, size in measure.items() if size > 0)
        found.update(dict.fromkeys(name for _, _, name in order[:LINES]))
    return list(found)


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


def queues(counts: list[Values], lengths: Lengths, frame: Frame, steps: Steps) -> list[Values]:
    """Return the series of the chosen queues, those with the greatest lag first."""
    rows, waiting = (keyed(each, *QUEUE) for each in (counts, frame.oldest))
    series = []
    for queue in frame.chosen:
        of_queue = rows.get(queue, [])
        read = {step: both for (name, step), both in lengths.items() if name == queue}
        extents = {boot: extent for boot, extent in frame.extents.items() if boot[0] == queue[0]}
        ready = {step: least for step, (_, least) in read.items()}
        flows = {flow: per_s(of_queue, flow, steps) for flow in ("entered", "left", "redelivered")}
        lag_s = lag(of_queue, waiting.get(queue, []), extents, steps, ready)
        messages = steps.read({step: length for step, (length, _) in read.items()})
        series.append(dict(zip(QUEUE, queue, strict=True)) | flows | {"lag_s": lag_s, "messages": messages})
    return sorted(series, key=lambda each: -greatest(each["lag_s"]))


def greatest(lags: Iterable[float | None]) -> float:
    """Return the greatest of the lags that are known, or 0."""
    return max((lag for lag in lags if lag is not None), default=0)


def lag(
    rows: list[Values], oldest: list[Values], extents: Extents, steps: Steps, ready: Mapping[int, int]
) -> list[float | None]:
    """Return the age in seconds of the oldest ready message by step, None where it is unknown.

    It is the greatest age at which a message left in that step, or that which a message had at the step's end that left
    later or is still there. It is unknown while the broker does not run, and while snapshots have ready messages
    (`ready`) of which none entered in this boot: those are from before it.
    """
    ages = [0.0] * steps.count
    still = {(row["node"], row["boot_id"]): row["second"] for row in oldest}
    by_boot = keyed(rows, "node", "boot_id")
    for boot in {**by_boot, **still}:
        waits = keyed([row for row in by_boot.get(boot, []) if row["wait_us"] is not None], "step")
        boot_end_s = extents[boot][1] + 1
        last = min((boot_end_s - 1 - steps.first) // steps.step_s, steps.count - 1)
        entered_s = float(still.get(boot, boot_end_s))
        for step in range(last, -1, -1):
            end_s = min(steps.end(step), boot_end_s)
            ages[step] = max(ages[step], round(end_s - entered_s, 3))
            for row in waits.get((step,), []):
                ages[step] = max(ages[step], round(row["wait_us"] / 1e6, 6))
                entered_s = min(entered_s, row["entered_us"] / 1e6)
    running = [steps.of(np.array((first_s, last_s + steps.step_s))) for first_s, last_s in extents.values()]
    runs = {step for begin, end in running for step in range(begin, end)}
    unknown = waiting_steps(ready, steps)
    return [age if step in runs and (age or step not in unknown) else None for step, age in enumerate(ages)]


def waiting_steps(ready: Mapping[int, int], steps: Steps) -> set[int]:
    """Return the steps in which messages were ready: those of snapshots, and those between two of them."""
    found = {step for step, count in ready.items() if count}
    for step, later in pairwise(sorted(ready)):
        if ready[step] and ready[later] and (later - step) * steps.step_s <= READING_S:
            found.update(range(step, later))
    return found


def links(lags: Iterable[Values], steps: Steps) -> list[Values]:
    """Return the series of links: the greatest lag of a message that arrived in a step, null without one."""
    series = []
    for (link, upstream_node), rows in sorted(keyed(lags, "link", "upstream_node").items(), key=str):
        ordered = sorted(rows, key=lambda row: int(row["lag_us_max"]))
        greatest_s = {row["step"]: row["lag_us_max"] / 1e6 for row in ordered}
        lag_s = [greatest_s.get(step) for step in range(steps.count)]
        series.append({"link": link, "upstream_node": upstream_node, "lag_s": lag_s})
    return series


def ack_latency(counts: list[Values], steps: Steps) -> Values | None:
    """Return the number of acknowledged messages by the time since their publish, and by step."""
    cells: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in counts:
        if row["ack_bucket"] is not None:
            cells[row["ack_bucket"]][row["step"]] += row["timed"]
    if not cells:
        return None
    found = [number for number in ACK_BUCKETS if number in cells]
    numbers = range(found[0], found[-1] + 1)
    return {
        "from_us": [0 if number == ACK_BUCKETS[0] else round(10 ** (number / 2)) for number in numbers],
        "messages": [
            steps.filled({step: round(weight / WEIGHT) for step, weight in cells[number].items()}) for number in numbers
        ],
    }


def nodes(readings: Iterable[Values], steps: Steps) -> list[Values]:
    """Return the series of each node's metrics; null: no reading, or no such limit."""
    wanted = [row for row in readings if row["name"] in GAUGES or row["name"] == schema.LOOP_LAG_US]
    series = []
    for (node,), of_node in sorted(keyed(wanted, "node").items()):
        named = keyed(of_node, "name")
        gauges = {}
        for name, choose_one in GAUGES.items():
            values: dict[int, list[float]] = defaultdict(list)
            for row in named.get((name,), []):
                values[steps.at(row["ts_us"])] += [row["value"]] if row["value"] < ENDLESS else []
            gauges[name] = steps.read({step: choose_one(some) for step, some in values.items() if some})
        loop_lag_us = loop_lag(named.get((schema.LOOP_LAG_US,), []), steps)
        series.append({"node": node, **gauges, "loop_lag_p99_us": steps.read(loop_lag_us)})
    return series


def loop_lag(rows: list[Values], steps: Steps) -> dict[int, int]:
    """Return the 99th percentile of the loop's turns by step, as the upper bound of its bucket."""
    quantiles: dict[int, int] = {}
    for of_boot in keyed([row for row in rows if row["buckets"]], "boot_id").values():
        ordered = sorted(of_boot, key=lambda row: int(row["mono_ns"]))
        last = {steps.at(row["ts_us"]): row["buckets"] for row in ordered}
        before: list[int] = []
        for step, now in sorted(last.items()):
            turns = [after - earlier for after, earlier in zip_longest(now, before[: len(now)], fillvalue=0)]
            before, bound = now, p99_bound(turns)
            if bound is not None:
                quantiles[step] = max(quantiles.get(step, 0), bound)
    return quantiles


def p99_bound(counts: list[int]) -> int | None:
    """Return the upper bound of the bucket with the 99th percentile, or None for an empty histogram."""
    total = sum(counts)
    buckets = (bucket for bucket, so_far in enumerate(accumulate(counts)) if so_far * 100 >= total * 99)
    return 1 << next(buckets) if total > 0 else None
