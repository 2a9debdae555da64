"""Two batches that are outstanding at a time keep the promises of one after the other."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.test_interleavings import SEGMENT_BYTES, append, bodies, opened
from tests.support.journal import commit
from warren.broker.core.metadata.records import Change, StoredQueue
from warren.broker.storage.journal import Batch, Journal


def sealed(journal: Journal) -> Batch:
    batch = journal.seal()
    assert batch is not None
    return batch


def fail(what: str, name: str) -> None:
    if what == "sync":
        raise OSError(errno.EIO, "broken", name)


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("failing", [0, 1])
def test_after_a_failed_sync_that_of_the_other_batch_fails_too(failing: int, before: int) -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk)
    for _ in range(before):
        append(journal, b"before")
        commit(journal)
    batches = []
    for body in (b"one", b"two"):
        append(journal, body)
        batches.append(sealed(journal))
        batches[-1].write()
    disk.before = fail
    with pytest.raises(OSError):
        batches[failing].sync()
    disk.before = None
    with pytest.raises(OSError):
        batches[1 - failing].sync()


def test_a_batch_is_durable_when_those_before_it_are() -> None:
    journal, _ = opened(SimulatedDisk(Random(1)))
    calls: list[int] = []
    batches = []
    for body in (b"one", b"two"):
        append(journal, body)
        journal.when_durable(journal.ticket(), lambda: calls.append(journal.durable))
        batches.append(sealed(journal))
        batches[-1].write()
    for batch in reversed(batches):
        batch.sync()
    journal.committed(batches[1].number)
    assert (journal.durable, calls) == (0, [])
    journal.committed(batches[0].number)
    assert (journal.durable, calls) == (2, [2, 2])


def test_a_segment_begins_when_the_one_before_is_durable() -> None:
    journal, _ = opened(SimulatedDisk(Random(1)), 100)
    append(journal, b"x" * 100)
    last = sealed(journal)
    append(journal, b"two")
    assert journal.seal() is None
    last.write()
    last.sync()
    journal.committed(last.number)
    assert sealed(journal).segment is not last.segment


def test_a_checkpoint_has_nothing_that_is_newer_than_its_batch() -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk, 300)
    dead = append(journal, b"dead" + b"x" * 300)[0]
    commit(journal)  # fills the first segment
    alive = append(journal, b"alive")[0]
    first = sealed(journal)
    journal.settle(1, dead.id, dead.location)
    second = sealed(journal)  # saves a checkpoint, and removes the first segment
    for batch in (first, second):
        batch.write()
    first.sync()
    journal.committed(first.number)
    journal.settle(1, alive.id, alive.location)  # this is in no batch yet
    second.sync()
    assert "00000001.log" not in disk.names()
    after, pages = opened(disk.power_loss(Random(1)), SEGMENT_BYTES)
    assert bodies(after, pages) == [b"alive"]


def test_a_batch_without_data_removes_no_segment_whose_copies_are_not_durable() -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk, 1000)
    journal.change(Change(True, StoredQueue("/", "q", 1, False, b"")))
    dead = append(journal, b"dead" + b"x" * 1000)[0]
    commit(journal)  # fills the first segment
    *settled, _ = append(journal, *[b"%d" % number + b"x" * 200 for number in range(8)], b"alive")
    commit(journal)  # fills the second one
    journal.settle(1, dead.id, dead.location)
    first = sealed(journal)  # removes the first segment
    journal.settle_many(1, settled)
    second = sealed(journal)  # has a copy of the last message of the second segment
    first.write()
    first.sync()
    second.write()
    journal.committed(first.number)
    journal.change(Change(True, StoredQueue("/", "other", 2, False, b"")))
    third = sealed(journal)
    assert not third.data
    third.write()
    third.sync()
    for seed in range(10):
        after, pages = opened(disk.power_loss(Random(seed)), 1000)
        assert b"alive" in bodies(after, pages)
    second.sync()
    for batch in (third, second):
        journal.committed(batch.number)
    append(journal, b"new")
    commit(journal)
    assert "00000002.log" not in disk.names()
