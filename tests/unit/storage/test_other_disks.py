"""The log on a disk that is no folder: an append is whole or absent there, and others may use a segment."""

from collections.abc import Iterable
from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.metadata import journal_on
from tests.support.journal import commit, commit_any, store
from warren.broker.storage.journal import Journal
from warren.broker.storage.segment_reader import RETRY_S

SEGMENT_BYTES = 1000
FIRST = "00000001.log"


class OtherDisk(SimulatedDisk):
    """Such a disk. Segments in `used` cannot be dropped."""

    tears = False

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.used: set[int] = set()
        self.saved = 0

    def drop(self, numbers: Iterable[int]) -> list[int]:
        super().drop([number for number in numbers if number not in self.used])
        return sorted(self.used.intersection(numbers))

    def save_checkpoint(self, data: bytes) -> None:
        self.saved += 1
        super().save_checkpoint(data)


@pytest.fixture
def disk() -> OtherDisk:
    return OtherDisk()


def recovered(disk: OtherDisk) -> tuple[Journal, list[bytes]]:
    journal = journal_on(disk, SEGMENT_BYTES)
    ids = list(journal.recover().get(1, []))
    return journal, [each.body for each in journal.read_all(ids) if each is not None]


def test_a_bad_last_record_is_damage_and_nothing_is_cut_off(disk: OtherDisk) -> None:
    journal, _ = recovered(disk)
    store(journal, [1], b"one", b"two")
    disk.damage(FIRST, disk.segments()[1] - 1)
    before = disk.content(FIRST)
    journal, found = recovered(disk)
    assert found == [b"one"] and "a damaged record at offset" in journal.report[0]
    store(journal, [1], b"three")
    assert disk.content(FIRST).startswith(before)
    assert recovered(disk)[1] == [b"one", b"three"]


def test_a_damaged_head_is_damage_and_its_segment_stays(disk: OtherDisk) -> None:
    journal, _ = recovered(disk)
    store(journal, [1], b"one")
    disk.damage(FIRST, 0)
    journal, found = recovered(disk)
    assert found == [b"one"] and journal.report == [f"{FIRST}: its head is damaged, at offset 0"]


def test_a_segment_that_others_use_is_dropped_later_and_the_others_at_once(disk: OtherDisk) -> None:
    journal, _ = recovered(disk)
    now_s = 100.0
    journal.reader.now_s = lambda: now_s
    messages = store(journal, [1], *[b"%d" % number * 100 for number in range(30)])
    assert len(disk.segments()) > 3
    disk.used = {1}
    for each in messages:
        journal.settle(1, each.id)
    commit(journal)
    store(journal, [1], b"next")
    assert min(disk.segments()) == 1 and len(disk.segments()) <= 3
    saved = disk.saved
    for number in range(5):
        store(journal, [1], b"%d" % number)
    assert disk.saved == saved, "it is tried again with each batch"
    for each in store(journal, [1], *[b"%d" % number * 100 for number in range(10)]):
        journal.settle(1, each.id)
    commit(journal)
    store(journal, [1], b"last")
    assert disk.saved > saved and len(disk.segments()) <= 4, "others wait for it"
    saved = disk.saved
    disk.used, now_s = set(), now_s + RETRY_S
    journal.sync()
    assert commit_any(journal) and 1 not in disk.segments() and disk.saved == saved + 1
    assert 1 not in journal.segments
    journal.sync()
    assert not commit_any(journal)
