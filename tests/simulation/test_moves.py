"""A message that goes from one queue to another is in one of them, whatever a power cut keeps of the batch."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from broker.storage.journal import Journal
from tests.simulation.disk import SimulatedDisk, Stopped
from tests.simulation.metadata import MemoryMetadata
from tests.simulation.test_interleavings import commit, message, opened

if TYPE_CHECKING:
    from broker.storage.metadata import Metadata

BODY = b"x" * 2000  # of several sectors, of which any may be kept


def stopped_in_move() -> SimulatedDisk:
    """The disk on which a message of queue 1 was to be moved to queue 2, and nothing of that is synced."""
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk)
    first, copy = message(BODY), message(BODY)
    journal.append([1], [first])
    commit(journal)
    journal.append([2], [copy])
    journal.settle_moved(1, first.id, first.place)
    batch = journal.seal()
    assert batch is not None

    def stop(what: str, name: str) -> None:
        if what == "sync":
            raise Stopped

    disk.before = stop
    with pytest.raises(Stopped):
        batch.commit()
    disk.before = None
    return disk


def test_a_power_cut_in_a_move_leaves_the_message_or_its_copy() -> None:
    disk = stopped_in_move()
    for seed in range(300):
        journal = Journal(disk.power_loss(Random(seed)), cast("Metadata", MemoryMetadata()))
        found = journal.recover()
        assert sum(map(len, found.values())) >= 1, f"power loss {seed}: neither is there"


def test_the_message_is_settled_once_the_copy_is_durable() -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk)
    first, copy = message(BODY), message(BODY)
    journal.append([1], [first])
    commit(journal)
    journal.append([2], [copy])
    journal.settle_moved(1, first.id, first.place)
    commit(journal)
    commit(journal)
    assert journal.seal() is None, "nothing is left to say"
    found = Journal(disk.crash(), cast("Metadata", MemoryMetadata())).recover()
    assert {queue: len(pages) for queue, pages in found.items() if len(pages)} == {2: 1}
