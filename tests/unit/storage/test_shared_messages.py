"""Messages of several queues: which queues still want them, in few bytes even for long lists of queues."""

from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.metadata import journal_on
from tests.support.journal import commit_any, new_message
from tests.support.traced_memory import traced_memory
from warren.broker.core.messages.message import Message
from warren.broker.storage import journal as journal_module
from warren.broker.storage.journal import Journal
from warren.broker.storage.segment import OFFSET_BITS
from warren.broker.storage.shared_messages import LISTS, Sharing

SEGMENT_BYTES = 4000


def open_journal(disk: SimulatedDisk, segment_bytes: int = SEGMENT_BYTES) -> tuple[Journal, dict[int, list[int]]]:
    """Start a journal, and return it with the ids of each queue."""
    journal = journal_on(disk, segment_bytes)
    found = journal.recover()
    return journal, {queue: list(pages) for queue, pages in found.items()}


def append(journal: Journal, queues: list[int], count: int = 1, body: bytes = b"x" * 60) -> list[Message]:
    messages = [new_message(body) for _ in range(count)]
    journal.append(queues, messages)
    return messages


@pytest.mark.parametrize("queues", [2, 3, 31, 32, 33, 64, 65, 100])
def test_nobody_wants_a_message_once_each_queue_has_settled_it(queues: int) -> None:
    random = Random(queues)
    sharing = Sharing()
    numbers = random.sample(range(1, 10_000), queues)
    sharing.add(5, 3, numbers)
    left = {index: set(numbers) for index in (5, 6, 7)}
    while any(left.values()):
        index = random.choice([index for index in left if left[index]])
        queue = random.choice(sorted(left[index]))
        assert sharing.wants(index, queue)
        left[index].discard(queue)
        assert sharing.settle(index, queue) == (not left[index])
        assert not sharing.wants(index, queue)
        assert sharing.wanting(index) == sorted(left[index])
    assert sharing.wanting(4) is None and sharing.wanting(8) is None and sharing.settle(4, 1)


def test_what_is_encoded_is_decoded_and_what_was_lent_does_not_change() -> None:
    sharing = Sharing()
    lists = [list(range(first, first + 2 + first % 40)) for first in range(1, LISTS + 50)]
    for index, queues in enumerate(lists):
        sharing.add(index, 1, queues)
        sharing.settle(index, queues[0])
    lent = sharing.lend()
    assert lent is not None
    decoded, end = Sharing.decode(b"head" + sharing.encode() + b"more", 4)
    assert end == 4 + len(sharing.encode())
    for index, queues in enumerate(lists):
        sharing.settle(index, queues[1])
        sharing.add(len(lists) + index, 1, queues)
    other, _ = Sharing.decode(lent.encode(), 0)
    for index, queues in enumerate(lists):
        assert decoded.wanting(index) == other.wanting(index) == queues[1:]
        assert sharing.wanting(index) == queues[2:]
    assert decoded.encode() == lent.encode()
    sharing.give_back()
    lent = sharing.lend()
    assert lent is not None and lent.encode() == sharing.encode()


def test_a_change_of_what_is_lent_copies_a_piece_alone() -> None:
    """All of it took 3 ms for each segment, in one turn for the acknowledgements of very many segments."""
    sharing = Sharing()
    sharing.add(0, 400_000, [1, 2])
    sharing.settle(0, 1)
    assert sharing.lend() is not None
    with traced_memory() as memory:
        for index in range(100):
            sharing.settle(index, 2)
    assert memory.peak_bytes < 20_000


def test_a_message_of_two_queues_takes_few_bytes_of_memory() -> None:
    """The memory was once 320 bytes. A paged-out message takes 8 more in each of its queues."""
    journal, _ = open_journal(SimulatedDisk(Random(1)), 1 << 30)
    messages = append(journal, [1, 2], 1, b"")
    with traced_memory() as memory:
        part, _ = journal.index.locate(messages[0].id)
        assert part is not None
        for first in range(2, 100_002, 100):
            part.share(first, 100, [1, 2])
    assert messages and memory.held_bytes <= 12 * 100_000


@pytest.mark.rest("70,000 queues")
def test_a_message_of_more_queues_than_two_bytes_can_count_is_kept_by_a_checkpoint() -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = open_journal(disk, 1 << 20)
    queues = list(range(1, 70_001))
    (message,) = append(journal, queues)
    commit_any(journal)
    journal.settle(7, message.id)
    commit_any(journal)
    journal.close()
    disk = disk.crash()
    journal, found = open_journal(disk)
    assert found.keys() == set(queues) - {7}
    for queue in found:
        journal.settle(queue, message.id)
    commit_any(journal)
    assert not open_journal(disk.crash())[1]


def test_a_checkpoint_says_what_was_settled_when_it_was_sealed_whatever_came_since() -> None:
    """The worker encodes it while the loop settles messages whose copies may not be written yet."""
    disk = SimulatedDisk(Random(1))
    journal, _ = open_journal(disk)
    dead = append(journal, [1], 30)
    commit_any(journal)
    (early, late, counted) = append(journal, [1, 2], 3)
    commit_any(journal)
    for message in dead:
        journal.settle(1, message.id)
    journal.settle(1, early.id)
    batch = journal.seal()
    assert batch is not None
    journal.settle(1, late.id)
    journal.settle(2, late.id)
    journal.record_delivery_count(2, counted.id, 5)
    batch.write()
    batch.sync()
    assert "00000001.log" not in disk.names(), "a segment went, so there is a checkpoint"
    journal, found = open_journal(disk.crash())
    assert found == {1: [late.id, counted.id], 2: [early.id, late.id, counted.id]}
    assert not any(block.attempts for block in journal.index)


def test_what_compaction_has_copied_keeps_its_id_and_is_forgotten_once_it_is_dead() -> None:
    disk = SimulatedDisk(Random(1))
    journal, _ = open_journal(disk)
    messages = append(journal, [1, 2], 30)
    commit_any(journal)
    kept = messages[::10]
    for message in messages:
        if message not in kept:
            for queue in (1, 2):
                journal.settle(queue, message.id)
    others: list[Message] = []
    for _ in range(10):
        others += append(journal, [3])
        commit_any(journal)
    first = messages[0].id
    assert 1 not in journal.segments and journal.index.place(first) >> OFFSET_BITS > 1
    for queue in (1, 2):
        read = journal.read_all([message.id for message in kept], queue)
        assert [each and each.id for each in read] == [message.id for message in kept]
        assert journal.index.place(first)
        for message in kept:
            journal.settle(queue, message.id)
    assert not journal.index.place(first)
    journal.settle_many(3, others)
    for _ in range(20):
        journal.settle(3, append(journal, [3])[0].id)
        commit_any(journal)
    assert all(segment.live for segment in journal.segments.values() if segment.complete)
    assert journal.index.find(first) is None


def test_queues_that_were_deleted_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "DELETED_QUEUES_LIMIT", 3)
    disk = SimulatedDisk(Random(1))
    journal, _ = open_journal(disk, 1 << 20)
    held = {queue: append(journal, [queue])[0] for queue in range(1, 8)}
    for queue in held:
        journal.queue_deleted(queue)
    assert len(journal._deleted_queues) == 3
    for queue, message in held.items():
        journal.settle(queue, message.id)
    commit_any(journal)
    journal, found = open_journal(disk.crash())
    assert not found and not journal.report
