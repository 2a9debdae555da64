"""Counters of a journal: messages and bytes written and read back."""

import errno
from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.metadata import journal_on
from tests.support.journal import commit, new_message
from warren.broker.core.messages.message import Message
from warren.broker.storage import log_records
from warren.broker.storage.folder_disk import FileDisk
from warren.broker.storage.journal import STORE_LIMIT, Journal
from warren.broker.storage.segment_reader import READ_BYTES


def open_journal(disk: SimulatedDisk) -> Journal:
    journal = journal_on(disk)
    journal.recover()
    return journal


def store_messages(journal: Journal, count: int, body: bytes) -> list[int]:
    """Store `count` messages in one batch, and return their pages."""
    messages = [new_message(body) for _ in range(count)]
    journal.append([1], messages)
    commit(journal)
    return [message.id for message in messages]


def test_messages_and_bytes_are_counted_as_they_are_written_and_read_back() -> None:
    journal = open_journal(SimulatedDisk(Random(1)))
    assert (journal.written_messages, journal.written_bytes, journal.reads, journal.read_messages) == (0, 0, 0, 0)
    pages = store_messages(journal, 3, b"x" * 100)
    assert journal.written_messages == 3 and 300 < journal.written_bytes < 900
    journal.read(pages)
    batch_bytes = log_records.BATCH_BYTES
    assert (journal.reads, journal.read_messages, journal.read_bytes) == (1, 3, journal.written_bytes - batch_bytes)


def test_what_was_there_before_a_restart_was_not_written_since() -> None:
    disk = SimulatedDisk(Random(1))
    store_messages(open_journal(disk), 3, b"x")
    journal = open_journal(disk.power_loss(Random(1)))
    assert (journal.written_messages, journal.written_bytes, journal.read_messages) == (0, 0, 0)


def test_a_long_message_is_one_read() -> None:
    journal = open_journal(SimulatedDisk(Random(1)))
    pages = store_messages(journal, 1, b"x" * (2 * READ_BYTES))
    journal.read(pages)
    assert journal.reads == 1 and journal.read_bytes > 2 * READ_BYTES


@pytest.mark.parametrize(("read_ahead", "reads"), [(0, 7), (1 << 20, 2), (4 << 20, 1)])
def test_a_far_store_is_read_ahead(monkeypatch: pytest.MonkeyPatch, read_ahead: int, reads: int) -> None:
    journal = open_journal(SimulatedDisk(Random(1)))
    pages = store_messages(journal, 80, b"x" * 20_000)
    monkeypatch.setattr(FileDisk, "read_ahead", read_ahead)
    assert len(journal.read(pages)) == 80 and journal.reads == reads
    before = journal.read_bytes
    journal.read(pages[:1])
    assert journal.read_bytes - before <= READ_BYTES


def test_messages_that_are_far_from_each_other_are_not_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileDisk, "read_ahead", 4 << 20)
    journal = open_journal(SimulatedDisk(Random(1)))
    pages = store_messages(journal, 200, b"x" * 20_000)
    assert None not in journal.read([pages[0], pages[199]]) and journal.read_bytes <= 2 * READ_BYTES


@pytest.mark.parametrize(("gap_bytes", "read_cost"), [(300_000, 16 << 10), (60_000, 16 << 10), (300_000, 256 << 10)])
def test_distant_messages_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch, gap_bytes: int, read_cost: int) -> None:
    monkeypatch.setattr(FileDisk, "read_cost", read_cost)
    journal = open_journal(SimulatedDisk(Random(1)))
    pages = [store_messages(journal, 2, b"x" * size)[0] for _ in range(100) for size in (1, gap_bytes)][::2]
    read: list[Message | None] = []
    while len(read) < len(pages):
        before = journal.read_bytes, journal.reads
        read += journal.read(pages[len(read) :])
        cost = journal.read_bytes - before[0] + read_cost * (journal.reads - before[1])
        assert cost <= STORE_LIMIT + READ_BYTES + read_cost
    assert None not in read and journal.read_bytes < 100 * READ_BYTES


def test_a_store_that_is_too_slow_for_a_long_read_is_read_in_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, read = SimulatedDisk(Random(1)), FileDisk.read

    def slow(files: FileDisk, number: int, offset: int, count: int) -> bytes:
        if count > READ_BYTES:
            raise OSError(errno.ENOTCONN, "the server does not answer")
        return read(files, number, offset, count)

    monkeypatch.setattr(FileDisk, "read_ahead", 1 << 20)
    monkeypatch.setattr(FileDisk, "read", slow)
    journal = open_journal(disk)
    pages = store_messages(journal, 80, b"x" * 20_000)
    assert journal.read(pages) == []
    assert len(journal.read(pages)) == 80 and journal.reads == 7
