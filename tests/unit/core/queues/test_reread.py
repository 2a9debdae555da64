"""Unreadable messages: none is lost, the others are delivered, and they follow once they can be read."""

from contextlib import suppress

import pytest

from tests.support.clock import fake_clock
from tests.support.queues import UNLIMITED_BYTES, Delivery, Taker, enqueue, message, new_queue
from tests.support.session import SlowJournal, new_node
from warren.broker.amqp.errors import PreconditionFailed, Unreadable
from warren.broker.amqp.field_table import Table
from warren.broker.core.messages.journal_port import RecoveredQueue
from warren.broker.core.messages.message import Message, ShedMessage
from warren.broker.core.queues import ready_messages
from warren.broker.core.queues import ready_messages as line_module
from warren.broker.core.queues.ledger import Ledger
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.ready_messages import EXHAUSTED_MS, REREAD_MS

RESIDENT, UNPAGE = 3, 4


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "PAGE_ABOVE", RESIDENT - 1)
    for module in (line_module, ready_messages):
        monkeypatch.setattr(module, "UNPAGE", UNPAGE)


class FailingJournal(SlowJournal):
    """A journal whose reads fail.

    unreadable  numbers of messages, from 1 on in the order of storing
    exhausted   the system has no descriptor for a read
    broken      a read raises
    longest     the largest number of messages in one read
    most        messages that one read returns, as if they were long
    """

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: set[int] = set()
        self.exhausted = self.broken = False
        self.longest = 0
        self.most = 1_000

    def read(self, ids: list[int], queue: int = 0) -> list[Message | None]:
        if self.broken:
            raise KeyError("a bug")
        if self.exhausted:
            self.reads += 1
            assert self.reads < 10_000, "the read is tried without end"
            return []
        self.longest = max(self.longest, len(ids))
        read: list[Message | None] = []
        for id_, each in zip(ids, super().read(ids, queue), strict=True):
            if id_ in self.unreadable and read and read[-1] is not None:
                break
            read.append(None if id_ in self.unreadable else each)
        return read[: self.most]


def paged(count: int, *unreadable: int, number: int = 1) -> tuple[Queue, FailingJournal]:
    """Return a queue of `count` messages, whose frames are their numbers; the first few of them are in memory."""
    journal = FailingJournal()
    journal.unreadable = set(unreadable)
    queue = new_queue(number=number, journal=journal, ledger=Ledger(0))
    for each in range(1, count + 1):
        enqueue([message(each, True, b"%d" % each)], queue)
    return queue, journal


def drained(queue: Queue) -> list[int]:
    """Get messages until there are none, or the others cannot be read now."""
    found = []
    with suppress(Unreadable):
        while (got := queue.get(False)) is not None:
            found.append(int(got[1].frames))
        assert not queue.stored
    return found


def pass_ms(queue: Queue, ms: int) -> None:
    fake_clock(queue.host.clock).advance(ms)


def test_unreadable_messages_delay_no_others_and_are_delivered_once_readable() -> None:
    queue, journal = paged(20, 4, 5, 11, 20)
    assert drained(queue) == [each for each in range(1, 21) if each not in journal.unreadable]
    assert (queue.ready, queue.ready_bytes) == (0, 0)
    assert len(journal.live) == 20, "the journal keeps unread messages"
    journal.unreadable = {11}
    pass_ms(queue, REREAD_MS)
    assert (queue.ready, queue.ready_bytes) == (3, 4 + 5 + 20)
    assert drained(queue) == [4, 5, 20]
    journal.unreadable.clear()
    pass_ms(queue, REREAD_MS)
    assert drained(queue) == [11]
    assert not queue.ready_messages.unread_count and not queue.host.ledger.ready_bytes


def test_a_disk_that_is_unreadable_for_a_while_loses_nothing() -> None:
    queue, journal = paged(20, *range(1, 21))
    log: list[Delivery] = []
    queue.add_consumer(Taker("1", queue, log, False, 0, 100))
    queue.pump()
    assert [int(each.frames) for _, _, each, _ in log] == [1, 2, 3]
    enqueue([message(1, True, b"21")], queue)
    queue.pump()
    assert int(log[-1][2].frames) == 21
    journal.unreadable.clear()
    for _ in range(20 // UNPAGE):
        pass_ms(queue, REREAD_MS)
    assert sorted(int(each.frames) for _, _, each, _ in log) == list(range(1, 22))
    assert len({position for _, position, _, _ in log}) == 21
    assert [int(each.frames) for _, _, each, _ in log][4:] == list(range(4, 21))


def test_long_messages_that_could_not_be_read_are_read_again_in_as_many_steps_as_the_journal_has_reads() -> None:
    queue, journal = paged(12, 5, 6, 7)
    drained(queue)
    journal.unreadable.clear()
    journal.most = 1
    ready = queue.ready_messages
    for number in range(1, 4):
        read_bytes = ready.read_bytes
        assert ready.reread() == (1, 1)
        assert (queue.ready, ready.unread_count) == (number, 3 - number) and ready.read_bytes > read_bytes
    assert drained(queue) == [5, 6, 7]


def test_what_is_requeued_goes_in_front_of_what_could_not_be_read_before_it() -> None:
    queue, journal = paged(6, 4)
    assert (queue.get(False) or (0,))[0] == 1
    got = [queue.get(False) for _ in range(4)]
    assert [int(each[1].frames) for each in got if each is not None] == [2, 3, 5, 6]
    journal.unreadable.clear()
    pass_ms(queue, REREAD_MS)
    for each in got:
        assert each is not None
        queue.requeue(each[0], each[1])
    assert drained(queue) == [2, 3, 4, 5, 6]


def test_the_bytes_are_exact_again_when_all_ready_messages_are_in_memory() -> None:
    queue, _ = paged(12, 5, 6)
    for _ in range(6):
        queue.get(False)
    assert queue.ready == 12 - 2 - 6
    while queue.ready_messages.default.chunks.stored:
        drained(queue)
    assert queue.ready_bytes == sum(each.body_bytes for each in queue.ready_messages.default.fresh)


def test_a_purge_settles_unread_messages() -> None:
    queue, journal = paged(12, 5, 6)
    for _ in range(6):
        queue.get(True)
    queue.purge()
    assert not journal.live and not queue.ready_messages.unread_count
    pass_ms(queue, REREAD_MS)
    assert queue.ready == 0


def test_a_deleted_queue_is_not_read_again() -> None:
    queue, journal = paged(12, 5, 6)
    drained(queue)
    queue.purge()
    queue.on_deleted()
    reads = journal.reads
    pass_ms(queue, 3 * REREAD_MS)
    assert journal.reads == reads


def test_very_many_unreadable_messages_are_set_aside_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "UNREAD_LIMIT", 2 * UNPAGE)
    queue, journal = paged(100, *range(4, 91))
    log: list[Delivery] = []
    queue.add_consumer(Taker("1", queue, log, False, 0, 1000))
    reads = journal.reads
    queue.pump()
    assert journal.reads - reads <= 2, "one turn has read too many"
    for _ in range(100):
        pass_ms(queue, 0)
    assert [int(each.frames) for _, _, each, _ in log] == [1, 2, 3, *range(91, 101)]


def test_messages_behind_very_many_unreadable_ones_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "UNREAD_LIMIT", 8)
    journal = FailingJournal()
    journal.unreadable = set(range(4, 20))
    arguments = Table.of({"x-message-ttl": 60_000})
    queue = new_queue(number=1, journal=journal, ledger=Ledger(0), arguments=arguments)
    for number in range(1, 41):
        enqueue([message(number, True, b"%d" % number)], queue)
    for _ in range(5):
        queue.get(True)
    pass_ms(queue, 120_000)
    queue.schedule_pump()
    queue.host.pump()
    assert queue.ready == 0


def test_a_queue_with_unread_messages_is_not_empty() -> None:
    vhost = new_node().vhosts["/"]
    queue = vhost.declare_queue("q", durable=True)
    queue.ready_messages.set_aside(ShedMessage(0, 1, 1, 0, 0, True, False))
    assert queue.ready == 0
    with pytest.raises(PreconditionFailed, match="not empty"):
        vhost.delete_queue(queue, if_empty=True)


def test_after_a_short_fault_all_messages_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_messages, "REFUSED_LIMIT", 2 * UNPAGE)  # of which only those that fail again count
    queue, journal = paged(50 * UNPAGE, *range(RESIDENT + 1, 50 * UNPAGE + 1))
    queue.host.ledger.limit_bytes = UNLIMITED_BYTES
    assert len(drained(queue)) == RESIDENT
    journal.unreadable = {RESIDENT + 2}
    journal.longest = 0
    pass_ms(queue, REREAD_MS)
    assert queue.ready == 50 * UNPAGE - RESIDENT - 1, "the backlog is read in slices"
    assert journal.longest <= UNPAGE, "more than a slice was read at once"
    assert drained(queue) == [RESIDENT + 1, *range(RESIDENT + 3, 50 * UNPAGE + 1)]
    journal.unreadable.clear()
    pass_ms(queue, REREAD_MS)
    assert drained(queue) == [RESIDENT + 2]


def test_messages_reread_after_a_fault_stay_within_the_ledger() -> None:
    queue, journal = paged(50 * UNPAGE, *range(RESIDENT + 1, 50 * UNPAGE + 1))
    drained(queue)
    journal.unreadable.clear()
    pass_ms(queue, REREAD_MS)
    assert queue.ready_messages.default.resident <= RESIDENT + UNPAGE, "too many are in memory"
    assert drained(queue) == list(range(RESIDENT + 1, 50 * UNPAGE + 1)), "the rest was not read"


def test_reads_from_a_failing_disk_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_messages, "REFUSED_LIMIT", 2 * UNPAGE)
    queue, journal = paged(100, *range(RESIDENT + 1, 101))
    while queue.ready_messages.default.chunks.stored:
        drained(queue)
    reads = journal.reads
    pass_ms(queue, REREAD_MS)
    assert journal.reads - reads <= 2
    assert queue.ready_messages.unread_count == 100 - RESIDENT


def test_messages_read_at_a_later_attempt_are_not_redelivered() -> None:
    queue, journal = paged(6, 5)
    assert drained(queue) == [1, 2, 3, 4, 6]
    journal.unreadable.clear()
    pass_ms(queue, REREAD_MS)
    position, each, redelivered = queue.get(False) or pytest.fail("nothing")
    assert int(each.frames) == 5 and not redelivered
    queue.requeue(position, each)
    assert (queue.get(False) or pytest.fail("nothing"))[2]


def test_recovered_messages_count_as_redelivered_whenever_they_are_read() -> None:
    journal = paged(6)[1]
    queue = new_queue(journal=journal, ledger=Ledger(0))
    stored = RecoveredQueue()
    stored.body_bytes = 21
    for each in journal.live.values():
        stored.append(each.id)
    queue.restore(stored)
    journal.unreadable = {2}
    assert drained(queue) == [1, 3, 4, 5, 6]
    journal.unreadable.clear()
    pass_ms(queue, REREAD_MS)
    assert (queue.get(False) or pytest.fail("nothing"))[2]


def test_a_read_that_raises_loses_none() -> None:
    queue, journal = paged(12, 5, 6)
    failures: list[str] = []
    queue.host.scheduler.report = lambda event, level, fields: failures.append(event)
    drained(queue)
    journal.broken = True
    pass_ms(queue, REREAD_MS)
    assert failures == ["job_failed"] and queue.ready_messages.unread_count == 2
    journal.broken = False
    journal.unreadable.clear()
    pass_ms(queue, REREAD_MS)
    assert drained(queue) == [5, 6]


def test_without_descriptors_no_message_is_set_aside_and_all_are_delivered_in_order_later() -> None:
    queue, journal = paged(20)
    log: list[Delivery] = []
    journal.exhausted = True
    queue.add_consumer(Taker("1", queue, log, False, 0, 100))
    queue.pump()
    reads = journal.reads
    assert [int(each.frames) for _, _, each, _ in log] == [1, 2, 3]
    assert (queue.ready, queue.ready_messages.unread_count) == (17, 0)
    pass_ms(queue, EXHAUSTED_MS - 1)
    assert journal.reads == reads, "the read is tried at every turn"
    pass_ms(queue, 1)
    assert journal.reads > reads and (queue.ready, queue.ready_messages.unread_count) == (17, 0)
    journal.exhausted = False
    pass_ms(queue, EXHAUSTED_MS)
    assert [int(each.frames) for _, _, each, _ in log] == list(range(1, 21))
    assert not any(redelivered for *_, redelivered in log)


def test_unread_messages_are_read_again_soon_after_a_lack_of_descriptors() -> None:
    queue, journal = paged(12, 5, 6)
    drained(queue)
    journal.unreadable.clear()
    journal.exhausted = True
    pass_ms(queue, REREAD_MS)
    assert (queue.ready, queue.ready_messages.unread_count) == (0, 2)
    journal.exhausted = False
    pass_ms(queue, EXHAUSTED_MS)
    assert drained(queue) == [5, 6]


@pytest.mark.parametrize("arguments", [{"x-message-ttl": 60_000}, {"x-max-length": 5}], ids=["ttl", "length"])
def test_limits_hold_as_soon_as_there_is_a_descriptor_again(arguments: dict[str, int]) -> None:
    journal = FailingJournal()
    queue = new_queue(journal=journal, ledger=Ledger(0), arguments=Table.of(arguments))
    journal.exhausted = True
    for number in range(1, 41):
        enqueue([message(number, True, b"%d" % number)], queue)
        queue.pump()
    pass_ms(queue, 120_000)
    assert queue.ready > 5, "unreadable messages cannot be dropped"
    journal.exhausted = False
    pass_ms(queue, EXHAUSTED_MS)
    assert queue.ready == (0 if "x-message-ttl" in arguments else 5)


def test_a_message_that_is_due_and_cannot_be_read_is_tried_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, ledger = FailingJournal(), Ledger(0)
    queue = new_queue(journal=journal, ledger=ledger, arguments=Table.of({"x-message-ttl": 60_000}))
    ledger.add(1, 1)  # of another queue
    for number in range(1, 9):
        enqueue([message(number, True, b"%d" % number)], queue)
        queue.pump()
    monkeypatch.setattr(line_module, "PAGE_ABOVE", -line_module.RUN - 1)
    assert queue.ready_messages.default.shed(), "the deadline of the first message is known from now on"
    before, journal.exhausted = journal.reads, True
    pass_ms(queue, 60_000 - 1)
    assert journal.reads == before
    pass_ms(queue, 5 * EXHAUSTED_MS)
    assert 5 <= journal.reads <= 100 and queue.ready == 8
    journal.exhausted = False
    pass_ms(queue, EXHAUSTED_MS)
    assert not queue.ready


def test_a_consumer_that_makes_room_gets_what_waits_to_be_read_again_soon() -> None:
    queue, journal = paged(20, 4, 5, 6)
    drained(queue)
    enqueue([message(1, True, b"%d" % each) for each in (21, 22, 23)], queue)
    journal.unreadable.clear()
    pass_ms(queue, REREAD_MS)
    assert queue.ready_messages.unread_count == 3 and queue.ready_messages.awaits_room
    log: list[Delivery] = []
    queue.add_consumer(Taker("1", queue, log, True, 0, 100))
    queue.pump()
    pass_ms(queue, 1)
    assert [int(each.frames) for _, _, each, _ in log] == [21, 22, 23, 4, 5, 6]


def test_get_fails_without_descriptors_and_returns_all_messages_later() -> None:
    queue, journal = paged(8)
    journal.exhausted = True
    assert drained(queue) == [1, 2, 3]
    journal.exhausted = False
    assert drained(queue) == [4, 5, 6, 7, 8]
