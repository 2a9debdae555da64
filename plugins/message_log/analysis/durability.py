"""Durability: whether a queue has after a restart what it must have kept.

For each durable queue and each restart of which both boots are in the input, the persistent messages that were in the
queue when the log of the first boot ends are compared with the number that the next process found in its store
(`recovered`, before it dropped any by age or by a limit). They are those that the queue had at the start of the boot,
which were on the disk then, and those that were published persistent in it, without those that left. Dead letters are
not required, since the log does not say whether they are persistent.

What is certain:

- After a stop, nothing is unlogged: no client is connected, and no timer runs, from the last snapshot on. Messages that
  were confirmed, or on the disk before, and are not recovered, are lost: `lost` is exact if each recovered message is
  one of these, and too small by at most `unconfirmed` and the number of dead letters otherwise. What no confirm
  promised may be lost, and is not counted.
- After a kill, the last records of the broker are unknown, and messages may have been settled in them. At most those
  can have been that were unacknowledged (`taken`), and those that consumers could get and settle in that time: the
  greatest number that left one queue of the node in any second is the measure, twice, since a second touches two
  seconds of the clock. What is missing beyond that is lost.
- Nothing is certain (`lost` is 0) about a boot whose log lacks records (`whole` is false), and about queues that no
  snapshot shows, whose durability is unknown (`durable` is None).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format.schema import START
from .boots import Boot, Name
from .facts import BOOT, MESSAGES, Fact, codes, group, measures, names, unified

Queue = tuple[str | None, str | None]
"""Virtual host and name."""


@dataclass(slots=True)
class Durability:
    """A queue at a restart.

    confirmed_before  persistent messages that were confirmed, or on the disk before, and had not left
    unconfirmed       other persistent messages that had not left
    there_after       messages that the next process found
    missing           how many fewer these are than `confirmed_before`
    lost              those of the missing ones that are certainly lost
    """

    node: str
    boot_id: str
    vhost: str | None
    queue: str | None
    next_boot_id: str
    stopped: bool
    whole: bool
    durable: bool | None = None
    confirmed_before: int = 0
    unconfirmed: int = 0
    there_after: int = 0
    missing: int = 0
    lost: int = 0


@dataclass(slots=True)
class Waiting:
    """The messages of a queue at the end of a boot's log.

    departed  messages that left and never entered: they were in the queue at the start of the boot
    taken     messages that were delivered and not settled
    """

    confirmed: int = 0
    unconfirmed: int = 0
    departed: int = 0
    taken: int = 0


WAITING = Fact(names(*BOOT, "vhost", "queue"), measures("sum", "confirmed", "unconfirmed", "departed", "taken"))


def durability(
    waiting_messages: pa.Table,
    restarts: Iterable[tuple[Boot, Boot]],
    snapshots: Iterable[Mapping[str, Any]],
    pace: Mapping[str, int],
) -> list[Durability]:
    """Return the queues of all restarts.

    `waiting_messages` are merged tables of `waiting_in`; `snapshots` are rows of queues in the first and last snapshots
    of boots; `pace` has by node the greatest number of messages that left one of its queues in a second.
    """
    waiting: dict[Name, dict[Queue, Waiting]] = {}
    for row in waiting_messages.to_pylist():
        of_queues = waiting.setdefault((row["node"], row["boot_id"]), {})
        of_queues[row["vhost"], row["queue"]] = Waiting(*(row[name] for name in WAITING.measures))
    rows: dict[Name, dict[Queue, list[Mapping[str, Any]]]] = {}
    for row in snapshots:
        of_boot = rows.setdefault((row["node"], row["boot_id"]), {})
        of_boot.setdefault((row["vhost"], row["queue"]), []).append(row)
    found = []
    for boot, later in restarts:
        if boot.sampled or later.sampled:
            continue
        before, after = rows.get(boot.name, {}), rows.get(later.name, {})
        for queue in sorted({*waiting.get(boot.name, {}), *before}, key=str):
            here = waiting.get(boot.name, {}).get(queue, Waiting())
            judged = judge(
                boot, later, queue, here, before.get(queue, []), after.get(queue, []), pace.get(boot.node, 0)
            )
            if judged.durable is not False and (
                judged.confirmed_before + judged.unconfirmed > 0 or judged.there_after > 0
            ):
                found.append(judged)
    return found


def judge(
    boot: Boot,
    later: Boot,
    queue: Queue,
    waiting: Waiting,
    before: Iterable[Mapping[str, Any]],
    after: Iterable[Mapping[str, Any]],
    pace: int,
) -> Durability:
    """Judge one queue at one restart, from its rows in snapshots of both boots."""
    result = Durability(boot.node, boot.boot_id, *queue, later.boot_id, boot.stopped, boot.complete)
    at_start = 0
    for row in sorted(before, key=lambda row: int(row["snapshot"])):
        result.durable = row["durable"]
        if row["kind"] == START:
            at_start = row["ready"] + row["unacked"]
    for row in after:
        if row["kind"] == START:
            result.durable = row["durable"] if row["durable"] is not None else result.durable
            recovered = row["recovered"]
            result.there_after = recovered if recovered is not None else row["ready"] + row["unacked"]
    stored = max(at_start - waiting.departed, 0) if boot.comparable is not False else 0
    result.confirmed_before = waiting.confirmed + stored
    result.unconfirmed = waiting.unconfirmed
    result.missing = max(result.confirmed_before - result.there_after, 0)
    if boot.complete and result.durable:
        settled = 0 if boot.stopped else waiting.taken + pace * 2
        result.lost = max(result.missing - settled, 0)
    return result


def waiting_in(journeys: pa.Table, messages: pa.Table) -> pa.Table:
    """Count the open journeys of each boot and queue by what was promised of their messages, as `Waiting`."""
    entered, left, delivered = (journeys[name].to_numpy() for name in ("entered", "left", "delivered"))
    persistent, confirmed = promises(journeys, messages)
    here, came = left == 0, entered > 0
    kept = here & came & persistent
    counts = {
        "confirmed": kept & confirmed,
        "unconfirmed": kept & ~confirmed,
        "departed": ~came & ~here,
        "taken": (kept | (here & ~came)) & (delivered > 0),
    }
    table = journeys.select(list(WAITING.keys))
    for name, where in counts.items():
        table = table.append_column(name, pa.array(where.astype("i8")))
    return group(WAITING, table)


def promises(journeys: pa.Table, messages: pa.Table) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return whether the message of each journey is persistent, and whether it was confirmed."""
    keys = list(MESSAGES.keys)
    both = unified(pa.concat_tables([messages.select(keys), journeys.select(keys)]))
    columns = np.stack([codes(both[name]) for name in keys], axis=1)
    _, number = np.unique(columns, axis=0, return_inverse=True)
    flags = []
    for name in ("persistent", "confirmed"):
        of_number = np.zeros(len(columns) + 1, bool)
        of_number[number[: messages.num_rows]] = pc.fill_null(messages[name], False).to_numpy()
        flags.append(of_number[number[messages.num_rows :]])
    return flags[0], flags[1]
