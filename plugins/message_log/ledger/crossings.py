"""The messages of federation links: what a link took from one broker must arrive at the other.

An upstream queue at several brokers may have the same name, so a link is named by that queue and the upstream's node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from .boots import Boot, micros
from .facts import Fact, Numbers, bucket, group, measures, names

Link = tuple[str, str | None]
"""The upstream queue and the node of the upstream."""


@dataclass(slots=True)
class LinkCount:
    """The messages of a link.

    taken       messages that left the upstream queue
    arrived     messages that arrived downstream
    discarded   arrived messages that were dropped: by max-hops or as repeats
    duplicates  messages that arrived more often than they were taken
    missing     messages that were taken and did not arrive; None if the downstream exported nothing of the link
    pending     messages that may have arrived unlogged: the downstream's log does not reach that far yet, or was cut
                short by a kill; None likewise
    """

    link: str
    upstream_node: str | None
    node: str | None = None
    vhost: str | None = None
    upstream: str | None = None
    taken: int = 0
    arrived: int = 0
    discarded: int = 0
    duplicates: int = 0
    missing: int | None = None
    pending: int | None = None
    first_arrival_us: int | None = None
    last_arrival_us: int | None = None
    hops: int = 0
    with_hops: int = 0
    most_hops: int | None = None
    negative_lags: int = 0


LAGS = Fact(
    {**names("link"), "upstream_node": pa.string(), "bucket": pa.int32()},
    {**measures("sum", "records"), **measures("max", "highest_us")},
)


@dataclass(frozen=True, slots=True)
class DownstreamLog:
    """How far the log of a node reaches: until when, whether it ends with a stop, and the times cut off by kills."""

    until_us: int
    stopped: bool
    dark: tuple[tuple[int, int], ...]

    def has(self, at_us: Numbers) -> Numbers:
        """Return whether what arrived at these times is logged for certain."""
        logged = np.full(len(at_us), True) if self.stopped else at_us <= self.until_us
        for since, until in self.dark:
            logged &= ~((at_us >= since) & (at_us <= until))
        return logged


def logs_of(boots: Iterable[Boot]) -> dict[str, DownstreamLog]:
    """Return the logs of all nodes. `boots` are in the order of their starts by node."""
    by_node: dict[str, list[Boot]] = {}
    for boot in boots:
        by_node.setdefault(boot.node, []).append(boot)
    logs = {}
    for node, of_node in by_node.items():
        pairs = zip(of_node, of_node[1:], strict=False)
        dark = tuple((micros(boot.last), micros(later.first)) for boot, later in pairs if not boot.stopped)
        logs[node] = DownstreamLog(max(micros(boot.last) for boot in of_node), of_node[-1].stopped, dark)
    return logs


def with_upstream(crossings: pa.Table) -> pa.Table:
    """Fill in `upstream_node` for messages that the upstream did not log, if it logged others of the same link."""
    sides = [crossings[name].to_pylist() for name in ("link", "node", "upstream", "upstream_node")]
    known: dict[tuple[Any, ...], str] = {}
    for link, node, upstream, upstream_node in zip(*sides, strict=True):
        if upstream_node is not None:
            known[link, node, upstream] = max(known.get((link, node, upstream), ""), upstream_node)
    filled = [
        upstream_node if upstream_node is not None else known.get((link, node, upstream))
        for link, node, upstream, upstream_node in zip(*sides, strict=True)
    ]
    place = crossings.schema.get_field_index("upstream_node")
    return crossings.set_column(place, "upstream_node", pa.array(filled, pa.string()))


def links(crossings: pa.Table, boots: Iterable[Boot]) -> tuple[list[LinkCount], pa.Table, list[dict[str, Any]]]:
    """Return the counts of all links, histograms of their lags, and the messages that did not arrive."""
    logs = logs_of(boots)
    table = with_upstream(crossings)
    downstream: dict[Link, str] = {}
    rows = table.to_pylist()
    for row in rows:
        if row["node"] is not None:
            link = row["link"], row["upstream_node"]
            downstream[link] = max(downstream.get(link, ""), row["node"])
    counts: dict[Link, LinkCount] = {}
    lost = []
    lags: list[tuple[str, str | None, int]] = []
    for row in rows:
        link = row["link"], row["upstream_node"]
        count = counts.setdefault(link, LinkCount(*link))
        add(count, row)
        log = logs.get(downstream.get(link, ""))
        short = max(row["taken"] - row["arrived"], 0)
        if log is not None:
            count.missing, count.pending = count.missing or 0, count.pending or 0
            if short and row["left"] is not None and log.has(np.array([row["left"]]))[0]:
                count.missing += short
                lost.append(
                    {name: row[name] for name in ("link", "identity", "left")}
                    | {"records": short, "node": row["upstream_node"]}
                )
            else:
                count.pending += short
        if row["entered"] is not None and row["published"] is not None:
            lags.append((*link, row["entered"] - row["published"]))
    return list(counts.values()), histograms(lags), lost


def add(count: LinkCount, row: Mapping[str, Any]) -> None:
    """Add the row of a message."""
    for name in ("taken", "arrived", "discarded"):
        setattr(count, name, getattr(count, name) + row[name])
    for name in ("node", "vhost", "upstream"):
        if row[name] is not None:
            setattr(count, name, max(getattr(count, name) or "", row[name]))
    count.duplicates += max(row["arrived"] - max(row["taken"], 1), 0)
    if row["entered"] is not None:
        count.first_arrival_us = min(row["entered"], count.first_arrival_us or row["entered"])
        count.last_arrival_us = max(row["last_entered"], count.last_arrival_us or 0)
        count.negative_lags += row["published"] is not None and row["entered"] < row["published"]
    if row["hops"] is not None:
        count.hops += row["hops"]
        count.with_hops += 1
        count.most_hops = max(row["hops"], count.most_hops or 0)


def histograms(lags: list[tuple[str, str | None, int]]) -> pa.Table:
    """Return histograms of lags by link."""
    link, upstream_node, lag = zip(*lags, strict=True) if lags else ((), (), ())
    lag_us = np.maximum(np.array(lag, "i8"), 0)
    columns = {
        "link": pa.array(link, pa.string()).dictionary_encode(),
        "upstream_node": pa.array(upstream_node, pa.string()),
        "bucket": bucket(lag_us),
        "records": np.ones(len(lag_us), "i8"),
        "highest_us": lag_us,
    }
    return group(LAGS, pa.table(columns).cast(LAGS.schema))
