"""The loop reads while workers commit: nothing is lost in any order of their calls to the disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.interleaving import SteppedDisk, Stepper, orders
from tests.faults.simulation.metadata import MemoryMetadata
from tests.support.journal import commit
from warren.broker.amqp.framing import content_frames
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.storage.disk import Disk
from warren.broker.storage.journal import Batch, Journal

if TYPE_CHECKING:
    from warren.broker.storage.metadata import Metadata

SEGMENT_BYTES = 1 << 20


def message(body: bytes) -> Message:
    return Message(RoutingAddress("", "q"), content_frames(1, b"\x00\x00", body), 1, len(body), 0, True)


def opened(disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> tuple[Journal, list[int]]:
    journal = Journal(disk, cast("Metadata", MemoryMetadata()), segment_bytes)
    return journal, list(journal.recover().get(1, []))


def append(journal: Journal, *bodies: bytes) -> list[Message]:
    messages = [message(body) for body in bodies]
    journal.append([1], messages)
    return messages


def bodies(journal: Journal, pages: list[int]) -> list[bytes]:
    return [each.body for each in journal.read(pages) if each is not None]


def stopped_with(*stored: bytes, segment_bytes: int = SEGMENT_BYTES) -> SimulatedDisk:
    """Return the disk of a killed broker that had stored each of these in a batch of its own."""
    disk = SimulatedDisk(Random(1))
    journal, _ = opened(disk, segment_bytes)
    for body in stored:
        append(journal, body)
        commit(journal)
    return disk.crash()


def first_read_and_first_commit(stepper: Stepper, segment_bytes: int, before: tuple[bytes, ...]) -> None:
    disk = stopped_with(*before, segment_bytes=segment_bytes)
    stepped = SteppedDisk(disk, stepper)
    journal, pages = opened(stepped, segment_bytes)
    append(journal, b"three")
    batch = journal.seal()
    found: list[bytes] = []

    def commit_batch() -> None:
        batch.write()
        batch.sync()

    stepper.run(lambda: found.extend(bodies(journal, pages)), commit_batch)
    disk.before = None
    journal.committed(batch.number)
    assert found == list(before), "the loop has read something else"
    for body in (b"four", b"five"):
        append(journal, body)
        commit(journal)
    journal, pages = opened(disk.crash(), segment_bytes)
    assert bodies(journal, pages) == [*before, b"three", b"four", b"five"], f"with choices {stepper.choices}"


def two_syncs_and_a_read(stepper: Stepper) -> None:
    disk = stopped_with(b"one")
    journal, pages = opened(SteppedDisk(disk, stepper))
    batches: list[Batch] = []
    for body in (b"two", b"three"):
        pages += [each.id for each in append(journal, body)]
        batch = journal.seal()
        batch.write()
        batches.append(batch)
    assert journal.seal() is None, "a third batch"
    stored = [b"one", b"two", b"three"]
    found: list[bytes] = []

    def sync(batch: Batch) -> None:
        batch.sync()
        journal.committed(batch.number)
        for seed in range(3):
            after, pages = opened(disk.power_loss(Random(seed)))
            durable = stored[: journal.durable + 1]
            assert bodies(after, pages)[: len(durable)] == durable, "a durable message is lost"

    stepper.run(lambda: found.extend(bodies(journal, pages)), *[partial(sync, batch) for batch in batches])
    assert found == stored, f"with choices {stepper.choices}"
    assert journal.durable == len(batches)


@pytest.mark.parametrize(
    "scene",
    [
        partial(first_read_and_first_commit, segment_bytes=SEGMENT_BYTES, before=(b"one", b"two")),
        partial(first_read_and_first_commit, segment_bytes=100, before=(b"one",)),  # the batch begins a segment
        two_syncs_and_a_read,
    ],
    ids=["first read and first commit", "first read and first commit of a segment", "two syncs and a read"],
)
def test_the_loop_reads_while_workers_commit_in_any_order(scene: Callable[[Stepper], None]) -> None:
    tried = 0
    for stepper in orders():
        scene(stepper)
        tried += 1
    assert tried >= 10, "too few orders: the disk was hardly asked"
