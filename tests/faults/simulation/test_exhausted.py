"""A system without a spare descriptor, at any call to the disk: the batch is tried again, and nothing is lost."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.test_interleavings import append, bodies, opened
from warren.broker.core.messages.message import Message
from warren.broker.core.messages.ports import EXHAUSTED
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
