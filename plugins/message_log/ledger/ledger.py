"""The ledger of a log: its files reduced to facts, and the check that every message is accounted for.

    snapshots  each file of `queue_stats` is reduced; the closing rows say which rows of each boot can be checked
    hours      each file of events is reduced; the facts of an hour meet, and its seconds are stored
    parts      open journeys, messages and crossings meet by the number or identity of the message, and are stored
    check      the sums of all hours and parts are compared with the snapshots

What reaches this process is bounded by the numbers of queues, users, hours, keys and faults, not by that of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..file_format import schema
from ..file_format.arrow_schema import ARROW
from . import crossings, hours, snapshots
from .boots import Boot, Known, boots_of, gaps, restarts
from .crossings import LinkCount
from .durability import WAITING, Durability, durability, waiting_in
from .engine import Engine
from .facts import FACTS, Fact, Facts, Numbers, empty, group, merge, numbers_of
from .input import NOT_PARQUET, Folder, Input, LogFile, SkippedFile, read_input
from .queues import OPEN_COUNTS, Balance, QueueName, balances, impossible, open_counts, overfull
from .reduction import Boot as BootName
from .reduction import CheckedRange, Ranges, reduce_rows, settle, stages
from .timeline import OLDEST, undelivered
from .verdict import Imbalance, Verdict, imbalances, unrouted, verdict

OPEN = ("journeys", "messages", "crossings")  # facts with a row for each message
OF_HOURS = {name: fact for name, fact in FACTS.items() if name not in OPEN}
SUMMARY: dict[str, Fact] = {
    **hours.SUMMARY,
    **{name: fact for name, fact in OF_HOURS.items() if name != "traffic"},
    "open": OPEN_COUNTS,
    "waiting": WAITING,
    "oldest": OLDEST,
}
PART_BYTES = 256 << 20  # of files of events, for which there is a part
UNROUTED = 10_000  # messages of a part that are listed
HOUR, PART, SKIPPED = "hour", "part", "skipped"
Key = tuple[str, str]
"""HOUR or PART and a name, or SKIPPED and the path of a file."""


@dataclass(frozen=True)
class Ledger:
    """What the check of a log found.

    place      the folder with the seconds of each hour, `hours`, by path
    facts      the merged facts of all hours and parts, as SUMMARY
    snapshots  the merged facts of `snapshots`
    lags       histograms of the lags of links
    """

    folder: Folder
    input: Input
    place: Folder
    hours: list[str]
    facts: Facts
    snapshots: Facts
    boots: list[Boot]
    balances: list[Balance]
    durability: list[Durability]
    links: list[LinkCount]
    lags: pa.Table
    imbalances: list[Imbalance]
    verdict: Verdict


class Merged(NamedTuple):
    """What remains of the facts of an hour or a part: their summary, and the path of what was stored.

    `unrouted` has the first messages that entered more or fewer queues than they were routed to. Of a file that could
    not be read, there is only its path.
    """

    key: Key
    path: str
    summary: Facts
    unrouted: list[dict[str, Any]]


def make_ledger(
    engine: Engine, folder: Folder, place: Folder, wanted: Callable[[str], bool] = bool, known: Known | None = None
) -> Ledger:
    """Reduce the wanted files of a folder, by path, and check them. Raises OSError.

    What is stored meanwhile is below `place`. `known` replaces what the input says of boots.
    """
    files = read_input(folder, wanted)
    of_snapshots = snapshots_of(engine, folder, files)
    ranges = checked_ranges(of_snapshots["closings"], files.of(schema.EVENTS))
    events = files.of(schema.EVENTS)
    count = sum(file.bytes for file in events) // PART_BYTES + 1
    reduce = partial(reduce_events, folder, ranges, count)
    merged = engine.reduce(reduce, events, merge_pair, partial(finish, place, ranges))
    skip(files, [each.path for each in merged if each.key[0] == SKIPPED])
    facts = merge([EMPTY, *(EMPTY | each.summary for each in merged)], SUMMARY)
    parts = sorted(each.path for each in merged if each.key[0] == PART)
    boots = boots_of(facts["rows"], of_snapshots["closings"], known or known_of(files))
    rows = edge_rows(engine, folder, files, boots)
    of_queues = balances(facts["balances"], facts["open"], boots, rows)
    pace = {row["node"]: row["settled_per_s"] for row in facts["paces"].to_pylist()}
    kept = durability(facts["waiting"], restarts(boots), rows, pace)
    wrong = list(engine.map(partial(impossible_of, place, ranges, *overfull(of_queues)), parts))
    of_links, lags, lost = check_links(engine, place, parts, boots)
    odd = [row for each in merged for row in each.unrouted]
    found = imbalances(boots, gaps(facts["rows"], boots), of_queues, wrong, kept, lost, odd, files)
    judged = verdict(boots, found, kept, files.reasons())
    stored = sorted(each.path for each in merged if each.key[0] == HOUR)
    return Ledger(
        folder, files, place, stored, facts, of_snapshots, boots, of_queues, kept, of_links, lags, found, judged
    )


EMPTY: Facts = {name: fact.schema.empty_table() for name, fact in SUMMARY.items()}


def known_of(files: Input) -> Known:
    """Return what the input says of boots."""
    return Known(files.lost_records(), files.file_ages_s(), files.manifests.boots, files.listed_us)


def skip(files: Input, paths: Iterable[str]) -> None:
    """Note that files could not be read."""
    unreadable = set(paths)
    skipped = [SkippedFile(file.path, NOT_PARQUET, file.bytes) for file in files.files if file.path in unreadable]
    files.skipped += skipped
    files.files = [file for file in files.files if file.path not in unreadable]


# Snapshots


def snapshots_of(engine: Engine, folder: Folder, files: Input) -> Facts:
    """Reduce the snapshots of queues."""
    found = list(engine.map(partial(reduce_snapshots, folder), files.of(schema.QUEUE_STATS)))
    skip(files, [path for path, facts in found if facts is None])
    none = snapshots.reduce_snapshots(empty_rows(schema.QUEUE_STATS))
    return merge([none, *(facts for _, facts in found if facts is not None)], snapshots.FACTS)


def reduce_snapshots(folder: Folder, file: LogFile) -> tuple[str, Facts | None]:
    """Return the path of a file and its facts, or None if it cannot be read."""
    rows = read_rows(folder, file)
    return file.path, snapshots.reduce_snapshots(rows) if rows is not None else None


def read_rows(folder: Folder, file: LogFile, columns: list[str] | None = None) -> pa.Table | None:
    """Return the rows of a file, or None if it cannot be read."""
    try:
        with folder.open(file.path) as opened:
            return pq.ParquetFile(opened).read(columns)
    except (pa.ArrowException, OSError):
        return None


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


def edge_rows(engine: Engine, folder: Folder, files: Input, boots: Iterable[Boot]) -> list[dict[str, Any]]:
    """Return the rows of queues in the first and in the last snapshot of each boot."""
    wanted = set()
    for boot in boots:
        if boot.from_snapshot is not None and boot.to_snapshot is not None:
            wanted |= {(*boot.name, boot.from_snapshot), (*boot.name, boot.to_snapshot)}
    found = engine.map(partial(rows_of_snapshots, folder, wanted), files.of(schema.QUEUE_STATS))
    return [row for rows in found for row in rows]


def rows_of_snapshots(folder: Folder, wanted: set[tuple[str, str, int]], file: LogFile) -> list[dict[str, Any]]:
    rows = read_rows(folder, file)
    found = snapshots.rows_of(rows, wanted).to_pylist() if rows is not None else []
    return [{column.name: row.get(column.name) for column in schema.QUEUE_STATS_COLUMNS} for row in found]


# Events


def reduce_events(folder: Folder, ranges: Ranges, count: int, file: LogFile) -> Iterator[tuple[Key, Facts]]:
    """Yield the facts of a file: those of its hour, and what is open, divided into `count` parts by message."""
    rows = read_rows(folder, file)
    if rows is None:
        yield (SKIPPED, file.path), {}
        return
    facts = reduce_rows(rows, ranges)
    yield (HOUR, hour_of(file.path)), {name: facts[name] for name in OF_HOURS}
    if any(facts[name].num_rows for name in OPEN):
        of_message = {name: numbers_of(facts[name]["msg_seq"]) % count for name in ("journeys", "messages")}
        of_message["crossings"] = hashes(facts["crossings"]["identity"]) % count
        for part in range(count):
            yield (PART, f"{part:04}"), {name: facts[name].filter(pa.array(of_message[name] == part)) for name in OPEN}


def hour_of(path: str) -> str:
    """Return the folder of a file below that of its table, as one name."""
    return "-".join(path.split("/")[1:-1])


def hashes(texts: pa.ChunkedArray) -> Numbers:
    """Return a number for each text, the same in all processes."""
    return np.array([crc32((text or "").encode()) for text in texts.to_pylist()], "i8")


def merge_pair(one: Facts, other: Facts) -> Facts:
    return merge([one, other], {name: FACTS[name] for name in one})


def finish(place: Folder, ranges: Ranges, keyed: tuple[Key, Facts]) -> Merged:
    """Store the merged facts of an hour or a part, and return their summary."""
    (kind, name), facts = keyed
    if kind == SKIPPED:
        return Merged((kind, name), name, {}, [])
    if kind == HOUR:
        path = f"hours/{name}.parquet"
        place.write(path, facts["traffic"])
        return Merged((kind, name), path, hours.summarize(facts["traffic"]) | without_traffic(facts), [])
    settled = settle(empty() | facts, ranges)
    path = f"parts/{name}"
    for stored in ("journeys", "crossings"):
        place.write(f"{path}/{stored}.parquet", settled[stored])
    journeys, messages = settled["journeys"], settled["messages"]
    summary = {
        "balances": settled["balances"],
        "latencies": pa.concat_tables([settled["latencies"], stages(journeys)]),
        "open": open_counts(journeys, ranges),
        "waiting": waiting_in(journeys, messages),
        "oldest": undelivered(journeys),
    }
    return Merged((kind, name), path, summary, unrouted(messages, UNROUTED))


def without_traffic(facts: Facts) -> Facts:
    return {name: table for name, table in facts.items() if name != "traffic"}


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


def count_links(
    place: Folder, known: crossings.Ends, logs: dict[str, crossings.DownstreamLog], part: str
) -> tuple[list[LinkCount], pa.Table, list[dict[str, Any]]]:
    return crossings.links(place.read(f"{part}/crossings.parquet", FACTS["crossings"].schema), known, logs)
