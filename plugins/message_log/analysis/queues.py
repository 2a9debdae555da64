"""The conservation equation of each queue, and the messages whose journeys contradict it (`schema`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from .boots import Boot
from .facts import BOOT, JOURNEYS, WAYS_OUT, Fact, Numbers, group, measures, names
from .reduction import Ranges, bounds

QUEUE = (*BOOT, "vhost", "queue")
QueueName = tuple[str, str, str | None, str | None]
"""Node, boot, virtual host and name of a queue."""
ENTERED_TWICE = "entered twice"
LEFT_TWICE = "left twice"
UNDELIVERED = "acknowledged without a delivery"
NEVER_ENTERED = "left without having entered"
VANISHED = "entered, and neither left nor remains"
OPEN_COUNTS = Fact(names(*QUEUE), measures("sum", "entered", *WAYS_OUT, "orphans", "remaining"))


@dataclass
class Balance:
    """The equation of a queue in one boot, within its checked range.

    entered, and the ways out  messages
    orphans      messages that left without having entered: at most as many as were in the queue before
    remaining    messages that entered and did not leave: at most as many as are in the queue after
    ready_before ... unacked_after  its lengths in the two snapshots, 0 if it is not in them; None without them
    unlogged_in, unlogged_acks      how many more the broker counted than the log has; None if it did not count
    durable      None if it is in no snapshot
    """

    node: str
    boot_id: str
    vhost: str | None
    queue: str | None
    entered: int = 0
    delivered_without_ack: int = 0
    acknowledged: int = 0
    federated: int = 0
    expired: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    orphans: int = 0
    remaining: int = 0
    ready_before: int | None = None
    unacked_before: int | None = None
    ready_after: int | None = None
    unacked_after: int | None = None
    unlogged_in: int | None = None
    unlogged_acks: int | None = None
    durable: bool | None = None

    @property
    def name(self) -> QueueName:
        return self.node, self.boot_id, self.vhost, self.queue

    @property
    def before(self) -> int | None:
        return total(self.ready_before, self.unacked_before)

    @property
    def after(self) -> int | None:
        return total(self.ready_after, self.unacked_after)

    @property
    def difference(self) -> int | None:
        """The messages that are missing (above 0) or too many; None if there are no snapshots to compare with."""
        if self.before is None or self.after is None:
            return None
        left: int = sum(getattr(self, way) for way in WAYS_OUT)
        return self.before + self.entered - left - self.after


def total(*counts: int | None) -> int | None:
    return None if None in counts else sum(count or 0 for count in counts)


def in_range(journeys: pa.Table, checked: Ranges) -> tuple[Numbers, Numbers]:
    """Return how often each message entered and left within the checked range of its boot."""
    low, high = bounds(journeys, checked)
    counts = []
    for row, count in (("enter_row", "entered"), ("leave_row", "left")):
        number = journeys[row].fill_null(-1).to_numpy()
        counts.append(np.where((number >= low) & (number < high), journeys[count].to_numpy(), 0))
    return counts[0], counts[1]


def open_counts(journeys: pa.Table, checked: Ranges) -> pa.Table:
    """Count open journeys by queue."""
    entered, left = in_range(journeys, checked)
    never = journeys["entered"].to_numpy() == 0
    columns = {name: journeys[name] for name in QUEUE} | {"entered": pa.array(entered)}
    columns |= {way: pa.array(np.where(left > 0, journeys[way].to_numpy(), 0)) for way in WAYS_OUT}
    columns["orphans"] = pa.array(((left > 0) & never).astype("i8"))
    columns["remaining"] = pa.array(((entered > 0) & (left == 0)).astype("i8"))
    return group(OPEN_COUNTS, pa.table(columns).cast(OPEN_COUNTS.schema))


def balances(
    closed: pa.Table, still_open: pa.Table, boots: list[Boot], snapshots: Iterable[Mapping[str, Any]]
) -> list[Balance]:
    """Return the equation of each queue, from the fact `balances` and `open_counts`.

    `snapshots` are the rows of the first and last snapshot of each boot.
    """
    of_boots = {boot.name: boot for boot in boots}
    found: dict[QueueName, Balance] = {}
    for table in (closed, still_open):
        for row in table.to_pylist():
            balance = balance_of(found, row)
            for name in ("entered", *WAYS_OUT, "orphans", "remaining"):
                setattr(balance, name, getattr(balance, name) + row.get(name, 0))
    counted: dict[QueueName, dict[str, tuple[int, int]]] = {}
    for row in snapshots:
        balance, boot = balance_of(found, row), of_boots[row["node"], row["boot_id"]]
        balance.durable = row["durable"]
        for when, snapshot in (("before", boot.from_snapshot), ("after", boot.to_snapshot)):
            if snapshot == row["snapshot"]:
                setattr(balance, f"ready_{when}", row["ready"])
                setattr(balance, f"unacked_{when}", row["unacked"])
                counted.setdefault(balance.name, {})[when] = row["published"], row["acked"]
    for balance in found.values():
        if of_boots[balance.node, balance.boot_id].to_snapshot is not None:
            for name in ("ready_before", "unacked_before", "ready_after", "unacked_after"):
                setattr(balance, name, getattr(balance, name) or 0)
        ends = counted.get(balance.name, {})
        if "after" in ends:
            (published, acked), (published_before, acked_before) = ends["after"], ends.get("before", (0, 0))
            balance.unlogged_in = published - published_before - balance.entered
            balance.unlogged_acks = acked - acked_before - balance.acknowledged - balance.federated
    return list(found.values())


def balance_of(found: dict[QueueName, Balance], row: Mapping[str, Any]) -> Balance:
    name = row["node"], row["boot_id"], row["vhost"], row["queue"]
    return found.setdefault(name, Balance(*name))


def overfull(balances: Iterable[Balance]) -> tuple[set[QueueName], set[QueueName]]:
    """Return the queues with more orphans than they had messages before, and those with more remaining than after."""
    orphans = {each.name for each in balances if each.before is not None and each.orphans > each.before}
    return orphans, {each.name for each in balances if each.after is not None and each.remaining > each.after}


def impossible(journeys: pa.Table, checked: Ranges, orphaned: set[QueueName], remaining: set[QueueName]) -> pa.Table:
    """Return the messages whose journey is impossible: their keys, `last`, and the `problem`.

    To leave without having entered is a fault only in a queue with more such messages than it had before (`orphaned`),
    and to enter without leaving only in a queue with more such messages than it has after (`remaining`). Then all such
    messages of the queue are returned, since the faulty ones cannot be distinguished.
    """
    entered, left = in_range(journeys, checked)
    low, _ = bounds(journeys, checked)
    settled = journeys["acknowledged"].to_numpy() + journeys["federated"].to_numpy()
    undelivered = settled > journeys["delivered"].to_numpy()
    orphan, kept = (left > 0) & (journeys["entered"].to_numpy() == 0), (entered > 0) & (left == 0)
    problems = np.full(journeys.num_rows, "", object)
    for problem, where in (
        (VANISHED, kept & is_of(journeys, remaining)),
        (NEVER_ENTERED, orphan & is_of(journeys, orphaned)),
        (UNDELIVERED, (left > 0) & undelivered & ((entered > 0) | (low == 0))),
        (LEFT_TWICE, left > 1),
        (ENTERED_TWICE, entered > 1),
    ):
        problems[where] = problem
    keys = journeys.select([*JOURNEYS.keys, "last"])
    return keys.append_column("problem", pa.array(problems, pa.string())).filter(pa.array(problems != ""))


def is_of(journeys: pa.Table, queues: set[QueueName]) -> Numbers:
    """Return which journeys are of one of the queues."""
    if not queues:
        return np.zeros(journeys.num_rows, bool)
    keys = zip(*(journeys[name].to_pylist() for name in QUEUE), strict=True)
    return np.fromiter((key in queues for key in keys), bool, journeys.num_rows)
