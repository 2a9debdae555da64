"""Read errors of the disk: the place is logged, nothing is lost, all else is served, copied and confirmed."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk, SimulatedFile
from tests.faults.simulation.metadata import journal_on
from tests.support.descriptors import no_descriptor
from tests.support.journal import commit, commit_any, new_message
from warren.broker.core.messages.journal_port import EXHAUSTED
from warren.broker.core.messages.message import Message
from warren.broker.storage import compaction, folder_disk, segment_reader
from warren.broker.storage.folder_disk import FolderDisk

SEGMENT_BYTES = 4000
FIRST = "00000001.log"
BODY = b"x" * 80


class BadDisk(SimulatedDisk):
    """A disk with unreadable bytes: their offsets by file are in `bad`."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.bad: dict[str, int] = {}
        self.refused = 0

    def open(self, name: str, create: bool) -> SimulatedFile:
        self.call("open", name)
        super().open(name, create)
        return BadFile(self, name, self._inodes[name])


class BadFile(SimulatedFile):
    def read(self, offset: int, count: int) -> bytes:
        disk = self._disk
        assert isinstance(disk, BadDisk)
        bad = disk.bad.get(self._name, -1)
        if offset <= bad < offset + count:
            disk.refused += 1
            raise OSError(errno.EIO, "Input/output error", self._name)
        return super().read(offset, count)


class Log:
    """A journal on such a disk. `pages` are those of its messages, by body."""

    def __init__(self) -> None:
        self.disk = BadDisk()
        self.journal = journal_on(self.disk, SEGMENT_BYTES)
        self.journal.recover()
        self.stored: list[Message] = []

    def store(self, count: int, *queues: int) -> None:
        """Store messages, each in a batch of its own."""
        for _ in range(count):
            body = b"%04d" % len(self.stored) + BODY
            message = new_message(body)
            self.journal.append(list(queues) or [1], [message])
            self.stored.append(message)
            self.commit()

    def store_sparsely(self) -> None:
        """Store a hundred messages, and settle all but each ninth."""
        self.store(100)
        for number, message in enumerate(self.stored):
            if number % 9:
                self.journal.settle(1, message.id)
        self.stored = self.stored[::9]

    def commit(self) -> bool:
        return commit_any(self.journal)

    def read(self) -> list[int | None]:
        """Read all messages at once, and return their numbers."""
        read = self.journal.read_all([each.id for each in self.stored])
        return [int(message.body[:4]) if message is not None else None for message in read]


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_bad_block_costs_one_record_and_its_place_is_named_once(log: Log) -> None:
    log.store(20)
    offset = log.journal.index.place(log.stored[3].id) & 0xFFFFFFFF
    log.disk.bad[FIRST] = offset + 50
    expected = [None if number == 3 else number for number in range(20)]
    assert log.read() == log.read() == expected
    assert log.journal.report == [f"{FIRST}: the record at offset {offset} cannot be read: Input/output error"]
    log.disk.bad.clear()
    log.journal.reader.now_s = lambda: 1e9
    assert log.read() == list(range(20))


def test_a_segment_that_keeps_failing_is_left_alone_for_a_while(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "FAILURES", 4)
    log.store(50)
    now_s = 100.0
    log.journal.reader.now_s = lambda: now_s
    before, log.disk.before = log.disk.before, None
    count = sum(log.journal.index.place(each.id) >> 32 == 1 for each in log.stored)

    def fail(what: str, name: str) -> None:
        if what in ("read", "open") and name == FIRST:
            log.disk.refused += 1
            raise OSError(errno.EIO, "Input/output error", name)

    log.disk.before = fail
    expected: list[int | None] = [*[None] * count, *range(count, 50)]
    assert log.read() == expected
    refused = log.disk.refused
    assert refused <= 8
    assert log.read() == expected and log.disk.refused == refused, "a failing disk is read again and again"
    log.disk.before = before
    assert log.read() == expected
    now_s += segment_reader.RETRY_S
    assert log.read() == list(range(50))


def test_a_segment_that_cannot_be_read_is_not_compacted_and_all_else_goes_on(log: Log) -> None:
    log.store_sparsely()
    log.disk.bad[FIRST] = 100
    for _ in range(20):
        log.commit()
        log.store(1)
    assert log.journal.durable >= 100 + 20, "batches are not committed any more"
    assert [line for line in log.journal.report if FIRST in line and "offset" in line]
    assert FIRST in log.disk.names() and "00000002.log" not in log.disk.names(), "all others are compacted"
    log.disk.bad.clear()
    log.journal.reader.now_s = lambda: 1e9
    assert None not in log.read()


def test_a_record_damaged_while_the_broker_runs_is_counted_and_named_once(log: Log) -> None:
    log.store(5)
    offset = log.journal.index.place(log.stored[2].id) & 0xFFFFFFFF
    data = bytearray(log.disk.content(FIRST))
    data[offset + 70] ^= 1
    log.disk.put(FIRST, bytes(data))
    assert log.read() == log.read() == [0, 1, None, 3, 4]
    assert log.journal.report == [f"{FIRST}: the record at offset {offset} is damaged"]
    assert log.journal.reader.damaged >= 2
    pages = [each.id for each in log.stored]
    assert [len(log.journal.read(pages[first:])) for first in (0, 2)] == [2, 3], "a read ends before a page that fails"


def test_a_record_that_cannot_be_read_is_reported_with_its_queue(log: Log) -> None:
    log.store(3, 7)
    searched = []
    log.journal.reader.name_of = lambda number: searched.append(number) or f"queue 'q{number}' in vhost '/'"
    ids = [each.id for each in log.stored]
    offsets = [log.journal.index.place(id_) & 0xFFFFFFFF for id_ in ids]
    data = bytearray(log.disk.content(FIRST))
    data[offsets[0] + 70] ^= 1
    log.disk.put(FIRST, bytes(data))
    log.disk.bad[FIRST] = offsets[1] + 70
    assert [message and message.id for message in log.journal.read_all(ids, 7)] == [None, None, ids[2]]
    of = "; it has a message of queue 'q7' in vhost '/', which stays there unread: check the disk, and restore a backup"
    assert [line.partition(" if the message")[0] for line in log.journal.report] == [
        f"{FIRST}: the record at offset {offsets[0]} is damaged{of}",
        f"{FIRST}: the record at offset {offsets[1]} cannot be read: Input/output error{of}",
    ]
    assert searched == [7]


def test_more_segments_are_read_than_files_may_be_open(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_disk, "OPEN_FILES", 3)
    log.store(150)
    assert log.read() == list(range(150))
    assert len(log.disk._readers) == 3


def test_a_file_that_another_process_has_written_to_is_an_error(log: Log) -> None:
    log.store(1)
    other = log.disk.open(FIRST, False)
    other.write(b"foreign")
    log.journal.append([1], [new_message(BODY)])
    batch = log.journal.seal()
    assert batch is not None
    log.disk._writers[0].size = len(log.disk.content(FIRST))
    with pytest.raises(OSError) as raised:
        batch.write()
        batch.sync()
    assert raised.value.errno == errno.EIO and raised.value.filename == FIRST


def failing(log: Log, error: int, *calls: str) -> Callable[[], None]:
    """Make these calls fail for the first segment, until the returned function is called."""
    before = log.disk.before

    def fail(what: str, name: str) -> None:
        if what in calls and name == FIRST:
            log.disk.refused += 1
            raise OSError(error, os.strerror(error), name)

    def end() -> None:
        log.disk.before = before

    log.disk.before = fail
    return end


@pytest.mark.parametrize("error", EXHAUSTED, ids=errno.errorcode.get)
def test_a_shortage_says_nothing_of_the_disk(log: Log, error: int) -> None:
    log.store(50)
    pages = [each.id for each in log.stored]
    there = sum(log.journal.index.place(each.id) >> 32 != 1 for each in log.stored)
    end = failing(log, error, "open", "read")
    assert log.journal.read(pages) == [] == log.journal.read_all(pages)
    assert len(log.journal.read_all(pages[-there:] + pages)) == there, "what was read before the shortage is given"
    assert log.journal.read_errors == 0 and log.journal.report == [
        f"{FIRST}: not read for now, to be tried again: {os.strerror(error)}"
    ]
    end()
    assert log.read() == list(range(50)), "the segment is left alone as if the disk had failed"


def test_a_real_log_is_read_on_when_there_is_a_descriptor_again(tmp_path: Path) -> None:
    journal = journal_on(FolderDisk(tmp_path / "log", False), SEGMENT_BYTES)
    journal.recover()
    stored = []
    for number in range(100):
        body = b"%04d" % number + BODY
        stored.append(new_message(body))
        journal.append([1], stored[-1:])
        commit(journal)
    pages = [each.id for each in stored]
    there = sum(journal.index.place(each.id) >> 32 == 1 for each in stored)
    assert len(journal.read(pages[:there])) == there
    with no_descriptor():
        assert len(journal.read_all(pages)) == there, "what is in a file that is open can be read"
    assert [each and each.body for each in journal.read_all(pages)] == [each.body for each in stored]
    journal.close()


@pytest.mark.parametrize("error", [*EXHAUSTED, errno.EIO], ids=errno.errorcode.get)
def test_a_segment_is_compacted_some_time_after_it_could_not_be_read(log: Log, error: int) -> None:
    log.store_sparsely()
    now_s = 0.0
    log.journal.reader.now_s = lambda: now_s
    end = failing(log, error, "open", "read")
    for _ in range(20):
        log.commit()
        log.store(1)
    assert log.disk.refused == 1, "a disk that refuses is asked with each batch"
    assert FIRST in log.disk.names() and "00000002.log" not in log.disk.names(), "all others are compacted"
    end()
    now_s += segment_reader.RETRY_S if error in EXHAUSTED else compaction.REFUSED_S
    for _ in range(20):
        log.commit()
        log.store(1)
    assert FIRST not in log.disk.names()
    assert None not in log.read()
