"""The consumers of queues: whether they keep up, and which prefetch is advised."""

from __future__ import annotations

import math

import pyarrow as pa

from ...file_format import schema
from ..report_inputs import QUEUE, ReportInputs
from ..tables import Values, keyed
from .backlog import rounded
from .throughput import estimate

BUSY = 0.95  # the utilisation from which on consumers are not the bottleneck
FULL = 0.8  # the share of the prefetch from which on it counts as used up
QUICK_US = 5_000  # messages held for less wait for the network rather than for the consumer
AHEAD_S = 0.1  # the work that a consumer should have prefetched
MEANS = {"consumers": 3, "prefetch": 3, "utilisation": 4, "mean_unacked": 3, "mean_ready": 3}  # with their digits
COLUMNS = {
    **dict.fromkeys(QUEUE, pa.string()),
    **dict.fromkeys(MEANS, pa.float64()),
    **dict.fromkeys(("held_p50_us", "held_p99_us", "held_max_us"), pa.int64()),
    "handled_per_s": pa.float64(),
    "advised_prefetch": pa.int64(),
    "advice": pa.string(),
}


def consumers(known: ReportInputs) -> list[Values]:
    """Return the queues that had consumers. `advised_prefetch` is what one consumer handles in AHEAD_S."""
    held = keyed([row for row in known.latency if row["stage"] == "deliver_ack"], *QUEUE)
    settled = [kind for kind in known.kinds if kind["event"] in (schema.ACK, schema.FED_OUT) or without_ack(kind)]
    handled = keyed(settled, *QUEUE)
    rows = []
    for queue in known.queues:
        if queue["consumed_consumers"] is None:
            continue
        key = tuple(queue[name] for name in QUEUE)
        row = {name: queue[name] for name in QUEUE}
        for name, digits in MEANS.items():
            row[name] = rounded(queue[f"consumed_{name.removeprefix('mean_')}"], digits)
        for quantile in held.get(key, []):
            row |= {f"held_{name}": quantile[name] for name in ("p50_us", "p99_us", "max_us")}
        kinds = handled.get(key, [])
        if kinds:
            span_s = max(kind["last"] for kind in kinds) - min(kind["first"] for kind in kinds) + 1
            row["handled_per_s"] = round(estimate(kinds) / span_s, 3)
            row["advised_prefetch"] = max(math.ceil(row["handled_per_s"] / row["consumers"] * AHEAD_S), 1)
        row["advice"] = advice(row)
        rows.append(row)
    return rows


def without_ack(kind: Values) -> bool:
    return kind["event"] == schema.DELIVER and bool(kind["no_ack"])


def advice(row: Values) -> str:
    if row["mean_ready"] < 1:
        return "they keep up"
    if row["prefetch"] is None:
        return "their prefetch is unlimited: set one"
    if row["utilisation"] is not None and row["utilisation"] >= BUSY:
        return "they have room: the backlog has another cause"
    if row["mean_unacked"] >= row["prefetch"] * FULL:
        held_us = row.get("held_p50_us")
        if held_us is not None and held_us < QUICK_US:
            return "they wait for the network: raise the prefetch"
        return "they are too slow: add consumers, or make them faster"
    return "they keep up"
