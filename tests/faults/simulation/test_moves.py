"""A message that moves from one queue to another is in one of them, whatever a power cut keeps of the batch."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from tests.faults.simulation.disk import SimulatedDisk, Stopped
from tests.faults.simulation.metadata import MemoryMetadata
from tests.faults.simulation.test_interleavings import message, opened
from tests.support.journal import commit
from warren.broker.storage.journal import Journal

if TYPE_CHECKING:
    from warren.broker.storage.metadata import Metadata

BODY = b"x" * 2000  # several sectors, of which any may be kept


def moved(disk: SimulatedDisk) -> Journal:
    """Return a journal in which a message of queue 1 was moved to queue 2; the batch is not committed yet."""
    journal, _ = opened(disk)
    first, copy = message(BODY), message(BODY)
    journal.append([1], [first])
    commit(journal)
    journal.append([2], [copy])
    journal.settle_moved(1, first.id)
    return journal


def stopped_in_move() -> SimulatedDisk:
    """Return a disk on which a message of queue 1 was being moved to queue 2, and nothing of that is synced."""
    disk = SimulatedDisk(Random(1))
    batch = moved(disk).seal()

    def stop(what: str, name: str) -> None:
        if what == "sync":
            raise Stopped

    disk.before = stop
    with pytest.raises(Stopped):
        batch.write()
        batch.sync()
    disk.before = None
    return disk


def recovered(disk: SimulatedDisk) -> dict[int, int]:
    """Return the number of messages in each queue."""
    found = Journal(disk, cast("Metadata", MemoryMetadata())).recover()
    return {queue: len(pages) for queue, pages in found.items() if len(pages)}


def test_a_power_cut_in_a_move_leaves_the_message_or_its_copy() -> None:
    disk = stopped_in_move()
    outcomes = [recovered(disk.power_loss(Random(seed))) for seed in range(300)]
    assert {} not in outcomes, f"power loss {outcomes.index({})}: neither is there"
    assert {2: 1} in outcomes and {1: 1} in outcomes, "the disk has kept nothing, or all, each time"


def test_a_crash_after_the_write_leaves_only_the_copy() -> None:
    assert recovered(stopped_in_move().crash()) == {2: 1}


@pytest.mark.parametrize("damaged", range(3))
def test_a_message_stays_where_any_copy_of_its_batch_is_damaged(damaged: int) -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk)
    moves = [(message(BODY), message(BODY)) for _ in range(3)]
    for first, _ in moves:
        journal.append([1], [first])
    commit(journal)
    for first, copy in moves:
        journal.append([2], [copy])
        journal.settle_moved(1, first.id)
    commit(journal)
    at = (journal.index.place(moves[damaged][1].id) & 0xFFFFFFFF) + 100
    assert recovered(disk.crash()) == {2: 3}
    torn = disk.crash()
    torn.damage(journal.segments[1].name, at)
    assert recovered(torn) == {1: 3}, "a power cut may have done this, and the batch is absent"
    journal.append([3], [message(BODY)])
    commit(journal)
    broken = disk.crash()
    broken.damage(journal.segments[1].name, at)
    assert recovered(broken) == {1: 3, 2: 2, 3: 1}


def test_the_message_is_settled_in_one_batch_with_its_copy() -> None:
    disk = SimulatedDisk(Random(1))
    journal = moved(disk)
    commit(journal)
    assert journal.seal() is None, "nothing is left to write"
    assert recovered(disk.crash()) == {2: 1}
