"""The sections of the page: what each shows, a sentence with its finding, and how bad that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...file_format import schema
from .parts import (
    Edge,
    Line,
    Part,
    Values,
    Words,
    chart,
    count,
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
LAG_S, LAG_LONG_S = 10.0, 60.0  # ages of messages from which on a queue lags, and badly
FULL_H = 72.0  # hours until a disk or memory is full, below which it is bad
HOUR_S = 3600.0
NEAR = 0.9  # the share of a limit from which on a metric is near it
LINES = 10  # in a chart
LINKS_HEIGHT = 120  # of the flow between brokers, in pixels
NOT_KEEPING_UP = ("they take", "they wait", "they are")  # beginnings of advice on consumers
LAG_NOTE = (
    "The time since the broker received it, of messages that were delivered for the first time, expired or were "
    "dropped then or later, or are still there. Redeliveries do not count; of messages from before a restart the "
    "age is unknown."
)


class Section(NamedTuple):
    """A section. `impact` orders the sections: at least BAD, ODD or NORMAL."""

    id: str
    title: str
    impact: float
    finding: Words
    parts: list[Part]


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

    def table(self, name: str, title: str) -> Part:
        return table(self.rows(name), title, self.limit, self.row_count(name))

    def busiest_queues(self, series: str, weight: Callable[[list[float | None]], float]) -> list[Line]:
        """Return lines of the queues with the greatest weight of a series."""
        queues = [queue for queue in self.timeline.get("queues", []) if any(queue[series])]
        queues.sort(key=lambda queue: -weight(queue[series]))
        return [Line(queue_name(queue), queue[series]) for queue in queues[:LINES]]


Make = Callable[[Page], Section | None]
Describe = Callable[[Page, list[Values]], tuple[float, Words]]
"""Returns the impact and the finding of rows."""


def sections(page: Page) -> list[Section]:
    """Return all sections that have content, the worst first."""
    made = [section for make in MAKERS if (section := make(page)) is not None]
    return sorted(made, key=lambda section: -section.impact)


def of_table(key: str, title: str, describe: Describe) -> Make:
    """Return the maker of a section with one table of the report."""

    def make(page: Page) -> Section | None:
        rows = page.rows(key)
        if not rows:
            return None
        return Section(key.replace("_", "-"), title, *describe(page, rows), [page.table(key, title)])

    return make


# What is wrong, or may be


def imbalances(page: Page) -> Section | None:
    check = page.report["conservation"]
    if not check["imbalances"]:
        return None
    total = check["imbalance_count"]
    rows = table(check["imbalances"], "Imbalances", page.limit, total)
    return Section("imbalances", "Imbalances", 100, f"{count(total, 'violation')} of conservation", [rows])


def durability(page: Page, rows: list[Values]) -> tuple[float, Words]:
    lost, missing = (sum(row[name] or 0 for row in rows) for name in ("lost", "missing"))
    if lost:
        return 99, f"{count(lost, 'confirmed persistent message')} lost by restarts"
    if missing:
        return 60, f"{count(missing, 'message')} of unknown fate after restarts"
    return NORMAL, "every confirmed persistent message is there after each restart"


def log_quality(page: Page) -> Section:
    log, conservation = page.report["input"], page.report["conservation"]
    skipped, hours = sum(log["skipped"].values()), len(log["missing_hours"])
    jumps, unprocessed = log.get("clock_jumps") or [], log.get("unprocessed_files") or 0
    files = conservation.get("files") or {}
    faults = [
        count(skipped, "file") + " skipped" if skipped else "",
        count(unprocessed, "file") + " not processed" if unprocessed else "",
        *[f"{count(number, 'file')} {name} (manifest)" for name, number in files.items() if number],
        count(hours, "hour") + " without a file" if hours else "",
        count(len(jumps), "clock jump") if jumps else "",
    ]
    chosen = {name: value for name, value in log["selection"].items() if value}
    parts = [facts({name: value for name, value in log.items() if not isinstance(value, list | dict)} | chosen)]
    for title, lines in (
        ("Skipped files", log.get("skipped_files")),
        ("Hours without a file", log["missing_hours"]),
    ):
        if lines:
            parts += [heading(title), listing(lines[: page.limit])]
    if jumps:
        parts += [heading("Clock jumps"), table(jumps, "Clock jumps", page.limit)]
    parts += [heading("Boots"), table(conservation.get("boots") or [], "Boots", page.limit)]
    finding = ", ".join(filter(None, faults))
    serious = skipped or unprocessed or any(files.values())
    impact = 90 if serious else 40 if finding else NORMAL - 5
    return Section(
        "log", "The log", impact, finding or f"{log['events']:,} events in {count(log['files'], 'file')}", parts
    )


def restarts(page: Page) -> Section | None:
    rows = page.report["conservation"]["restarts"]
    if not rows:
        return None
    fewer = sum(max(row["fewer"], 0) for row in rows)
    finding = f"{count(fewer, 'message')} fewer after restarts than before" if fewer else "no queue had fewer messages"
    return Section("restarts", "Restarts", 50 if fewer else NORMAL, finding, [table(rows, "Restarts", page.limit)])


def lag(page: Page) -> Section | None:
    queues = [queue for queue in page.timeline.get("queues", []) if max(queue["lag_s"]) > 0]
    if not queues:
        return None
    title = "Age of the oldest ready message"
    worst = queues[0]
    greatest, last = max(worst["lag_s"]), max(queue["lag_s"][-1] for queue in queues)
    finding: list[Any] = ["up to ", seconds(greatest), f" in {cut(queue_name(worst), 60)}"]
    if last >= LAG_S:
        finding += ["; ", seconds(last), " at the end"]
    rows = [
        {
            **{key: queue[key] for key in ("node", "vhost", "queue")},
            "greatest_s": max(queue["lag_s"]),
            "at_the_end_s": queue["lag_s"][-1],
        }
        for queue in queues
    ]
    lines = [Line(queue_name(queue), queue["lag_s"]) for queue in queues[:LINES]]
    parts = [*chart(title, "s", lines), note(LAG_NOTE), table(rows, title, page.limit)]
    impact = 85 if last >= LAG_LONG_S else 60 if greatest >= LAG_LONG_S else 40 if greatest >= LAG_S else NORMAL + 9
    return Section("lag", "Lag of queues", impact, finding, parts)


def backlog(page: Page) -> Section | None:
    rows = page.rows("backlog")
    if not rows:
        return None
    lines = page.busiest_queues("messages", lambda lengths: max(length or 0 for length in lengths))
    growing = [row for row in rows if row.get("doubled_in_s") is not None]
    finding = f"{count(sum(row['ready'] + row['unacked'] for row in rows), 'message')} at the last snapshots"
    if growing:
        finding += f", {count(len(growing), 'queue')} growing"
    parts = [
        *chart("Messages in queues, ready and unacknowledged", "count", lines),
        page.table("backlog", "Backlog"),
    ]
    return Section("backlog", "Backlog", 55 if growing else NORMAL + 5, finding, parts)


def unroutable(page: Page, rows: list[Values]) -> tuple[float, Words]:
    return 70, f"{count(page.report['totals']['unroutable'], 'message')} went to no queue"


def given_up(page: Page, rows: list[Values]) -> tuple[float, Words]:
    return 65, f"{count(sum(row['messages'] for row in rows), 'message')} expired, dropped or dead-lettered"


def redelivered(page: Page) -> Section | None:
    rows, poison = page.rows("redelivered"), page.rows("poison")
    if not rows and not poison:
        return None
    lines = page.busiest_queues("redelivered", lambda counts: sum(filter(None, counts)))
    parts = [*chart("Redeliveries per second", "per_s", lines), page.table("redelivered", "Redelivered")]
    total = sum(row["redelivered"] for row in rows)
    finding = f"{total:,} {'redelivery' if total == 1 else 'redeliveries'}"
    if poison:
        most = max(row[name] or 0 for row in poison for name in ("redelivered", "requeued"))
        finding += f"; one message came back {count(most, 'time')}"
        title = "Messages that keep coming back"
        parts += [heading(title), page.table("poison", title)]
    return Section("redelivered", "Redelivered", 58 if poison else 45, finding, parts)


def links(page: Page) -> Section | None:
    rows, crossed = page.rows("links"), page.report["conservation"].get("links") or []
    if not rows and not crossed:
        return None
    edges = [
        Edge((0, row.get("upstream_node") or "unknown"), (1, row.get("node") or "unknown"), row["arrived"] or 0)
        for row in rows
        if row.get("arrived")
    ]
    missing, failures = (sum(row.get(name) or 0 for row in rows) for name in ("missing", "failures"))
    finding = f"{count(sum(row['arrived'] or 0 for row in rows), 'message')} between brokers"
    if missing:
        finding += f", {missing:,} did not arrive"
    if failures:
        finding += f", {count(failures, 'failure')} of links"
    parts = [flow(edges, ("Upstream", "Downstream"), LINKS_HEIGHT)] if edges else []
    parts += [page.table("links", "Links"), heading("Conservation"), table(crossed, "Crossings", page.limit)]
    return Section("links", "Federation links", 88 if missing else 45 if failures else NORMAL + 4, finding, parts)


def anomalies(page: Page, rows: list[Values]) -> tuple[float, Words]:
    return 35, f"{count(page.row_count('anomalies'), 'minute')} unlike the others of their queue"


def consumers(page: Page, rows: list[Values]) -> tuple[float, Words]:
    slow = [row for row in rows if str(row.get("advice") or "").startswith(NOT_KEEPING_UP)]
    if slow:
        return 42, f"those of {count(len(slow), 'queue')} do not keep up"
    return NORMAL, "they keep up"


def churn(page: Page, rows: list[Values]) -> tuple[float, Words]:
    leaks = [f"{row['name']} at {row['node']}" for row in rows if row.get("leak_suspected")]
    if leaks:
        return 62, f"a leak is suspected: {cut(', '.join(leaks), 80)}"
    return NORMAL, "no leak is suspected"


def brokers(page: Page) -> Section | None:
    nodes, rows = page.timeline.get("nodes") or [], page.rows("capacity")
    if not nodes and not rows:
        return None
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
    finding: list[Any] = []
    shown = []
    for row in rows:
        for what in ("disk", "memory"):
            hours = row.get(f"{what}_full_in_h")
            if hours is not None and hours < FULL_H:
                finding += ["; ", f"the {what} of {cut(row['node'])} is full in ", seconds(hours * HOUR_S)]
        unknown = {name: "too short to tell" for name in ("disk", "memory") if row.get(f"{name}_too_short")}
        shown.append({**row, **{f"{name}_full_in_h": text for name, text in unknown.items()}})
    soon, near = bool(finding), near_limits(nodes)
    for text in near:
        finding += ["; ", text]
    parts.append(table(shown, "Capacity", page.limit, None, ("disk_too_short", "memory_too_short")))
    impact = 86 if soon else 75 if near else NORMAL + 3
    words = finding[1:] or "none is near a limit"
    return Section("brokers", "Brokers: memory, disk, descriptors, loop", impact, words, parts)


def near_limits(nodes: list[Values]) -> list[str]:
    """Return the nodes of which a reading came near its limit or, of the free disk, near to twice of it."""
    near = []
    for node in nodes:
        for what, gauge, limit in (
            ("memory", schema.RESIDENT_BYTES, schema.MEMORY_LIMIT_BYTES),
            ("open descriptors", schema.OPEN_DESCRIPTORS, schema.DESCRIPTOR_LIMIT),
        ):
            if any(read is not None and most and read >= NEAR * most for read, most in pairs(node, gauge, limit)):
                near.append(f"{what} of {cut(node['node'])} near the limit")
        free = pairs(node, schema.DISK_FREE_BYTES, schema.DISK_LIMIT_BYTES)
        if any(read is not None and least and read <= least / NEAR for read, least in free):
            near.append(f"disk of {cut(node['node'])} near the limit")
    return near


def pairs(node: Values, gauge: str, limit: str) -> Iterable[tuple[float | None, float | None]]:
    return zip(node.get(gauge) or (), node.get(limit) or (), strict=False)


# How much, from where to where, and how fast


def rates(page: Page) -> Section | None:
    scopes = page.timeline.get("rates") or []
    if not scopes:
        return None
    step_s = page.timeline["step_s"]
    parts = []
    for place, scope in enumerate(scopes[:LINES]):
        parts += fold(scope_name(scope), gap_chart(scope_name(scope), scope), place < 2)
    queues = sorted(page.timeline.get("queues", []), key=lambda queue: -sum(queue["entered"]))[:LINES]
    if queues:
        parts.append(heading("Queues with most messages"))
    for place, queue in enumerate(queues):
        parts += fold(queue_name(queue), gap_chart(queue_name(queue), queue), place < 1)
    entered, left = (round(sum(map(sum, (scope[way] for scope in scopes))) * step_s) for way in ("entered", "left"))
    finding = (
        f"{entered:,} in, {left:,} out, {abs(entered - left):,} {'more' if left > entered else 'fewer'} out than in"
    )
    return Section("rates", "Rates in and out", NORMAL + 8, finding, parts)


def gap_chart(label: str, of: Values) -> list[Part]:
    gap = [round(entered - left, 3) for entered, left in zip(of["entered"], of["left"], strict=True)]
    lines = [Line("into queues", of["entered"]), Line("out of queues", of["left"]), Line("gap: in less out", gap)]
    return chart(f"Messages per second: {cut(label, 80)}", "per_s", lines)


def message_flow(page: Page) -> Section | None:
    rows = page.rows("flow")
    if not rows:
        return None
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
    parts = [flow(edges, ("Exchanges", "Queues", "Consumers and links")), page.table("flow", "Flow of messages")]
    return Section("flow", "Flow: exchange to queue to consumer", NORMAL + 7, "who sends to whom, by messages", parts)


def ack_latency(page: Page) -> Section | None:
    heat = page.timeline.get("ack_latency")
    if not heat:
        return None
    parts = [{"kind": "heat", **heat}, note("Each row covers half a power of ten; a darker cell has more messages.")]
    finding = "from the publish to the acknowledgement"
    return Section("ack-latency", "Latency of acknowledgements over time", NORMAL + 6, finding, parts)


def latency(page: Page, rows: list[Values]) -> tuple[float, Words]:
    worst = rows[0]
    return NORMAL + 2, ["p99 up to ", seconds(worst["p99_us"] / 1e6), f": {worst['stage'].replace('_', ' to ')}"]


def clients(page: Page, rows: list[Values]) -> tuple[float, Words]:
    others = sum(row["others"] - 1 for row in rows if row.get("others"))  # connections in one row
    finding = count(page.row_count("clients") + others, "connection")
    all_messages = sum(row["messages"] for row in rows)
    if all_messages:
        finding += f"; the first has {rows[0]['messages'] / all_messages * 100:.0f} % of the messages listed"
    return NORMAL + 3, finding


def always(finding: str, impact: float = NORMAL) -> Describe:
    return lambda page, rows: (impact, finding)


def compared(page: Page) -> Section | None:
    difference = page.report.get("compared")
    if not difference:
        return None
    of = difference["with"]
    parts = [note(f"Compared with the report on {of['folder'] or 'an unknown log'}: {of['verdict'] or ''}")]
    for key, title in (("totals", "Totals"), ("rates", "Rates"), ("latencies", "Latencies")):
        rows = [{**row, "change": per_cent(row)} for row in difference[key]]
        parts += [heading(title), table(rows, title, page.limit) if rows else note("no difference")]
    changes = sum(len(difference[key]) for key in ("totals", "rates", "latencies"))
    return Section("compared", "Compared with an earlier run", ODD - 1, f"{count(changes, 'figure')} changed", parts)


def per_cent(row: Values) -> str:
    if row["change"] is not None:
        return f"{row['change']:+,} %"
    return "new" if row["before"] is None else "gone" if row["after"] is None else "from 0"


MAKERS: tuple[Make, ...] = (
    imbalances,
    of_table("durability", "Durability across restarts", durability),
    *(log_quality, restarts, lag, backlog),
    of_table("unroutable", "Unroutable", unroutable),
    of_table("given_up", "Expired, dropped and dead-lettered", given_up),
    *(redelivered, links),
    of_table("anomalies", "Unusual minutes", anomalies),
    of_table("consumers", "Consumers", consumers),
    of_table("churn", "Connections, channels and queues that came and went", churn),
    *(brokers, compared, rates, message_flow, ack_latency),
    of_table("latency", "Latency by stage", latency),
    of_table("clients", "Top talkers: users and connections", clients),
    of_table(
        "throughput", "Throughput of queues, virtual hosts and users", always("mean and peak at 1 s, 1 min and 1 h", 1)
    ),
    of_table("hot_exchanges", "Exchanges by messages", always("and how unevenly their keys are used")),
    of_table("hot_keys", "Routing keys by messages", always("the keys with most messages")),
    of_table("hash_advice", "Hash exchanges", always("the share of the busiest queue behind one")),
)
