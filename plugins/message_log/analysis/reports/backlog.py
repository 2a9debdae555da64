"""The backlog of queues: length, growth, and the time until it is drained or doubled."""

from __future__ import annotations

import pyarrow as pa

from ..report_inputs import QUEUE, ReportInputs
from ..tables import Values

LONG_S, AHEAD = 3600, 10
COLUMNS = {
    **dict.fromkeys(QUEUE, pa.string()),
    **dict.fromkeys(("snapshots", "ready", "unacked", "peak"), pa.int64()),
    **dict.fromkeys(("mean", "slope_per_s"), pa.float64()),
    "consumers": pa.int32(),
    **dict.fromkeys(("drained_in_s", "doubled_in_s"), pa.float64()),
}


def backlog(known: ReportInputs) -> list[Values]:
    """Return the backlog by queue. `slope_per_s` is a linear regression over all snapshots; times extrapolate it.

    They are null if the snapshots cover too short a time to tell.
    """
    rows = []
    for queue in known.queues:
        row = {name: queue[name] for name in COLUMNS if name in queue}
        slope = row["slope_per_s"] = rounded(queue["slope_per_s"], 3)
        row["mean"] = rounded(queue["mean"], 3)
        waiting = queue["ready"] + queue["unacked"]
        observed_s = (queue["last"] - queue["first"]).total_seconds()
        if slope and waiting and foreseeable(observed_s, waiting / abs(slope)):
            row["drained_in_s" if slope < 0 else "doubled_in_s"] = round(waiting / abs(slope), 1)
        rows.append(row)
    return rows


def foreseeable(observed_s: float, ahead_s: float) -> bool:
    """Return whether a trend was observed for long enough to extrapolate it: for an hour, or a tenth of the time."""
    return observed_s >= LONG_S or observed_s * AHEAD >= ahead_s


def rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
