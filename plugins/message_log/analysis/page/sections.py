"""The sections of the page: what each shows, in one sentence what was found, and how bad that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ...file_format import schema
from . import drawings
from .charts import Charts, Line
from .drawings import Edge
from .markup import count, cut, duration, escape, facts, name, queue_name, scope_name, short, table

Values = dict[str, Any]
BAD, ODD, NORMAL = 80, 30, 0  # the least impact of a section with this mark
LAG_S, LAG_LONG_S = 10.0, 60.0  # ages of messages from which on a queue lags, and badly
FULL_H = 72.0  # hours until a disk or memory is full, below which it is bad
NEAR = 0.9  # the share of a limit from which on a metric is near it
LINES = 10  # in a chart
LINKS_HEIGHT = 120  # of the flow between brokers, in pixels
NOT_KEEPING_UP = ("they take", "they wait", "they are")  # beginnings of advice on consumers


class Section(NamedTuple):
    """A section. `impact` orders the sections: at least BAD, ODD or NORMAL."""

    id: str
    title: str
    impact: float
    finding: str
    body: str


class Page:
    """The source of all sections: the report, the charts, and the number of rows of a table."""

    def __init__(self, report: Values, charts: Charts | None, limit: int) -> None:
        self.report = report
        self.timeline: Values = report.get("timeline") or {}
        self.charts = charts
        self.limit = limit

    def rows(self, name: str) -> list[Values]:
        return self.report.get(name) or []

    def table(self, name: str, title: str, leave_out: Iterable[str] = ()) -> str:
        return table(self.rows(name), title, self.limit, self.report.get("rows", {}).get(name), leave_out)

    def chart(self, title: str, unit: str, lines: Iterable[Line]) -> str:
        return self.charts.add(title, unit, lines) if self.charts is not None else ""


Make = Callable[[Page], Section | None]


def sections(page: Page) -> list[Section]:
    """Return all sections that have content, the worst first."""
    made = [section for make in MAKERS if (section := make(page)) is not None]
    return sorted(made, key=lambda section: -section.impact)


# What is wrong, or may be


def imbalances(page: Page) -> Section | None:
    check = page.report["conservation"]
    if not check["imbalances"]:
        return None
    total = check["imbalance_count"]
    body = table(check["imbalances"], "Imbalances", page.limit, total)
    return Section("imbalances", "Imbalances", 100, f"{count(total, 'violation')} of conservation", body)


def durability(page: Page) -> Section | None:
    rows = page.rows("durability")
    if not rows:
        return None
    lost, missing = (sum(row[name] or 0 for row in rows) for name in ("lost", "missing"))
    finding = "every confirmed persistent message is there after each restart"
    if lost:
        finding = f"{count(lost, 'confirmed persistent message')} lost by restarts"
    elif missing:
        finding = f"{count(missing, 'message')} of unknown fate after restarts"
    impact = 99 if lost else 60 if missing else NORMAL
    return Section("durability", "Durability across restarts", impact, finding, page.table("durability", "Durability"))


def log_quality(page: Page) -> Section | None:
    given = page.report["input"]
    skipped, hours = sum(given["skipped"].values()), len(given["missing_hours"])
    jumps, unprocessed = given.get("clock_jumps") or [], given.get("unprocessed_files") or 0
    files = page.report["conservation"].get("files") or {}
    faults = [
        count(skipped, "file") + " skipped" if skipped else "",
        count(unprocessed, "file") + " not processed" if unprocessed else "",
        *[f"{count(number, 'file')} {name} (manifest)" for name, number in files.items() if number],
        count(hours, "hour") + " without a file" if hours else "",
        count(len(jumps), "clock jump") if jumps else "",
    ]
    chosen = {
        key: ", ".join(held) if isinstance(held, list) else held for key, held in given["selection"].items() if held
    }
    body = facts({key: held for key, held in given.items() if not isinstance(held, list | dict)} | chosen)
    for title, lines in (
        ("Skipped files", given.get("skipped_files")),
        ("Hours without a file", given["missing_hours"]),
    ):
        if lines:
            listed = "".join(f"<li>{name(str(line), 120)}</li>" for line in lines[: page.limit])
            body += f"<h3>{title}</h3><ul>{listed}</ul>"
    if jumps:
        body += "<h3>Clock jumps</h3>" + table(jumps, "Clock jumps", page.limit)
    body += "<h3>Boots</h3>" + table(page.report["conservation"].get("boots") or [], "Boots", page.limit)
    finding = ", ".join(filter(None, faults))
    serious = skipped or unprocessed or any(files.values())
    impact = 90 if serious else 40 if finding else NORMAL - 5
    return Section(
        "log", "The log", impact, finding or f"{given['events']:,} events in {count(given['files'], 'file')}", body
    )


def restarts(page: Page) -> Section | None:
    rows = page.report["conservation"]["restarts"]
    if not rows:
        return None
    fewer = sum(max(row["fewer"], 0) for row in rows)
    finding = f"{count(fewer, 'message')} fewer after restarts than before" if fewer else "no queue had fewer messages"
    body = table(rows, "Restarts", page.limit)
    return Section("restarts", "Restarts", 50 if fewer else NORMAL, finding, body)


def lag(page: Page) -> Section | None:
    queues = [queue for queue in page.timeline.get("queues", []) if max(queue["lag_s"]) > 0]
    if not queues:
        return None
    title = "Age of the oldest ready message"
    lines = [Line(queue_name(queue), queue["lag_s"]) for queue in queues[:LINES]]
    worst = queues[0]
    greatest, last = max(worst["lag_s"]), max(queue["lag_s"][-1] for queue in queues)
    finding = f"up to {duration(greatest)} in {cut(queue_name(worst), 60)}"
    if last >= LAG_S:
        finding += f"; {duration(last)} at the end"
    listed = [
        {
            **{key: queue[key] for key in ("node", "vhost", "queue")},
            "greatest_s": max(queue["lag_s"]),
            "at_the_end_s": queue["lag_s"][-1],
        }
        for queue in queues
    ]
    note = (
        "The time since the broker received it, of messages that were delivered for the first time, expired or were "
        "dropped then or later, or are still there. Redeliveries do not count; of messages from before a restart the "
        "age is unknown."
    )
    body = page.chart(title, "s", lines) + f'<p class="note">{note}</p>' + table(listed, title, page.limit)
    impact = 85 if last >= LAG_LONG_S else 60 if greatest >= LAG_LONG_S else 40 if greatest >= LAG_S else NORMAL + 9
    return Section("lag", "Lag of queues", impact, finding, body)


def backlog(page: Page) -> Section | None:
    rows = page.rows("backlog")
    if not rows:
        return None
    queues = [queue for queue in page.timeline.get("queues", []) if any(queue["messages"])]
    queues.sort(key=lambda queue: -max(length or 0 for length in queue["messages"]))
    lines = [Line(queue_name(queue), queue["messages"]) for queue in queues[:LINES]]
    growing = [row for row in rows if row.get("doubled_in_s") is not None]
    waiting = sum(row["ready"] + row["unacked"] for row in rows)
    finding = f"{count(waiting, 'message')} at the last snapshots"
    if growing:
        finding += f", {count(len(growing), 'queue')} growing"
    body = page.chart("Messages in queues, ready and unacknowledged", "count", lines) + page.table("backlog", "Backlog")
    return Section("backlog", "Backlog", 55 if growing else NORMAL + 5, finding, body)


def unroutable(page: Page) -> Section | None:
    rows = page.rows("unroutable")
    if not rows:
        return None
    total = page.report["totals"]["unroutable"]
    return Section(
        "unroutable",
        "Unroutable",
        70,
        f"{count(total, 'message')} went to no queue",
        page.table("unroutable", "Unroutable"),
    )


def given_up(page: Page) -> Section | None:
    rows = page.rows("given_up")
    if not rows:
        return None
    total = sum(row["messages"] for row in rows)
    finding = f"{count(total, 'message')} expired, dropped or dead-lettered"
    return Section("given-up", "Expired, dropped and dead-lettered", 65, finding, page.table("given_up", "Given up"))


def redelivered(page: Page) -> Section | None:
    rows, poison = page.rows("redelivered"), page.rows("poison")
    if not rows and not poison:
        return None
    queues = [queue for queue in page.timeline.get("queues", []) if any(queue["redelivered"])]
    queues.sort(key=lambda queue: -sum(queue["redelivered"]))
    lines = [Line(queue_name(queue), queue["redelivered"]) for queue in queues[:LINES]]
    body = page.chart("Redeliveries per second", "per_s", lines) + page.table("redelivered", "Redelivered")
    finding = f"{count(sum(row['redelivered'] for row in rows), 'redelivery')}".replace("redeliverys", "redeliveries")
    if poison:
        most = max(row[name] or 0 for row in poison for name in ("redelivered", "requeued"))
        finding += f"; one message came back {count(most, 'time')}"
        body += "<h3>Messages that keep coming back</h3>" + page.table("poison", "Messages that keep coming back")
    return Section("redelivered", "Redelivered", 58 if poison else 45, finding, body)


def links(page: Page) -> Section | None:
    rows, crossed = page.rows("links"), page.report["conservation"].get("links") or []
    if not rows and not crossed:
        return None
    edges = [
        Edge((0, row.get("upstream_node") or "unknown"), (1, row.get("node") or "unknown"), row["came"] or 0)
        for row in rows
        if row.get("came")
    ]
    missing, failures = (sum(row.get(name) or 0 for row in rows) for name in ("missing", "failures"))
    finding = f"{count(sum(row['came'] or 0 for row in rows), 'message')} between brokers"
    if missing:
        finding += f", {missing:,} did not arrive"
    if failures:
        finding += f", {count(failures, 'failure')} of links"
    body = drawings.flow(edges, ("Upstream", "Downstream"), LINKS_HEIGHT) if edges else ""
    body += page.table("links", "Links") + "<h3>Conservation</h3>" + table(crossed, "Crossings", page.limit)
    return Section("links", "Federation links", 88 if missing else 45 if failures else NORMAL + 4, finding, body)


def anomalies(page: Page) -> Section | None:
    rows = page.rows("anomalies")
    if not rows:
        return None
    total = page.report["rows"].get("anomalies", len(rows))
    finding = count(total, "minute") + " unlike the others of their queue"
    return Section("anomalies", "Unusual minutes", 35, finding, page.table("anomalies", "Anomalies"))


def consumers(page: Page) -> Section | None:
    rows = page.rows("consumers")
    if not rows:
        return None
    slow = [row for row in rows if str(row.get("advice") or "").startswith(NOT_KEEPING_UP)]
    finding = f"those of {count(len(slow), 'queue')} do not keep up" if slow else "they keep up"
    return Section("consumers", "Consumers", 42 if slow else NORMAL, finding, page.table("consumers", "Consumers"))


def churn(page: Page) -> Section | None:
    rows = page.rows("churn")
    if not rows:
        return None
    leaks = [f"{row['name']} at {row['node']}" for row in rows if row.get("leak_suspected")]
    finding = f"a leak is suspected: {cut(', '.join(leaks), 80)}" if leaks else "no leak is suspected"
    body = page.table("churn", "Churn")
    return Section(
        "churn", "Connections, channels and queues that came and went", 62 if leaks else NORMAL, finding, body
    )


def brokers(page: Page) -> Section | None:
    nodes, rows = page.timeline.get("nodes") or [], page.rows("capacity")
    if not nodes and not rows:
        return None
    charts = (
        ("Memory (resident)", "bytes", schema.RESIDENT_BYTES, schema.MEMORY_LIMIT_BYTES),
        ("Free disk", "bytes", schema.DISK_FREE_BYTES, schema.DISK_LIMIT_BYTES),
        ("Open descriptors", "count", schema.OPEN_DESCRIPTORS, None),
        ("Connections", "count", schema.CONNECTIONS, None),
        ("Lag of the event loop, 99th percentile of a step (upper bound of its bucket)", "us", "loop_lag_p99_us", None),
    )
    body = ""
    for title, unit, gauge, limit in charts:
        lines = [Line(node["node"], node.get(gauge) or ()) for node in nodes]
        lines += [Line(f"{node['node']} limit", node.get(limit) or ()) for node in nodes if limit is not None]
        body += page.chart(title, unit, lines)
    near = near_limits(nodes)
    soon = [
        f"the {what} of {cut(row['node'])} is full in {duration(row[f'{what}_full_in_h'] * 3600)}"
        for row in rows
        for what in ("disk", "memory")
        if row.get(f"{what}_full_in_h") is not None and row[f"{what}_full_in_h"] < FULL_H
    ]
    finding = "; ".join([*soon, *near]) or "none is near a limit"
    told = [{**row, **{f"{what}_full": full(row, what) for what in ("disk", "memory")}} for row in rows]
    hidden = ("disk_full_in_h", "memory_full_in_h", "disk_too_short", "memory_too_short")
    body = f'<div class="charts">{body}</div>' + table(told, "Capacity", page.limit, None, hidden)
    return Section(
        "brokers", "Brokers: memory, disk, descriptors, loop", 86 if soon else 75 if near else NORMAL + 3, finding, body
    )


def full(row: Values, what: str) -> str | None:
    if row.get(f"{what}_too_short"):
        return "too short to tell"
    hours = row.get(f"{what}_full_in_h")
    return None if hours is None else f"in {duration(hours * 3600)}"


def near_limits(nodes: list[Values]) -> list[str]:
    """Return the nodes of which a reading came near its limit or, of the free disk, near to twice of it."""
    found = []
    for node in nodes:
        for what, gauge, limit in (
            ("memory", schema.RESIDENT_BYTES, schema.MEMORY_LIMIT_BYTES),
            ("open descriptors", schema.OPEN_DESCRIPTORS, schema.DESCRIPTOR_LIMIT),
        ):
            if any(read is not None and most and read >= NEAR * most for read, most in pairs(node, gauge, limit)):
                found.append(f"{what} of {cut(node['node'])} near the limit")
        free = pairs(node, schema.DISK_FREE_BYTES, schema.DISK_LIMIT_BYTES)
        if any(read is not None and least and read <= least / NEAR for read, least in free):
            found.append(f"disk of {cut(node['node'])} near the limit")
    return found


def pairs(node: Values, gauge: str, limit: str) -> Iterable[tuple[float | None, float | None]]:
    return zip(node.get(gauge) or (), node.get(limit) or (), strict=False)


# How much, from where to where, and how fast


def rates(page: Page) -> Section | None:
    scopes = page.timeline.get("rates") or []
    if not scopes:
        return None
    step_s = page.timeline["step_s"]
    body = ""
    for place, scope in enumerate(scopes[:LINES]):
        label = scope_name(scope)
        body += details(label, gap_chart(page, label, scope), place < 2)
    queues = sorted(page.timeline.get("queues", []), key=lambda queue: -sum(queue["entered"]))[:LINES]
    if queues:
        body += "<h3>Queues with most messages</h3>"
    for place, queue in enumerate(queues):
        body += details(queue_name(queue), gap_chart(page, queue_name(queue), queue), place < 1)
    entered, left = (round(sum(map(sum, (scope[way] for scope in scopes))) * step_s) for way in ("entered", "left"))
    finding = (
        f"{entered:,} in, {left:,} out, {abs(entered - left):,} {'more' if left > entered else 'fewer'} out than in"
    )
    return Section("rates", "Rates in and out", NORMAL + 8, finding, body)


def gap_chart(page: Page, label: str, of: Values) -> str:
    gap = [round(entered - left, 3) for entered, left in zip(of["entered"], of["left"], strict=True)]
    lines = [Line("into queues", of["entered"]), Line("out of queues", of["left"]), Line("gap: in less out", gap)]
    return page.chart(f"Messages per second: {cut(label, 80)}", "per_s", lines)


def details(label: str, body: str, is_open: bool) -> str:
    return f"<details{' open' if is_open else ''}><summary>{name(label, 80)}</summary>{body}</details>" if body else ""


def flow(page: Page) -> Section | None:
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
            shown = row[end] or ("(default)" if kind == "exchange" and row[end] == "" else "(unknown)")
            ends.append((columns[kind], f"{'link ' if kind == 'link' else ''}{shown}{scope}"))
        edges.append(Edge(ends[0], ends[1], row["messages"]))
    body = drawings.flow(edges, ("Exchanges", "Queues", "Consumers and links"))
    body += page.table("flow", "Flow of messages")
    return Section("flow", "Flow: exchange to queue to consumer", NORMAL + 7, "who sends to whom, by messages", body)


def ack_latency(page: Page) -> Section | None:
    if not page.timeline.get("ack_latency"):
        return None
    note = "Each row covers half a power of ten; a darker cell has more messages."
    body = drawings.heat_map(page.timeline) + f'<p class="note">{note}</p>'
    finding = "from the publish to the acknowledgement"
    return Section("ack-latency", "Latency of acknowledgements over time", NORMAL + 6, finding, body)


def latency(page: Page) -> Section | None:
    rows = page.rows("latency")
    if not rows:
        return None
    worst = rows[0]
    finding = f"p99 up to {duration(worst['p99_us'] / 1e6)}: {worst['stage'].replace('_', ' to ')}"
    return Section("latency", "Latency by stage", NORMAL + 2, finding, page.table("latency", "Latency"))


def clients(page: Page) -> Section | None:
    rows = page.rows("clients")
    if not rows:
        return None
    others = sum(row["others"] - 1 for row in rows if row.get("others"))  # connections in one row
    finding = f"{count(page.report['rows'].get('clients', len(rows)) + others, 'connection')}"
    all_messages = sum(row["messages"] for row in rows)
    if all_messages:
        finding += f"; the first has {rows[0]['messages'] / all_messages * 100:.0f} % of the messages listed"
    return Section(
        "clients", "Top talkers: users and connections", NORMAL + 3, finding, page.table("clients", "Clients")
    )


def simple(key: str, title: str, finding: str, impact: float = NORMAL) -> Make:
    def make(page: Page) -> Section | None:
        if not page.rows(key):
            return None
        return Section(key.replace("_", "-"), title, impact, finding, page.table(key, title))

    return make


def compared(page: Page) -> Section | None:
    difference = page.report.get("compared")
    if not difference:
        return None
    of = difference["with"]
    body = (
        f"<p>Compared with the report on {escape(of['folder'] or 'an unknown log')}: {escape(of['verdict'] or '')}</p>"
    )
    for key, title in (("totals", "Totals"), ("rates", "Rates"), ("latencies", "Latencies")):
        body += f"<h3>{title}</h3>"
        body += compared_table(difference[key], title, page.limit) if difference[key] else "<p>no difference</p>"
    changes = sum(len(difference[key]) for key in ("totals", "rates", "latencies"))
    return Section("compared", "Compared with an earlier run", ODD - 1, f"{count(changes, 'figure')} changed", body)


def compared_table(rows: Sequence[Values], title: str, limit: int) -> str:
    """Return changes as a table, each value in the unit of its figure."""
    shown = []
    for row in rows:
        figure = row["figure"]
        values = {side: in_unit(figure, row[side]) for side in ("before", "after")}
        shown.append({**row, "figure": figure.replace("_us", "").replace("_", " "), **values, "change": per_cent(row)})
    return table(shown, title, limit)


def in_unit(figure: str, held: float | None) -> str:
    if held is None:
        return "none"
    return duration(held / 1e6) if figure.endswith("_us") else f"{held:,}" if isinstance(held, int) else short(held)


def per_cent(row: Values) -> str:
    if row["change"] is not None:
        return f"{row['change']:+,} %"
    return "new" if row["before"] is None else "gone" if row["after"] is None else "from 0"


MAKERS: tuple[Make, ...] = (
    *(imbalances, durability, log_quality, restarts, lag, backlog, unroutable, given_up, redelivered, links, anomalies),
    *(consumers, churn, brokers, compared, rates, flow, ack_latency, latency, clients),
    simple(
        "throughput", "Throughput of queues, virtual hosts and users", "mean and peak at 1 s, 1 min and 1 h", NORMAL + 1
    ),
    simple("hot_exchanges", "Exchanges by messages", "and how unevenly their keys are used"),
    simple("hot_keys", "Routing keys by messages", "the keys with most messages"),
    simple("hash_advice", "Hash exchanges", "the share of the busiest queue behind a hash exchange"),
)
