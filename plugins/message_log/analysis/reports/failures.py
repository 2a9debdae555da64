"""The failures of messages: unroutable, expired, dropped, dead-lettered, redelivered."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...file_format import schema
from ..facts import EXCHANGE, WEIGHT
from ..kept_rows import most_attempts
from ..summaries import QUEUE, Summaries
from ..tables import keyed
from .throughput import messages

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
        *[F.round(F.col(name) / WEIGHT).cast("long").alias(name) for name in ("published", "unroutable", "returned")],
    )


def given_up(known: Summaries) -> list[dict[str, Any]]:
    """Return messages that queues expired, dropped or dead-lettered, with the reason."""
    names = (*QUEUE, "event", "reason")
    out = [kind for kind in known.kinds if kind["event"] in (schema.EXPIRE, schema.DROP, schema.DEAD_LETTER)]
    return [
        {**dict(zip(names, key, strict=True)), "messages": messages(sum(kind["weight"] for kind in kinds))}
        for key, kinds in keyed(out, *names).items()
    ]


def redelivered(known: Summaries) -> list[dict[str, Any]]:
    """Return the queues with redelivered or requeued messages."""
    rows = []
    for key, kinds in keyed(known.kinds, *QUEUE).items():
        out = [kind for kind in kinds if kind["event"] == schema.DELIVER]
        delivered, again, requeued = (
            messages(sum(kind["weight"] for kind in some))
            for some in (
                out,
                [kind for kind in out if kind["redelivered"]],
                [kind for kind in kinds if kind["event"] == schema.REQUEUE],
            )
        )
        if key[-1] is not None and again + requeued:
            counts = {"delivered": delivered, "redelivered": again, "requeued": requeued}
            rows.append({**dict(zip(QUEUE, key, strict=True)), **counts, "share": round(again / max(delivered, 1), 6)})
    return rows


def poison(attempts: DataFrame) -> DataFrame:
    """Return the messages that were redelivered or requeued more than once, as `kept_rows` keeps them."""
    return most_attempts(attempts)
