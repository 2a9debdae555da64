"""A system without a spare descriptor or memory, at any call: the batch is tried again, and nothing is lost."""

import errno
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.test_interleavings import append, bodies, opened
from tests.support.journal import commit, commit_any
from warren.broker.core.messages.journal_port import EXHAUSTED
from warren.broker.core.messages.message import Message
from warren.broker.storage import journal as journal_module
from warren.broker.storage import log_records
from warren.broker.storage.checkpoint import Checkpoint
from warren.broker.storage.compaction import Compaction
from warren.broker.storage.journal import Journal

SEGMENT_BYTES = 300
ROUNDS = 12


class Shortage:
    """Fails call number `fails_at` of the worker, from 0 on, or none if it is -1. `calls` counts them."""

    def __init__(self, disk: SimulatedDisk, fails_at: int, error: int) -> None:
        self.calls = 0
        self._disk = disk
        self._fails_at = fails_at
        self._error = error

    @property
    def passed(self) -> bool:
        return self.calls > self._fails_at

    def commit(self, journal: Journal) -> None:
        """Commit like the committer, which commits a batch again after a lack of descriptors."""
        batch = journal.seal()
        if batch is None:
            return
        self._disk.before = self._before
        for _ in range(2):
            try:
                batch.write()
                batch.sync()
                break
            except OSError as raised:
                assert raised.errno in EXHAUSTED
        else:
            raise AssertionError("one failure, and yet the second attempt fails as well")
        self._disk.before = None
        journal.committed(batch.number)

    def _before(self, what: str, name: str) -> None:
        if what == "sync":  # a sync of an open file; any failure of it is final
            return
        self.calls += 1
        if self.calls - 1 == self._fails_at:
            raise OSError(self._error, "injected", name)


def work(disk: SimulatedDisk, shortage: Shortage) -> None:
    """Fill several segments, of which the first are removed. The power may fail after each batch from the shortage on.

    What comes before it is the same in every run, and the power may fail there in the one without a shortage.
    """
    journal, _ = opened(disk, SEGMENT_BYTES)
    stored: list[Message] = []
    for each in range(ROUNDS):
        stored += append(journal, b"%d:" % each + b"x" * 80)
        if each >= 4:
            done = stored.pop(0)
            journal.settle(1, done.id)
        shortage.commit(journal)
        expected = [message.body for message in stored]
        for seed in range(5) if shortage.passed else ():
            after, pages = opened(disk.power_loss(Random(seed)), SEGMENT_BYTES)
            assert bodies(after, pages) == expected, f"power loss {seed}"
    assert "00000001.log" not in disk.names(), "nothing was removed"


@pytest.mark.parametrize("error", EXHAUSTED, ids=errno.errorcode.get)
def test_a_batch_survives_a_shortage_at_any_call(error: int) -> None:
    fails_at = -1
    while True:
        disk = SimulatedDisk(Random(1))
        shortage = Shortage(disk, fails_at, error)
        work(disk, shortage)
        if fails_at >= shortage.calls:
            break
        fails_at += 1
    assert fails_at > 50, "the disk was hardly asked"


@pytest.mark.parametrize("first", [True, False], ids=["an empty segment", "another message before"])
def test_a_message_for_which_there_is_no_memory_leaves_no_part_of_its_record(
    monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk)
    there = [] if first else append(journal, b"before")

    def append_half(buffer: bytearray, *_: object) -> None:
        buffer += b"half a record"
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(log_records, "append_messages", append_half)
        with pytest.raises(MemoryError):
            append(journal, b"too long")
    there += append(journal, b"after")
    assert [message and message.body for message in journal.read_all([each.id for each in there])] == [
        each.body for each in there
    ]
    commit(journal)
    after, pages = opened(disk.crash())
    assert bodies(after, pages) == [each.body for each in there] and not after.report


def test_a_batch_is_written_again_when_there_is_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk)
    append(journal, b"one")
    batch = journal.seal()

    def exhausted(what: str, name: str) -> None:
        raise MemoryError

    disk.before = exhausted
    with pytest.raises(OSError) as raised:
        batch.write()
    assert raised.value.errno == errno.ENOMEM
    disk.before = None
    batch.write()
    batch.sync()
    journal.committed(batch.number)
    after, pages = opened(disk.power_loss(Random(1)))
    assert bodies(after, pages) == [b"one"]


@pytest.mark.parametrize(
    "refused",
    [
        (log_records, "encode_batch"),
        (log_records, "encode_settled"),
        (journal_module, "Batch"),
        (Journal, "_new_segment"),
        (Journal, "snapshot"),
        (Compaction, "_copy"),
    ],
    ids=lambda refused: refused[1],
)
def test_a_batch_for_which_there_is_no_memory_is_sealed_later_with_all_that_it_has(
    monkeypatch: pytest.MonkeyPatch, refused: tuple[Any, str]
) -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk, SEGMENT_BYTES)
    dead = append(journal, b"x" * SEGMENT_BYTES)
    commit(journal)
    kept, *sparse = [append(journal, b"%d" % number * 50)[0] for number in range(SEGMENT_BYTES // 100)]
    commit(journal)
    journal.settle_many(1, [*dead, *sparse])
    last = append(journal, b"z" * SEGMENT_BYTES)

    def exhausted(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(*refused, exhausted)
        with suppress(MemoryError):
            commit(journal)
    for _ in range(3):
        journal.sync()
        commit_any(journal)
    after, pages = opened(disk.power_loss(Random(1)), SEGMENT_BYTES)
    assert bodies(after, pages) == [message.body for message in (kept, *last)] and not after.report
    assert "00000001.log" not in disk.names() or refused[1] == "_copy"


@pytest.mark.parametrize("at_a_stop", [True, False])
def test_without_memory_for_a_checkpoint_the_broker_goes_on_with_the_old_one(
    monkeypatch: pytest.MonkeyPatch, at_a_stop: bool
) -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk, SEGMENT_BYTES)
    stored = append(journal, b"x" * SEGMENT_BYTES)
    commit(journal)

    def exhausted(saved: Checkpoint) -> bytes:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "encode", exhausted)
        if at_a_stop:
            journal.close()
        else:
            journal.settle_many(1, stored)
            commit(journal)
            assert "00000001.log" in disk.names()
    if at_a_stop:
        after, pages = opened(disk.crash(), SEGMENT_BYTES)
        assert bodies(after, pages) == [message.body for message in stored]
    else:
        journal.sync()
        commit(journal)
        assert "00000001.log" not in disk.names()
