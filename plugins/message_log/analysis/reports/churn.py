"""The churn of connections, channels and queues, and suspected leaks."""

from __future__ import annotations

import pyarrow as pa

from ...file_format import schema
from ..report_inputs import ReportInputs, slope
from ..tables import Values, keyed

COUNTED = (
    *(schema.CONNECTIONS_CREATED, schema.CONNECTIONS_CLOSED, schema.CHANNELS_CREATED, schema.CHANNELS_CLOSED),
    *(schema.QUEUES_CREATED, schema.QUEUES_DELETED),
)
LEAK = 50  # the minimum increase of a suspected leak, whose number has also doubled and still grows
COLUMNS = {
    "node": pa.string(),
    "name": pa.string(),
    "count": pa.int64(),
    "per_hour": pa.float64(),
    "now": pa.int64(),
    "leak_suspected": pa.bool_(),
}


def churn(known: ReportInputs) -> list[Values]:
    """Return by node how many were opened and closed, the rate, the present number, and whether a leak is suspected."""
    rows: list[Values] = []
    for (node, name), boots in keyed(known.metrics, "node", "name").items():
        if name in COUNTED:
            count = int(sum(boot["greatest"] - boot["least"] for boot in boots))
            hours = sum((boot["last_at"] - boot["first_at"]).total_seconds() for boot in boots) / 3600
            per_hour = round(count / hours, 3) if hours else None
            rows.append({"node": node, "name": name, "count": count, "per_hour": per_hour})
        elif name in (schema.CONNECTIONS, schema.CHANNELS):
            now = int(max(boots, key=lambda boot: boot["last_at"])["last"])
            at_start = int(min(boots, key=lambda boot: boot["first_at"])["first"])
            grows = (slope(boots) or 0) > 0
            leak = grows and now - at_start >= LEAK and now >= 2 * at_start
            rows.append({"node": node, "name": name, "now": now, "leak_suspected": leak})
    return rows
