"""The ledger of a log: its files reduced to facts, and the check that every message is accounted for.

    snapshots  each file of `queue_stats` is reduced; the closing rows say which rows of each boot can be checked
    hours      each file of events is reduced, and the facts of its hour are stored, unless they are already (`store`)
    slices     facts of all hours meet in slices, by queue, by the number or identity of the message, or by key
    check      the sums of all slices are compared with the snapshots

What reaches this process is bounded by the numbers of queues, users, hours, keys and faults, not by that of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..file_format import schema
from ..file_format.arrow_schema import ARROW
from ..file_format.folder import Folder, Vanished
from . import crossings, hours, snapshots, store
from .beginnings import beginnings_of, micros
from .boots import Boot, Known, boots_of, gaps, hours_without_snapshots, missing_newest, restarts
from .crossings import LinkCount
from .durability import WAITING, Durability, cuts, durability, must_stay, promises, waiting_in
from .engine import Engine
from .facts import FACTS, Fact, Facts, Values, codes, divide, group, measures, merge, numbers_of, unified
from .health import AGAIN, OLDEST, most_delivered, oldest
from .hours import HOUR_S, complete, interval_s, summarize
from .input import NOT_PARQUET, Input, LogFile, SkippedFile, read_input
from .queues import OPEN_COUNTS, Balance, QueueName, balances, impossible, is_of, open_counts, overfull
from .queues import QUEUE as QUEUE_OF_BOOT
from .reduction import Boot as BootName
from .reduction import CheckedRange, Events, Ranges, of_journeys, reduce_rows, row_ranges, settle
from .reduction import crossings as crossings_of
from .selection import ALL, COLUMNS, Selection
from .traffic import END_TO_END, STAGE, quantiles, throughput
from .verdict import Imbalance, Verdict, imbalances, unrouted, verdict

OPEN = ("journeys", "messages", "arrivals", "crossings")  # facts with a row for each message
OF_FILES: dict[str, Fact] = {**hours.SUMMARY, **{name: fact for name, fact in FACTS.items() if name != "traffic"}}
OF_TIMELINE = ("moments", "waits", "handled")  # which are read when its steps are known
HISTOGRAMS, RECEIPTS = ("latencies", "ages"), ("receipts",)
OF_OTHERS = (*HISTOGRAMS, *RECEIPTS)  # facts that the end of a message in one slice adds to another one
IN_SLICES = {name: fact for name, fact in OF_FILES.items() if name not in (*OF_TIMELINE, *OF_OTHERS)}
NONE = {name: FACTS[name].schema.empty_table() for name in OF_OTHERS}
WORST = Fact(FACTS["attempts"].keys, {**FACTS["attempts"].measures, **measures("sum", "others")})
SUMMARY: dict[str, Fact] = {
    **{name: fact for name, fact in IN_SLICES.items() if name not in (*OPEN, "series", "minutes", "seconds")},
    "attempts": WORST,
    "open": OPEN_COUNTS,
    "waiting": WAITING,
    "oldest": OLDEST,
    "again": AGAIN,
}
EMPTY: Facts = {name: fact.schema.empty_table() for name, fact in SUMMARY.items()}
KEYS = 10_000  # routing keys of an exchange in a slice that have counts of their own
REPEATED = 10_000  # messages of a slice that came back more than once, and are listed
LISTED = 1_000  # messages of a slice that are listed
ROWS_AT_ONCE = 1 << 18  # of a file
TASK_BYTES = 16 << 20  # of files that are reduced in one task, whose facts it holds
NOT_REDUCED = ("message_id", "headers")  # columns


@dataclass(frozen=True)
class Ledger:
    """The results of the check of a log.

    place       the folder with the stored facts of hours, and of what is open in each slice
    stored      the paths in it of the slices of all hours
    slices      the numbers of the slices
    facts       the merged facts of all slices, as SUMMARY
    throughput, latency, end_to_end  rows of these reports
    snapshots   the merged facts of `snapshots`
    lags        histograms of the lags of links
    lost        messages of queues that may have lost some at a restart (`lost_messages`)
    """

    folder: SelectedFolder
    input: Input
    place: Folder
    stored: list[str]
    slices: Sequence[int]
    facts: Facts
    throughput: list[Values]
    latency: list[Values]
    end_to_end: list[Values]
    snapshots: Facts
    boots: list[Boot]
    balances: list[Balance]
    durability: list[Durability]
    links: list[LinkCount]
    lags: pa.Table
    imbalances: list[Imbalance]
    verdict: Verdict
    lost: list[Values]


class Reduced(NamedTuple):
    """The facts of files, and the paths of those that could not be read."""

    facts: Facts
    unreadable: list[str]


class Stored(NamedTuple):
    """A slice of an hour, stored: its number and checksum, and the files of the hour that could not be read."""

    hour: str
    number: int
    crc: int
    unreadable: list[str]


class Slices(NamedTuple):
    """The slices of all hours: their number in each hour, and that of the log, a multiple of all others."""

    place: Folder
    of_hours: dict[str, int]
    whole: int

    def load(self, number: int, names: Collection[str]) -> list[Facts]:
        """Return some facts of a slice of the log, by hour."""
        return [facts for hour in self.of_hours for facts in self._load(hour, number, names)]

    def load_all(self, number: int, names: Collection[str]) -> list[Facts]:
        """Return also those that the end of open messages adds to the slice."""
        paths = [part_path(each) for each in range(self.whole)]
        return [*self.load(number, names), *(load_apart(self.place, path, names, number) for path in paths)]

    def _load(self, hour: str, number: int, names: Collection[str]) -> list[Facts]:
        count = self.of_hours[hour]
        here = number % count
        found = [store.load(self.place, store.slice_path(hour, here), names)]
        if set(names) & set(OF_OTHERS):
            paths = [store.slice_path(hour, each) for each in range(count)]
            found += [load_apart(self.place, path, names, here) for path in paths]
        return [divide(facts, self.whole)[number] if count < self.whole else facts for facts in found]


class Part(NamedTuple):
    """A slice of the log: its summary, rows of the report `throughput`, and messages that were routed wrongly."""

    summary: Facts
    throughput: list[Values]
    unrouted: list[dict[str, Any]]


def make_ledger(
    engine: Engine, folder: Folder, place: Folder, selection: Selection = ALL, known: Known | None = None
) -> Ledger:
    """Reduce the files of a folder, or a selection of them, and check them. Raises OSError.

    Facts are stored below `place`, and those of an earlier run over the same files are used. `known` replaces what the
    input says of boots.
    """
    files = read_input(engine, folder, selection.has_file, store.verified(place))
    log = SelectedFolder(folder, selection)
    of_snapshots = snapshots_of(engine, log, files)
    ranges = checked_ranges(of_snapshots["closings"], files.of(schema.EVENTS))
    slices = store_hours(engine, log, place, files, ranges)
    closings = of_snapshots["closings"].to_pylist()
    beginnings = beginnings_of(closings)
    numbers, cut = range(slices.whole), cuts(closings, beginnings)
    place.remove(PARTS)
    parts = list(engine.map(partial(meet, slices, ranges, cut), numbers))
    facts = merge([EMPTY, *(part.summary for part in parts)], SUMMARY)
    list(engine.map(partial(store_ages, slices), numbers))
    times = list(engine.map(partial(times_of, slices), numbers))
    known = known or known_of(files, selection)
    boots = boots_of(facts["rows"], of_snapshots["closings"], known)
    rows = edge_rows(engine, log, files, boots)
    of_queues = balances(facts["balances"], facts["open"], boots, rows)
    kept = durability(facts["waiting"], restarts(boots), rows, cut, facts["kinds"], beginnings)
    found_wrong = engine.map(partial(impossible_of, place, ranges, *overfull(of_queues)), numbers)
    wrong = sorted((row for rows in found_wrong for row in rows), key=lambda row: (row["node"], str(row)))
    of_links, lags, lost = check_links(engine, place, numbers, boots)
    odd = [row for part in parts for row in part.unrouted]
    found = imbalances(
        boots, gaps(facts["rows"], boots), of_queues, [wrong], kept, lost, odd, files, not selection.queues
    )
    reasons = [*missing_newest(boots, known), *hours_without_snapshots(boots, of_snapshots["closings"])]
    if selection.is_whole:
        reasons += crossings.unknown_ends(of_links, facts["kinds"])
        reasons += crossings.hidden_losses(of_links, facts["kinds"])
    judged = verdict(boots, found, [*reasons, *files.reasons()])
    stored = [store.slice_path(hour, number) for hour, count in slices.of_hours.items() for number in range(count)]
    rates = [row for part in parts for row in part.throughput]
    of_stages, of_paths = ([row for rows in of_kind for row in rows] for of_kind in zip(*times, strict=True))
    lossy = {(each.node, each.boot_id, each.vhost, each.queue) for each in kept if each.at_risk}
    gone = lost_messages(engine, place, numbers, lossy)
    results = (of_snapshots, boots, of_queues, kept, of_links, lags, found, judged, gone)
    return Ledger(log, files, place, stored, numbers, facts, rates, of_stages, of_paths, *results)


class SelectedFolder(NamedTuple):
    """A folder of which only some rows are asked for."""

    folder: Folder
    selection: Selection


def known_of(files: Input, selection: Selection) -> Known:
    """Return what the input says of boots, as far as it holds for a part."""
    since, until = (micros(at) if at is not None else None for at in (selection.since, selection.until))
    finished = {} if selection.of_time else files.manifests.boots  # files reach beyond the time
    listed_us = files.listed_us if until is None else min(files.listed_us, until)
    wanted = {} if selection.of_time else files.manifests.newest
    newest = {name: end for name, end in wanted.items() if not selection.nodes or name[0] in selection.nodes}
    return Known(files.lost_records(), files.file_ages_s(), finished, newest, listed_us, since)


def skip(files: Input, paths: Iterable[str]) -> None:
    """Note that files could not be read."""
    unreadable = set(paths)
    skipped = [SkippedFile(file.path, NOT_PARQUET, file.bytes) for file in files.files if file.path in unreadable]
    files.skipped += skipped
    files.files = [file for file in files.files if file.path not in unreadable]


# Snapshots


def snapshots_of(engine: Engine, folder: SelectedFolder, files: Input) -> Facts:
    """Reduce the snapshots of queues."""
    none = Reduced(snapshots.reduce_snapshots(empty_rows(schema.QUEUE_STATS)), [])
    merge_all = partial(merge_reduced, snapshots.FACTS)
    found = engine.reduce(partial(reduce_snapshots, folder), files.of(schema.QUEUE_STATS), merge_all, value_of)
    facts, unreadable = merge_all([none, *found])
    skip(files, unreadable)
    return facts


def reduce_snapshots(folder: SelectedFolder, file: LogFile) -> Iterator[tuple[int, Reduced]]:
    """Yield the facts of a file, all with one key."""
    found = reduce_file(folder, file, snapshots.reduce_snapshots)
    if found is None:
        yield 0, Reduced({}, [file.path])
    for facts in found or ():
        yield 0, Reduced(facts, [])


def value_of(keyed: tuple[int, Reduced]) -> Reduced:
    return keyed[1]


def merge_reduced(facts: Mapping[str, Fact], parts: list[Reduced]) -> Reduced:
    return Reduced(merge([part.facts for part in parts], facts), [path for part in parts for path in part.unreadable])


def read_rows(folder: SelectedFolder, file: LogFile, columns: list[str] | None = None) -> pa.Table | None:
    """Return the rows of a file, or None if it cannot be read. A selection needs more columns than its caller."""
    if columns is not None and not folder.selection.is_whole:
        columns = list(dict.fromkeys([*columns, *COLUMNS]))
    try:
        with folder.folder.open(file.path) as opened:
            rows = pq.ParquetFile(opened).read(columns, use_threads=False)
            rows.validate(full=True)
    except Vanished:
        raise
    except (pa.ArrowException, OSError):
        return None
    return folder.selection.rows(file.table, rows)


Reduce = Callable[[pa.Table], Facts]  # reduces rows of a file


def reduce_file(folder: SelectedFolder, file: LogFile, reduce: Reduce) -> list[Facts] | None:
    """Reduce a file, ROWS_AT_ONCE rows at a time. Returns None if it cannot be read, or has values that none has.

    Snapshots of selected queues are only known to be complete if they are read at once.
    """
    at_once = ROWS_AT_ONCE if file.table == schema.EVENTS or not folder.selection.of_names else file.records
    try:
        with folder.folder.open(file.path) as opened:
            parquet = pq.ParquetFile(opened)
            columns = [name for name in parquet.schema_arrow.names if name not in NOT_REDUCED]
            batches = parquet.iter_batches(max(at_once, 1), columns=columns, use_threads=False)
            return [reduce(folder.selection.rows(file.table, sound(batch))) for batch in batches]
    except Vanished:
        raise
    except BAD_ROWS:
        return None


def sound(batch: pa.RecordBatch) -> pa.Table:
    """Return rows as a table. Raises ArrowInvalid for text that is not UTF-8, as damaged files have."""
    batch.validate(full=True)
    return pa.Table.from_batches([batch])


BAD_ROWS = (ArithmeticError, LookupError, OSError, TypeError, ValueError, pa.ArrowException)
"""The errors of files that cannot be read, and of functions of rows for values that no export writes."""


def empty_rows(table: str) -> pa.Table:
    types = {column.name: ARROW[column.type] for column in schema.TABLES[table]}
    return pa.schema(types.items()).empty_table()


def checked_ranges(closings: pa.Table, files: Iterable[LogFile]) -> dict[BootName, CheckedRange]:
    """Return the range of each boot that snapshots enclose, from the first row of its files on.

    A boot without two snapshots is checked whole.
    """
    first_rows: dict[str, int] = {}
    for file in files:
        if file.first_row is not None:
            key = schema.boot_key(file.path)
            first_rows[key] = min(first_rows.get(key, file.first_row), file.first_row)
    rows: dict[BootName, list[int]] = {}
    for row in closings.to_pylist():
        if row["queue_rows"] == row["queues"]:
            rows.setdefault((row["node"], row["boot_id"]), []).append(row["row"])
    ranges = {}
    for name, numbers in rows.items():
        key = schema.boot_key(schema.file_name(*name, 0))
        first = 0 if min(numbers) == 0 else first_rows.get(key, 0)
        ranges[name] = CheckedRange(min((number for number in numbers if number >= first), default=0), max(numbers))
    return ranges


def edge_rows(engine: Engine, folder: SelectedFolder, files: Input, boots: Iterable[Boot]) -> list[dict[str, Any]]:
    """Return the rows of queues in the first and in the last snapshot of each boot."""
    wanted = set()
    for boot in boots:
        if boot.from_snapshot is not None and boot.to_snapshot is not None:
            wanted |= {(*boot.name, boot.from_snapshot), (*boot.name, boot.to_snapshot)}
    found = engine.map(partial(rows_of_snapshots, folder, wanted), files.of(schema.QUEUE_STATS))
    return [row for rows in found for row in rows]


def rows_of_snapshots(folder: SelectedFolder, wanted: set[tuple[str, str, int]], file: LogFile) -> list[dict[str, Any]]:
    names = read_rows(folder, file, ["node", "boot_id", "snapshot", "ts_us", "vhost", "queue", "queues"])
    if names is not None and not snapshots.rows_of(names, wanted).num_rows:
        return []
    rows = read_rows(folder, file) if names is not None else None
    if rows is None:  # it could be read before
        raise Vanished(file.path)
    found = snapshots.rows_of(rows, wanted).to_pylist()
    return [{column.name: row.get(column.name) for column in schema.QUEUE_STATS_COLUMNS} for row in found]


# Events

PARTS = "parts"  # the folder of what is open in each slice of the log


def store_hours(engine: Engine, folder: SelectedFolder, place: Folder, files: Input, ranges: Ranges) -> Slices:
    """Store the facts of all hours and days that are not stored yet."""
    sums = store.sums_of(engine, folder.folder, files)
    hours = store.grouped(files.of(schema.EVENTS))
    wanted = {hour: store.record_of(of_hour, sums, ranges) for hour, of_hour in hours.items()}
    known = store.kept(engine, place, wanted)
    changed = {hour: of_hour for hour, of_hour in hours.items() if hour not in known}
    items = sources(engine, place, changed, sums, ranges)
    for hour in changed:
        store.forget(place, hour)
    keys = [(hour, number) for hour in changed for number in range(wanted[hour].slices)]
    places = {key: place for place, key in enumerate(keys)}
    interval = interval_s(hours_between(files.of(schema.EVENTS)))
    function = partial(reduce_events, folder, place, ranges, interval, places)
    finish = partial(store_slice, place, ranges, keys)
    tasks = sum(item.file.bytes for item in items if item.file is not None) // TASK_BYTES
    written = engine.reduce(function, items, partial(merge_reduced, OF_FILES), finish, len(keys), tasks)
    unreadable = {path for slice_ in written for path in slice_.unreadable}
    skip(files, unreadable)
    unsure = {store.hour_of(entry.path) for entry in files.changed}  # their checksums are not those of the manifest
    for hour, of_hour in changed.items():
        if not any(file.path in unreadable or store.hour_of(file.path) in unsure for file in of_hour):
            stored = {f"{each.number:02}.parquet": each.crc for each in written if each.hour == hour}
            store.write_record(place, hour, wanted[hour], stored)
    store.retain(place, wanted)
    whole = store.slices_of(files.of(schema.EVENTS))
    counts = {hour: record.slices for hour, record in wanted.items()}
    return Slices(place, counts, max([whole, *counts.values()]))


def hours_between(files: Iterable[LogFile]) -> int:
    """Return the number of hours from the first file to the last one."""
    times = {store.time_of(file.path) for file in files}
    return int((max(times) - min(times)).total_seconds() // HOUR_S) if times else 0


class Source(NamedTuple):
    """A file of an hour, or a slice of facts that are stored for an hour of a day."""

    hour: str
    file: LogFile | None = None
    stored: str | None = None


def sources(
    engine: Engine, place: Folder, changed: Mapping[str, list[LogFile]], sums: Mapping[str, str], ranges: Ranges
) -> list[Source]:
    """Return what must be reduced or merged for some hours and days."""
    parts = {part: files for of_hour in changed.values() for part, files in store.by_hour(of_hour).items()}
    wanted = {part: store.record_of(files, sums, ranges) for part, files in parts.items() if part not in changed}
    known = store.kept(engine, place, wanted)
    found = []
    for hour, files in changed.items():
        found += [Source(hour, file) for file in files if store.hour_of(file.path) not in known]
        for part in sorted({store.hour_of(file.path) for file in files} & known):
            found += [Source(hour, stored=store.slice_path(part, number)) for number in range(wanted[part].slices)]
    return found


def reduce_events(
    folder: SelectedFolder,
    place: Folder,
    ranges: Ranges,
    interval: int,
    places: Mapping[tuple[str, int], int],
    source: Source,
) -> Iterator[tuple[int, Reduced]]:
    """Yield the facts of a file, or of a stored slice, in slices of their hour, by the number of the slice."""
    found = facts_of_source(folder, place, ranges, interval, source)
    count = sum(hour == source.hour for hour, _ in places)
    if found is None and source.file is not None:
        yield places[source.hour, 0], Reduced({}, [source.file.path])
    if found:
        whole = merge(found, OF_FILES) if len(found) > 1 else found[0]
        for number, part in enumerate(divide(whole, count)):
            yield places[source.hour, number], Reduced(part, [])


def facts_of_source(
    folder: SelectedFolder, place: Folder, ranges: Ranges, interval: int, source: Source
) -> list[Facts] | None:
    """Return the facts of parts of a file, or of a stored slice, or None if the file cannot be read."""
    if source.file is None:
        stored = store.load(place, source.stored or "")
        late = [{name.partition("@")[0]: rows} for name, rows in stored.items() if "@" in name]
        return [{name: rows for name, rows in stored.items() if "@" not in name}, *late]

    def reduce(rows: pa.Table) -> Facts:
        facts = reduce_selected(folder.selection, rows, ranges)
        return facts | summarize(facts.pop("traffic"), interval)

    return reduce_file(folder, source.file, reduce)


def reduce_selected(selection: Selection, rows: pa.Table, ranges: Ranges) -> Facts:
    """Return the facts of the selected events; the ranges of rows are those of all."""
    if not selection.of_names:
        return reduce_rows(rows, ranges)
    facts = reduce_rows(selection.events(rows), ranges)
    return facts | {"rows": row_ranges(Events(rows)), "crossings": crossings_of(Events(selection.crossings(rows)))}


def store_slice(place: Folder, ranges: Ranges, keys: list[tuple[str, int]], keyed: tuple[int, Reduced]) -> Stored:
    """Store a slice of an hour."""
    number, reduced = keyed
    hour, part = keys[number]
    path = store.slice_path(hour, part)
    settled, late = settle_apart(reduced.facts, ranges, sum(each == hour for each, _ in keys))
    store.save(place, path, complete(settled) | {name: reduced.facts[name] for name in OF_OTHERS} | late)
    return Stored(hour, part, place.crc(path), reduced.unreadable)


def settle_apart(facts: Facts, ranges: Ranges, count: int) -> tuple[Facts, Facts]:
    """Settle the facts of a slice. Returns them, and what ended messages add to each of `count` slices."""
    settled = settle(facts | NONE, ranges)
    return settled, apart({name: settled[name] for name in OF_OTHERS}, count)


def apart(facts: Facts, count: int) -> Facts:
    """Divide facts, with the number of the slice in the name of each."""
    slices = enumerate(divide(facts, count))
    return {f"{name}@{number}": rows for number, part in slices for name, rows in part.items() if rows.num_rows}


def load_apart(place: Folder, path: str, names: Collection[str], number: int) -> Facts:
    """Return what a stored slice adds to the one with this number."""
    found = store.load(place, path, [f"{name}@{number}" for name in names])
    return {name.partition("@")[0]: rows for name, rows in found.items()}


def meet(slices: Slices, ranges: Ranges, cut: Mapping[BootName, int], number: int) -> Part:
    """Merge a slice of all hours, store what is open in it, and return its summary."""
    settled = settle(merge(slices.load(number, IN_SLICES), IN_SLICES) | NONE, ranges)
    journeys, messages = settled["journeys"], settled["messages"]
    settled |= of_journeys(settled, journeys)
    late = apart({name: settled[name] for name in OF_OTHERS}, slices.whole)
    promised = promises(journeys, messages)
    kept = pa.array(must_stay(journeys, promised))
    open_facts = {"journeys": journeys.append_column("kept", kept), "crossings": settled["crossings"]}
    store.save(slices.place, part_path(number), open_facts | late)
    summary = {name: settled[name] for name in SUMMARY if name in settled}
    summary |= {
        "attempts": worst(settled["attempts"], REPEATED),
        "routes": busiest(settled["routes"], KEYS),
        "open": open_counts(journeys, ranges),
        "waiting": waiting_in(journeys, promised, cut),
        "oldest": oldest(journeys),
        "again": most_delivered(journeys),
    }
    return Part(summary, throughput(settled["series"]), unrouted(messages, LISTED))


def worst(attempts: pa.Table, limit: int) -> pa.Table:
    """Return the messages that came back more than once, those that did so most often, as WORST.

    The others of a queue are one row without a message.
    """
    rows = attempts.filter(pc.greater(pc.max_element_wise(attempts["redelivered"], attempts["requeued"]), 1))
    order = np.lexsort(
        [numbers_of(rows["msg_seq"]), *(-numbers_of(rows[name]) for name in ("requeued", "redelivered"))]
    )
    listed = np.zeros(rows.num_rows, bool)
    listed[order[:limit]] = True
    for name in ("msg_seq", "boot_id", "redelivered", "requeued"):
        rows = rows.set_column(rows.column_names.index(name), name, pc.if_else(pa.array(listed), rows[name], None))
    return group(WORST, rows.append_column("others", pa.array((~listed).astype("i8"))))


def busiest(routes: pa.Table, limit: int) -> pa.Table:
    """Return the keys of each exchange with most messages, and as many with most unroutable ones, and all others.

    The others of an exchange are one row, whose key is null.
    """
    if routes.num_rows <= limit:
        return routes
    kept = np.zeros(routes.num_rows, bool)
    exchange = [codes(unified(routes)[name]) for name in ("node", "vhost", "exchange")]
    for count in ("published", "unroutable"):
        order = np.lexsort([-numbers_of(routes[count]), *exchange])
        begins = np.r_[True, np.logical_or.reduce([np.diff(each[order]) != 0 for each in exchange])]
        starts = np.flatnonzero(begins)
        rank = np.arange(len(order)) - starts[np.cumsum(begins) - 1]
        kept[order[rank < limit]] = True
    keys = pc.if_else(pa.array(kept), routes["routing_key"], None)
    return group(FACTS["routes"], routes.set_column(3, "routing_key", keys))


def part_path(number: int, kind: str = "open") -> str:
    """Return the path of what is open in a slice of the log, or of the ages of the messages of links in it."""
    return f"{PARTS}/{kind}-{number}.parquet"


def store_ages(slices: Slices, number: int) -> None:
    """Store the ages of the messages of links in a slice when consumers received them."""
    crossed = crossings_in(slices.place, number)
    found = dict(NONE)
    if crossed.num_rows:
        receipts = merge(slices.load_all(number, RECEIPTS), {"receipts": FACTS["receipts"]})["receipts"]
        found["ages"] = crossings.ages(crossed, receipts)
    store.save(slices.place, part_path(number, "ages"), apart(found, slices.whole))


def times_of(slices: Slices, number: int) -> tuple[list[Values], list[Values]]:
    """Return the rows of the reports `latency` and `end_to_end` of a slice."""
    found = slices.load_all(number, HISTOGRAMS)
    paths = [part_path(each, "ages") for each in range(slices.whole)]
    found += [load_apart(slices.place, path, HISTOGRAMS, number) for path in paths]
    merged = merge(found, {name: FACTS[name] for name in HISTOGRAMS})
    return quantiles(merged["latencies"], STAGE), quantiles(merged["ages"], END_TO_END)


def impossible_of(
    place: Folder, ranges: Ranges, orphaned: set[QueueName], remaining: set[QueueName], number: int
) -> list[dict[str, Any]]:
    """Return messages of a slice whose journey is impossible, LISTED at most, and the numbers of the others."""
    journeys = store.load(place, part_path(number), ("journeys",))["journeys"]
    found = impossible(journeys, ranges, orphaned, remaining)
    rows: list[dict[str, Any]] = found.slice(0, LISTED).to_pylist()
    keys = [*QUEUE_OF_BOOT, "problem"]
    groups = unified(found.slice(LISTED)).group_by(keys, use_threads=False)
    rest = groups.aggregate([([], "count_all"), ("last", "max")]).rename_columns([*keys, "records", "last"])
    return [*rows, *({"msg_seq": None} | row for row in rest.to_pylist())]


def lost_messages(engine: Engine, place: Folder, numbers: Sequence[int], queues: set[QueueName]) -> list[Values]:
    """Return the confirmed persistent messages of queues that may have lost some of them, the oldest LISTED ones."""
    found = engine.map(partial(kept_in, place, queues), numbers) if queues else []
    return sorted((row for rows in found for row in rows), key=lambda row: (row["msg_seq"], str(row)))[:LISTED]


def kept_in(place: Folder, queues: set[QueueName], number: int) -> list[Values]:
    """Return those of a slice."""
    journeys = store.load(place, part_path(number), ("journeys",))["journeys"]
    journeys = journeys.filter(journeys["kept"])
    rows = journeys.filter(pa.array(is_of(journeys, queues))).select([*FACTS["journeys"].keys, "last"])
    oldest_rows: list[Values] = rows.sort_by("msg_seq").slice(0, LISTED).to_pylist()
    return oldest_rows


# Links


def check_links(
    engine: Engine, place: Folder, numbers: Sequence[int], boots: list[Boot]
) -> tuple[list[LinkCount], pa.Table, list[dict[str, Any]]]:
    """Return the counts of all links, histograms of their lags, and the messages that did not arrive."""
    known = crossings.merge_ends(engine.map(partial(ends_of_links, place), numbers))
    found = list(engine.map(partial(count_links, place, known, crossings.logs_of(boots)), numbers))
    counts = crossings.merge_counts(each for counts, _, _ in found for each in counts)
    lags = group(
        crossings.LAGS, pa.concat_tables([crossings.LAGS.schema.empty_table(), *(lags for _, lags, _ in found)])
    )
    return counts, lags, [row for _, _, lost in found for row in lost]


def crossings_in(place: Folder, number: int) -> pa.Table:
    return store.load(place, part_path(number), ("crossings",))["crossings"]


def ends_of_links(place: Folder, number: int) -> crossings.Ends:
    return crossings.ends(crossings_in(place, number))


def count_links(
    place: Folder, known: crossings.Ends, logs: dict[str, crossings.DownstreamLog], number: int
) -> tuple[list[LinkCount], pa.Table, list[dict[str, Any]]]:
    return crossings.links(crossings_in(place, number), known, logs)
