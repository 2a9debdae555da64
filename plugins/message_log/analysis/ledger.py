"""The ledger of a log: its files reduced to facts, and the check that every message is accounted for.

    snapshots  each file of `queue_stats` is reduced; the closing rows say which rows of each boot can be checked
    hours      each file of events is reduced, and the facts of its hour are stored, unless they are already (`store`)
    parts      open journeys, messages and crossings of all hours meet by the number or identity of the message
    check      the sums of all hours and parts are compared with the snapshots

What reaches this process is bounded by the numbers of queues, users, hours, keys and faults, not by that of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..file_format import schema
from ..file_format.arrow_schema import ARROW
from . import crossings, hours, snapshots, store
from .boots import Boot, Known, boots_of, gaps, hours_without_snapshots, micros, missing_newest, restarts
from .crossings import LinkCount
from .durability import WAITING, Durability, cuts, durability, waiting_in
from .engine import Engine
from .facts import FACTS, Fact, Facts, Numbers, empty, group, merge, numbers_of
from .folder import Folder, Vanished
from .health import AGAIN, OLDEST, most_delivered, oldest
from .input import NOT_PARQUET, Input, LogFile, SkippedFile, read_input
from .queues import OPEN_COUNTS, Balance, QueueName, balances, impossible, open_counts, overfull
from .reduction import Boot as BootName
from .reduction import CheckedRange, Events, Ranges, of_journeys, reduce_rows, row_ranges, settle
from .reduction import crossings as crossings_of
from .selection import ALL, Selection
from .verdict import Imbalance, Verdict, imbalances, unrouted, verdict

OPEN = ("journeys", "messages", "arrivals", "crossings", "receipts")  # facts with a row for each message
OF_HOURS: dict[str, Fact] = {
    **hours.SUMMARY,
    **{name: fact for name, fact in FACTS.items() if name not in (*OPEN, "traffic")},
}
SUMMARY: dict[str, Fact] = {**OF_HOURS, "open": OPEN_COUNTS, "waiting": WAITING, "oldest": OLDEST, "again": AGAIN}
EMPTY: Facts = {name: fact.schema.empty_table() for name, fact in SUMMARY.items()}
PART_BYTES = 256 << 20  # of files of events, for which there is a part
UNROUTED = 10_000  # messages of a part that are listed


@dataclass(frozen=True)
class Ledger:
    """The results of the check of a log.

    place      the folder with the seconds of each hour, `hours`, and the open facts of all, `parts`, by path
    facts      the merged facts of all hours and parts, as SUMMARY
    snapshots  the merged facts of `snapshots`
    lags       histograms of the lags of links
    """

    folder: SelectedFolder
    input: Input
    place: Folder
    hours: list[str]
    parts: list[str]
    facts: Facts
    snapshots: Facts
    boots: list[Boot]
    balances: list[Balance]
    durability: list[Durability]
    links: list[LinkCount]
    lags: pa.Table
    imbalances: list[Imbalance]
    verdict: Verdict


class Reduced(NamedTuple):
    """The facts of files, and the paths of those that could not be read."""

    facts: Facts
    unreadable: list[str]


class Part(NamedTuple):
    """A part: the folder of its stored facts, its summary, and the first messages that were routed wrongly."""

    path: str
    summary: Facts
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
    stored, count = store_hours(engine, log, place, files, ranges)
    hourly = engine.reduce(partial(facts_of_hour, place), stored, merge_hours, facts_of)
    cut = cuts(of_snapshots["closings"])
    parts = list(engine.map(partial(meet, place, ranges, cut, stored), [f"{part:04}" for part in range(count)]))
    paths = [part.path for part in parts]
    links = [{"ages": table} for table in engine.map(partial(ages_of_links, place, paths), paths)]
    summaries = [*hourly, *(part.summary for part in parts), *links]
    facts = merge([EMPTY, *(EMPTY | each for each in summaries)], SUMMARY)
    known = known or known_of(files, selection)
    boots = boots_of(facts["rows"], of_snapshots["closings"], known)
    rows = edge_rows(engine, log, files, boots)
    of_queues = balances(facts["balances"], facts["open"], boots, rows)
    kept = durability(facts["waiting"], restarts(boots), rows, cut, facts["kinds"])
    wrong = list(engine.map(partial(impossible_of, place, ranges, *overfull(of_queues)), paths))
    of_links, lags, lost = check_links(engine, place, paths, boots)
    odd = [row for part in parts for row in part.unrouted]
    found = imbalances(
        boots, gaps(facts["rows"], boots), of_queues, wrong, kept, lost, odd, files, not selection.queues
    )
    reasons = [*missing_newest(boots, known), *hours_without_snapshots(boots, of_snapshots["closings"])]
    if selection.is_whole:
        reasons += [*crossings.unknown_ends(of_links), *crossings.hidden_losses(of_links, facts["kinds"])]
    judged = verdict(boots, found, [*reasons, *files.reasons()])
    results = (facts, of_snapshots, boots, of_queues, kept, of_links, lags, found, judged)
    return Ledger(log, files, place, stored, paths, *results)


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
    found = list(engine.map(partial(reduce_snapshots, folder), files.of(schema.QUEUE_STATS)))
    skip(files, [path for path, facts in found if facts is None])
    none = snapshots.reduce_snapshots(empty_rows(schema.QUEUE_STATS))
    return merge([none, *(facts for _, facts in found if facts is not None)], snapshots.FACTS)


def reduce_snapshots(folder: SelectedFolder, file: LogFile) -> tuple[str, Facts | None]:
    """Return the path of a file and its facts, or None if it cannot be read."""
    rows = read_rows(folder, file)
    try:
        return file.path, snapshots.reduce_snapshots(rows) if rows is not None else None
    except BAD_ROWS:
        return file.path, None


def read_rows(folder: SelectedFolder, file: LogFile, columns: list[str] | None = None) -> pa.Table | None:
    """Return the rows of a file, or None if it cannot be read."""
    try:
        with folder.folder.open(file.path) as opened:
            rows = pq.ParquetFile(opened).read(columns)
    except Vanished:
        raise
    except (pa.ArrowException, OSError):
        return None
    return folder.selection.rows(file.table, rows)


BAD_ROWS = (ArithmeticError, LookupError, TypeError, ValueError, pa.ArrowException)
"""The errors of functions of rows for values that no export writes."""


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
    rows = read_rows(folder, file)
    if rows is None:  # it could be read before
        raise Vanished(file.path)
    found = snapshots.rows_of(rows, wanted).to_pylist()
    return [{column.name: row.get(column.name) for column in schema.QUEUE_STATS_COLUMNS} for row in found]


# Events


def store_hours(
    engine: Engine, folder: SelectedFolder, place: Folder, files: Input, ranges: Ranges
) -> tuple[list[str], int]:
    """Store the facts of all hours that are not stored yet. Returns the hours, and the number of parts."""
    events = files.of(schema.EVENTS)
    count = sum(file.bytes for file in events) // PART_BYTES + 1
    records = store.records(folder.folder, files, ranges, count)
    known = store.kept(place, records)
    changed = [file for file in events if store.hour_of(file.path) not in known]
    unsure = {store.hour_of(entry.path) for entry in files.changed}  # their checksums are not those of the manifest
    finish = partial(store_hour, place, ranges, records, unsure)
    unreadable = engine.reduce(partial(reduce_events, folder, ranges), changed, merge_reduced, finish)
    skip(files, [path for paths in unreadable for path in paths])
    return sorted(records), count


def reduce_events(folder: SelectedFolder, ranges: Ranges, file: LogFile) -> Iterator[tuple[str, Reduced]]:
    """Yield the hour of a file and its facts."""
    rows = read_rows(folder, file)
    try:
        found = Reduced(reduce_selected(folder.selection, rows, ranges), []) if rows is not None else None
    except BAD_ROWS:
        found = None
    yield store.hour_of(file.path), found or Reduced(empty(), [file.path])


def reduce_selected(selection: Selection, rows: pa.Table, ranges: Ranges) -> Facts:
    """Return the facts of the selected events; the ranges of rows are those of all."""
    if not selection.of_names:
        return reduce_rows(rows, ranges)
    facts = reduce_rows(selection.events(rows), ranges)
    return facts | {"rows": row_ranges(Events(rows)), "crossings": crossings_of(Events(selection.crossings(rows)))}


def merge_reduced(parts: list[Reduced]) -> Reduced:
    return Reduced(merge([part.facts for part in parts]), [path for part in parts for path in part.unreadable])


def store_hour(
    place: Folder,
    ranges: Ranges,
    records: Mapping[str, store.Record],
    unsure: set[str],
    keyed: tuple[str, Reduced],
) -> list[str]:
    """Store the facts of an hour. Returns the files that could not be read.

    The hour gets no record if there are any, or if it is among those that are `unsure`: it is reduced again by the next
    run.
    """
    hour, reduced = keyed
    facts = settle(reduced.facts, ranges)
    path, count = f"hours/{hour}", records[hour].parts
    place.remove(f"{path}/{store.RECORD}")
    place.write(f"{path}/{store.TRAFFIC}", facts["traffic"])
    of_message = {name: numbers_of(facts[name]["msg_seq"]) % count for name in ("journeys", "messages", "arrivals")}
    of_message |= {name: hashes(facts[name]["identity"]) % count for name in ("crossings", "receipts")}
    for part in range(count):
        still_open = {name: facts[name].filter(pa.array(of_message[name] == part)) for name in OPEN}
        store.save(place, f"{path}/{part:04}.parquet", still_open)
    summary = hours.summarize(facts["traffic"]) | {name: facts[name] for name in OF_HOURS if name in facts}
    store.save(place, f"{path}/{store.FACTS}", summary)
    if not reduced.unreadable and hour not in unsure:
        parts = [f"{part:04}.parquet" for part in range(count)]
        store.write_record(place, path, records[hour], [store.TRAFFIC, store.FACTS, *parts])
    return reduced.unreadable


def facts_of_hour(place: Folder, hour: str) -> Iterator[tuple[str, Facts]]:
    """Yield the facts of an hour, all with one key."""
    yield "all", store.load(place, f"hours/{hour}/{store.FACTS}")


def facts_of(keyed: tuple[str, Facts]) -> Facts:
    return keyed[1]


def merge_hours(facts: list[Facts]) -> Facts:
    return merge(facts, OF_HOURS)


def hashes(texts: pa.ChunkedArray) -> Numbers:
    """Return a number for each text, the same in all processes."""
    return np.array([crc32((text or "").encode()) for text in texts.to_pylist()], "i8")


def meet(place: Folder, ranges: Ranges, cut: Mapping[BootName, int], stored: list[str], part: str) -> Part:
    """Merge what is open of all hours in a part, store it, and return its summary."""
    still_open = [store.load(place, f"hours/{hour}/{part}.parquet") for hour in stored]
    settled = settle(merge([empty(), *(empty() | each for each in still_open)]), ranges)
    path = f"parts/{part}"
    for name in ("journeys", "crossings", "receipts"):
        place.write(f"{path}/{name}.parquet", settled[name])
    journeys, messages = settled["journeys"], settled["messages"]
    summary = {
        "balances": settled["balances"],
        **of_journeys(settled, journeys),
        "open": open_counts(journeys, ranges),
        "waiting": waiting_in(journeys, messages, cut),
        "oldest": oldest(journeys),
        "again": most_delivered(journeys),
    }
    return Part(path, summary, unrouted(messages, UNROUTED))


def impossible_of(
    place: Folder, ranges: Ranges, orphaned: set[QueueName], remaining: set[QueueName], part: str
) -> list[dict[str, Any]]:
    """Return the messages of a part whose journey is impossible."""
    journeys = place.read(f"{part}/journeys.parquet", FACTS["journeys"].schema)
    rows: list[dict[str, Any]] = impossible(journeys, ranges, orphaned, remaining).to_pylist()
    return rows


# Links


def check_links(
    engine: Engine, place: Folder, parts: list[str], boots: list[Boot]
) -> tuple[list[LinkCount], pa.Table, list[dict[str, Any]]]:
    """Return the counts of all links, histograms of their lags, and the messages that did not arrive."""
    known = crossings.merge_ends(engine.map(partial(ends_of_links, place), parts))
    found = list(engine.map(partial(count_links, place, known, crossings.logs_of(boots)), parts))
    counts = crossings.merge_counts(each for counts, _, _ in found for each in counts)
    lags = group(
        crossings.LAGS, pa.concat_tables([crossings.LAGS.schema.empty_table(), *(lags for _, lags, _ in found)])
    )
    return counts, lags, [row for _, _, lost in found for row in lost]


def ends_of_links(place: Folder, part: str) -> crossings.Ends:
    return crossings.ends(place.read(f"{part}/crossings.parquet", FACTS["crossings"].schema))


def ages_of_links(place: Folder, paths: list[str], part: str) -> pa.Table:
    """Return the ages of the messages of links, given all parts: each has the receipts of messages of others."""
    crossed = place.read(f"{part}/crossings.parquet", FACTS["crossings"].schema)
    if not crossed.num_rows:
        return FACTS["ages"].schema.empty_table()
    tables = [place.read(f"{path}/receipts.parquet", FACTS["receipts"].schema) for path in paths]
    receipts = group(FACTS["receipts"], pa.concat_tables(tables))
    here = hashes(receipts["identity"]) % len(paths) == paths.index(part)
    return crossings.ages(crossed, receipts.filter(pa.array(here)))


def count_links(
    place: Folder, known: crossings.Ends, logs: dict[str, crossings.DownstreamLog], part: str
) -> tuple[list[LinkCount], pa.Table, list[dict[str, Any]]]:
    return crossings.links(place.read(f"{part}/crossings.parquet", FACTS["crossings"].schema), known, logs)
