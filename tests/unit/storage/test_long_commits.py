"""Transactions over several batches of the log: after a power cut all of one is there, or nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.support.journal import commit, new_message
from warren.broker.core.messages.journal_port import Commit
from warren.broker.core.messages.message import Message
from warren.broker.core.metadata.records import Change, StoredQueue, StoredVHost
from warren.broker.storage import checkpoint, log_records
from warren.broker.storage.copy import copy_store
from warren.broker.storage.doctor import examine
from warren.broker.storage.folder_disk import FolderDisk
from warren.broker.storage.journal import Journal
from warren.broker.storage.recovery import recover
from warren.broker.storage.sqlite_metadata import SQLiteMetadata

from .test_recovery import FIRST, open_journal, salt_of, write_log

Queues = dict[int, list[bytes]]


def begun(journal: Journal) -> Commit:
    long = Commit()
    journal.keep_open(long)
    return long


@contextmanager
def within(journal: Journal, long: Commit) -> Iterator[None]:
    """Context of one step of a commit, after which the batch is committed."""
    journal.enter(long)
    yield
    journal.enter(None)
    commit(journal)


def store(journal: Journal, queues: list[int], *bodies: bytes) -> list[Message]:
    messages = [new_message(body) for body in bodies]
    journal.append(queues, messages)
    return messages


def half_done() -> tuple[SimulatedDisk, Journal, Commit]:
    """A commit that has published to queue 2 and settled one message of queue 1, with a publish of others between."""
    disk = write_log(b"one", b"two")
    journal, _ = open_journal(disk)
    one, _ = journal.read([1, 2])
    assert one is not None
    long = begun(journal)
    for body in (b"a", b"b"):
        with within(journal, long):
            store(journal, [2], body)
            outer = journal.enter(None)
            store(journal, [1], b"of others")
            journal.enter(outer)
    with within(journal, long):
        journal.begin_settling(long)
        journal.settle_many(1, [one])
        journal.settle(1, 2)
    return disk, journal, long


ABSENT: Queues = {1: [b"one", b"two", b"of others", b"of others"]}
WHOLE: Queues = {1: [b"of others", b"of others"], 2: [b"a", b"b"]}


def test_a_commit_without_an_end_has_not_happened() -> None:
    disk, journal, long = half_done()
    assert open_journal(disk.crash())[1] == ABSENT
    journal.end(long)
    commit(journal)
    assert open_journal(disk.crash())[1] == WHOLE


def test_what_was_dropped_stays_dropped_and_its_number_is_not_used_again() -> None:
    disk, _, _ = half_done()
    disk = disk.crash()
    journal, found = open_journal(disk)
    assert found == ABSENT
    long = begun(journal)
    with within(journal, long):
        store(journal, [2], b"later")
    journal.end(long)
    commit(journal)
    assert open_journal(disk.crash())[1] == ABSENT | {2: [b"later"]}


def test_later_damage_brings_nothing_back_that_was_dropped() -> None:
    disk, _, _ = half_done()
    disk = disk.crash()
    journal, _ = open_journal(disk)
    for body in (b"first", b"second", b"third"):
        store(journal, [3], body)
        commit(journal)
    disk.damage(FIRST, disk.content(FIRST).index(b"first"))
    assert open_journal(disk.crash())[1] == ABSENT | {3: [b"second", b"third"]}


def test_several_commits_are_open_at_once() -> None:
    disk = write_log()
    journal, _ = open_journal(disk)
    first, second = begun(journal), begun(journal)
    for body in (b"1", b"2"):
        for long, name in ((first, b"first"), (second, b"second")):
            with within(journal, long):
                store(journal, [1], name + body)
    journal.end(second)
    commit(journal)
    assert open_journal(disk.crash())[1] == {1: [b"second1", b"second2"]}


def test_a_message_of_a_commit_that_others_have_settled_before_its_end_does_not_come_back() -> None:
    disk = write_log()
    journal, _ = open_journal(disk)
    long = begun(journal)
    with within(journal, long):
        [taken, _] = store(journal, [1], b"taken", b"left")
    journal.settle(1, taken.id)
    commit(journal)
    assert open_journal(disk.crash())[1] == {}
    journal.end(long)
    commit(journal)
    assert open_journal(disk.crash())[1] == {1: [b"left"]}


@pytest.mark.parametrize("settles", [False, True])
def test_a_clean_stop_does_not_end_a_commit(settles: bool) -> None:
    disk = write_log(b"one")
    journal, _ = open_journal(disk)
    long = begun(journal)
    with within(journal, long):
        store(journal, [2], b"a")
        if settles:
            journal.begin_settling(long)
            journal.settle(1, 1)
    journal.close()
    assert open_journal(disk.crash())[1] == {1: [b"one"]}


def test_only_the_settlements_of_a_commit_keep_segments_from_being_deleted() -> None:
    disk = write_log()
    journal, _ = open_journal(disk, segment_bytes=200)
    long = begun(journal)
    for number in range(4):
        with within(journal, long):
            store(journal, [2], b"%d" % number)
            outer = journal.enter(None)
            [dead] = store(journal, [1], bytes(200))
            journal.settle(1, dead.id)
            journal.enter(outer)
    assert FIRST not in disk.names(), "it has no live messages, or they were copied"
    assert open_journal(disk.crash())[1] == {}
    there = set(disk.names())
    with within(journal, long):
        journal.begin_settling(long)
        journal.settle(2, 1)
    for _ in range(4):
        [dead] = store(journal, [1], bytes(200))
        journal.settle(1, dead.id)
        commit(journal)
    assert there < set(disk.names()), "one was deleted"
    journal.end(long)
    commit(journal)
    assert len(disk.names()) <= len(there), "the dead ones were not deleted"
    assert open_journal(disk.crash())[1] == {2: [b"1", b"2", b"3"]}


def record_at(data: bytes, kind: int) -> int:
    """Return the offset of the last record of this kind."""
    at, found = log_records.SEGMENT_HEAD_BYTES, 0
    while end := log_records.record_end(salt_of(data), data, at):
        found, at = at if data[at + log_records.RECORD_BYTES] == kind else found, end
    return found


def test_damage_to_the_end_of_a_commit_loses_nothing() -> None:
    disk, journal, long = half_done()
    journal.end(long)
    for _ in range(2):  # the latter says that the former is durable
        store(journal, [3], b"later")
        commit(journal)
    disk.damage(FIRST, record_at(disk.content(FIRST), log_records.COMMIT_END) + log_records.RECORD_BYTES)
    assert open_journal(disk.crash())[1] == ABSENT | {2: [b"a", b"b"], 3: [b"later", b"later"]}


@pytest.mark.parametrize("kind", [log_records.COMMIT_STORED, log_records.COMMIT_SETTLED])
def test_what_is_sound_of_a_commit_with_an_end_counts(kind: int) -> None:
    disk, journal, long = half_done()
    journal.end(long)
    for _ in range(2):
        store(journal, [3], b"later")
        commit(journal)
    disk.damage(FIRST, record_at(disk.content(FIRST), kind) + log_records.RECORD_BYTES)
    back = ABSENT[1] if kind == log_records.COMMIT_SETTLED else WHOLE[1]
    assert open_journal(disk.crash())[1] == WHOLE | {1: back, 3: [b"later", b"later"]}


def test_without_a_checkpoint_the_messages_of_a_commit_without_an_end_stay() -> None:
    disk, _, _ = half_done()
    disk.remove(checkpoint.NAME)
    assert open_journal(disk.crash())[1] == ABSENT | {2: [b"a", b"b"]}


def test_a_commit_in_one_batch_and_what_is_in_none_need_no_record_of_commits() -> None:
    disk = write_log()
    journal, _ = open_journal(disk)
    short = Commit()
    journal.enter(short)
    [taken] = store(journal, [1], b"one")
    journal.begin_settling(short)
    journal.settle(1, taken.id)
    journal.end(short)
    commit(journal)
    data = disk.content(FIRST)
    assert [record_at(data, kind) > 0 for kind in range(1, 10)] == [True] * 2 + [False] * 3 + [True] + [False] * 3
    assert open_journal(disk.crash())[1] == {}


@pytest.mark.parametrize("copied", [False, True])
def test_a_commit_without_an_end_is_no_damage(copied: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    metadata = SQLiteMetadata(source / "meta.sqlite")
    metadata.load()
    records = [StoredVHost("/"), *[StoredQueue("/", f"q{number}", number, False, b"") for number in (1, 2, 3)]]
    metadata.apply([Change(True, record) for record in records])
    disk = FolderDisk(source / "log", False)
    journal = Journal(disk, metadata)
    journal.recover()
    store(journal, [1], b"one")
    long = begun(journal)
    for body in (b"a", b"b"):
        with within(journal, long):
            store(journal, [2], body)
    with within(journal, long):
        journal.begin_settling(long)
        journal.settle(1, 1)
    metadata.close()
    folder = source
    if copied:
        assert copy_store(str(source), str(target), "", "") == 0
        folder = target
    capsys.readouterr()
    assert examine(folder) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "recovery: 2 messages of transactions that were not committed are dropped" in lines
    assert [line.split(": ")[1] for line in lines[-3:]] == ["1 messages", "0 messages", "0 messages"]
    report: list[str] = []
    recovered = recover(FolderDisk(folder / "log", False), report)
    assert (recovered.dropped, report, recovered.missing) == (2, [], [])
