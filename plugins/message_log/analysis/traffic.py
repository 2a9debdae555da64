"""The reports of traffic: totals, rates of queues, virtual hosts and users, latencies, clients, keys, and failures.

Each function returns rows for report.json, made of the facts of a whole log. Numbers of messages are estimates if the
log is a sample.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from ..file_format import schema
from ..file_format.schema import ACK, DEAD_LETTER, DELIVER, DROP, ENQUEUE, EXPIRE, FED_IN, FED_OUT, PUBLISH, REQUEUE
from .facts import Values, keyed, quantile_table
from .reduction import UNROUTABLE, WEIGHT, consumer_of

QUEUE = ("node", "vhost", "queue")
STAGE = (*QUEUE, "stage")  # of a message within a queue, or since the publish
END_TO_END = ("origin_node", "origin", *QUEUE)  # `origin` dead-lettered a message first, or a link took it from there
EXCHANGE = ("node", "vhost", "exchange")
SCOPED = ("scope", "node", "vhost", "name", "flow")  # the keys of throughput
GRAINS_S = {"1s": 1, "1m": 60, "1h": 3600}
THOUSANDTHS = {"p50_us": 500, "p90_us": 900, "p99_us": 990, "p999_us": 999}
KEYS = 1000  # of one exchange that are listed
MESSAGES, CONNECTIONS = 1000, 1000  # of one queue, and of one user and virtual host, that are listed


def messages(weight: int) -> int:
    """Return the number of messages of a weight."""
    return (weight + WEIGHT // 2) // WEIGHT


def estimate(kinds: Iterable[Values]) -> int:
    """Return the number of messages of these kinds."""
    return messages(sum(kind["weight"] for kind in kinds))


def totals(kinds: list[Values]) -> Values:
    """Return the number of messages by event; deliveries to federation links are not in `delivered`."""

    def count(*events: str, **columns: object) -> int:
        of_these = [kind for kind in kinds if kind["event"] in events]
        return estimate(kind for kind in of_these if all(kind[name] == value for name, value in columns.items()))

    refused = count(schema.CONFIRM, linked=False, reason="nack")
    return {
        "published": count(PUBLISH),
        "unroutable": count(*schema.EVENT_NAMES, reason=UNROUTABLE),
        "returned": count(schema.RETURN),
        "confirmed": count(schema.CONFIRM, linked=False) - refused,
        "refused": refused,
        "enqueued": count(ENQUEUE),
        "delivered": count(DELIVER, linked=False),
        "redelivered": count(DELIVER, linked=False, redelivered=True),
        "acknowledged": count(ACK),
        "rejected": count(schema.NACK),
        "requeued": count(REQUEUE),
        "expired": count(EXPIRE),
        "dropped": count(DROP),
        "dead_lettered": count(DEAD_LETTER),
        "federated_in": count(FED_IN),
        "federated_out": count(FED_OUT),
        "records": sum(kind["records"] for kind in kinds),
    }


def throughput(series: pa.Table) -> list[Values]:
    """Return the rates of queues, virtual hosts and users by grain: the mean of the whole time, and the peak.

    The first and the last window count by their seconds between the first message and the last, so no peak is below the
    mean or that of a coarser grain.
    """
    rows: list[Values] = []
    for key, hours in keyed(series.to_pylist(), *SCOPED).items():
        hours.sort(key=lambda row: int(row["hour"]))
        rows += rates(dict(zip(SCOPED, key, strict=True)), hours)
    return rows


def rates(names: Values, hours: list[Values]) -> list[Values]:
    """Return the rates of one series, from its hours in their order."""
    first, last = hours[0]["first"], hours[-1]["last"] + 1
    span_s = last - first
    count, size = (sum(row[name] for row in hours) for name in ("messages", "bytes"))
    ends = {  # the messages of the first and of the last window
        "1s": (0, 0),
        "1m": (hours[0]["first_1m_messages"], hours[-1]["last_1m_messages"]),
        "1h": (hours[0]["messages"], hours[-1]["messages"]),
    }
    mean = count / span_s
    found = []
    for grain, grain_s in GRAINS_S.items():
        peak = max(row["messages" if grain == "1h" else f"peak_{grain}"] for row in hours)
        begin, end = first - first % grain_s, last - 1 - (last - 1) % grain_s
        in_first = ends[grain][0] / (min(begin + grain_s, last) - first)
        in_last = ends[grain][1] / (last - max(end, first))
        peak_per_s = max(peak / min(grain_s, span_s), in_first, in_last)
        found.append(
            {
                **names,
                "grain": grain,
                "messages": count,
                "bytes": size,
                "peak_messages": peak,
                "first": time_of(begin),
                "last": time_of(end),
                "span_s": span_s,
                "mean_per_s": round(mean, 3),
                "peak_per_s": round(peak_per_s, 3),
                "peak_to_mean": round(peak_per_s / mean, 3),
                "mean_bytes_per_s": round(size / span_s, 3),
            }
        )
    return found


def time_of(second: int) -> datetime:
    return datetime.fromtimestamp(int(second), UTC)


def quantiles(histograms: pa.Table, keys: Iterable[str]) -> list[Values]:
    """Return quantiles of the times of each combination of keys, such as STAGE or END_TO_END."""
    rows: list[Values] = quantile_table(histograms, [*keys], THOUSANDTHS).to_pylist()
    return rows


def first(
    rows: list[Values],
    keys: tuple[str, ...],
    limit: int,
    order: Callable[[Values], Any],
    summary: Callable[[list[Values]], Values],
) -> list[Values]:
    """Return the first `limit` rows of each combination of keys, and a summary of the others with their number."""
    kept = [{"others": 0} | row for row in rows]
    found = []
    for key, of_key in keyed(kept, *keys).items():
        of_key.sort(key=order)
        found += of_key[:limit]
        others = of_key[limit:]
        if others:
            found.append(
                dict(zip(keys, key, strict=True))
                | summary(others)
                | {"others": sum(row["others"] or 1 for row in others)}
            )
    return found


def consumers_by_name(counts: pa.Table, holds: pa.Table) -> list[Values]:
    """Return the consumers, with the mean and the greatest time for which they held a message."""
    held = {tuple(row[name] for name in (*QUEUE, "consumer")): row for row in holds.to_pylist()}
    rows = []
    for row in counts.to_pylist():
        names = tuple(row[name] for name in QUEUE)
        found = held.get((*names, consumer_of(row["consumer_tag"], row["conn_id"])))
        row |= {name: messages(row[name]) for name in ("delivered", "acknowledged")}
        row["mean_held_us"] = round(found["held_us"] / found["held"]) if found else None
        rows.append(row | {"longest_held_us": found["longest_held_us"] if found else None})
    return rows


def clients(transfers: pa.Table) -> list[Values]:
    """Return the connections of clients, with the messages and bytes that they published and consumed.

    All but the CONNECTIONS busiest ones of a user are one row without a name, with their number, `others`.
    """
    connections: dict[tuple[Any, ...], Values] = {}
    names = ("published", "published_bytes", "delivered", "delivered_bytes", "redelivered")
    for row in transfers.to_pylist():
        if row["event"] not in (PUBLISH, DELIVER) or row["link"] is not None or row["conn_id"] is None:
            continue
        key = row["node"], row["vhost"], row["user"], row["conn_id"]
        sums = connections.setdefault(key, dict.fromkeys(names, 0))
        way = "published" if row["event"] == PUBLISH else "delivered"
        sums[way] += row["weight"]
        sums[f"{way}_bytes"] += row["bytes"]
        sums["redelivered"] += row["redelivered"] if way == "delivered" else 0
    rows = [
        dict(zip(("node", "vhost", "user", "connection"), key, strict=True)) | sums for key, sums in connections.items()
    ]

    def order(row: Values) -> Any:
        return -row["published"] - row["delivered"], row["connection"]

    def summary(others: list[Values]) -> Values:
        return {"connection": None} | {name: sum(row[name] for row in others) for name in names}

    kept = first(rows, ("node", "vhost", "user"), CONNECTIONS, order, summary)
    for row in kept:
        row |= {name: messages(row[name]) for name in names}
        row["messages"] = row["published"] + row["delivered"]
    return kept


def flow(transfers: pa.Table) -> list[Values]:
    """Return the messages that went from each exchange to each queue, and from each queue to each user or link."""
    sums: Counter[tuple[Any, ...]] = Counter()
    for row in transfers.to_pylist():
        if row["queue"] is None or row["event"] not in (ENQUEUE, DELIVER):
            continue
        if row["event"] == ENQUEUE:
            edge = "exchange", row["exchange"], "queue", row["queue"]
        elif row["link"] is not None:
            edge = "queue", row["queue"], "link", row["link"]
        else:
            edge = "queue", row["queue"], "consumer", " ".join(filter(None, (row["user"], row["conn_id"])))
        sums[row["node"], row["vhost"], *edge] += row["weight"]
    names = ("node", "vhost", "source_kind", "source", "target_kind", "target")
    return [dict(zip(names, key, strict=True)) | {"messages": messages(weight)} for key, weight in sums.items()]


def hot_exchanges(routes: pa.Table) -> list[Values]:
    """Return the exchanges. `gini` is 0 if all keys have equally many messages, and almost 1 if one key has all."""
    rows = []
    for place, of_exchange in keyed(routes.to_pylist(), *EXCHANGE).items():
        keys = [key for key in of_exchange if key["routing_key"] is not None]
        counts = np.sort([key["published"] for key in keys if key["published"] > 0])
        if not len(counts):
            continue
        count, all_of = len(counts), int(counts.sum())
        gini = 2 * float((np.arange(1, count + 1) * counts).sum()) / (count * all_of) - (count + 1) / count
        top_key = max(keys, key=lambda key: (key["published"], key["routing_key"] or ""))
        rows.append(
            {
                **dict(zip(EXCHANGE, place, strict=True)),
                "published": messages(all_of),
                "bytes": messages(sum(key["bytes"] for key in keys)),
                "top_key": top_key["routing_key"],
                "top_share": round(top_key["published"] / all_of, 6),
                "gini": round(gini, 6),
                "keys": count,
            }
        )
    return rows


def hot_keys(routes: pa.Table) -> list[Values]:
    """Return the KEYS keys with most messages of each exchange, with their share of its messages."""
    found = []
    for keys in keyed(routes.to_pylist(), *EXCHANGE).values():
        all_of = sum(key["published"] for key in keys)
        published = sorted(
            (key for key in keys if key["published"] > 0), key=lambda key: (-key["published"], key["routing_key"] or "")
        )
        for place, key in enumerate(published[:KEYS], 1):
            counts = {name: messages(key[name]) for name in ("published", "bytes")}
            names = {name: key[name] for name in (*EXCHANGE, "routing_key")}
            found.append({**names, "place": place, **counts, "share": round(key["published"] / all_of, 6)})
    return found


def unroutable(routes: pa.Table) -> list[Values]:
    """Return unroutable and returned messages by exchange and routing key."""
    lost = [row for row in routes.to_pylist() if row["unroutable"] or row["returned"]]
    counts = ("published", "unroutable", "returned")
    return [
        {name: row[name] for name in (*EXCHANGE, "routing_key")} | {name: messages(row[name]) for name in counts}
        for row in lost
    ]


def given_up(kinds: list[Values]) -> list[Values]:
    """Return messages that queues expired, dropped or dead-lettered, with the reason."""
    names = (*QUEUE, "event", "reason")
    out = [kind for kind in kinds if kind["event"] in (EXPIRE, DROP, DEAD_LETTER)]
    return [
        dict(zip(names, key, strict=True)) | {"messages": estimate(some)} for key, some in keyed(out, *names).items()
    ]


def redelivered(kinds: list[Values]) -> list[Values]:
    """Return the queues with redelivered or requeued messages."""
    rows = []
    for key, of_queue in keyed(kinds, *QUEUE).items():
        out = [kind for kind in of_queue if kind["event"] == DELIVER]
        delivered, again = estimate(out), estimate(kind for kind in out if kind["redelivered"])
        requeued = estimate(kind for kind in of_queue if kind["event"] == REQUEUE)
        if key[-1] is not None and again + requeued:
            counts = {"delivered": delivered, "redelivered": again, "requeued": requeued}
            rows.append({**dict(zip(QUEUE, key, strict=True)), **counts, "share": round(again / max(delivered, 1), 6)})
    return rows


def poison(attempts: pa.Table) -> list[Values]:
    """Return the messages that came back more than once: MESSAGES of each queue, and one row for the others.

    That row has their number, `others`, and no message and counts, like those of `attempts` (`ledger.WORST`).
    """

    def order(row: Values) -> Any:
        if row["others"]:
            return (True,)
        return False, -row["redelivered"], -row["requeued"], row["boot_id"], row["msg_seq"]

    def summary(others: list[Values]) -> Values:
        empty = dict.fromkeys(("boot_id", "msg_seq", "redelivered", "requeued"))
        return empty | {"first": min(row["first"] for row in others), "last": max(row["last"] for row in others)}

    return first(attempts.to_pylist(), QUEUE, MESSAGES, order, summary)
