"""The failures of messages: unroutable, expired, dropped, dead-lettered, redelivered."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...file_format import schema
from ..aggregates import EXCHANGE, messages
from ..report_inputs import QUEUE, ReportInputs
from ..tables import Values, keyed
from .throughput import estimate

GIVEN_UP = {**dict.fromkeys((*QUEUE, "event", "reason"), pa.string()), "messages": pa.int64()}
REDELIVERED = {
    **dict.fromkeys(QUEUE, pa.string()),
    **dict.fromkeys(("delivered", "redelivered", "requeued"), pa.int64()),
    "share": pa.float64(),
}


def unroutable(routes: DataFrame) -> DataFrame:
    """Return unroutable and returned messages by exchange and routing key."""
    lost = F.greatest("unroutable", "returned")
    return routes.where(lost > 0).select(
        *EXCHANGE,
        "routing_key",
        *[messages(name).alias(name) for name in ("published", "unroutable", "returned")],
    )


def given_up(known: ReportInputs) -> list[Values]:
    """Return messages that queues expired, dropped or dead-lettered, with the reason."""
    names = (*QUEUE, "event", "reason")
    out = [kind for kind in known.kinds if kind["event"] in (schema.EXPIRE, schema.DROP, schema.DEAD_LETTER)]
    return [
        {**dict(zip(names, key, strict=True)), "messages": estimate(kinds)} for key, kinds in keyed(out, *names).items()
    ]


def redelivered(known: ReportInputs) -> list[Values]:
    """Return the queues with redelivered or requeued messages."""
    rows = []
    for key, kinds in keyed(known.kinds, *QUEUE).items():
        out = [kind for kind in kinds if kind["event"] == schema.DELIVER]
        delivered, again = estimate(out), estimate([kind for kind in out if kind["redelivered"]])
        requeued = estimate([kind for kind in kinds if kind["event"] == schema.REQUEUE])
        if key[-1] is not None and again + requeued:
            counts = {"delivered": delivered, "redelivered": again, "requeued": requeued}
            rows.append({**dict(zip(QUEUE, key, strict=True)), **counts, "share": round(again / max(delivered, 1), 6)})
    return rows
