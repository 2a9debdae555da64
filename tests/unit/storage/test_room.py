"""The journal says whether it has room, and what it gathers until the next batch takes few bytes."""

from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.test_interleavings import append, opened
from tests.support.journal import commit
from tests.support.traced_memory import traced_memory
from warren.broker.core.messages.journal_port import BEHIND, DISK_FULL, ROOM
from warren.broker.core.metadata.records import Change, StoredQueue
from warren.broker.storage import journal as journal_module
from warren.broker.storage.journal import CHANGE_BYTES, Journal

QUEUE = Change(True, StoredQueue("/", "q", 1, False, b""))
LIMIT = 10_000


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    monkeypatch.setattr(journal_module, "BUFFER_LIMIT", LIMIT)
    return opened(SimulatedDisk(Random(1)), 1 << 20)[0]


def test_there_is_room_until_much_is_buffered_and_again_in_the_next_batch(journal: Journal) -> None:
    append(journal, bytes(LIMIT // 2))
    assert journal.room() == ROOM
    append(journal, bytes(LIMIT // 2))
    assert journal.room() == BEHIND
    commit(journal)
    assert journal.room() == ROOM


def test_there_is_none_during_the_alarm_of_the_disk_whatever_is_written_meanwhile(journal: Journal) -> None:
    journal.note_alarm(True)
    assert journal.room() == DISK_FULL
    append(journal, bytes(2 * LIMIT))
    assert journal.room() == DISK_FULL
    journal.note_alarm(False)
    assert journal.room() == BEHIND
    journal.note_alarm(True)
    commit(journal)
    assert journal.room() == DISK_FULL
    journal.note_alarm(False)
    assert journal.room() == ROOM


def test_very_many_declarations_are_too_much_as_well(journal: Journal) -> None:
    for _ in range(LIMIT // CHANGE_BYTES):
        assert journal.room() == ROOM
        journal.change(QUEUE)
    journal.change(QUEUE)
    assert journal.room() == BEHIND
    commit(journal)
    assert journal.room() == ROOM


def test_many_delivery_counts_take_several_batches(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "COUNTS", 10)
    stored = append(journal, *[b"x"] * 25)
    for _ in range(3):
        for attempts in range(1, 4):
            for message in stored:
                journal.record_delivery_count(1, message.id, attempts)
        commit(journal)
    while journal.ticket() > journal.durable:
        commit(journal)
    after, _ = opened(journal.disk.power_loss(Random(2)), 1 << 20)
    read = after.read([message.id for message in stored], 1)
    assert [message.state.attempts for message in read if message is not None and message.state] == [3] * 25


def test_a_settlement_takes_eight_bytes_until_it_is_written(journal: Journal) -> None:
    count, base = 20_000, 1 << 40  # ids of which each object takes 32 bytes
    with traced_memory() as memory:
        for number in range(count):
            journal.settle(1, base + number)
    assert memory.held_bytes < 10 * count
