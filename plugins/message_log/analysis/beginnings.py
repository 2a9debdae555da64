"""The beginnings of boots: what each found of the boot before it, by the closing rows of snapshots (`schema`).

Brokers that go on in two copies of a store number their batches alike. So of what a boot found, only the batches before
the copies differ are certainly those of the boot before, unless its data folder leads from that one to it.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from ..file_format.schema import START
from .facts import BOOT, Values, keyed

LINE = 100  # boots before one that are compared with those of copies of its store
Name = tuple[str, str]
"""A node and the id of its boot."""
Range = tuple[int, int]
"""The last batch of the store that a boot found, and the last one that it wrote."""


class Beginning(NamedTuple):
    """The findings of a boot about the one before it.

    previous   that boot (`predecessors`), or None
    batch      the last batch in the store that is certainly of that boot or from before it
    branches   boots that may have had messages of that boot, in other copies of its store or before a takeover
    continued  whether another boot began with all that the data folder of that boot had
    """

    previous: str | None = None
    batch: int = 0
    branches: tuple[Name, ...] = ()
    continued: bool = False


def beginnings_of(rows: Iterable[Values]) -> dict[Name, Beginning]:
    """Return how each boot began."""
    rows = list(rows)
    before, of_boots = in_turn(predecessors(rows), rows), keyed(rows, *BOOT)
    starts = {name: next(row for row in of_boots[name] if row["kind"] == START) for name in before}
    ranges = {
        name: (row["recovered_batch"] or 0, max(each["durable_batch"] or 0 for each in of_boots[name]))
        for name, row in starts.items()
    }
    of_stores: dict[int | None, list[Name]] = {}
    sources: dict[Name, str | None] = {}  # the boot before, by the data folder if that has a log
    heirs: dict[Name, list[Name]] = {}  # the boots that began with the data folder of each
    for name, row in starts.items():
        of_stores.setdefault(row["store"], []).append(name)
        by_data = name[0], row["exported_boot"] or ""
        sources[name] = by_data[1] if by_data in starts else before[name]
        heirs.setdefault((name[0], sources[name] or ""), []).append(name)
    copied = [some for store, some in of_stores.items() if store is not None and is_copied(some, sources)]
    lines = {each: set(line_of(sources, each)) for some in copied for each in some}
    found = {}
    for name, previous in before.items():
        parent, batch = (name[0], previous or ""), ranges[name][0]
        branches: list[Name] = []
        relatives = of_stores[starts[parent]["store"]] if parent in starts else []
        if relatives and sources[name] != previous:
            after = parting(line_of(sources, name), line_of(sources, parent))
            batch = min([batch, *(ranges[each][0] for each in after)])
        if parent in lines:
            line = line_of(before, parent)
            apart = [other for other in relatives if other not in line and name not in lines[other]]
            copies = overlapping([ranges[each] for each in line], {other: ranges[other] for other in apart})
            branches = [other for other in apart if other in copies or ranges[other][1] > ranges[parent][0]]
            if starts[name]["exported_boot"] != previous:
                batch = min([batch, *(ranges[other][0] for other in copies)])
        whole = [each for each in heirs.get(parent, ()) if each in relatives and ranges[each][0] >= ranges[parent][1]]
        found[name] = Beginning(previous, batch, tuple(branches), any(each != name for each in whole))
    return found


def is_copied(boots: Collection[Name], sources: Mapping[Name, str | None]) -> bool:
    """Return whether boots of one store do not just follow one another."""
    nodes = {node for node, _ in boots}
    return len(nodes) > 1 or len({sources[name] for name in boots}) < len(boots)


def parting(line: list[Name], other: list[Name]) -> list[Name]:
    """Return the boots of two lines that come after the newest one in both."""
    common = next((each for each in line if each in other), None)
    return [each[each.index(common) - 1] for each in (line, other) if common in each[1:]]


def overlapping(line: Iterable[Range], others: Mapping[Name, Range]) -> set[Name]:
    """Return the others that wrote batches with numbers of those that boots of a line wrote."""
    in_order = sorted(line)
    ends = [0, *accumulate((last for _, last in in_order), max)]
    return {name for name, (first, last) in others.items() if ends[bisect_left(in_order, (last,))] > first}


def line_of(before: Mapping[Name, str | None], name: Name) -> list[Name]:
    """Return a boot and those before it that have a snapshot of their start, the newest first, LINE at most."""
    found: dict[Name, None] = {}
    while name in before and name not in found and len(found) < LINE:
        found[name] = None
        name = name[0], before[name] or ""
    return list(found)


def predecessors(rows: Iterable[Values]) -> dict[Name, str | None]:
    """Return the boot before each one, or None, by the closing rows of snapshots of starts.

    It is `previous_boot` by the state of the node, or `exported_boot` by the data folder of the broker. They differ if
    brokers are killed one soon after another, since their writers may lock the state in another order, and if the state
    or the data folder is lost or an earlier copy. The later one of both is right; which one that is, `exported_boot` of
    all starts says, since the data folder never names a boot that started later. A boot of which there is no record, by
    the state either, is not the one before.
    """
    starts = {(row["node"], row["boot_id"]): row for row in rows if row["kind"] == START}
    found = {}
    for (node, boot_id), row in starts.items():
        by_state, by_data = row["previous_boot"], row["exported_boot"]
        if by_state != by_data:
            started_later = boot_id in earlier(starts, node, by_state)
            absent = row.get("previous_row") == 0 and (node, by_state) not in starts and by_data is not None
            if by_state is None or started_later or absent or by_state in earlier(starts, node, by_data):
                by_state = by_data
        found[node, boot_id] = by_state
    return found


def in_turn(before: Mapping[Name, str | None], rows: Iterable[Values]) -> dict[Name, str | None]:
    """Return the boot before each one, also of those that began with earlier copies of the data and of the state.

    They name a boot that another one has followed and that has ended since, so they follow the last one of that line.
    """
    begins: dict[Name, int] = {}
    ends: dict[Name, int] = {}
    for row in rows:
        name, at_us = (row["node"], row["boot_id"]), micros(row["at"])
        begins[name], ends[name] = min(begins.get(name, at_us), at_us), max(ends.get(name, 0), at_us)
    found: dict[Name, str | None] = {}
    followers: dict[Name, Name] = {}
    for name in sorted(before, key=lambda each: (begins[each], each)):
        previous, seen = before[name], set[Name]()
        while previous is not None:
            follower = followers.setdefault((name[0], previous), name)
            if follower in seen or ends[follower] >= begins[name]:
                break
            seen.add(follower)
            previous = follower[1]
        found[name] = previous
    return found


def earlier(starts: Mapping[Name, Values], node: str, boot_id: str | None) -> set[str]:
    """Return a boot and those that exported before it, by the data folder of the broker."""
    found: set[str] = set()
    while boot_id is not None and boot_id not in found:
        found.add(boot_id)
        boot_id = starts[node, boot_id]["exported_boot"] if (node, boot_id) in starts else None
    return found


def micros(at: datetime | None) -> int:
    """Return a time in microseconds since 1970, 0 for none."""
    return round(at.timestamp() * 1_000_000) if at is not None else 0
