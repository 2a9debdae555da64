"""Declarations without messages: written but not synced, and always before later confirmed messages on the disk."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, cast

from tests.faults.simulation.disk import SimulatedDisk
from tests.support.journal import commit, new_message
from warren.broker.core.metadata.records import Change, StoredQueue
from warren.broker.storage.journal import Journal

if TYPE_CHECKING:
    from warren.broker.storage.metadata import Metadata

QUEUE = Change(True, StoredQueue("/", "q", 1, False, b""))


class Notes:
    """Metadata and disk that only record the order of calls."""

    unsynced = True

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.disk = SimulatedDisk(Random(1))
        self.disk.before = lambda what, name: self.calls.append(f"{what} log") if what in ("write", "sync") else None

    def apply(self, changes: list[Change]) -> None:
        self.calls.append("apply metadata")

    def sync(self) -> None:
        self.calls.append("sync metadata")


def opened() -> tuple[Journal, Notes]:
    notes = Notes()
    journal = Journal(notes.disk, cast("Metadata", notes))
    journal.recover()
    assert notes.calls[0] == "sync metadata", "what a start has found stays"
    notes.calls.clear()
    return journal, notes


def publish(journal: Journal) -> None:
    journal.append([1], [new_message(b"x")])


def test_a_declaration_is_answered_once_it_is_written() -> None:
    journal, notes = opened()
    journal.change(QUEUE)
    answered: list[bool] = []
    journal.when_durable(journal.ticket(), lambda: answered.append(True))
    commit(journal)
    assert answered and notes.calls == ["apply metadata"]
    assert journal.unsynced() and journal.seal() is None


def test_a_sync_is_a_batch_of_its_own_where_nothing_else_came() -> None:
    journal, notes = opened()
    journal.change(QUEUE)
    commit(journal)
    journal.sync()
    commit(journal)
    assert notes.calls == ["apply metadata", "sync metadata"]
    assert not journal.unsynced()
    journal.sync()
    assert journal.seal() is None


def test_a_deleted_queue_needs_no_sync_of_the_log() -> None:
    journal, notes = opened()
    publish(journal)
    commit(journal)
    notes.calls.clear()
    journal.change(Change(False, QUEUE.record))
    journal.queue_deleted(1)
    commit(journal)
    assert notes.calls == ["apply metadata", "sync metadata", "write log"]
    assert not journal.unsynced()


def test_messages_come_after_all_that_was_declared_before() -> None:
    journal, notes = opened()
    journal.change(QUEUE)
    commit(journal)
    journal.change(QUEUE)
    publish(journal)
    commit(journal)
    assert notes.calls == ["apply metadata", "apply metadata", "sync metadata", "write log", "sync log"]
    assert not journal.unsynced()
