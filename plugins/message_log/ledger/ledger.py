"""The ledger of a log: its files reduced to facts, and the check that every message is accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..file_format import schema
from ..file_format.arrow_types import ARROW
from ..file_format.schema import DELIVER, LEAVING
from . import snapshots
from .boots import Boot, Known, boots_of, restarts
from .crossings import LinkCount, links
from .durability import Durability, durability
from .facts import Facts, merge
from .input import Folder, Input, LogFile, SkippedFile, read_input
from .queues import Balance, balances, impossible
from .reduction import Boot as BootName
from .reduction import CheckedRange, reduce_rows, settle
from .verdict import Imbalance, Verdict, imbalances, verdict


@dataclass
class Ledger:
    """What the check of a log found."""

    facts: Facts
    snapshots: Facts
    boots: list[Boot]
    balances: list[Balance]
    durability: list[Durability]
    links: list[LinkCount]
    lags: pa.Table
    imbalances: list[Imbalance]
    verdict: Verdict
    input: Input


def make_ledger(folder: Folder, wanted: Callable[[str], bool] = bool, known: Known | None = None) -> Ledger:
    """Read the files of a folder in this process, and check them. Raises OSError.

    `known` replaces what the input says of boots.
    """
    files = read_input(folder, wanted)
    of_snapshots = merge(reduce_files(folder, files, schema.QUEUE_STATS, snapshots.reduce_snapshots), snapshots.FACTS)
    ranges = checked_ranges(of_snapshots["closings"], files.of(schema.EVENTS))
    parts = reduce_files(folder, files, schema.EVENTS, lambda rows: reduce_rows(rows, ranges))
    facts = settle(merge(parts), ranges)
    known = known or known_of(files)
    boots = boots_of(facts["rows"], of_snapshots["closings"], known)
    rows = edge_rows(folder, files, boots)
    of_queues = balances(facts, boots, rows)
    kept = durability(facts, restarts(boots), rows, paces(facts["traffic"]))
    counts, lags, lost = links(facts["crossings"], boots)
    wrong = impossible(facts["journeys"], of_queues, boots)
    found = imbalances(facts, boots, of_queues, wrong, kept, lost, files)
    judged = verdict(boots, found, kept, files.reasons())
    return Ledger(facts, of_snapshots, boots, of_queues, kept, counts, lags, found, judged, files)


def known_of(files: Input) -> Known:
    """Return what the input says of boots."""
    return Known(files.lost_records(), files.file_ages_s(), files.manifests.boots, files.listed_us)


def reduce_files(folder: Folder, files: Input, table: str, reduce: Callable[[pa.Table], Facts]) -> Iterator[Facts]:
    """Yield the facts of each file of a table, and those of no rows. A file that cannot be read is skipped."""
    yield reduce(empty_rows(table))
    for file in files.of(table):
        try:
            rows = read_rows(folder, file)
        except (pa.ArrowException, OSError):
            files.files.remove(file)
            files.skipped.append(SkippedFile(file.path, "not_parquet", file.bytes))
            continue
        yield reduce(rows)


def read_rows(folder: Folder, file: LogFile, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of a file. Raises ArrowException, OSError."""
    with folder.open(file.path) as opened:
        return pq.ParquetFile(opened).read(columns)


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


def edge_rows(folder: Folder, files: Input, boots: Iterable[Boot]) -> list[dict[str, Any]]:
    """Return the rows of queues in the first and in the last snapshot of each boot."""
    wanted = set()
    for boot in boots:
        if boot.from_snapshot is not None and boot.to_snapshot is not None:
            wanted |= {(*boot.name, boot.from_snapshot), (*boot.name, boot.to_snapshot)}
    rows: list[dict[str, Any]] = []
    for file in files.of(schema.QUEUE_STATS):
        found = snapshots.rows_of(read_rows(folder, file), wanted)
        for row in found.to_pylist():
            rows.append({column.name: row.get(column.name) for column in schema.QUEUE_STATS_COLUMNS})
    return rows


def paces(traffic: pa.Table) -> dict[str, int]:
    """Return by node the greatest number of messages that left one queue in a second."""
    event = np.array(traffic["event"].to_pylist(), object)
    leaves = np.isin(event, LEAVING) | ((event == DELIVER) & traffic["no_ack"].fill_null(False).to_numpy())
    keys = ["node", "vhost", "queue", "second"]
    rows = traffic.filter(pa.array(leaves)).select([*keys, "records"])
    sums = rows.group_by(keys, use_threads=False).aggregate([("records", "sum")])
    by_node = sums.group_by("node", use_threads=False).aggregate([("records_sum", "max")])
    return {row["node"]: row["records_sum_max"] for row in by_node.to_pylist()}
