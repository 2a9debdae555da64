"""Durability: whether a queue has after a restart what it must have kept.

For each durable queue and each restart of which both boots are in the input, the persistent messages that were in the
queue when the log of the first boot ends are compared with the number that the next process found in its store
(`recovered`, before it dropped any by age or by a limit). They are those that the queue had at the start of the boot,
which were on the disk then, and those that were published persistent in it, without those that left. Dead letters are
not required, since the log does not say whether they are persistent.

Which of them the store has is certain from its own log, whose batches are numbered over all starts (`schema`). The log
of messages says which batch was durable when the boot sent its last record, so a store with a later last batch has all
that was confirmed.

- After a stop, no client is connected, and no timer runs, from the last snapshot on. Messages that were confirmed, or
  on the disk before, and are not recovered, are lost: `lost` is exact if each recovered message is one of these, and
  too small by at most `unconfirmed` and the number of dead letters otherwise.
- After a kill, the last 0.1 s of the broker are unknown. If the store is sound, what is missing was settled in them.
- A store that lacks batches or is damaged has lost what is missing, and another store has none of the messages; after
  a kill, the unacknowledged ones (`taken`) may have been settled. `at_risk` is an upper limit: the messages that were
  confirmed after the last snapshot with a batch that the store has, but no more than are missing, not confirmed, or
  have left the queue, which may be back.
- Of a store that a broker with a copy of it may have written, only the batches from before the copy are those of the
  boot (`beginnings`). Then `lost` is 0, and so it is if only the clock tells which boot was the last; it does not count
  messages that may be among those which other boots with the store found and settled. Both are 0 if another boot found
  all batches of the boot in its data folder.
- Nothing is certain (`lost` and `at_risk` are 0) about a boot whose log lacks records (`whole` is false), and about
  queues of which neither a snapshot nor a message shows whether they are durable (`durable` is None).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format.schema import DELIVER, ENQUEUE, LEAVING, START
from .beginnings import Beginning, Name, micros
from .boots import LACKING, REPLACED, Boot
from .facts import (
    BOOL,
    BOOT,
    MESSAGES,
    Fact,
    Numbers,
    Values,
    codes,
    combinations,
    group,
    keyed,
    measures,
    names,
    of_boots,
    ranks,
    unified,
)

Queue = tuple[str | None, str | None]
"""Virtual host and name."""


@dataclass(slots=True)
class Durability:
    """A queue at a restart.

    confirmed_before  persistent messages that were confirmed, or on the disk before, and had not left
    unconfirmed       other persistent messages that had not left
    there_after       messages that the next process found
    missing           how many fewer these are than `confirmed_before`; all of those if the store is another one
    lost              those of the missing ones that are certainly lost
    at_risk           those of `confirmed_before` that the store may have lost, at most
    store_fault       what is wrong with the store (`boots.Boot`), or None
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
    at_risk: int = 0
    store_fault: str | None = None


@dataclass(slots=True)
class Waiting:
    """The messages of a queue at the end of a boot's log.

    departed  messages that left and never entered: they were in the queue at the start of the boot
    taken     messages that were delivered and not settled
    recent    confirmed messages that the store may lack (`cuts`)
    durable   whether the queue is durable, or None if no message says so
    """

    confirmed: int = 0
    unconfirmed: int = 0
    departed: int = 0
    taken: int = 0
    recent: int = 0
    durable: bool | None = None


WAITING = Fact(
    names(*BOOT, "vhost", "queue"),
    {
        **measures("sum", "confirmed", "unconfirmed", "departed", "taken", "recent"),
        **measures("max", "durable", type=BOOL),
    },
)
ALL, NONE = 0, np.iinfo("i8").max


def cuts(rows: list[Values], beginnings: Mapping[Name, Beginning]) -> dict[Name, int]:
    """Return the time, in microseconds, from which on the store may lack the messages of boots whose store has a fault.

    It is that of the last snapshot with a batch that the next boot found, or ALL if there is none.
    """
    of_boots, found = keyed(rows, *BOOT), {}
    for (node, boot_id), begun in beginnings.items():
        snapshots = of_boots.get((node, begun.previous or ""), [])
        (row,) = [row for row in of_boots[node, boot_id] if row["kind"] == START]
        stores = {each["store"] for each in snapshots if each["store"] is not None}
        if row["store"] is None or not stores:
            continue
        batch = begun.batch if row["store"] in stores else -1
        by_state = row["previous_batch"] or 0 if begun.previous == row["previous_boot"] else 0
        known = max([by_state, *(each["durable_batch"] or 0 for each in snapshots)])
        if batch < known:
            kept = [micros(each["at"]) for each in snapshots if (each["durable_batch"] or 0) <= batch]
            found[node, begun.previous or ""] = max(kept, default=ALL)
    return found


def durability(
    waiting_messages: pa.Table,
    restarts: Iterable[tuple[Boot, Boot]],
    snapshots: Iterable[Mapping[str, Any]],
    cut: Mapping[Name, int],
    kinds: pa.Table,
    beginnings: Mapping[Name, Beginning],
) -> list[Durability]:
    """Return the queues of all restarts.

    `waiting_messages` are merged tables of `waiting_in`; `snapshots` are rows of queues in the first and last snapshots
    of boots; `cut` is that of `cuts`, and `kinds` the fact of this name.
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
    returned = may_return(kinds, cut)
    for boot, later in restarts:
        if boot.sampled or later.sampled:
            continue
        before, after = rows.get(boot.name, {}), rows.get(later.name, {})
        began = beginnings[later.name]
        foreign = later.store_fault == LACKING and began.batch < (later.recovered_batch or 0)
        continued = began.continued and later.store_fault is not None
        uncertain = foreign or boot.contested or later.rolled_back
        branches = [waiting.get(name, {}) for name in began.branches]
        for queue in sorted({*waiting.get(boot.name, {}), *before}, key=str):
            here = waiting.get(boot.name, {}).get(queue, Waiting())
            whole_cut = cut.get(boot.name, NONE) == ALL
            judged = judge(boot, later, queue, here, before.get(queue, []), after.get(queue, []), whole_cut)
            others = judged.missing + judged.unconfirmed + returned.get((boot.name, queue), 0)
            risk = judged.at_risk if foreign else min(judged.at_risk, others)
            judged.at_risk = 0 if continued else max(risk, judged.lost)
            settled = sum(of_queues[queue].departed for of_queues in branches if queue in of_queues)
            judged.lost = 0 if uncertain else min(max(judged.lost - settled, 0), judged.at_risk)
            if judged.durable is not False and (
                judged.confirmed_before + judged.unconfirmed > 0 or judged.there_after > 0
            ):
                found.append(judged)
    return found


def may_return(kinds: pa.Table, cut: Mapping[Name, int]) -> Counter[tuple[Name, Queue]]:
    """Count by boot and queue the messages that an earlier state of the store may have beside those that waited.

    They left the queue, or are dead letters, which are not required.
    """
    found: Counter[tuple[Name, Queue]] = Counter()
    for row in kinds.to_pylist() if cut else ():
        left = row["event"] in LEAVING or row["event"] == DELIVER and row["no_ack"]
        if (left or row["event"] == ENQUEUE and row["reason"]) and (row["node"], row["boot_id"]) in cut:
            found[(row["node"], row["boot_id"]), (row["vhost"], row["queue"])] += row["records"]
    return found


def judge(
    boot: Boot,
    later: Boot,
    queue: Queue,
    waiting: Waiting,
    before: Iterable[Mapping[str, Any]],
    after: Iterable[Mapping[str, Any]],
    whole_cut: bool,
) -> Durability:
    """Judge one queue at one restart, from its rows in snapshots of both boots.

    `whole_cut`: the store may also lack the messages that it had at the start of the boot.
    """
    result = Durability(boot.node, boot.boot_id, *queue, later.boot_id, boot.stopped, boot.complete, waiting.durable)
    result.store_fault = later.store_fault
    at_start = 0
    for row in sorted(before, key=lambda row: int(row["snapshot"])):
        result.durable = row["durable"] if row["durable"] is not None else result.durable
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
    still_there = 0 if later.store_fault == REPLACED else result.there_after  # another store has only other messages
    result.missing = max(result.confirmed_before - still_there, 0)
    if boot.complete and result.durable:
        if boot.stopped or later.store_fault is not None:
            result.lost = max(result.missing - (0 if boot.stopped else waiting.taken), 0)
        result.at_risk = waiting.recent + (stored if whole_cut else 0)
    return result


def must_stay(journeys: pa.Table, promised: list[Numbers]) -> Numbers:
    """Return which open journeys are of confirmed persistent messages that are in their queue."""
    persistent, confirmed, _ = promised
    here: Numbers = (journeys["entered"].to_numpy() > 0) & (journeys["left"].to_numpy() == 0)
    return here & persistent & confirmed


def waiting_in(journeys: pa.Table, promised: list[Numbers], cut: Mapping[Name, int]) -> pa.Table:
    """Count the open journeys of each boot and queue by what was promised of their messages, as `Waiting`."""
    entered, left, delivered = (journeys[name].to_numpy() for name in ("entered", "left", "delivered"))
    persistent, confirmed, at_us = promised
    here, came = left == 0, entered > 0
    kept = here & came & persistent
    counts = {
        "confirmed": kept & confirmed,
        "unconfirmed": kept & ~confirmed,
        "departed": ~came & ~here,
        "taken": (kept | (here & ~came)) & (delivered > 0),
        "recent": kept & confirmed & (at_us >= cut_of(journeys, cut)),
    }
    table = journeys.select([*WAITING.keys, "durable"])
    for name, where in counts.items():
        table = table.append_column(name, pa.array(where.astype("i8")))
    return group(WAITING, table.select(WAITING.schema.names))


def cut_of(journeys: pa.Table, cut: Mapping[Name, int]) -> Numbers:
    """Return the time of the cut of each journey's boot."""
    found: Numbers = of_boots(journeys, {name: [at] for name, at in cut.items()}, [NONE])[:, 0]
    return found


def promises(journeys: pa.Table, messages: pa.Table) -> list[Numbers]:
    """Return whether the message of each journey is persistent, whether it was confirmed, and the time of that."""
    keys = list(MESSAGES.keys)
    both = unified(pa.concat_tables([messages.select(keys), journeys.select(keys)]))
    number = ranks(combinations([codes(both[name]) for name in keys]))
    flags = []
    for values in (*(pc.fill_null(messages[name], False) for name in ("persistent", "confirmed")), messages["at"]):
        of_message = codes(values)
        of_number = np.zeros(both.num_rows + 1, of_message.dtype)
        of_number[number[: messages.num_rows]] = of_message
        flags.append(of_number[number[messages.num_rows :]])
    return flags
