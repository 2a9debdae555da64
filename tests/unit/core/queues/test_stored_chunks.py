"""Paging: messages on the disk return in order, once, and unchanged."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.hypothesis_settings import examples
from tests.support.queues import Delivery, Taker, enqueue, held_by, journal_of, message, new_queue
from tests.support.session import SlowJournal
from tests.support.traced_memory import traced_memory
from warren.broker.amqp import properties
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.framing import content_frames
from warren.broker.core.messages.journal_port import RecoveredQueue
from warren.broker.core.messages.message import Message
from warren.broker.core.queues import chunks, ready_messages
from warren.broker.core.queues import ready_messages as line_module
from warren.broker.core.queues.chunks import ChunkList
from warren.broker.core.queues.consumers import Consumers
from warren.broker.core.queues.dead_lettering import DeadLetterOutbox
from warren.broker.core.queues.ledger import Ledger
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.reply_queue import ReplyQueue

PAGE_ABOVE, UNPAGE = 10, 4  # in these tests
NO_FLAGS = bytes(2)
LONG_PROPERTIES = properties.replace(NO_FLAGS, properties.HEADERS, Table.of({"h": "v" * 1000}))
LONG_BYTES = len(content_frames(0, LONG_PROPERTIES, bytes(10))) - 10


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "PAGE_ABOVE", PAGE_ABOVE)
    monkeypatch.setattr(line_module, "UNPAGE", UNPAGE)


# The parts


def test_a_budget_is_exceeded_above_its_limit() -> None:
    ledger = Ledger(1000)
    ledger.add(1, 1000 - Ledger.OVERHEAD)
    assert not ledger.exceeded
    ledger.add(0, 1)
    assert ledger.exceeded
    ledger.add(-1, -1 - (1000 - Ledger.OVERHEAD))
    assert not ledger.exceeded and ledger.ready_bytes == 0


steps = st.lists(st.one_of(st.sampled_from(("next", "next", "next", "later", "far", "earlier")), st.integers(0, 9)))


@given(st.integers(0, 9), steps, st.booleans())
@examples(200)
def test_a_backlog_is_first_in_first_out(restored: int, steps: list[str | int], logged: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "BLOCK", 3)
        backlog = ChunkList(Ledger(0))
        model = [(id_, 0) for id_ in range(1 << 40, (1 << 40) + restored)]
        backlog.store(array("Q", [id_ for id_, _ in model]), [])
        id_ = (1 << 40) + restored - 1
        for number, step in enumerate(steps, 1):
            if isinstance(step, int):
                expected = [id_ for id_, _ in model[:step]], [seq for _, seq in model[:step]]
                assert backlog.take_ids(step) == expected
                del model[:step]
            else:
                id_ += {"next": 1, "later": 3, "far": 1 << 33, "earlier": -1}[step]
                model.append((id_, number if logged else 0))
                backlog.store(array("Q", [id_]), [model[-1][1]])
            assert backlog.count == backlog.stored == len(model)
        assert backlog.peek(100) == [id_ for id_, _ in model[:100]]


def test_copies_that_the_message_log_did_not_number_are_paged() -> None:
    """A dead letter has the negative number of its message until the log numbers it, which may have ended."""
    queue = new_queue(number=1, ledger=Ledger(0))
    for copy in numbered(0, 3 * PAGE_ABOVE, True):
        copy.seq = -1
        enqueue([copy], queue)
    taken = [got[1] for _ in range(3 * PAGE_ABOVE) if (got := queue.get(True)) is not None]
    assert [int(each.body) for each in taken] == list(range(3 * PAGE_ABOVE))
    assert taken[0].seq == -1 and taken[-1].seq == 0


def bytes_of(first: int, step: int, taken: int = 0) -> float:
    """Return the memory of each of 100,000 pages with ids `step` apart, of which some were taken."""
    with traced_memory() as memory:
        backlog = ChunkList(Ledger(0))
        for number in range(0, 100_000, 20):
            backlog.store(array("Q", [first + step * each for each in range(number, number + 20)]), [0] * 20)
        while taken > 0:
            taken -= len(backlog.take_ids(70)[0])
    return memory.held_bytes / 100_000


def test_a_page_takes_four_bytes_and_next_to_nothing_in_a_run() -> None:
    assert bytes_of(1 << 40, 1) < 0.1
    assert bytes_of(1 << 40, 3) < 5
    assert bytes_of(1 << 40, 1 << 30) < 9


def test_a_backlog_frees_the_memory_of_taken_pages() -> None:
    assert bytes_of(1 << 40, 3, 90_000) < 0.1 * 5 + 0.1


# One queue


def numbered(first: int, count: int, persistent: bool | None = None) -> list[Message]:
    """Return messages whose bodies are their numbers. By default every other one is persistent."""
    return [
        message(
            10, bool(number % 2) if persistent is None else persistent, content_frames(0, NO_FLAGS, b"%010d" % number)
        )
        for number in range(first, first + count)
    ]


def full_queue(count: int, number: int = 1, persistent: bool | None = None) -> Queue:
    """Return a queue on a node without memory from the beginning. It has PAGE_ABOVE + 1 messages in memory."""
    queue = new_queue(number=number, ledger=Ledger(0))
    for first in range(count):
        enqueue(numbered(first, 1, persistent), queue)
    assert len(queue.ready_messages.default.fresh) == min(count, PAGE_ABOVE + 1) and queue.ready == count
    return queue


def bodies(log: list[Delivery]) -> list[int]:
    return [int(each.body) for _, _, each, _ in log]


def recovered(ids: list[int], body_bytes: int = 0) -> RecoveredQueue:
    """Return the state that a journal has recovered."""
    found = RecoveredQueue()
    found.body_bytes = body_bytes
    for id_ in ids:
        found.append(id_)
    return found


def emptied(queue: Queue) -> None:
    assert (
        not queue.ready
        and not queue.ready_bytes
        and not queue.host.ledger.ready_bytes
        and not queue.ready_messages.default.chunks.stored
    )


@pytest.mark.parametrize("number", [0, 1], ids=["transient", "durable"])
@pytest.mark.parametrize("persistent", [True, False, None], ids=["persistent", "not", "mixed"])
def test_a_queue_pages_out_and_back_in_order(number: int, persistent: bool | None) -> None:
    queue, log = full_queue(50, number, persistent), []
    journal = journal_of(queue)
    taker = Taker("1", queue, log, False, 0, 0)
    queue.add_consumer(taker)
    for credit in (1, 3, 20, 100):
        taker.credit = credit
        queue.wake(taker)
        queue.pump()
    assert bodies(log) == list(range(50))
    assert [position for _, position, _, _ in log] == list(range(1, 51))
    assert not any(redelivered for *_, redelivered in log)
    emptied(queue)
    assert not journal.loose
    for _, _, each, _ in log:
        queue.settle([each])
    assert not journal.live and not queue.unacked


def test_messages_that_the_journal_has_for_the_queue_are_not_stored_again() -> None:
    queue = full_queue(50)
    journal = journal_of(queue)
    persistent = sum(number % 2 for number in range(50))
    loose = sum(number % 2 == 0 for number in range(PAGE_ABOVE + 1, 50))
    assert (len(journal.live), len(journal.loose), journal.stored) == (persistent, loose, persistent + loose)


def test_some_messages_stay_in_memory_even_if_the_budget_is_exceeded() -> None:
    queue = full_queue(PAGE_ABOVE + 1)
    assert not queue.ready_messages.default.chunks.stored and journal_of(queue).stored == (PAGE_ABOVE + 1) // 2


def long_messages(count: int, body_bytes: int, header_bytes: int) -> list[Message]:
    raw = properties.replace(NO_FLAGS, properties.HEADERS, Table.of({"h": "v" * header_bytes}))
    frames = content_frames(0, raw if header_bytes else NO_FLAGS, bytes(body_bytes))
    return [message(body_bytes, True, frames) for _ in range(count)]


@pytest.mark.parametrize(("body_bytes", "header_bytes"), [(1 << 20, 0), (0, 60_000)])
def test_few_long_messages_are_paged_once_the_memory_is_used_up(
    monkeypatch: pytest.MonkeyPatch, body_bytes: int, header_bytes: int
) -> None:
    """A few thousand of them are no few bytes."""
    monkeypatch.setattr(line_module, "PAGE_ABOVE", 4_000)
    ledger = Ledger(20 << 20)
    queue = new_queue(ledger=ledger)
    for each in long_messages(600, body_bytes, header_bytes):
        enqueue([each], queue)
    fifo = queue.ready_messages.default
    resident = [len(each.frames) for each in fifo.fresh]
    assert 18 << 20 < sum(resident) < 22 << 20 and queue.ready == 600
    assert sum(resident) - (1 << 20) < ledger.ready_bytes <= sum(resident) + Ledger.OVERHEAD * len(resident)


def test_long_messages_are_paged_if_no_consumer_has_room_any_more() -> None:
    """Each of many queues whose consumers are busy would keep one in memory."""
    queue, log = new_queue(ledger=Ledger(0)), []
    queue.add_consumer(Taker("1", queue, log, False, 0, 1))
    enqueue(numbered(0, 1), queue)
    queue.pump()
    enqueue(long_messages(1, 2 << 20, 0), queue)
    assert len(log) == 1 and queue.ready_messages.default.chunks.stored == 1


@pytest.mark.pure("it replaces a method of the consumers")
def test_a_long_message_for_consumers_that_are_about_to_be_woken_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that may not wait would expire."""
    queue = new_queue(ledger=Ledger(-1))
    monkeypatch.setattr(Consumers, "any_freed", lambda consumers: True)
    enqueue(long_messages(1, 2 << 20, 0), queue)
    assert not queue.ready_messages.default.chunks.stored


@pytest.mark.pure("it replaces a property of the outbox")
@pytest.mark.parametrize("reason", ["paused", "held", "dead letters"])
def test_long_messages_are_paged_while_nothing_is_delivered(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    queue, log = new_queue(ledger=Ledger(-1)), []
    queue.add_consumer(Taker("1", queue, log, False, 0, 10))
    if reason == "paused":
        queue.pause()
    elif reason == "dead letters":
        queue.host.ledger.dead_letters.total = 1
        monkeypatch.setattr(DeadLetterOutbox, "many", True)
    else:
        queue.host.held = True
    enqueue(long_messages(1, 2 << 20, 0), queue)
    assert not log and queue.ready_messages.default.chunks.stored == 1


def test_the_priorities_of_a_queue_have_few_messages_in_memory_together() -> None:
    queue = new_queue(ledger=Ledger(0), arguments=Table.of({"x-max-priority": 9}))
    for level in range(10):
        for _ in range(PAGE_ABOVE):
            raw = properties.replace(NO_FLAGS, properties.PRIORITY, level)
            enqueue([message(0, True, content_frames(0, raw, b""))], queue)
    assert queue.ready == 10 * PAGE_ABOVE
    assert queue.ready_messages.resident == PAGE_ABOVE + 1


def by_priority(levels: int, count: int, body_bytes: int, arguments: dict[str, object]) -> Queue:
    """Return a queue with messages of each priority, of a node that has memory for them until now."""
    ledger = Ledger(1 << 40)
    queue = new_queue(ledger=ledger, arguments=Table.of({"x-max-priority": levels - 1, **arguments}))
    for level in range(levels):
        raw = properties.replace(NO_FLAGS, properties.PRIORITY, level)
        enqueue([message(body_bytes, True, content_frames(0, raw, bytes(body_bytes))) for _ in range(count)], queue)
    ledger.limit_bytes = 0
    return queue


def test_the_priorities_of_a_queue_have_few_bytes_in_memory_together() -> None:
    queue = by_priority(10, 1, 900 << 10, {})
    for fifo in queue.ready_messages.all[::-1]:
        while fifo.shed():
            pass
    assert sum(fifo.body_bytes for fifo in queue.ready_messages.all) <= 2 << 20


@pytest.mark.pure("it replaces a method of the journal")
def test_what_cannot_be_shed_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = by_priority(1, 3, 1 << 20, {})

    def fail(*arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(type(queue.journal), "page_out", fail)
    with pytest.raises(MemoryError):
        queue.ready_messages.default.shed()
    queue.add_consumer(Taker("1", queue, log := [], True, 0, 10))
    queue.pump()
    assert len(log) == 3


def test_deadlines_of_what_is_shed_need_no_read() -> None:
    queue = by_priority(2, 300, 10, {"x-message-ttl": 60_000})
    _, first = queue.ready_messages.all
    while first.shed():
        pass
    assert not first.fresh and first.chunks.stored == 300
    journal = journal_of(queue)
    assert first.first_deadline_ms() == queue.host.clock.now_ms() + 60_000 and not journal.reads


@pytest.mark.parametrize("header_bytes", [0, 60_000])
def test_unacknowledged_messages_count_until_they_are_settled(header_bytes: int) -> None:
    ledger = Ledger(20 << 20)
    queue, log = new_queue(ledger=ledger), []
    queue.add_consumer(Taker("1", queue, log, False, 0, 500))
    for each in long_messages(500, 1000, header_bytes):
        enqueue([each], queue)
        queue.pump()
    held_bytes = 500 * (Ledger.UNACKED + (len(log[0][2].frames) if header_bytes else 1000))
    assert (ledger.ready_bytes, ledger.unacked_bytes) == (0, ledger.queued_bytes)
    assert abs(ledger.unacked_bytes - held_bytes) <= 500 * 16 and ledger.exceeded is bool(header_bytes)
    for _, position, each, _ in log[:100]:
        queue.requeue(position, each)
    for _, position, each, _ in log[100:200]:
        queue.reject(position, each)
    assert ledger.ready_bytes and ledger.ready_bytes < ledger.unacked_bytes
    queue.settle([each for _, _, each, _ in log[200:]])
    assert ledger.unacked_bytes == 0
    while queue.get(True) is not None:
        pass
    assert not ledger.queued_bytes


def test_as_long_as_there_is_memory_nothing_is_paged() -> None:
    queue = new_queue(number=0)
    enqueue(numbered(0, 5 * PAGE_ABOVE), queue)
    assert not queue.ready_messages.default.chunks.stored and journal_of(queue).stored == 0


def test_a_backlog_is_not_read_while_no_consumer_has_room() -> None:
    queue, log = full_queue(30), []
    queue.add_consumer(Taker("1", queue, log, True, 0, PAGE_ABOVE))
    queue.pump()
    assert len(log) == PAGE_ABOVE and journal_of(queue).reads == 0


def test_a_restored_queue_reads_what_the_journal_has() -> None:
    before, log = full_queue(30, persistent=True), []
    journal = journal_of(before)
    queue = new_queue(journal=journal, ledger=Ledger(0))
    queue.restore(recovered([each.id for each in journal.live.values()], 300))
    enqueue(numbered(30, 2, True), queue)
    assert (queue.ready, queue.ready_bytes) == (32, 320)
    queue.add_consumer(Taker("1", queue, log, True, 0, 100))
    queue.pump()
    assert bodies(log) == list(range(32)) and not journal.live
    assert [redelivered for *_, redelivered in log] == [True] * 30 + [False] * 2, "earlier deliveries are not known"
    emptied(queue)


@pytest.mark.pure("it lowers a constant of the core, so that few messages are needed")
def test_the_first_messages_of_many_priorities_are_read_back_in_several_pumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be due: each priority is read by itself."""
    monkeypatch.setattr(ready_messages, "SLICE_BYTES", 1)
    journal = journal_of(full_queue(30, persistent=True))
    queue = new_queue(journal=journal, ledger=Ledger(0), arguments=Table.of({"x-max-priority": 29}))
    found = recovered([each.id for each in journal.live.values()], 300)
    found.levels, found.deadlines_ms = bytes(range(30)), array("q", [0] * 30)
    queue.restore(found)
    for _ in range(30):
        before = journal.reads
        queue.pump()
        assert journal.reads - before <= 1
    assert journal.reads == 30


def test_after_a_purge_of_restored_messages_new_ones_are_not_redelivered() -> None:
    journal = journal_of(full_queue(30, persistent=True))
    queue = new_queue(journal=journal, ledger=Ledger(0))
    queue.restore(recovered([each.id for each in journal.live.values()], 300))
    queue.purge()
    enqueue(numbered(30, 1), queue)
    found = queue.get(True)
    assert found is not None and not found[2]


def test_a_reply_queue_keeps_to_its_limit_if_the_budget_is_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplyQueue, "LIMIT", 3 * PAGE_ABOVE)
    queue = new_queue(ReplyQueue, 0, ledger=Ledger(0))
    for first in range(0, 5 * PAGE_ABOVE, 5):
        enqueue(numbered(first, 5), queue)
    assert queue.ready == ReplyQueue.LIMIT


# Several


@pytest.mark.parametrize("numbers", [(1, 2), (1, 0), (0, 1)])
def test_a_message_of_two_queues_is_paged_by_both(numbers: tuple[int, int]) -> None:
    journal, ledger = SlowJournal(), Ledger(0)
    queues = [new_queue(number=number, journal=journal, ledger=ledger) for number in numbers]
    for first in range(0, 40, 2):
        enqueue(numbered(first, 2), *queues)
    durable = sum(number > 0 for number in numbers)
    assert len(journal.live) == 20 * durable
    assert len({id_ for _, id_ in journal.live}) == 20, "stored once for both queues"
    for queue, other in (queues, queues[::-1]):
        log: list[Delivery] = []
        queue.add_consumer(Taker("1", queue, log, False, 0, 100))
        queue.pump()
        assert bodies(log) == list(range(40))
        for _, _, each, _ in log:
            queue.settle([each])
        assert {number for number, _ in journal.live} == ({other.number} - {0} if other.ready else set())
        emptied_alone(queue)
    assert not journal.live and not journal.loose and not ledger.ready_bytes


def emptied_alone(queue: Queue) -> None:
    assert not queue.ready and not queue.ready_bytes and not queue.unacked


# Against a model


class PagingMachine(RuleBasedStateMachine):
    """A durable queue on a node with room for a few messages, with random actions."""

    PACK_ABOVE = line_module.PACK_ABOVE

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(line_module, "PACK_ABOVE", self.PACK_ABOVE)
        self.patch.setattr(line_module, "UNPACK_BELOW", 2)
        self.patch.setattr(chunks, "RUN", 2)
        self.patch.setattr(chunks, "BLOCK", 3)
        self.queue = new_queue(ledger=Ledger(8 * Ledger.OVERHEAD))
        self.ready: list[tuple[int, bool]] = []  # number and redelivered
        self.out: list[tuple[int, Message]] = []
        self.persistent: set[int] = set()
        self.long: set[int] = set()  # numbers of the messages with long headers
        self.next = 0

    @rule(flags=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=15))
    def publish(self, flags: list[tuple[bool, bool]]) -> None:
        messages = []
        for persistent, long in flags:
            messages += numbered(self.next, 1, persistent)
            if long:
                messages[-1] = messages[-1].with_properties(LONG_PROPERTIES)
                self.long.add(self.next)
            self.ready.append((self.next, False))
            if persistent:
                self.persistent.add(self.next)
            self.next += 1
        enqueue(messages, self.queue)

    @rule(no_ack=st.booleans(), count=st.integers(1, 20))
    def get(self, no_ack: bool, count: int) -> None:
        for _ in range(count):
            found = self.queue.get(no_ack)
            if found is None:
                assert not self.ready
                return
            position, each, redelivered = found
            assert (int(each.body), redelivered) == self.ready.pop(0)
            if not no_ack:
                self.out.append((position, each))

    @rule(credit=st.integers(1, 30), no_ack=st.booleans())
    def consume(self, credit: int, no_ack: bool) -> None:
        """Add a consumer for a while."""
        log: list[Delivery] = []
        taker = Taker("1", self.queue, log, no_ack, 0, credit)
        self.queue.add_consumer(taker)
        self.queue.pump()
        self.queue.consumers.remove(taker)
        assert [(int(each.body), redelivered) for _, _, each, redelivered in log] == self.ready[:credit]
        del self.ready[:credit]
        if not no_ack:
            self.out += [(position, each) for _, position, each, _ in log]

    @precondition(lambda self: self.out)
    @rule(data=st.data(), how=st.sampled_from(("ack", "requeue", "reject")))
    def settle(self, data: st.DataObject, how: str) -> None:
        for position, each in data.draw(st.permutations(self.out))[: data.draw(st.integers(1, 6))]:
            self.out.remove((position, each))
            if how == "requeue":
                self.queue.requeue(position, each)
                self.ready = sorted([*self.ready, (int(each.body), True)])
            elif how == "ack":
                self.queue.settle([each])
            else:
                self.queue.reject(position, each)

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.ready.clear()

    @invariant()
    def all_is_accounted_for(self) -> None:
        queue, journal = self.queue, journal_of(self.queue)
        assert (queue.ready, queue.ready_bytes) == (len(self.ready), 10 * len(self.ready))
        assert (queue.unacked, queue.unacked_bytes) == (len(self.out), 10 * len(self.out))
        fifo = queue.ready_messages.default
        held, saved_bytes = held_by(fifo)
        in_memory = len(held)
        assert fifo.resident == in_memory and (fifo.fresh or fifo.chunks.count == fifo.chunks.stored)
        assert fifo.body_bytes == 10 * in_memory
        used_bytes = in_memory * (10 + Ledger.OVERHEAD) - saved_bytes
        used_bytes += sum(number in self.long for number, _ in self.ready[:in_memory]) * LONG_BYTES
        assert queue.host.ledger.ready_bytes == used_bytes
        alive = {number for number, _ in self.ready} | {int(each.body) for _, each in self.out}
        kept = sorted(int(each.body) for each in journal.live.values())
        assert kept == sorted(alive & self.persistent)
        assert len(kept) <= queue.journal.count and queue.journal.body_bytes == 10 * queue.journal.count
        on_disk = {number for number, _ in self.ready[in_memory:]}
        assert {int(each.body) for each in journal.loose.values()} == on_disk - self.persistent
        assert len(journal.loose) + sum(number in self.persistent for number in on_disk) == fifo.chunks.stored

    def teardown(self) -> None:
        self.patch.undo()


class PackingMachine(PagingMachine):
    """The same with a third message packed."""

    PACK_ABOVE = 1


TestPagingAgainstItsModel = PagingMachine.TestCase
TestPagingAgainstItsModel.settings = examples(40)
TestPackingAgainstItsModel = PackingMachine.TestCase
TestPackingAgainstItsModel.settings = examples(40)
