"""The report: report.json, made of a ledger."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format import schema
from ..file_format.folder import Folder
from ..file_format.schema import METRICS
from . import figures, health, store, traffic
from .boots import restarts
from .crossings import lags_by_step
from .engine import Engine
from .facts import Table, Values, keyed
from .health import Queue
from .input import LogFile
from .ledger import BAD_ROWS, OF_TIMELINE, Ledger, SelectedFolder, crossings_in, read_rows, skip
from .queues import VANISHED
from .selection import SPAN
from .snapshots import Window, merge_trends, trends_in
from .timeline import Frame, Lengths, Steps, by_step, lengths_by_step, merge_lengths, timeline
from .traffic import END_TO_END, EXCHANGE, QUEUE, SCOPED, STAGE
from .verdict import AT_RISK, BALANCED, MISSING, NOT_ARRIVED, NOT_KEPT

SCHEMA = 1  # of report.json
LISTED = 200  # rows of one list
JUMP_US = 1_000_000  # drift of the wall clock against the monotonic one that is reported as a jump
MOST_READ = 1e30  # of a reading, so that sums are finite
SKIPPED = 100  # skipped files that are listed
LOST = ("problem", "node", "boot_id", "vhost", "queue", "link", "msg_seq", "identity", "at")  # of an imbalance
RISK = ("lost", "at_risk", "confirmed_before")  # of the queue of a message at a restart
MESSAGE = ("node", "boot_id", "msg_seq")
NAMES = ("message_id", "exchange", "routing_key")  # of a message
ORDERS: dict[str, tuple[str, ...]] = {  # of the rows of each list; `-` for descending order
    "wrong_now": (),  # the worst first
    "durability": ("-lost", "-missing", *QUEUE, "boot_id"),
    "lost": (*QUEUE, "link", "boot_id", "msg_seq", "identity"),
    "throughput": ("-messages", *SCOPED, "grain"),
    "latency": ("-p99_us", *STAGE),
    "end_to_end": ("-p99_us", *END_TO_END),
    "slowest": ("-age_us", *QUEUE, "boot_id", "msg_seq"),
    "backlog": ("-peak", *QUEUE),
    "clients": ("-messages", "node", "vhost", "user", "connection"),
    "flow": ("-messages", "node", "vhost", "source_kind", "source", "target_kind", "target"),
    "hot_exchanges": ("-published", *EXCHANGE),
    "hot_keys": ("-published", *EXCHANGE, "place"),
    "unroutable": ("-unroutable", *EXCHANGE, "routing_key"),
    "given_up": ("-messages", *QUEUE, "event", "reason"),
    "redelivered": ("-redelivered", *QUEUE),
    "poison": ("-redelivered", "-requeued", *QUEUE, "msg_seq"),
    "links": ("link", "upstream_node"),
    "consumers": ("-mean_ready", *QUEUE),
    "consumers_by_name": ("-delivered", *QUEUE, "user", "conn_id", "consumer_tag"),
    "churn": ("node", "name"),
    "capacity": ("node",),
}
LONG = {"throughput": 3 * LISTED, "lost": 5 * LISTED}  # lists with more rows


class Report(NamedTuple):
    """The content of report.json, and all rows of its lists, by name."""

    values: Values
    tables: dict[str, list[Values]]


def make_report(engine: Engine, ledger: Ledger) -> Report:
    """Make the report of a ledger. Raises OSError."""
    facts, snapshots = ledger.facts, ledger.snapshots
    kinds = facts["kinds"].to_pylist()
    latency = ledger.latency
    read = list(engine.map(partial(metrics, ledger.folder), ledger.input.of(METRICS)))
    skip(ledger.input, [path for path, rows in read if rows is None])
    readings = [row for _, rows in read for row in rows or ()]
    oldest = facts["oldest"].to_pylist()
    peaks = {health.queue_of(row): row["peak"] for row in snapshots["lengths"].to_pylist()}
    frame = Frame(kinds, oldest, ledger.boots, peaks)
    growth = trends(engine, ledger)
    judge = health.Judge(ledger.boots, kinds, facts, latency)
    wrong = health.findings(ledger.boots, snapshots, growth, judge, readings)
    counts, handled = counts_of(engine, ledger, frame)
    lost, number_of_lost = lost_messages(ledger)
    made = {
        "wrong_now": [asdict(finding) | {"line": health.line(finding)} for finding in wrong],
        "throughput": ledger.throughput,
        "latency": latency,
        "end_to_end": ledger.end_to_end,
        "slowest": facts["slowest"].to_pylist(),
        "backlog": figures.backlog(snapshots, growth),
        "clients": traffic.clients(facts["transfers"]),
        "flow": traffic.flow(facts["transfers"]),
        "hot_exchanges": traffic.hot_exchanges(facts["routes"]),
        "hot_keys": traffic.hot_keys(facts["routes"]),
        "unroutable": traffic.unroutable(facts["routes"]),
        "given_up": traffic.given_up(kinds),
        "redelivered": traffic.redelivered(kinds),
        "poison": traffic.poison(facts["attempts"]),
        "links": figures.links(ledger.links, ledger.lags, readings),
        "consumers": figures.consumers(snapshots, kinds, latency),
        "consumers_by_name": traffic.consumers_by_name(facts["consumers"], facts["holds"]),
        "churn": figures.churn(readings),
        "capacity": figures.capacity(readings, handled),
        "durability": [asdict(each) for each in ledger.durability],
        "lost": lost,
    }
    lists = {name: first(rows, ORDERS[name], LONG.get(name, LISTED)) for name, rows in made.items()}
    conservation = conservation_of(ledger)
    named = [*conservation["imbalances"], *lists["poison"], *lists["lost"]]
    add_names(engine, ledger, [row for row in named if row["msg_seq"] is not None])
    values = {
        "schema": SCHEMA,
        "verdict": ledger.verdict.sentence(ledger.folder.selection.of_names),
        "reasons": ledger.verdict.reasons,
        "health": health.summary(wrong, snapshots["latest"].num_rows > 0),
        "input": input_of(ledger) | {"engine": engine.name},
        "totals": traffic.totals(kinds),
        "conservation": conservation,
        "timeline": timeline(frame, counts, lengths(engine, ledger, frame), readings, lags(engine, ledger, frame)),
        **lists,
        "rows": {name: len(rows) for name, rows in made.items()} | {"lost": number_of_lost},
    }
    return Report(values, made)


def lost_messages(ledger: Ledger) -> tuple[list[Values], int]:
    """Return messages that are lost in a queue, by a link or at a restart, as far as they are listed, and their number.

    At a restart, `lost` of the `confirmed_before` messages of the queue are, and up to `at_risk` may be.
    """
    rows = [asdict(each) for each in ledger.imbalances if each.problem in (VANISHED, NOT_ARRIVED)]
    found = [{name: row[name] for name in LOST} | dict.fromkeys(RISK) for row in rows]
    counts = {(each.node, each.boot_id, each.vhost, each.queue): each for each in ledger.durability if each.at_risk}
    number = sum(row["records"] for row in rows) + sum(each.confirmed_before for each in counts.values())
    for row in ledger.lost:
        each = counts[row["node"], row["boot_id"], row["vhost"], row["queue"]]
        about = {"problem": NOT_KEPT if each.lost else AT_RISK, "at": row["last"]}
        about |= {name: getattr(each, name) for name in RISK}
        found.append(dict.fromkeys(LOST) | {name: row[name] for name in (*QUEUE, "boot_id", "msg_seq")} | about)
    for row in found:
        in_boot = f"{row['boot_id']}/{row['msg_seq']}" if row["msg_seq"] is not None else None
        row["message"] = in_boot or row["identity"]  # by which `warren trace` finds it
    return [row for row in found if row["message"] is not None], number


def trends(engine: Engine, ledger: Ledger) -> dict[Queue, health.Trend]:
    """Return the trends of the queues of running boots, from the files of their last time."""
    windows = health.windows(ledger.boots, ledger.snapshots["latest"].to_pylist())
    begins = {
        schema.boot_key(schema.file_name(*name, 0)): window.end_us - window.interval_us * window.intervals
        for name, window in windows.items()
    }
    files = [
        file
        for file in ledger.input.of(schema.QUEUE_STATS)
        if (key := schema.boot_key(file.path)) in begins
        and store.hour_of(file.path) >= datetime.fromtimestamp(begins[key] / 1e6, UTC).strftime("dt=%Y-%m-%d-hour=%H")
    ]
    parts = engine.map(partial(trends_of, ledger.folder, windows), files)
    return health.trends(merge_trends([part for part in parts if part is not None]), windows)


def trends_of(folder: SelectedFolder, windows: dict[tuple[str, str], Window], file: LogFile) -> pa.Table | None:
    rows = read_rows(folder, file)
    return trends_in(rows, windows) if rows is not None else None


def first(rows: Iterable[Values], order: Sequence[str], limit: int = LISTED) -> list[Values]:
    """Return the first rows in this order, with values for JSON; null is the least value."""
    rows = list(rows)
    for name in reversed(order):
        column = name.removeprefix("-")
        rows.sort(key=lambda row: (row[column] is not None, row[column]), reverse=name.startswith("-"))
    return [plain(row) for row in rows[:limit]]


def plain(values: Mapping[str, Any]) -> Values:
    """Return values as JSON has them, times as text."""
    return {
        name: f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z" if isinstance(value, datetime) else value
        for name, value in values.items()
    }


def metrics(folder: SelectedFolder, file: LogFile) -> tuple[str, list[Values] | None]:
    """Return the path of a file of metrics and its readings, or None if it cannot be read."""
    names = ["node", "boot_id", "ts_us", "mono_ns", "name", "labels", "value", "buckets"]
    rows = read_rows(folder, file)
    try:
        checked = Table(METRICS, rows).rows if rows is not None else None
    except BAD_ROWS:
        checked = None
    if checked is None or not (np.abs(checked["value"].to_numpy()) <= MOST_READ).all():
        return file.path, None
    return file.path, [{name: row.get(name) for name in names} for row in checked.to_pylist()]


def counts_of(engine: Engine, ledger: Ledger, frame: Frame) -> tuple[list[Values], figures.Handled]:
    """Return the counts of the timeline (`by_step`), and the messages in and out of each boot by second."""
    counts: list[Values] = []
    handled: figures.Handled = {}
    for rows, seconds in engine.map(partial(of_slice, ledger.place, frame.steps, frame.chosen), ledger.stored):
        counts += rows
        for boot, of_boot in seconds.items():
            handled.setdefault(boot, {}).update(of_boot)
    return counts, handled


def of_slice(
    place: Folder, steps: Steps | None, chosen: list[Queue], path: str
) -> tuple[list[Values], figures.Handled]:
    """Return what the timeline and the capacity need of a slice of an hour."""
    facts = store.load(place, path, OF_TIMELINE)
    rows = by_step(facts["moments"], facts["waits"], steps, chosen) if steps is not None else []
    return rows, figures.handled_by_second(facts["handled"])


def lengths(engine: Engine, ledger: Ledger, frame: Frame) -> Lengths:
    """Return the lengths of the chosen queues by step."""
    if frame.steps is None or not frame.chosen:
        return {}
    look = partial(lengths_in, ledger.folder, frame.steps, frame.chosen)
    return merge_lengths(engine.map(look, ledger.input.of(schema.QUEUE_STATS)))


def lengths_in(folder: SelectedFolder, steps: Steps, chosen: list[Queue], file: LogFile) -> Lengths:
    columns = ["node", "boot_id", "snapshot", "ts_us", "vhost", "queue", "queues", "ready", "unacked"]
    rows = read_rows(folder, file, columns)
    if rows is None or not set(columns) <= set(rows.column_names):  # without a queue, some are missing
        return {}
    return lengths_by_step(rows, steps, chosen)


def lags(engine: Engine, ledger: Ledger, frame: Frame) -> list[Values]:
    """Return the lags of links by step."""
    if frame.steps is None:
        return []
    return [row for rows in engine.map(partial(lags_in, ledger.place, frame.steps), ledger.slices) for row in rows]


def lags_in(place: Folder, steps: Steps, number: int) -> list[Values]:
    return lags_by_step(crossings_in(place, number), steps)


def add_names(engine: Engine, ledger: Ledger, rows: list[Values]) -> None:
    """Add message_id, exchange and routing key to rows about messages, as far as the log has them."""
    for row in rows:
        row |= dict.fromkeys(NAMES)
    wanted = keyed(rows, *MESSAGE)
    files = ledger.input.of(schema.EVENTS) if wanted else []
    for found in engine.map(partial(names_in, ledger.folder, set(wanted)), files):
        for event in found:
            for row in wanted[tuple(event[name] for name in MESSAGE)]:
                for name in NAMES:
                    value = event.get(name)
                    row[name] = value if row[name] is None else max(row[name], value or "")


def names_in(folder: SelectedFolder, wanted: set[tuple[Any, ...]], file: LogFile) -> list[Values]:
    """Return the names in the events of some messages."""
    table = read_rows(folder, file, [*MESSAGE, "ts_us", *NAMES])
    if table is None:
        return []
    numbers = pa.array([number for *_, number in wanted], pa.int64())
    rows = table.filter(pc.is_in(table["msg_seq"], numbers)).to_pylist()
    return [row for row in rows if tuple(row[name] for name in MESSAGE) in wanted]


def input_of(ledger: Ledger) -> Values:
    """Return the section "input"."""
    files = ledger.input
    skipped = Counter(file.reason for file in files.skipped)
    clock = ("node", "boot_id", "first", "last", "clock_moved_us")
    jumped = [boot for boot in ledger.boots if boot.clock_moved_us > JUMP_US]
    return {
        "folder": files.folder,
        "selection": ledger.folder.selection.describe(),
        "files": len(files.files),
        "events": sum(file.records for file in files.of(schema.EVENTS)),
        "bytes": sum(file.bytes for file in files.files),
        "bytes_per_day": bytes_per_day(ledger),
        "skipped": dict(sorted(skipped.items())),
        "missing_hours": missing_hours(files.files),
        "skipped_files": sorted(file.path for file in files.skipped)[:SKIPPED],
        "clock_jumps": [plain({name: getattr(boot, name) for name in clock}) for boot in jumped],
    }


def bytes_per_day(ledger: Ledger) -> int | None:
    """Return the bytes of the log for a day, at the rate of the time between its first record and its last one."""
    ends = [at for boot in ledger.boots for at in (boot.first, boot.last) if at is not None]
    span_s = (max(ends) - min(ends)).total_seconds() if ends else 0
    return round(sum(file.bytes for file in ledger.input.files) / span_s * 86_400) if span_s else None


def missing_hours(files: Iterable[LogFile]) -> list[str]:
    """Return the first hours without a file, such as `2026-11-22 05`, between the first and the last with one."""
    missing: list[str] = []
    for before, after in pairwise(sorted({store.time_of(file.path) for file in files})):
        hour = before + SPAN
        while hour < after and len(missing) < LISTED:
            missing.append(f"{hour:%Y-%m-%d %H}")
            hour += SPAN
    return missing


def conservation_of(ledger: Ledger) -> Values:
    """Return the section "conservation"."""
    judged, files = ledger.verdict, ledger.input
    ends = ("before", "after", "difference")
    queues = [vars(each) | {name: getattr(each, name) for name in ends} for each in ledger.balances]
    links = ("link", "upstream_node", "taken", "arrived", "discarded", "missing", "pending")
    order = ("problem", "node", "boot_id", "vhost", "queue", "msg_seq", "file", "first_row")
    return {
        "balanced": judged.status == BALANCED,
        **judged._asdict(),
        "missing_records": sum(each.records or 0 for each in ledger.imbalances if each.problem == MISSING),
        "imbalance_count": len(ledger.imbalances),
        "imbalances": first(map(asdict, ledger.imbalances), order),
        "queues": first(queues, ("-entered", *QUEUE, "boot_id")),
        "links": first(({name: getattr(each, name) for name in links} for each in ledger.links), links[:2]),
        "boots": first(map(asdict, ledger.boots), ("node", "first")),
        "restarts": first(restarts_of(ledger), (*QUEUE, "boot_id")),
        "files": {name: len(getattr(files, name)) for name in ("missing", "changed", "unlisted")},
    }


def restarts_of(ledger: Ledger) -> list[Values]:
    """Return the queues that had messages before or after a restart; transient messages may be fewer.

    `before` and `fewer` are null if the boot before was killed: its last snapshot may be older than its last messages.
    """
    lengths = {each.name: each.before or 0 for each in ledger.balances}
    followed = {boot.name: (boot, later) for boot, later in restarts(ledger.boots)}
    rows = []
    for each in ledger.balances:
        if (each.node, each.boot_id) in followed:
            boot, later = followed[each.node, each.boot_id]
            before, after = each.after or 0, lengths.get((*later.name, each.vhost, each.queue), 0)
            if before or after:
                row: Values = {name: getattr(each, name) for name in (*QUEUE, "boot_id")}
                row |= {"next_boot_id": later.boot_id, "durable": each.durable, "stopped": boot.stopped}
                counts = {"before": before, "after": after, "fewer": before - after}
                rows.append(row | counts | ({} if boot.stopped else {"before": None, "fewer": None}))
    return rows
