"""The reports of queues, consumers, links and nodes, from snapshots and metrics."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise, zip_longest
from statistics import linear_regression
from typing import Any

import pyarrow as pa

from ..file_format import schema
from ..file_format.schema import ACK, DELIVER, FED_OUT
from .beginnings import micros
from .crossings import LinkCount
from .facts import Facts, Values, keyed
from .health import Queue, Trend, queue_of
from .reduction import HELD, WEIGHT
from .snapshots import CONSUMED, MILLIONTHS
from .timeline import ENDLESS, p99_bound
from .traffic import QUEUE, THOUSANDTHS, estimate, quantiles

DIGITS = {"consumers": 3, "prefetch": 3, "utilisation": 4, "unacked": 3, "ready": 3}  # of means
COUNTED = (
    *(schema.CONNECTIONS_CREATED, schema.CONNECTIONS_CLOSED, schema.CHANNELS_CREATED, schema.CHANNELS_CLOSED),
    *(schema.QUEUES_CREATED, schema.QUEUES_DELETED),
)
FLAPS = {schema.LINK_STARTS: "starts", schema.LINK_FAILURES: "failures"}
HISTOGRAMS = (schema.LOOP_LAG_US, schema.SYNC_US, schema.BATCH_RECORDS)

Handled = dict[tuple[str, str], dict[int, float]]
"""The messages in and out by second of each boot."""


def backlog(snapshots: Facts, trends: Mapping[Queue, Trend]) -> list[Values]:
    """Return the length of each queue: the last, the greatest and the mean one, and how much it grows by second.

    `consumers` is of the last snapshot before a stop. `slope_per_s` is null if the queue has no trend.
    """
    last: dict[Queue, Values] = {}
    for row in sorted(snapshots["latest"].to_pylist(), key=lambda row: micros(row["at"])):
        queue = queue_of(row)
        before = last.get(queue)
        last[queue] = row | {"consumers": before["consumers"]} if row["stopping"] and before is not None else row
    lengths = {queue_of(row): row for row in snapshots["lengths"].to_pylist()}
    return [
        {
            **{name: row[name] for name in (*QUEUE, "ready", "unacked", "consumers")},
            "snapshots": lengths[queue]["snapshots"],
            "peak": lengths[queue]["peak"],
            "mean": round(lengths[queue]["length_sum"] / lengths[queue]["snapshots"], 3),
            "slope_per_s": round(trends[queue].slope_per_s, 3) if queue in trends else None,
        }
        for queue, row in last.items()
    ]


def consumers(snapshots: Facts, kinds: list[Values], latency: list[Values]) -> list[Values]:
    """Return the queues that had consumers, with means of the time in which they had them."""
    held = {tuple(row[name] for name in QUEUE): row for row in latency if row["stage"] == HELD}
    settled = [kind for kind in kinds if kind["event"] in (ACK, FED_OUT) or kind["event"] == DELIVER and kind["no_ack"]]
    handled = keyed(settled, *QUEUE)
    rows = []
    for sums in snapshots["lengths"].to_pylist():
        queue, counts = queue_of(sums), {name: sums[f"{name}_count"] for name in CONSUMED}
        if not counts["consumers"]:
            continue
        row: Values = dict(zip(QUEUE, queue, strict=True))
        for name in CONSUMED:
            total = sums[f"{name}_sum"] / (MILLIONTHS if name == "utilisation" else 1)
            shown = f"mean_{name}" if name in ("unacked", "ready") else name
            row[shown] = round(total / counts[name], DIGITS[name]) if counts[name] else None
        if queue in held:
            row |= {f"held_{name}": held[queue][name] for name in ("p50_us", "p99_us", "max_us")}
        of_queue = handled.get(queue, [])
        if of_queue:
            span_s = max(kind["last"] for kind in of_queue) - min(kind["first"] for kind in of_queue) + 1
            row["handled_per_s"] = round(estimate(of_queue) / span_s, 3)
        rows.append(row)
    return rows


def links(counts: Iterable[LinkCount], lags: pa.Table, readings: Iterable[Values]) -> list[Values]:
    """Return one row for each link: its messages, its lag by the clocks of both brokers, its starts and failures."""
    of_lags = {(row["link"], row["upstream_node"]): row for row in quantiles(lags, ("link", "upstream_node"))}
    of_links = [row | {"link": dict(row["labels"] or ()).get("link")} for row in readings if row["name"] in FLAPS]
    flaps: Counter[tuple[Any, ...]] = Counter()
    for (node, _, link, name), rows in keyed(of_links, "node", "boot_id", "link", "name").items():
        flaps[link, node, FLAPS[name]] += int(max(row["value"] for row in rows))
    found = []
    for each in counts:
        seconds = ((each.last_arrival_us or 0) - (each.first_arrival_us or 0)) / 1e6
        lag = of_lags.get((each.link, each.upstream_node), {})
        row = {name: getattr(each, name) for name in ("link", "upstream_node", "node", "vhost", "upstream")}
        row |= {name: getattr(each, name) for name in ("taken", "arrived", "discarded", "duplicates")}
        row["missing"] = each.missing if each.arrived else None
        row["messages_per_s"] = round(each.arrived / seconds, 3) if seconds > 0 else None
        row |= {"most_hops": each.most_hops, "negative_lags": each.negative_lags}
        row["mean_hops"] = round(each.hops / each.with_hops, 3) if each.with_hops else None
        row |= {f"lag_{name}": lag.get(name) for name in (*THOUSANDTHS, "max_us")}
        found.append(row | {short: flaps.get((each.link, each.node, short)) for short in FLAPS.values()})
    return found


def churn(readings: list[Values]) -> list[Values]:
    """Return by node how many connections, channels and queues were opened and closed, and how many are open now."""
    rows: list[Values] = []
    for (node, name), of_name in keyed(readings, "node", "name").items():
        boots = [sorted(some, key=at_us) for some in keyed(of_name, "boot_id").values()]
        if name in COUNTED:
            count = int(sum(boot[-1]["value"] - boot[0]["value"] for boot in boots))
            hours = sum(at_us(boot[-1]) - at_us(boot[0]) for boot in boots) / 3.6e9
            per_hour = round(count / hours, 3) if hours else None
            rows.append({"node": node, "name": name, "count": count, "per_hour": per_hour})
        elif name in (schema.CONNECTIONS, schema.CHANNELS):
            rows.append({"node": node, "name": name, "now": int(max(of_name, key=at_us)["value"])})
    return rows


def at_us(row: Values) -> int:
    return micros(row["ts_us"])


def capacity(readings: list[Values], handled: Handled) -> list[Values]:
    """Return by node its memory and disk, quantiles of its loop and journal, and processor time for a message.

    `cpu_us_per_message` is the slope of processor time over messages in and out, of intervals between two readings.
    """
    rows = []
    for (node,), of_node in keyed(readings, "node").items():
        row: Values = {"node": node}
        named = keyed(of_node, "name")
        for what, gauge in (("disk", schema.DISK_FREE_BYTES), ("memory", schema.RESIDENT_BYTES)):
            if (gauge,) in named:
                now = max(named[gauge,], key=at_us)["value"]
                row[f"{what}_bytes"] = int(now) if now < ENDLESS else None
        for name in HISTOGRAMS:
            last = [max(some, key=at_us)["buckets"] for some in keyed(named.get((name,), []), "boot_id").values()]
            row[f"{name}_p99"] = p99_bound([sum(counts) for counts in zip_longest(*filter(None, last), fillvalue=0)])
        row |= cost(named.get((schema.CPU_S,), []), handled)
        if any(value is not None for name, value in row.items() if name != "node"):
            rows.append(row)
    return rows


def handled_by_second(handled: pa.Table) -> Handled:
    """Return the messages in and out by second of each boot (`hours.HANDLED`)."""
    found: Handled = {}
    for row in handled.to_pylist():
        found.setdefault((row["node"], row["boot_id"]), {})[row["second"]] = row["weight"] / WEIGHT
    return found


def cost(readings: list[Values], handled: Handled) -> Values:
    """Return processor time in relation to messages, from readings of one node."""
    points = []
    for boot, of_boot in keyed(readings, "node", "boot_id").items():
        seconds = handled.get((boot[0], boot[1]), {})
        ordered = sorted(of_boot, key=lambda row: int(row["mono_ns"]))
        for before, after in pairwise(ordered):
            begin, end = at_us(before) // 1_000_000, at_us(after) // 1_000_000
            if end > begin:
                count = sum(seconds.get(second, 0) for second in range(begin, end))
                points.append((count, after["value"] - before["value"], end - begin))
    if not points:
        return {}
    counts, times, _ = zip(*points, strict=True)
    per_message = linear_regression(counts, times).slope if len(set(counts)) > 1 else None
    return {
        "peak_messages_per_s": round(max(count / length for count, _, length in points), 3),
        "peak_cpu": round(max(cpu / length for _, cpu, length in points), 4),
        "cpu_us_per_message": None if per_message is None else round(per_message * 1e6, 3),
        "messages_per_s_at_one_cpu": round(1 / per_message, 0) if per_message is not None and per_message > 0 else None,
    }
