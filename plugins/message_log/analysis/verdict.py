"""The imbalances, and the verdict of the check: a status, its reasons, and one sentence for people."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from ..file_format.printable import IS, WAS, count
from ..file_format.schema import boot_key
from .beginnings import Name
from .boots import DAMAGED, LACKING, REPLACED, Boot
from .durability import Durability
from .input import Input
from .queues import QUEUE, Balance

BALANCED, IMBALANCED, INCOMPLETE, SAMPLED = "balanced", "imbalanced", "incomplete", "sampled"
MISSING = "records are missing from the log"
UNEQUAL = "more or fewer messages entered than left and remain"
UNLOGGED_IN = "the queue counted more messages in than the log has"
UNLOGGED_ACKS = "the queue counted more acknowledgements than the log has"
UNROUTED = "published to more queues than it entered, or to fewer"
NOT_ARRIVED = "taken by the link and not arrived"
NOT_KEPT = "confirmed and persistent, and missing after the restart"
AT_RISK = "confirmed and persistent, and perhaps lost with the end of the store"
FILE_MISSING = "a file of the export is missing"
FILE_CHANGED = "a file of the export was changed"
OF_FILES = (FILE_MISSING, FILE_CHANGED)
OF_STORE = (NOT_KEPT, AT_RISK)
NAMED = 3  # boots in one reason; more are counted


@dataclass(slots=True)
class Imbalance:
    """A message, gap of the log, queue, link or file that violates conservation."""

    problem: str
    node: str | None = None
    boot_id: str | None = None
    vhost: str | None = None
    queue: str | None = None
    link: str | None = None
    file: str | None = None
    msg_seq: int | None = None
    identity: str | None = None
    first_row: int | None = None
    last_row: int | None = None
    records: int | None = None
    at: datetime | None = None


def imbalances(
    boots: list[Boot],
    missing: Iterable[dict[str, Any]],
    balances: Iterable[Balance],
    impossible: Iterable[Iterable[Mapping[str, Any]]],
    kept: Iterable[Durability],
    not_arrived: Iterable[Mapping[str, Any]],
    unrouted: Iterable[Mapping[str, Any]],
    files: Input,
    routes_compared: bool = True,
) -> list[Imbalance]:
    """Return all imbalances; `missing` are gaps of the log, and `unrouted` rows of the function of this name.

    `routes_compared`: the log has all queues that messages were routed to.
    """
    found = []
    for row in chain.from_iterable(impossible):
        about = {"msg_seq": row["msg_seq"], "records": row.get("records", 1), "at": row["last"]}
        found.append(Imbalance(row["problem"], *(row[name] for name in QUEUE), **about))
    found += [Imbalance(MISSING, **gap) for gap in missing]
    for each in balances:
        unlogged_in, unlogged_acks = (max(number or 0, 0) for number in (each.unlogged_in, each.unlogged_acks))
        wrong = {UNEQUAL: abs(each.difference or 0), UNLOGGED_IN: unlogged_in, UNLOGGED_ACKS: unlogged_acks}
        if each.difference is not None:
            found += [Imbalance(problem, *each.name, records=records) for problem, records in wrong.items() if records]
    for row in not_arrived:
        about = {name: row[name] for name in ("node", "link", "identity", "records")}
        found.append(Imbalance(NOT_ARRIVED, **about, at=datetime.fromtimestamp(row["left"] / 1_000_000, UTC)))
    if routes_compared:
        whole = {boot.name for boot in boots if boot.stopped and boot.first_row == 0}
        found += [Imbalance(UNROUTED, **row, records=1) for row in unrouted if (row["node"], row["boot_id"]) in whole]
    for one in kept:
        for problem, lost in ((NOT_KEPT, one.lost), (AT_RISK, one.at_risk - one.lost)):
            if lost:
                found.append(Imbalance(problem, one.node, one.boot_id, one.vhost, one.queue, records=lost))
    names = {boot.key: boot.name for boot in boots}
    for problem, entries in ((FILE_MISSING, files.missing), (FILE_CHANGED, files.changed)):
        for entry in entries:
            rows: dict[str, Any] = {"first_row": entry.first_row, "last_row": entry.last_row, "records": entry.rows}
            node, boot_id = names.get(boot_key(entry.path), (None, None))
            found.append(Imbalance(problem, node, boot_id, file=entry.path, **rows))
    return found


def unrouted(messages: pa.Table, limit: int) -> list[dict[str, Any]]:
    """Return the first messages that entered more or fewer queues than they were routed to."""
    odd = messages["routed"].to_numpy() != messages["entered"].to_numpy()
    names = ["node", "boot_id", "vhost", "msg_seq", "at"]
    rows: list[dict[str, Any]] = messages.select(names).filter(pa.array(odd)).slice(0, limit).to_pylist()
    return rows


class Verdict(NamedTuple):
    """The verdict. `reasons` say why it is not "balanced", after `causes`, which say what is certainly wrong.

    `consequences` counts the imbalances that follow from the causes, and `explained` those that lost or repeated
    records explain.
    Rows after a boot's last snapshot are not checked.
    """

    status: str
    reasons: list[str]
    causes: list[str]
    consequences: int
    explained: int
    checked_records: int
    unchecked_records: int
    lost_records: int
    duplicated_records: int

    def sentence(self, of_names: bool = False) -> str:
        """Return the verdict in words. `of_names`: only some virtual hosts or queues were asked for."""
        checked = count(self.checked_records, "record", WAS)
        text = {
            BALANCED: f"Nothing is missing: {checked} checked, "
            "and every message that entered a queue left it or is still in it.",
            IMBALANCED: f"The log does not balance: {first_of(self.causes)}. {checked} checked.",
            INCOMPLETE: "The log is not complete, so the result is not certain: "
            f"{first_of(self.reasons)}. {checked} checked.",
            SAMPLED: "The log is a sample: all numbers are estimates, and no loss can be excluded.",
        }[self.status]
        if self.consequences:
            text += f" {count(self.consequences, 'other imbalance')} may be a consequence."
        if self.explained:
            text += f" Lost or repeated records explain {count(self.explained, 'imbalance')}."
        if self.unchecked_records and self.status != SAMPLED:
            text += f" {count(self.unchecked_records, 'record', IS)} not checked: no snapshot follows."
        if of_names:
            text += " Of records of other virtual hosts and queues, only the numbers were checked."
        return text


def verdict(boots: list[Boot], found: list[Imbalance], reasons: Iterable[str]) -> Verdict:
    """Judge. `reasons` are those of the input."""
    unexplained = certain(found, boots)
    causes, consequences = causes_of(unexplained)
    applying = [*causes, *reasons_of_boots(boots), *reasons]
    sampled = any(boot.sampled for boot in boots)
    if unexplained:
        status = IMBALANCED
    elif found or applying:
        status = INCOMPLETE
    else:
        status = SAMPLED if sampled else BALANCED
    if sampled:
        applying.append("the log is a sample: numbers are estimates, and queues cannot be compared with it")
    checked = sum(boot.to_row - boot.from_row for boot in boots if boot.to_snapshot is not None)
    return Verdict(
        status,
        applying,
        causes,
        consequences,
        len(found) - len(unexplained),
        checked,
        sum(boot.end_row - boot.first_row + boot.unwritten for boot in boots) - checked,
        sum(boot.lost_records for boot in boots),
        sum(boot.duplicated for boot in boots),
    )


def certain(found: Iterable[Imbalance], boots: Iterable[Boot]) -> list[Imbalance]:
    """Return the imbalances that lost records cannot explain, nor records that are in the log twice.

    They are those of files, those of boots that lost none, gaps of more records than the boot lost, and those of links
    if no boot lost any. Repeated records explain neither gaps nor messages that a restart lost.
    """
    lacking: dict[Name, int] = {}
    found = list(found)
    for each in found:
        if each.problem == MISSING:
            name = each.node or "", each.boot_id or ""
            lacking[name] = lacking.get(name, 0) + (each.records or 0)
    lossy = [boot for boot in boots if boot.lost_records]
    explained = {boot.name for boot in lossy if lacking.get(boot.name, 0) <= boot.lost_records}
    repeated = {boot.name for boot in boots if boot.duplicated}

    def is_explained(each: Imbalance) -> bool:
        name = each.node, each.boot_id
        of_messages = each.problem not in (*OF_STORE, MISSING)
        return name in explained or of_messages and name in repeated or each.boot_id is None and bool(lossy)

    return [each for each in found if each.problem in OF_FILES or not is_explained(each)]


def causes_of(found: list[Imbalance]) -> tuple[list[str], int]:
    """Return what is wrong, in a line for each problem, and the number of imbalances that may follow from it.

    Those of a boot whose files or records are missing may follow from that, gaps among the rows of such a file, too.
    """
    files = [each for each in found if each.problem in OF_FILES]
    gaps = [each for each in found if each.problem == MISSING and not any(covers(file, each) for file in files)]
    incomplete = {(each.node, each.boot_id) for each in (*files, *gaps)}
    others = [each for each in found if each.problem not in (*OF_FILES, MISSING)]
    causes: dict[str, list[Imbalance]] = {}
    for each in sorted([*others, *files, *gaps], key=lambda each: each.problem not in OF_STORE):
        alone = each.problem in (*OF_STORE, *OF_FILES, MISSING) or (each.node, each.boot_id) not in incomplete
        if alone and not (each.problem == NOT_ARRIVED and incomplete):
            causes.setdefault(each.problem, []).append(each)
    lines = [line_of(problem, some) for problem, some in causes.items()]
    return lines, len(found) - sum(len(some) for some in causes.values())


def covers(file: Imbalance, gap: Imbalance) -> bool:
    """Return whether a file has, or may have had, the missing rows."""
    if (file.node, file.boot_id) != (gap.node, gap.boot_id) or file.first_row is None or file.last_row is None:
        return False
    return file.first_row <= (gap.first_row or 0) and (gap.last_row or 0) <= file.last_row


def line_of(problem: str, some: list[Imbalance]) -> str:
    """Return one line about imbalances of one problem: how many, and where the first ones are."""
    records = sum(each.records or 0 for each in some)
    names = first_names(list(dict.fromkeys(where(each) for each in some)))
    if problem == NOT_KEPT:
        return f"{count(records, 'confirmed message')} lost at a restart ({names})"
    if problem == AT_RISK:
        return f"up to {count(records, 'confirmed message')} lost with the end of the store ({names})"
    if problem in OF_FILES:
        changed = "changed" if problem == FILE_CHANGED else "missing"
        return f"{count(len(some), 'file')} of the export {changed} ({names})"
    if problem == MISSING:
        return f"{count(records, 'record')} missing from the log ({names})"
    return f"{count(records, 'message')}: {problem} ({names})"


def where(each: Imbalance) -> str:
    """Return the place of an imbalance: its file, link or queue and node, with the number of messages."""
    if each.file is not None:
        return f"{each.file} with {count(each.records or 0, 'record')}"
    boot = f"{each.node} {each.boot_id}" if each.boot_id is not None else f"{each.node}"
    name = each.queue if each.queue is not None else each.link
    share = f"{each.records:,} of " if each.problem in OF_STORE else ""
    return f"{share}{name} at {boot}" if name is not None else boot


def first_of(lines: list[str]) -> str:
    more = len(lines) - 1
    return lines[0] + (f", and {count(more, 'more reason')} below" if more > 0 else "") if lines else ""


def reasons_of_boots(boots: list[Boot]) -> list[str]:
    """Return why the logs of these boots are not complete."""
    lost = sum(boot.lost_records for boot in boots)
    more = ", or more" if any(boot.lost_records and boot.killed for boot in boots) else ""
    unfinished = count(sum(boot.unfinished for boot in boots), "record")
    unchecked = unchecked_boots(boots)
    reasons: dict[str, Callable[[Boot], object]] = {
        f"{count(lost, 'record')}{more} lost: the broker's buffer was full, its writer died, or the disk was full": (
            lambda boot: boot.lost_records
        ),
        "two brokers have this name, or its clock was set back: one went on after the next had begun, or two followed "
        "one, or one began with an earlier copy of the data; confirmed messages of one of them may be lost": (
            lambda boot: boot.contested
        ),
        "the store is not the one of the boot before": lambda boot: boot.store_fault == REPLACED,
        "the store lacks the last batches of the boot before": lambda boot: boot.store_fault == LACKING,
        "the store lacks batches that a broker of another name wrote to it: the last messages of that one are lost, "
        "unless this one has a copy of its store": lambda boot: boot.forked,
        "the store was found damaged": lambda boot: boot.store_fault == DAMAGED,
        "records are in the log twice": lambda boot: boot.duplicated,
        "a broker was killed, or could not write its last records: they are unknown": lambda boot: boot.killed,
        "a log ends without a stop and is not continued: its broker or the writer of its export is dead": (
            lambda boot: boot.silent
        ),
        "the log of the boot before is missing": lambda boot: boot.lacks_previous,
        "the boot before is not known: the state of the node and the data folder of the broker were lost or replaced": (
            lambda boot: boot.unlinked
        ),
        "the store has settled messages since the boot before, of which there is no record: the broker ran without the "
        "export, or the log of a boot is lost": lambda boot: boot.unlogged,
        f"at least {unfinished} lost that a writer had not finished when it ended": lambda boot: boot.unfinished,
        "no record is checked yet: no file with a snapshot after them is finished": (
            lambda boot: boot.name in unchecked and not boot.over
        ),
        "no record is checked: the log ended before a snapshot followed them": (
            lambda boot: boot.name in unchecked and boot.over
        ),
        "there is no snapshot to compare with": lambda boot: boot.to_snapshot is None and not boot.sampled,
    }
    names = {reason: [" ".join(boot.name) for boot in filter(applies, boots)] for reason, applies in reasons.items()}
    applying = [f"{reason} ({first_names(some)})" for reason, some in names.items() if some]
    return applying if boots else ["there is no log"]


def unchecked_boots(boots: list[Boot]) -> set[Name]:
    """Return the boots with records of nodes of which no record is between two snapshots."""
    compared = [boot for boot in boots if boot.to_snapshot is not None]
    checked = {boot.node for boot in compared if boot.to_row > boot.from_row}
    logged = [boot for boot in compared if boot.end_row - boot.first_row + boot.unwritten]
    return {boot.name for boot in logged if boot.node not in checked}


def first_names(names: list[str]) -> str:
    """Return the first NAMED of some names, and the number of the others."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
