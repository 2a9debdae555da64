"""The messages of federation links: what a link took from one broker must arrive at the other.

An upstream queue at several brokers may have the same name, so a link is named by that queue and the upstream's node.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format.printable import count
from ..file_format.schema import DELIVER, REQUEUE
from .beginnings import micros
from .boots import Boot
from .facts import AGES, Fact, Numbers, codes, group, measures, names, numbers_of, unified
from .reduction import histogram, joined
from .timeline import Steps

Link = tuple[str, str | None]
"""The upstream queue and the node of the upstream."""


@dataclass(slots=True)
class LinkCount:
    """The messages of a link.

    taken       messages that left the upstream queue
    arrived     messages that arrived downstream
    discarded   arrived messages that were dropped: by max-hops or as repeats
    duplicates  messages that arrived more often than they were taken
    missing     messages that were taken and did not arrive; None if one of the brokers exported nothing of the link
    equal       taken messages that have the same identity as others: the same message_id, or body without one
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
    equal: int = 0
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
    """The extent of a node's log: its end, whether that is a stop, and the times that kills cut off."""

    until_us: int
    stopped: bool
    dark: tuple[tuple[int, int], ...]

    def has(self, at_us: Numbers) -> Numbers:
        """Return whether what arrived at these times is logged for certain."""
        certain = np.full(len(at_us), self.stopped) | (at_us <= self.until_us)
        for since, until in self.dark:
            certain &= (at_us < since) | (at_us > until)
        return certain


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


class Ends(NamedTuple):
    """The ends of links, as crossings show them.

    upstreams    the node of the upstream, by upstream queue, downstream node and name of the upstream
    downstreams  the downstream node by link
    """

    upstreams: dict[tuple[str, str | None, str | None], str]
    downstreams: dict[Link, str]


def ends(crossings: pa.Table) -> Ends:
    """Return the ends of the links of crossings."""
    columns = ["link", "node", "upstream", "upstream_node"]
    found = Ends({}, {})
    for row in unified(crossings.select(columns)).group_by(columns, use_threads=False).aggregate([]).to_pylist():
        side = row["link"], row["node"], row["upstream"]
        if row["upstream_node"] is not None:
            found.upstreams[side] = max(found.upstreams.get(side, ""), row["upstream_node"])
        if row["node"] is not None:
            link = row["link"], row["upstream_node"]
            found.downstreams[link] = max(found.downstreams.get(link, ""), row["node"])
    return found


def merge_ends(parts: Iterable[Ends]) -> Ends:
    """Merge the ends of links. A message that the upstream did not log is of the link of which it logged others."""
    merged = Ends({}, {})
    unknown: dict[Link, str] = {}
    for part in parts:
        for side, node in part.upstreams.items():
            merged.upstreams[side] = max(merged.upstreams.get(side, ""), node)
        for link, node in part.downstreams.items():
            merged.downstreams[link] = max(merged.downstreams.get(link, ""), node)
    for (queue, downstream, _), upstream_node in merged.upstreams.items():
        if downstream is not None:
            named: Link = queue, upstream_node
            unknown[named] = max(merged.downstreams.get(named, ""), downstream)
    return Ends(merged.upstreams, merged.downstreams | unknown)


def links(
    crossings: pa.Table, known: Ends, logs: Mapping[str, DownstreamLog]
) -> tuple[list[LinkCount], pa.Table, list[dict[str, Any]]]:
    """Return the counts of links, histograms of their lags, and the messages that did not arrive, LOST at most."""
    counts: dict[Link, LinkCount] = {}
    lost: list[dict[str, Any]] = []
    lags = [LAGS.schema.empty_table()]
    for rows in by_side(crossings):
        row = rows.slice(0, 1).to_pylist()[0]
        side = row["link"], row["node"], row["upstream"]
        upstream_node = row["upstream_node"] if row["upstream_node"] is not None else known.upstreams.get(side)
        link = row["link"], upstream_node
        count = counts.setdefault(link, LinkCount(*link))
        add(count, row, rows)
        log = logs.get(known.downstreams.get(link, "")) if upstream_node is not None else None
        short = np.maximum(number(rows, "taken") - number(rows, "arrived"), 0)
        if log is not None:
            certain = is_there(rows, "left") & log.has(number(rows, "left"))
            count.missing = (count.missing or 0) + int(short[certain].sum())
            count.pending = (count.pending or 0) + int(short[~certain].sum())
            absent = rows.append_column("records", pa.array(short)).filter(pa.array(certain & (short > 0)))
            shown = absent.select(["link", "identity", "left", "records"]).slice(0, LOST - len(lost))
            lost += [each | {"node": upstream_node} for each in shown.to_pylist()]
        timed = is_there(rows, "entered") & is_there(rows, "published")
        nodes = pa.array([upstream_node] * len(short), pa.string())
        named = rows.select(["link"]).append_column("upstream_node", nodes)
        lag_us = np.maximum(number(rows, "entered") - number(rows, "published"), 0)[timed]
        lags.append(histogram(LAGS, named.filter(pa.array(timed)), lag_us))
    return list(counts.values()), group(LAGS, pa.concat_tables(lags)), lost


def by_side(crossings: pa.Table) -> Iterator[pa.Table]:
    """Yield the crossings of each link, as one of its brokers or both name it."""
    table = unified(crossings)
    if table.num_rows:
        names = [codes(table[name]) for name in ("link", "node", "vhost", "upstream", "upstream_node")]
        _, place, sizes = np.unique(np.stack(names, axis=1), axis=0, return_inverse=True, return_counts=True)
        ordered = table.take(pa.array(np.argsort(place.ravel(), kind="stable")))
        for end, size in zip(np.cumsum(sizes), sizes, strict=True):
            yield ordered.slice(end - size, size)


def number(rows: pa.Table, name: str) -> Numbers:
    """Return a column of numbers, 0 for null."""
    return numbers_of(rows[name].fill_null(0))


def is_there(rows: pa.Table, name: str) -> Numbers:
    return numbers_of(rows[name].is_valid())


def ages(crossings: pa.Table, receipts: pa.Table) -> pa.Table:
    """Return histograms of the ages of messages since their first publish, when a consumer behind a link got them.

    Over several links, it is the publish at the first of their brokers. Messages of which several have one identity are
    left out.
    """
    first = crossings.group_by("identity", use_threads=False).aggregate([("published", "min")])
    once = pc.and_(pc.equal(crossings["taken"], 1), pc.equal(crossings["arrived"], 1))
    columns = crossings.filter(once).select(["link", "identity", "upstream_node"])
    rows = joined(joined(receipts, columns, "link", "identity"), first, "identity")
    rows = rows.filter(rows["published_min"].is_valid())
    age_us = np.maximum(rows["received_us"].to_numpy() - rows["published_min"].to_numpy(), 0)
    named = rows.rename_columns({"upstream_node": "origin_node", "link": "origin"})
    return group(AGES, histogram(AGES, named.select(["node", "vhost", "origin_node", "origin", "queue"]), age_us))


def lags_by_step(crossings: pa.Table, steps: Steps) -> list[dict[str, Any]]:
    """Return the greatest lag of each link in each step, in microseconds."""
    rows = crossings.filter(pc.and_(crossings["entered"].is_valid(), crossings["published"].is_valid()))
    entered_us, published_us = (rows[name].to_numpy() for name in ("entered", "published"))
    table = rows.select(["link", "upstream_node"]).append_column("step", pa.array(steps.of(entered_us // 1_000_000)))
    table = unified(table.append_column("lag_us", pa.array(np.maximum(entered_us - published_us, 0))))
    grouped = table.group_by(["link", "upstream_node", "step"], use_threads=False).aggregate([("lag_us", "max")])
    found: list[dict[str, Any]] = grouped.to_pylist()
    return found


def merge_counts(parts: Iterable[LinkCount]) -> list[LinkCount]:
    """Merge the counts of the same links."""
    merged: dict[Link, LinkCount] = {}
    for part in parts:
        link = part.link, part.upstream_node
        count = merged.setdefault(link, LinkCount(*link))
        for name, how in HOW_MERGED.items():
            values = [value for value in (getattr(count, name), getattr(part, name)) if value is not None]
            setattr(count, name, how(values) if values else None)
    return list(merged.values())


def unknown_ends(links: Iterable[LinkCount], kinds: pa.Table) -> list[str]:
    """Return reasons for links whose other end is not in the input.

    What an upstream delivers to a link without acknowledgements leaves no other trace there.
    """
    unacknowledged: Counter[str] = Counter()
    for row in kinds.to_pylist():
        if row["event"] == DELIVER and row["linked"] and row["no_ack"]:
            unacknowledged[row["queue"]] += row["records"]
    numbers = [(link, max(link.taken, link.arrived - unacknowledged[link.link])) for link in links]
    return [
        f"{count(number, 'message')} of a link cannot be checked, because its other end is not in the input "
        f"({link.link} of {link.upstream_node or link.node})"
        for link, number in numbers
        if link.missing is None and number > 0
    ]


def hidden_losses(links: Iterable[LinkCount], kinds: pa.Table) -> list[str]:
    """Return reasons for links that have repeated messages, and brought some of one identity: one may hide another."""
    repeated: Counter[Link] = Counter()
    for row in kinds.to_pylist():
        if row["event"] == REQUEUE:
            repeated[row["queue"], row["node"]] += row["records"]
    bounds = [(link, min(link.equal, repeated[link.link, link.upstream_node])) for link in links]
    return [
        f"up to {count(most, 'message')} of a link may be lost, since {link.equal:,} have the message_id of others, or "
        "the same body without one, and a repeated one may stand for a lost one "
        f"({link.link} of {link.upstream_node})"
        for link, most in bounds
        if most and link.missing is not None
    ]


HOW_MERGED: dict[str, Callable[[list[Any]], Any]] = {
    **dict.fromkeys(("node", "vhost", "upstream", "last_arrival_us", "most_hops"), max),
    "first_arrival_us": min,
    **dict.fromkeys(("taken", "arrived", "discarded", "equal", "duplicates", "missing", "pending"), sum),
    **dict.fromkeys(("hops", "with_hops", "negative_lags"), sum),
}
LOST = 10_000


def add(count: LinkCount, names: Mapping[str, Any], rows: pa.Table) -> None:
    """Add crossings with the same names of brokers."""
    for name in ("taken", "arrived", "discarded"):
        setattr(count, name, getattr(count, name) + int(number(rows, name).sum()))
    for name in ("node", "vhost", "upstream"):
        if names[name] is not None:
            setattr(count, name, max(getattr(count, name) or "", names[name]))
    count.equal += int(number(rows, "taken")[number(rows, "taken") > 1].sum())
    count.duplicates += int(np.maximum(number(rows, "arrived") - np.maximum(number(rows, "taken"), 1), 0).sum())
    entered = is_there(rows, "entered")
    if entered.any():
        first_us, last_us = int(number(rows, "entered")[entered].min()), int(number(rows, "last_entered").max())
        count.first_arrival_us = min(first_us, count.first_arrival_us or first_us)
        count.last_arrival_us = max(last_us, count.last_arrival_us or 0)
        early = number(rows, "entered") < number(rows, "published")
        count.negative_lags += int((entered & is_there(rows, "published") & early).sum())
    with_hops = is_there(rows, "hops")
    if with_hops.any():
        count.hops += int(number(rows, "hops").sum())
        count.with_hops += int(with_hops.sum())
        count.most_hops = max(int(number(rows, "hops").max()), count.most_hops or 0)
