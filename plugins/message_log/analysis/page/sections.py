"""The sections of the page: their parts, their findings in a sentence, and their impact."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...file_format import schema
from ...file_format.printable import count
from ..health import queue_of, trace_command
from ..timeline import greatest
from .parts import (
    Edge,
    Line,
    Part,
    Values,
    Words,
    chart,
    cut,
    facts,
    flow,
    fold,
    heading,
    listing,
    note,
    queue_name,
    scope_name,
    seconds,
    table,
)

BAD, ODD, NORMAL = 80, 30, 0  # the least impact of a section with this mark
NEAR = 0.9  # the share of a limit from which on a metric is near it
LINES = 10  # in a chart
LINKS_HEIGHT = 120  # of the flow between brokers, in pixels
LAG_NOTE = (
    "The time since the broker received it, of messages that were delivered for the first time, expired or were "
    "dropped then or later, or are still there. Redeliveries do not count. It is unknown of messages from before a "
    "restart, and while the broker does not run."
)


class Section(NamedTuple):
    """A section. `impact` orders the sections: at least BAD, ODD or NORMAL."""

    id: str
    title: str
    impact: float
    finding: Words
    parts: list[Part]  # without any, the section is left out


class Page:
    """The source of all sections: the report, and the number of rows of a table."""

    def __init__(self, report: Values, limit: int) -> None:
        self.report = report
        self.timeline: Values = report.get("timeline") or {}
        self.limit = limit

    def rows(self, name: str) -> list[Values]:
        return self.report.get(name) or []

    def row_count(self, name: str) -> int:
        """The number of rows of a table, of which the report may have the first ones only."""
        return int(self.report.get("rows", {}).get(name, len(self.rows(name))))

    def wrong(self, *causes: str) -> list[Values]:
        """Return what is wrong now for one of these causes."""
        return [row for row in self.rows("wrong_now") if row["cause"] in causes]

    def table(self, name: str, title: str) -> list[Part]:
        return table(self.rows(name), title, self.limit, self.row_count(name))

    def tables(self, *names: tuple[str, str], is_open: bool = False) -> list[Part]:
        """Return the tables of these names, each of which the reader can unfold."""
        return [part for name, title in names for part in fold(title, self.table(name, title), is_open)]

    def traced(self, name: str) -> list[Part]:
        """Return a table of messages with the commands that show their ways."""
        rows = []
        for row in self.rows(name):
            number = f"{row['boot_id']}/{row['msg_seq']}" if row["msg_seq"] is not None else None
            message = row.get("message", number)
            rows.append(row | {"trace": trace_command(message, self.report["input"]["folder"])})
        return table(rows, name, self.limit, self.row_count(name), ("boot_id", "msg_seq", "message"))

    def busiest_queues(self, series: str, weight: Callable[[list[float | None]], float]) -> list[Line]:
        """Return lines of the queues with the greatest weight of a series."""
        queues = [queue for queue in self.timeline.get("queues", []) if any(queue[series])]
        queues.sort(key=lambda queue: -weight(queue[series]))
        return [Line(queue_name(queue), queue[series]) for queue in queues[:LINES]]


def sections(page: Page) -> list[Section]:
    """Return all sections that have content, the worst first."""
    made = [make(page) for make in MAKERS]
    return sorted((section for section in made if section.parts), key=lambda section: -section.impact)


# Problems


def imbalances(page: Page) -> Section:
    check = page.report["conservation"]
    total = check["imbalance_count"]
    rows = table(check["imbalances"], "Imbalances", page.limit, total)
    return Section("imbalances", "Imbalances", 100, f"{count(total, 'violation')} of conservation", rows)


def lost(page: Page) -> Section:
    finding = f"{count(page.row_count('lost'), 'message')} that are lost, or of which some may be"
    return Section("lost", "Lost messages", 101, finding, page.traced("lost"))


def restarts(page: Page) -> Section:
    names = ("lost", "at_risk", "missing")
    lost, at_risk, missing = (sum(row[name] or 0 for row in page.rows("durability")) for name in names)
    impact, finding = NORMAL, "every confirmed persistent message is there after each restart"
    if lost:
        impact, finding = 99, f"{count(lost, 'confirmed persistent message')} lost by restarts"
    elif at_risk:
        impact, finding = 99, f"up to {count(at_risk, 'confirmed persistent message')} lost by restarts"
    elif missing:
        impact, finding = 60, f"{count(missing, 'message')} of unknown fate after restarts"
    parts = page.tables(("durability", "Confirmed persistent messages"), is_open=impact > NORMAL)
    lengths = table(page.report["conservation"]["restarts"], "All messages", page.limit)
    return Section("restarts", "Restarts", impact, finding, parts + fold("All messages", lengths, False))


def log_quality(page: Page) -> Section:
    log, conservation = page.report["input"], page.report["conservation"]
    skipped, hours, jumps = sum(log["skipped"].values()), len(log["missing_hours"]), log["clock_jumps"]
    files = {name: number for name, number in conservation["files"].items() if number}
    faults = [
        *([count(skipped, "file") + " skipped"] if skipped else []),
        *[f"{count(number, 'file')} {name} (manifest)" for name, number in files.items()],
        *([count(hours, "hour") + " without a file"] if hours else []),
        *([count(len(jumps), "clock jump")] if jumps else []),
    ]
    chosen = {name: value for name, value in log["selection"].items() if value}
    parts = [facts({name: value for name, value in log.items() if not isinstance(value, list | dict)} | chosen)]
    for title, lines in (("Skipped files", log["skipped_files"]), ("Hours without a file", log["missing_hours"])):
        if lines:
            parts += [heading(title), listing(lines[: page.limit])]
    for title, rows in (("Clock jumps", jumps), ("Boots", conservation["boots"])):
        if rows:
            parts += [heading(title), *table(rows, title, page.limit)]
    impact = 90 if skipped or files else 40 if faults else NORMAL - 5
    finding = ", ".join(faults) or f"{log['events']:,} events in {count(log['files'], 'file')}"
    return Section("log", "The log", impact, finding, parts)


def queues(page: Page) -> Section:
    shown, rows = page.timeline.get("queues", []), page.rows("backlog")
    lagging = [queue for queue in shown if any(queue["lag_s"])]
    title = "Age of the oldest ready message"
    parts = chart(title, "s", [Line(queue_name(queue), queue["lag_s"]) for queue in lagging[:LINES]])
    lines = page.busiest_queues("messages", lambda lengths: max(length or 0 for length in lengths))
    parts += chart("Messages in queues, ready and unacknowledged", "count", lines)
    ages = {
        queue_of(queue): {"greatest_lag_s": greatest(queue["lag_s"]), "last_lag_s": last(queue["lag_s"])}
        for queue in lagging
    }
    merged = [row | ages.get(queue_of(row), {}) for row in rows]
    if shown or rows:
        parts += [note(LAG_NOTE), *table(merged, "Queues", page.limit, page.row_count("backlog"))]
    finding: list[Any] = [f"{count(sum(row['ready'] + row['unacked'] for row in rows), 'message')} in queues"]
    if lagging:
        finding += ["; lag up to ", seconds(greatest(lagging[0]["lag_s"])), f" in {cut(queue_name(lagging[0]), 60)}"]
    wrong = page.wrong("stuck", "no consumer", "blocked", "slow", "growing")
    return Section("queues", "Queues: lag and length", 85 if wrong else NORMAL + 9, finding, parts)


def last(lags: list[float | None]) -> float | None:
    """Return the last lag that is known."""
    return next((lag for lag in reversed(lags) if lag is not None), None)


def unroutable(page: Page) -> Section:
    total, returned = (sum(row[name] for row in page.rows("unroutable")) for name in ("unroutable", "returned"))
    finding = f"{count(total, 'message')} went to no queue, {returned:,} of them returned to the publisher"
    impact = 70 if page.wrong("unroutable") else NORMAL + 5
    return Section("unroutable", "Unroutable", impact, finding, page.table("unroutable", "Unroutable"))


def given_up(page: Page) -> Section:
    total = sum(row["messages"] for row in page.rows("given_up"))
    title = "Expired, dropped and dead-lettered"
    finding = f"{count(total, 'message')} expired, dropped or dead-lettered"
    return Section("given-up", title, NORMAL + 4, finding, page.table("given_up", title))


def redelivered(page: Page) -> Section:
    poison = page.rows("poison")
    lines = page.busiest_queues("redelivered", lambda counts: sum(filter(None, counts)))
    parts = [*chart("Redeliveries per second", "per_s", lines), *page.table("redelivered", "Redelivered")]
    total = sum(row["redelivered"] for row in page.rows("redelivered"))
    finding = f"{total:,} {'redelivery' if total == 1 else 'redeliveries'}"
    if poison:
        most = max(row[name] or 0 for row in poison for name in ("redelivered", "requeued"))
        finding += f"; one message came back {count(most, 'time')}"
    parts += fold("Messages that keep coming back", page.traced("poison"), True)
    return Section("redelivered", "Redelivered", 84 if page.wrong("poison") else NORMAL + 5, finding, parts)


def links(page: Page) -> Section:
    rows = page.rows("links")
    edges = [
        Edge((0, row["upstream_node"] or "unknown"), (1, row["node"] or "unknown"), row["arrived"])
        for row in rows
        if row["arrived"]
    ]
    counts = ("arrived", "missing", "failures")
    arrived, missing, failures = (sum(row.get(name) or 0 for row in rows) for name in counts)
    finding = f"{count(arrived, 'message')} between brokers"
    if missing:
        finding += f", {missing:,} did not arrive"
    if failures:
        finding += f", {count(failures, 'failure')} of links"
    series = page.timeline.get("links", [])[:LINES]
    lags = [Line(f"{link['link']} at {link['upstream_node']}", link["lag_s"]) for link in series]
    crossed = table(page.report["conservation"]["links"], "Crossings", page.limit)
    parts = [
        *([flow(edges, ("Upstream", "Downstream"), LINKS_HEIGHT)] if edges else []),
        *chart("Greatest lag, from the publish upstream to the arrival", "s", lags),
        *page.table("links", "Links"),
        *fold("Conservation", crossed, bool(missing)),
    ]
    return Section("links", "Federation links", 88 if missing else NORMAL + 6, finding, parts)


def consumers(page: Page) -> Section:
    wrong = page.wrong("stuck", "slow")
    finding = f"those of {count(len(wrong), 'queue')} do not keep up" if wrong else "they keep up"
    parts = page.table("consumers", "Consumers")
    if parts:
        parts += page.tables(("consumers_by_name", "Each consumer"), is_open=bool(wrong))
    return Section("consumers", "Consumers", 42 if wrong else NORMAL, finding, parts)


def brokers(page: Page) -> Section:
    nodes = page.timeline.get("nodes", [])
    parts = []
    for title, unit, gauge, limit in (
        ("Memory (resident)", "bytes", schema.RESIDENT_BYTES, schema.MEMORY_LIMIT_BYTES),
        ("Free disk", "bytes", schema.DISK_FREE_BYTES, schema.DISK_LIMIT_BYTES),
        ("Open descriptors", "count", schema.OPEN_DESCRIPTORS, None),
        ("Connections", "count", schema.CONNECTIONS, None),
        ("Lag of the event loop, 99th percentile of a step (upper bound of its bucket)", "us", "loop_lag_p99_us", None),
    ):
        lines = [Line(node["node"], node.get(gauge) or ()) for node in nodes]
        lines += [Line(f"{node['node']} limit", node.get(limit) or ()) for node in nodes if limit is not None]
        parts += chart(title, unit, lines)
    parts += page.tables(("capacity", "Capacity"), ("churn", "Connections, channels and queues"))
    near = [f"{what} of {cut(node['node'])} near the limit" for node in nodes for what in near_limits(node)]
    blocked = [row for row in page.wrong("blocked") if row["queue"] is None]
    impact = 86 if blocked else 75 if near else NORMAL + 3
    return Section("brokers", "Brokers", impact, "; ".join(near) or "none is near a limit", parts)


def near_limits(node: Values) -> Iterator[str]:
    """Yield what of a node has a reading near its limit."""
    for what, gauge, limit in (
        ("memory", schema.RESIDENT_BYTES, schema.MEMORY_LIMIT_BYTES),
        ("open descriptors", schema.OPEN_DESCRIPTORS, schema.DESCRIPTOR_LIMIT),
        ("disk", schema.DISK_FREE_BYTES, schema.DISK_LIMIT_BYTES),
    ):
        for read, bound in zip(node.get(gauge) or (), node.get(limit) or (), strict=False):
            used, most = (bound, read) if what == "disk" else (read, bound)  # the free disk is to stay above its limit
            if read is not None and bound and used >= NEAR * most:
                yield what
                break


# Traffic


def rates(page: Page) -> Section:
    scopes = page.timeline.get("rates", [])
    parts = []
    for place, scope in enumerate(scopes[:LINES]):
        parts += fold(scope_name(scope), gap_chart(scope_name(scope), scope), place < 2)
    queues = sorted(page.timeline.get("queues", []), key=lambda queue: -sum(queue["entered"])) if scopes else []
    if queues:
        parts.append(heading("Queues with most messages"))
    for place, queue in enumerate(queues[:LINES]):
        parts += fold(queue_name(queue), gap_chart(queue_name(queue), queue), place < 1)
    step_s = page.timeline.get("step_s", 1)
    entered, left = (round(sum(map(sum, (scope[way] for scope in scopes))) * step_s) for way in ("entered", "left"))
    difference = f"{abs(entered - left):,} {'more' if left > entered else 'fewer'} out than in"
    parts += page.tables(("throughput", "Mean and peak at 1 s, 1 min and 1 h"))
    return Section("rates", "Rates in and out", NORMAL + 8, f"{entered:,} in, {left:,} out, {difference}", parts)


def gap_chart(label: str, of: Values) -> list[Part]:
    gap = [round(entered - left, 3) for entered, left in zip(of["entered"], of["left"], strict=True)]
    lines = [Line("into queues", of["entered"]), Line("out of queues", of["left"]), Line("gap: in less out", gap)]
    return chart(f"Messages per second: {cut(label, 80)}", "per_s", lines)


def message_flow(page: Page) -> Section:
    rows = page.rows("flow")
    columns = {"exchange": 0, "queue": 1, "consumer": 2, "link": 2}
    many = len({(row["node"], row["vhost"]) for row in rows}) > 1
    edges = []
    for row in rows:
        scope = f" at {scope_name(row)}" if many else ""
        ends = []
        for end in ("source", "target"):
            kind = row[f"{end}_kind"]
            name = row[end] or ("(default)" if kind == "exchange" and row[end] == "" else "(unknown)")
            ends.append((columns[kind], f"{'link ' if kind == 'link' else ''}{name}{scope}"))
        edges.append(Edge(ends[0], ends[1], row["messages"]))
    parts = [flow(edges, ("Exchanges", "Queues", "Consumers and links"))] if edges else []
    if parts:
        parts += page.tables(("flow", "Messages from each to each"), ("clients", "Connections"))
    others = sum(row["others"] - 1 for row in page.rows("clients") if row.get("others"))  # connections in one row
    finding = f"from exchanges to consumers; {count(page.row_count('clients') + others, 'connection')}"
    return Section("flow", "Flow of messages", NORMAL + 7, finding, parts)


def latency(page: Page) -> Section:
    heat, rows = page.timeline.get("ack_latency"), page.rows("latency")
    parts: list[Part] = []
    if heat:
        parts = [heading("From the publish to the acknowledgement, over time"), {"kind": "heat", **heat}]
        parts.append(note("Each row covers half a power of ten; a darker cell has more messages."))
    if heat or rows:
        end_to_end = ("end_to_end", "From the first publish, over dead letters and links")
        parts += page.tables(("latency", "By stage"), end_to_end, is_open=True)
        parts += fold("The slowest messages", page.traced("slowest"), False)
    finding: Words = "of acknowledged messages"
    if rows:
        finding = ["p99 up to ", seconds(rows[0]["p99_us"] / 1e6), f": {rows[0]['stage'].replace('_', ' to ')}"]
    return Section("latency", "Latency", NORMAL + 6, finding, parts)


def keys(page: Page) -> Section:
    parts = page.tables(("hot_exchanges", "Exchanges"), is_open=True) + page.tables(("hot_keys", "Routing keys"))
    return Section("keys", "Exchanges and routing keys", NORMAL, "those with most messages", parts)


def compared(page: Page) -> Section:
    parts: list[Part] = []
    difference = page.report.get("compared") or {}
    changes = 0
    if difference:
        of = difference["with"]
        parts = [note(f"Compared with the report on {of['folder'] or 'an unknown log'}: {of['verdict'] or ''}")]
    for key, title in (("totals", "Totals"), ("rates", "Rates"), ("latencies", "Latencies")) if difference else ():
        rows = [{**row, "change": per_cent(row)} for row in difference[key]]
        changes += len(rows)
        parts += [heading(title), *(table(rows, title, page.limit) or [note("no difference")])]
    return Section("compared", "Compared with an earlier run", ODD - 1, f"{count(changes, 'figure')} changed", parts)


def per_cent(row: Values) -> str:
    if row["change"] is not None:
        return f"{row['change']:+,} %"
    return "new" if row["before"] is None else "gone" if row["after"] is None else "from 0"


MAKERS = (
    *(lost, imbalances, log_quality, restarts, queues, unroutable, given_up, redelivered, links, consumers, brokers),
    *(compared, rates, message_flow, latency, keys),
)
