"""Two batches that are outstanding at a time keep the promises of one after the other."""

import errno
from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.test_interleavings import SEGMENT_BYTES, append, bodies, opened
from tests.support.journal import commit
from warren.broker.core.metadata.records import Change, StoredQueue
from warren.broker.storage.journal import Batch, Journal

FIRST = "00000001.log"


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


def two_batches(after: int) -> tuple[bytes, list[int]]:
    """Return a segment and where its batches begin: one, two that were under way at a time, and some `after` these."""
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk)
    starts = []
    append(journal, b"before")
    commit(journal)
    batches = []
    for body in (b"one", b"two"):
        append(journal, body, body)
        starts.append(journal._start)
        batches.append(sealed(journal))
    for batch in batches:
        batch.write()
    for batch in batches:
        batch.sync()
        journal.committed(batch.number)
    for _ in range(after):
        append(journal, b"after")
        commit(journal)
    return bytes(disk.content(FIRST)), starts


def torn_in(data: bytes, start: int, end: int, checkpoint: bytes | None = None) -> tuple[Journal, list[bytes]]:
    """Recover a segment of which some bytes are others."""
    disk = SimulatedDisk(Random(1))
    disk.put(FIRST, data[:start] + bytes(byte ^ 0xFF for byte in data[start:end]) + data[end:])
    if checkpoint is not None:
        disk.put("checkpoint", checkpoint)
    journal, pages = opened(disk)
    return journal, bodies(journal, pages)


def test_a_torn_batch_is_absent_with_the_one_after_it_which_was_not_durable_either() -> None:
    data, (one, two) = two_batches(after=0)
    for start in (one, one + 60, two - 10):
        for end in (start + 10, two + 10, two + 70, len(data)):
            journal, found = torn_in(data, start, end)
            assert found == [b"before"]
            assert f"{len(data) - one} bytes of a torn end cut off at offset {one}" in journal.report[-1]
            assert not [line for line in journal.report if "damaged record" in line]
    for start in range(two, len(data), 7):
        assert torn_in(data, start, len(data))[1] == [b"before", b"one", b"one"]


def test_a_bad_batch_that_a_later_one_says_to_be_durable_is_damage() -> None:
    data, (one, two) = two_batches(after=1)
    for start in (one + 1, one + 60, two - 10):
        journal, found = torn_in(data, start, start + 5)
        assert found[-3:] == [b"two", b"two", b"after"], "they are read nevertheless"
        assert [line for line in journal.report if "damaged record" in line]


def test_a_bad_batch_that_the_checkpoint_says_to_be_durable_is_damage() -> None:
    """The last one before a stop: nothing comes after it."""
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk)
    append(journal, b"one")
    commit(journal)
    append(journal, b"two")
    commit(journal)
    journal.close()
    data = bytes(disk.content(FIRST))
    after, found = torn_in(data, len(data) - 5, len(data) - 4, bytes(disk.content("checkpoint")))
    assert found == [b"one"] and [line for line in after.report if "damaged record" in line]
    after, found = torn_in(data, len(data) - 5, len(data) - 4)
    assert found == [b"one"] and "torn end" in after.report[-1]


def test_a_batch_of_its_own_vouches_for_the_last_one() -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk)
    assert not journal.unvouched()
    append(journal, b"one", b"two")
    commit(journal)
    length = len(disk.content(FIRST))
    assert journal.unvouched()
    journal.vouch()
    batch = sealed(journal)
    assert not batch.syncs and not batch.syncs_log
    batch.write()
    batch.sync()
    journal.committed(batch.number)
    assert not journal.unvouched() and journal.seal() is None
    journal.vouch()
    assert journal.seal() is None, "nothing is new"
    data = bytes(disk.content(FIRST))
    assert torn_in(data, length - 5, length - 4)[1] == [b"one"], "a flipped bit loses one message, and is named"
    assert torn_in(data[:length], length - 5, length - 4)[1] == []


def test_a_batch_is_whole_or_absent_wherever_the_log_ends() -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk)
    append(journal, b"before")
    commit(journal)
    append(journal, b"one", b"two", b"three")
    commit(journal)
    data = bytes(disk.content(FIRST))
    for size in range(len(data) + 1):
        found = torn_in(data[:size], size, size)[1]
        assert found in ([], [b"before"], [b"before", b"one", b"two", b"three"]), size
    assert len(found) == 4


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
    journal.settle(1, dead.id)
    second = sealed(journal)  # saves a checkpoint, and removes the first segment
    for batch in (first, second):
        batch.write()
    first.sync()
    journal.committed(first.number)
    journal.settle(1, alive.id)  # this is in no batch yet
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
    journal.settle(1, dead.id)
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
