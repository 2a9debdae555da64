"""A disk that others have filled to the last byte gets free through the broker, by the reserve of the log."""

from array import array
from errno import ENOSPC
from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.test_interleavings import append, bodies, opened
from tests.support.journal import commit, commit_any
from warren.broker.core.messages.message import Message
from warren.broker.storage.compaction import COPY_FREE_BYTES
from warren.broker.storage.folder_disk import NEW_NAME
from warren.broker.storage.journal import Journal
from warren.broker.storage.log_records import append_messages
from warren.broker.storage.segment import OFFSET_BITS

SEGMENT_BYTES = 4_000
RESERVE_BYTES = 2_000


class ReservingDisk(SimulatedDisk):
    """A simulated disk whose reserve is a part of its limit."""

    reserved = False

    def fill(self) -> None:
        """Have another process take all space that is left."""
        self.reserved = True
        self.limit_bytes = self.used_bytes

    def spend_reserve(self) -> bool:
        if self.reserved and self.limit_bytes is not None:
            self.limit_bytes += RESERVE_BYTES
        spent, self.reserved = self.reserved, False
        return spent


def eight_messages(segment_bytes: int = SEGMENT_BYTES) -> tuple[ReservingDisk, Journal, list[Message]]:
    """Return a journal with as many messages of 500 bytes, and these."""
    disk = ReservingDisk(Random(1))
    journal, _ = opened(disk, segment_bytes)
    stored = append(journal, *[b"%03d" % number + b"x" * 500 for number in range(8)])
    commit(journal)
    return disk, journal, stored


def test_publishes_and_settlements_are_stored_on_a_full_disk_and_free_its_segments() -> None:
    disk, journal, stored = eight_messages()
    before = disk.used_bytes
    disk.fill()
    stored += append(journal, b"the last one")
    commit(journal)
    assert not disk.reserved
    journal.settle_many(1, stored[:-1])
    commit(journal)
    assert disk.used_bytes < before - 3_000, "the segments are still there"
    after, pages = opened(disk.power_loss(Random(2)), SEGMENT_BYTES)
    assert bodies(after, pages) == [b"the last one"]


def test_a_segment_that_is_dead_ends_early_and_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.broker.storage.journal.EARLY_BYTES", 1_000)
    disk, journal, stored = eight_messages(1 << 20)
    journal.full = True
    assert not commit_any(journal), "its messages are live"
    journal.settle_many(1, stored)
    journal.queue_deleted(2)
    commit(journal)
    for _ in range(3):  # the segment ends; it is removed; there is nothing more to do
        journal.sync()
        commit_any(journal)
    assert disk.used_bytes < 1_000 and len(journal.segments) == 1
    after, pages = opened(disk.power_loss(Random(2)), SEGMENT_BYTES)
    assert not after.report and not bodies(after, pages)


def test_settlements_and_delivery_counts_do_not_fill_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.broker.storage.journal.EARLY_BYTES", 1_000)
    disk, journal, stored = eight_messages(1 << 20)
    before, journal.full = disk.used_bytes, True
    for attempts in range(1, 300):
        journal.record_delivery_count(1, stored[0].id, attempts)
        commit(journal)
        assert disk.used_bytes < before + 4_000, "a segment for the counts, and the one after it"
    after, pages = opened(disk.power_loss(Random(2)), 1 << 20)
    assert bodies(after, pages) == [message.body for message in stored]
    [message] = after.read([stored[0].id], 1)
    assert message is not None and message.state is not None and message.state.attempts == 299


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("left_bytes", [COPY_FREE_BYTES - 1, COPY_FREE_BYTES])
def test_long_live_messages_among_many_dead_ones_are_copied_only_where_the_disk_has_room_for_them(
    monkeypatch: pytest.MonkeyPatch, left_bytes: int, full: bool
) -> None:
    disk, journal, long, short = one_long_message(monkeypatch, LONG_BODY // 10)
    monkeypatch.setattr(disk, "free_bytes", lambda: left_bytes + record_bytes(long) + journal.unwritten_bytes())
    journal.full = full
    journal.settle_many(1, short)
    settle_down(journal)
    copied = left_bytes == COPY_FREE_BYTES
    assert (journal.index.place(long.id) >> OFFSET_BITS == 1) is not copied
    assert (disk.used_bytes < 2 * LONG_BODY) is copied
    journal.settle_many(1, [long])
    settle_down(journal)
    assert disk.used_bytes < 2_000, "what is dead is deleted"


def test_a_segment_with_a_live_message_that_is_too_long_for_a_copy_stays_until_that_is_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, journal, long, short = one_long_message(monkeypatch)
    monkeypatch.setattr("warren.broker.storage.compaction.LONG_BYTES", record_bytes(long) - 1)
    journal.full = True
    journal.settle_many(1, short[:-1])
    settle_down(journal)
    assert journal.index.place(long.id) >> OFFSET_BITS == 1 and disk.used_bytes < LONG_BODY + 5_000
    reads = 0

    def count(what: str, name: str) -> None:
        nonlocal reads
        reads += what == "read"

    disk.before = count
    settle_down(journal)
    assert not reads, "it is tried again with each batch"
    journal.settle_many(1, [long])
    settle_down(journal)
    assert reads and disk.used_bytes < 2_000, "the short one is copied, and the long one not even read"
    after, pages = opened(disk.power_loss(Random(2)), LONG_BODY)
    assert bodies(after, pages) == [b"039"]


LONG_BODY = 400_000  # more than a slice


def one_long_message(
    monkeypatch: pytest.MonkeyPatch, short_bytes: int = 0
) -> tuple[ReservingDisk, Journal, Message, list[Message]]:
    """Return a journal with a long message and many shorter ones, and these."""
    monkeypatch.setattr("warren.broker.storage.journal.EARLY_BYTES", 1_000)
    disk = ReservingDisk(Random(1))
    journal, _ = opened(disk, LONG_BODY)
    [long] = append(journal, b"x" * LONG_BODY)
    short = append(journal, *[b"%03d" % number + bytes(short_bytes) for number in range(40)])
    commit(journal)
    return disk, journal, long, short


def record_bytes(message: Message) -> int:
    buffer = bytearray()
    stored = Message(message.address, message.frames, 0, 0, 0, True)
    append_messages(buffer, 0, 0, 1, [1], [stored], array("I"), array("I"))
    return len(buffer)


def settle_down(journal: Journal) -> None:
    """Commit batches until compaction and deletion have done what they can."""
    for _ in range(6):
        journal.sync()
        commit_any(journal)


def test_a_disk_without_room_for_a_checkpoint_gets_the_reserve() -> None:
    disk, journal, stored = eight_messages()
    journal.settle_many(1, stored)

    def full(what: str, name: str) -> None:
        if what == "write" and name == NEW_NAME and disk.reserved:
            raise OSError(ENOSPC, "full", name)

    disk.reserved, disk.before = True, full
    commit(journal)
    assert "00000001.log" not in disk.names()


def test_without_a_reserve_dead_segments_are_deleted_once_there_is_room() -> None:
    disk, journal, stored = eight_messages()
    journal.settle_many(1, stored)
    full = [True]

    def fail(what: str, name: str) -> None:
        if full[0] and name == NEW_NAME and what == "write":
            raise OSError(ENOSPC, "full", name)

    disk.before = fail
    commit(journal)
    journal.sync()
    assert commit_any(journal) and "00000001.log" in disk.names()
    assert not commit_any(journal), "it is tried again when the committer says so"
    full[0] = False
    journal.sync()
    commit(journal)
    assert "00000001.log" not in disk.names() and not commit_any(journal)


def test_a_batch_fails_if_the_reserve_is_spent() -> None:
    disk = ReservingDisk(Random(1))
    journal, _ = opened(disk, SEGMENT_BYTES)
    append(journal, b"one")
    commit(journal)
    disk.fill()
    append(journal, b"x" * (RESERVE_BYTES + 1))
    batch = journal.seal()
    for _ in range(2):
        with pytest.raises(OSError, match="space") as error:
            batch.write()
        assert error.value.errno == ENOSPC


def test_of_a_log_with_few_live_messages_spread_over_it_the_last_segment_stays_until_it_is_full() -> None:
    """The proportions are those of 400 messages of 100 bytes in a log of 105 MB, whose segments have 64 MiB."""
    disk, segment_bytes = ReservingDisk(Random(1)), 1 << 20
    journal, _ = opened(disk, segment_bytes)
    stored: list[Message] = []
    while disk.used_bytes < 1.6 * segment_bytes:
        stored += append(journal, *[b"%06d" % number + b"x" * 94 for number in range(200)])
        commit(journal)
    left = stored[:: len(stored) // 7]
    journal.settle_many(1, [message for message in stored if message not in left])
    settle_down(journal)
    last = journal.segments[2]
    assert "00000001.log" not in disk.names() and disk.used_bytes < last.length + 10_000
    while 2 in journal.segments:
        filling = append(journal, *[b"x" * 100] * 200)
        commit(journal)
        journal.settle_many(1, filling)
        settle_down(journal)
    assert disk.used_bytes < segment_bytes / 4
    after, pages = opened(disk.power_loss(Random(2)), segment_bytes)
    assert bodies(after, pages) == [message.body for message in left]
