"""The boots of all nodes: which rows each should have logged, what became of it, and which boot it followed.

A boot is linked to the one before it by the names in the snapshot of its start (`beginnings`). Only boots without
such a link are put in an order by the clock, which may have been set back between two boots.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Annotated

import msgspec
import pyarrow as pa

from warren.broker.config import MessageLogExport

from ..file_format import schema
from ..file_format.printable import HAS, count
from ..file_format.schema import START, STOP
from .beginnings import Beginning, Name, beginnings_of, micros
from .facts import BOOT, Values, keyed
from .snapshots import STORE

DAY_US = 86_400_000_000
HOUR = timedelta(hours=1)
LISTED = 200  # hours without a snapshot
# Columns of the snapshot of a start.
LINK = ("previous_boot", "previous_row", "previous_at", "exported_boot", "exported_at", "retention_days", "comparable")
REPLACED, LACKING, DAMAGED = "replaced", "lacking", "damaged"
FILE_AGE_S = MessageLogExport().file_age_s  # of a writer whose files do not name theirs
SILENCE_S = 3 * schema.SNAPSHOT_S  # how much longer than that nothing may be seen of a running boot
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""A number of rows or bytes, as a manifest or a state has it; another one is damaged."""


class BootEnd(msgspec.Struct, frozen=True):
    """The end of a node's newest boot, as its state says.

    It has the next row, the last durable batch of the store, lost records, and whether the writer has ended.
    """

    boot_id: str = ""
    row: Count = 0
    batch: Count = 0
    lost: Count = 0
    ended: bool = False


@dataclass(slots=True)
class Boot:
    """A boot of a node.

    first_row, end_row            the rows that its log should have, the second exclusive
    from_row, to_row              the checked range, from one snapshot to another; the whole log without two snapshots
    from_snapshot, to_snapshot    their numbers, or None if the log is a sample, or has no snapshots
    first, last                   the times of its first and last record or snapshot
    records, duplicated           rows in the log, and how many of them are there more than once
    lost_records                  rows that are in no file, as the broker and its files say
    clock_moved_us                how far the wall clock moved against the monotonic one
    previous_boot ... comparable  what its first snapshot says of the boot before (`schema`)
    store ... damage              the store that it found, and `previous_batch`, as its first snapshot says
    durable_batch, last_batch     the greatest ones of its snapshots
    store_fault                   what is wrong with the store since the boot before: LACKING, REPLACED, DAMAGED or None
    follows                       the boot before it (`beginnings`)
    next_boot_id                  the boot of the same node after it in this input
    killed                        it did not stop, and the broker was started again
    silent                        it did not stop, was not started again, and nothing was seen of it for too long
    unfinished                    rows that its writer had received, and not finished when it ended
    unwritten                     rows that its writer has received, and will finish while the boot goes on
    lacks_previous                the boot before it should be in this input, and is not
    unlinked                      it knew of no boot before it, and there is one in this input
    unlogged                      the store settled messages between the stop of the boot before and its start
    contested                     another boot of the same name ran at the same time, or followed the same boot, unless
                                  that began with an earlier copy of the data: only the clock tells
    forked                        its store lacks batches that a boot of another node wrote to it (`find_forks`)
    """

    node: str
    boot_id: str
    first_row: int = 0
    end_row: int = 0
    from_row: int = 0
    to_row: int = 0
    from_snapshot: int | None = None
    to_snapshot: int | None = None
    first: datetime | None = None
    last: datetime | None = None
    stopped: bool = False
    started: bool = False
    killed: bool = False
    silent: bool = False
    sample_rate: float | None = None
    records: int = 0
    duplicated: int = 0
    lost_records: int = 0
    unfinished: int = 0
    unwritten: int = 0
    clock_moved_us: int = 0
    previous_boot: str | None = None
    previous_row: int | None = None
    previous_at: datetime | None = None
    exported_boot: str | None = None
    exported_at: datetime | None = None
    retention_days: int | None = None
    comparable: bool | None = None
    store: int | None = None
    recovered_batch: int | None = None
    settling_batch: int | None = None
    damage: int | None = None
    previous_batch: int | None = None
    durable_batch: int = 0
    last_batch: int = 0
    store_fault: str | None = None
    follows: str | None = None
    next_boot_id: str | None = None
    lacks_previous: bool = False
    unlinked: bool = False
    unlogged: bool = False
    contested: bool = False
    forked: bool = False

    @property
    def rolled_back(self) -> bool:
        """Whether it began with earlier data than those of the boot before, by the clock (`beginnings`)."""
        return self.follows not in (None, self.previous_boot, self.exported_boot)

    @property
    def name(self) -> Name:
        return self.node, self.boot_id

    @property
    def key(self) -> str:
        """The beginning that the names of all its files have in common."""
        return schema.boot_key(schema.file_name(self.node, self.boot_id, 0))

    @property
    def sampled(self) -> bool:
        return self.sample_rate is not None and self.sample_rate < 1

    @property
    def complete(self) -> bool:
        """Whether every row that there was is in the log."""
        rows = self.end_row - self.first_row + self.unfinished + self.lost_records
        return self.records - self.duplicated == rows

    @property
    def over(self) -> bool:
        """Whether it will have no further record or snapshot."""
        return self.stopped or self.killed or self.silent


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about boots (`Boot.key`) from files, manifests and the selection, beside rows.

    lost_records  the greatest count in the footers of a boot's files
    file_age_s    for how long its writer keeps a file open
    finished      the row after the last one in a file that its manifest lists; absent without a manifest
    newest        the newest boot of each node, by the states of the export
    listed_us     the time when the files were listed
    since_us      the time before which nothing was asked for, or None
    """

    lost_records: Mapping[str, int] = field(default_factory=dict)
    file_age_s: Mapping[str, int] = field(default_factory=dict)
    finished: Mapping[str, int] = field(default_factory=dict)
    newest: Mapping[Name, BootEnd] = field(default_factory=dict)
    listed_us: int = 0
    since_us: int | None = None


def boots_of(rows: pa.Table, closings: pa.Table, known: Known) -> list[Boot]:
    """Return all boots by node and order of their starts, from the facts of these names.

    A running boot whose newest record was older than its file age and SILENCE_S when the files were listed is silent.
    """
    ranges = keyed(rows.to_pylist(), *BOOT)
    snapshots = keyed((row for row in closings.to_pylist() if row["queue_rows"] == row["queues"]), *BOOT)
    boots = [Boot(*name) for name in {**ranges, **snapshots}]
    beginnings = beginnings_of(row for of_boot in snapshots.values() for row in of_boot)
    for boot in boots:
        boot.follows = beginnings.get(boot.name, Beginning()).previous
        if boot.name in ranges:
            add_rows(boot, ranges[boot.name])
        if boot.name in snapshots:
            add_snapshots(boot, snapshots[boot.name])
        boot.lost_records = max(boot.lost_records, known.lost_records.get(boot.key, 0))
        boot.end_row = max(boot.end_row, known.finished.get(boot.key, 0))
        if boot.name in known.newest:
            boot.lost_records = max(boot.lost_records, known.newest[boot.name].lost)
            boot.durable_batch = max(boot.durable_batch, known.newest[boot.name].batch)
    of_nodes = groupby(sorted(boots, key=attrgetter("name")), attrgetter("node"))
    ordered = [boot for _, of_node in of_nodes for boot in link([*of_node], known, beginnings)]
    for boot in ordered:
        running = not boot.stopped
        boot.killed = running and boot.next_boot_id is not None
        allowed_us = (known.file_age_s.get(boot.key, FILE_AGE_S) + SILENCE_S) * 1_000_000
        boot.silent = running and not boot.killed and known.listed_us - micros(boot.last) > allowed_us
        if boot.name in known.newest:
            claim_newest(boot, known.newest[boot.name])
        choose_range(boot, snapshots.get(boot.name, []))
    find_forks(ordered)
    return ordered


def add_rows(boot: Boot, ranges: list[Values]) -> None:
    """Add the ranges of rows that the log has."""
    boot.first_row = min(row["first_row"] for row in ranges)
    boot.end_row = max(row["last_row"] for row in ranges) + 1
    boot.records = sum(row["records"] for row in ranges)
    boot.duplicated = boot.records - sum(row["last_row"] - row["first_row"] + 1 for row in ranges)
    boot.first, boot.last = min(row["first"] for row in ranges), max(row["last"] for row in ranges)
    boot.sample_rate = min(row["sample_rate"] for row in ranges)
    boot.clock_moved_us = max(row["greatest_offset"] for row in ranges) - min(row["least_offset"] for row in ranges)


def add_snapshots(boot: Boot, snapshots: list[Values]) -> None:
    """Add the complete snapshots of a boot."""
    starts = min(row["row"] for row in snapshots)
    if starts == 0 or not boot.records:
        boot.first_row = starts
    boot.end_row = max(boot.end_row, *(row["row"] for row in snapshots))
    times = [row["at"] for row in snapshots]
    boot.first, boot.last = min(filter(None, (boot.first, *times))), max(filter(None, (boot.last, *times)))
    rates = [boot.sample_rate, *(row["sample_rate"] for row in snapshots)]
    boot.sample_rate = min(rate for rate in rates if rate is not None)
    for name in ("lost_records", "durable_batch", "last_batch"):
        setattr(boot, name, max(row[name] or 0 for row in snapshots))
    for row in snapshots:
        boot.stopped |= row["kind"] == STOP
        boot.started |= row["kind"] == START
        if row["kind"] == START:
            for name in (*LINK, *STORE):
                setattr(boot, name, row[name])


def choose_range(boot: Boot, snapshots: list[Values]) -> None:
    """Choose the snapshots between which the boot is checked.

    The rows before a snapshot are finished before it, so rows that the log lacks there are missing. A sample cannot be
    compared with a snapshot.
    """
    boot.from_row, boot.to_row = boot.first_row, boot.end_row
    usable = [row for row in snapshots if boot.first_row <= row["row"] <= boot.end_row and not boot.sampled]
    if usable:
        first, last = (choose(usable, key=lambda row: row["snapshot"]) for choose in (min, max))
        boot.from_snapshot, boot.from_row = first["snapshot"], first["row"]
        boot.to_snapshot, boot.to_row = last["snapshot"], last["row"]


def link(boots: list[Boot], known: Known, beginnings: Mapping[Name, Beginning]) -> list[Boot]:
    """Link the boots of one node, and return them in their order.

    What a boot says of the one before it raises `end_row` of that one: the rows in between are missing from the log.
    Only if that boot was killed, and its manifest proves that its writer had not finished them, they were lost with the
    writer, and are `unfinished`.
    """
    chains = in_order(boots)
    ordered = [boot for chain in chains for boot in chain]
    parallel = contest(chains)
    by_id = {boot.boot_id: boot for boot in ordered}
    newest_us = max(micros(boot.last) for boot in boots)
    for before, boot in pairwise(ordered):
        if boot.follows is None and not boot.started and boot.boot_id not in parallel:
            before.next_boot_id = boot.boot_id
    for boot in ordered:
        named = [(boot.exported_boot, boot.exported_at)]
        named += [(boot.previous_boot, boot.previous_at)] if boot.previous_row != 0 else []  # it had no records
        absent = [(name, micros(at or boot.first)) for name, at in named if name is not None and name not in by_id]
        for name, end_us in absent:
            is_first = boot is ordered[0] or name != boot.follows  # otherwise an older boot than that one is here
            boot.lacks_previous |= not is_excused(end_us, ordered if is_first else [], newest_us, known)
        if boot.boot_id in parallel:
            continue
        boot.unlinked = boot.started and boot.follows is None and boot is not ordered[0]
        in_state, previous = (by_id.get(name or "") for name in (boot.previous_boot, boot.follows))
        if in_state is not None and in_state is not boot:
            claim(in_state, boot.previous_row or 0, known)
        if previous is None or previous is boot:
            continue
        previous.next_boot_id = boot.boot_id
        if boot.comparable is not False:
            by_state = boot.previous_batch or 0 if previous is in_state else 0
            known_batch, found_batch = max(previous.durable_batch, by_state), beginnings[boot.name].batch
            boot.store_fault = fault_of(previous.store, known_batch, boot, found_batch)
            same_store = previous.store is not None and previous.store == boot.store
            boot.unlogged = same_store and previous.stopped and (boot.settling_batch or 0) > previous.last_batch
    return ordered


def fault_of(store: int | None, durable_batch: int, boot: Boot, found_batch: int) -> str | None:
    """Return what is wrong with the store that a boot found, given its state at the boot before, or None.

    `found_batch` is the last one that is certainly of the boot before.
    """
    if store is None or boot.store is None:
        return None
    if boot.store != store:
        return REPLACED
    if found_batch < durable_batch:
        return LACKING
    return DAMAGED if boot.damage else None


def find_forks(boots: Iterable[Boot]) -> None:
    """Note the boots whose store lacks batches that a boot of another node wrote to it.

    Brokers that take turns at one store write batches after those of each other. If their ranges overlap, a takeover
    has lost the end of the store, or there are copies of it.
    """
    written: dict[int, dict[str, int]] = {}  # the last batch of each node, by store
    for boot in sorted(boots, key=lambda each: (each.recovered_batch or 0, micros(each.first))):
        if boot.store is not None:
            of_store = written.setdefault(boot.store, {})
            others = [batch for node, batch in of_store.items() if node != boot.node]
            boot.forked = max(others, default=0) > (boot.recovered_batch or 0)
            of_store[boot.node] = max(boot.durable_batch, of_store.get(boot.node, 0))


def in_order(boots: list[Boot]) -> list[list[Boot]]:
    """Return the boots of one node in chains of links, the chains by the time at which they start."""
    by_id = {boot.boot_id: boot for boot in boots}
    followers: dict[str | None, list[Boot]] = {}
    for boot in sorted(boots, key=lambda each: (micros(each.first), each.boot_id)):
        known = boot.follows in by_id and boot.follows != boot.boot_id
        followers.setdefault(boot.follows if known else None, []).append(boot)
    chains: list[list[Boot]] = []
    seen: set[str] = set()
    for first in followers.get(None, []):
        chain: list[Boot] = []
        waiting = [first]
        while waiting:
            boot = waiting.pop()
            seen.add(boot.boot_id)
            chain.append(boot)
            waiting += reversed(followers.get(boot.boot_id, []))
        chains.append(chain)
    return [*chains, [boot for boot in boots if boot.boot_id not in seen]]  # links in a circle, of damaged files


def contest(chains: list[list[Boot]]) -> set[str]:
    """Note which boots show that two brokers have one name, and return those that are certainly of two.

    Two boots follow the same one, or one goes on after the next has begun: its last record is later than the one that
    the next boot knew of. The clock alone decides only about boots that no link connects. A boot that is rolled back
    may be of the same broker.
    """
    certain: set[str] = set()

    def both(boot: Boot, other: Boot) -> None:
        boot.contested = other.contested = True
        if not boot.rolled_back:
            certain.update((boot.boot_id, other.boot_id))

    for chain in chains:
        by_id = {boot.boot_id: boot for boot in chain}
        followers: dict[str, Boot] = {}
        for boot in chain:
            previous = by_id.get(boot.follows or "")
            if previous is None:
                continue
            named = boot.exported_boot or boot.previous_boot if boot.rolled_back else boot.follows
            sibling = followers.setdefault(named or "", boot)
            if sibling is not boot:
                both(boot, sibling)
            by_state = boot.follows == boot.previous_boot
            known_us = max(micros(boot.first), micros(boot.previous_at if by_state else boot.exported_at))
            if micros(previous.last) > known_us:
                both(boot, previous)
    newest: Boot | None = None
    number = {boot.boot_id: at for at, chain in enumerate(chains) for boot in chain}
    for boot in sorted((boot for chain in chains for boot in chain), key=lambda each: micros(each.first)):
        other = newest is not None and number[newest.boot_id] != number[boot.boot_id]
        if newest is not None and other and micros(boot.first) < micros(newest.last):
            both(boot, newest)
        if newest is None or micros(boot.last) > micros(newest.last):
            newest = boot
    return certain


def claim(boot: Boot, next_row: int, known: Known) -> None:
    """Note that the log of a boot should reach up to `next_row` (exclusive)."""
    if next_row > boot.end_row:
        if boot.stopped or boot.key not in known.finished:
            boot.end_row = next_row
        else:
            boot.unfinished = next_row - boot.end_row


def claim_newest(boot: Boot, end: BootEnd) -> None:
    """Note how far the log of the newest boot of a node should reach, or will."""
    if end.ended:
        boot.end_row = max(boot.end_row, end.row)
    elif boot.silent:
        boot.unfinished = max(end.row - boot.end_row, boot.unfinished)
    else:
        boot.unwritten = max(end.row - boot.end_row, 0)


def is_excused(ended_us: int, boots: list[Boot], newest_us: int, known: Known) -> bool:
    """Return whether a boot that ended then is not here for a reason: removed by its age, or not asked for."""
    days = [each.retention_days for each in boots if each.retention_days is not None]
    too_old = bool(days) and ended_us // DAY_US < newest_us // DAY_US - min(days)
    return too_old or known.since_us is not None and ended_us < known.since_us


def restarts(boots: Iterable[Boot]) -> list[tuple[Boot, Boot]]:
    """Return pairs of successive boots of which the second should have begun with what the first had stored.

    It does not if the broker ran without the export in between, which the store shows after a stop (`unlogged`).
    """
    by_name = {boot.name: boot for boot in boots}
    pairs = [(boot, by_name.get((boot.node, boot.next_boot_id or ""))) for boot in by_name.values()]
    return [
        (boot, later)
        for boot, later in pairs
        if later is not None
        if later.started and later.comparable is not False and later.follows in (None, boot.boot_id)
        if (boot.store is None) == (later.store is None)
        if not later.unlogged
    ]


def missing_newest(boots: Iterable[Boot], known: Known) -> list[str]:
    """Return reasons for the newest boots of nodes that should be in this input, and are not."""
    here = {boot.name for boot in boots}
    return [
        f"the log of the newest boot is missing, with {count(end.row, 'record')} ({node} {end.boot_id})"
        for (node, _), end in known.newest.items()
        if (node, end.boot_id) not in here and end.row
    ]


def hours_without_snapshots(boots: Iterable[Boot], closings: pa.Table) -> list[str]:
    """Return a reason for whole hours of running boots of which the snapshots are missing, or none."""
    snapshots = keyed(closings.to_pylist(), *BOOT)
    hours: dict[str, Boot] = {}
    for boot in boots:
        of_boot = sorted((row["snapshot"], row["at"]) for row in snapshots.get(boot.name, []))
        for (number, at), (next_number, next_at) in pairwise(of_boot):
            hour = at.replace(minute=0, second=0, microsecond=0) + HOUR
            while next_number > number + 1 and hour + HOUR <= next_at and len(hours) < LISTED:
                hours[f"{hour:%Y-%m-%d %H}"] = boot
                hour += HOUR
    if not hours:
        return []
    first, boot = min(hours.items())
    hours_of = count(len(hours), "hour")
    has = HAS[len(hours) != 1]
    return [f"{hours_of} of a running broker {has} no snapshot, such as {first} ({boot.node} {boot.boot_id})"]


def gaps(rows: pa.Table, boots: Iterable[Boot]) -> list[Values]:
    """Return the rows that the logs of the boots lack, each gap with the time of the record beside it, or None."""
    ranges = keyed(rows.to_pylist(), *BOOT)
    found = []
    for boot in boots:
        next_row, at = boot.first_row, None
        ends = [*sorted(ranges.get(boot.name, []), key=lambda row: row["first_row"]), {"first_row": boot.end_row}]
        for row in ends:
            last_row = min(row["first_row"], boot.end_row) - 1
            if last_row >= next_row:
                gap = {"node": boot.node, "boot_id": boot.boot_id, "first_row": next_row, "last_row": last_row}
                found.append(gap | {"records": last_row - next_row + 1, "at": row.get("first", at)})
            next_row, at = max(next_row, row.get("last_row", 0) + 1), row.get("last")
    return found
