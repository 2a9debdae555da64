"""A queue compared with a model: a sorted list, and consumers asked in turn; its settings and memory."""

from itertools import count
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.clock import FakeClock, fake_clock
from tests.support.definitions import new_node
from tests.support.hypothesis_settings import examples
from tests.support.queues import Delivery, Taker, enqueue, journal_of, message, new_queue
from tests.support.traced_memory import traced_memory
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.messages.message_state import MessageState
from warren.broker.core.queues.flow_control import HOLD_ABOVE, RELEASE_BELOW, Publisher
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.queue_settings import CACHED_BYTES, NO_POLICY, QueueSettingsCache
from warren.broker.core.queues.ready_messages import BATCH_BYTES, Fifo
from warren.broker.core.queues.reply_queue import ReplyQueue
from warren.broker.core.queues.traffic_log import MADE


class Model:
    """A queue in the plainest form."""

    def __init__(self) -> None:
        self.ready: list[tuple[int, Message, bool]] = []
        self.turns: list[Taker] = []  # its own copies of the consumers, in the order of their turns
        self.waiting: list[Taker] = []
        self.log: list[Delivery] = []

    def deliver(self) -> None:
        while self.ready:
            taker = self.next_taker()
            if taker is None:
                return
            position, each, redelivered = self.ready.pop(0)
            taker.credit -= 1
            self.log.append((taker.tag, position, each, redelivered))

    def next_taker(self) -> Taker | None:
        for priority in sorted({taker.priority for taker in self.turns}, reverse=True):
            for taker in [taker for taker in self.turns if taker.priority == priority]:
                self.turns.remove(taker)
                if taker.credit > 0:
                    self.turns.append(taker)
                    return taker
                self.waiting.append(taker)
        return None

    def back(self, position: int, each: Message) -> None:
        self.ready = sorted([*self.ready, (position, each, True)], key=lambda entry: entry[0])


class QueueMachine(RuleBasedStateMachine):
    """Each rule takes one step in the queue and in the model; then both deliver all they can."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = new_queue()
        self.model = Model()
        self.log: list[Delivery] = []
        self.takers: dict[str, tuple[Taker, Taker]] = {}  # the queue's and the model's
        self.out: list[tuple[str, int, Message]] = []  # delivered, not settled
        self.seen = 0
        self.published = 0
        self.named = 0

    def pump(self) -> None:
        if self.queue.dirty:
            self.queue.pump()
        fake_clock(self.queue.host.clock).advance(0)  # what one turn of the loop has no time for
        self.model.deliver()
        assert self.log == self.model.log
        for name, position, each, _ in self.log[self.seen :]:
            if not self.takers[name][0].no_ack:
                self.out.append((name, position, each))
        self.seen = len(self.log)

    @rule(count=st.integers(1, 7), body_bytes=st.sampled_from((0, 10, 10, BATCH_BYTES + 1)), persistent=st.booleans())
    def publish(self, count: int, body_bytes: int, persistent: bool) -> None:
        messages = [message(body_bytes, persistent) for _ in range(count)]
        enqueue(messages, self.queue)
        for each in messages:
            self.published += 1
            self.model.ready.append((self.published, each, False))
        self.pump()

    @precondition(lambda self: len(self.takers) < 5)
    @rule(credit=st.sampled_from((1, 2, 3, 100)), priority=st.sampled_from((0, 0, 0, 5)), no_ack=st.booleans())
    def consume(self, credit: int, priority: int, no_ack: bool) -> None:
        self.named += 1
        pair = [Taker(f"c{self.named}", self.queue, self.log, no_ack, priority, credit) for _ in range(2)]
        self.takers[pair[0].tag] = pair[0], pair[1]
        self.queue.add_consumer(pair[0])
        self.model.turns.append(pair[1])
        self.pump()

    @precondition(lambda self: any(taker in self.queue.consumers.all for taker, _ in self.takers.values()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        taker = data.draw(st.sampled_from(list(self.queue.consumers.all)))
        assert self.queue.consumers.remove(taker) and not self.queue.consumers.remove(taker)
        copy = self.takers[taker.tag][1]
        (self.model.turns if copy in self.model.turns else self.model.waiting).remove(copy)
        self.queue.schedule_pump()
        self.pump()

    @precondition(lambda self: self.out)
    @rule(data=st.data(), how=st.sampled_from(("ack", "requeue", "requeue", "reject")))
    def settle(self, data: st.DataObject, how: str) -> None:
        """Settle some deliveries at once, in any order. Their consumers have room again afterwards."""
        picked = data.draw(st.permutations(self.out))[: data.draw(st.integers(1, 4))]
        for name, position, each in picked:
            self.out.remove((name, position, each))
            if how == "requeue":
                self.queue.requeue(position, each)
                self.model.back(position, each)
            elif how == "ack":
                self.queue.settle([each])
            else:
                self.queue.reject(position, each)
            self.free(name)
        self.pump()

    def free(self, name: str) -> None:
        taker, copy = self.takers.get(name, (None, None))
        if taker is None or copy is None:
            return
        taker.credit += 1
        copy.credit += 1
        if taker.waiting:
            self.queue.wake(taker)
        if copy in self.model.waiting:
            self.model.waiting.remove(copy)
            self.model.turns.append(copy)

    @rule(no_ack=st.booleans())
    def get(self, no_ack: bool) -> None:
        expected = self.model.ready.pop(0) if self.model.ready else None
        assert self.queue.get(no_ack) == expected
        if expected is not None and not no_ack:
            self.out.append(("nobody", *expected[:2]))

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.model.ready)
        self.model.ready.clear()

    @rule(data=st.data())
    def grant(self, data: st.DataObject) -> None:
        """Give a consumer room for another reason."""
        assume(self.takers)
        self.free(data.draw(st.sampled_from(sorted(self.takers))))
        self.pump()

    @invariant()
    def counts_agree(self) -> None:
        queue, ready = self.queue, self.model.ready
        assert queue.ready == len(ready)
        assert queue.ready_bytes == sum(each.body_bytes for _, each, _ in ready)
        assert queue.unacked == len(self.out)
        assert queue.unacked_bytes == sum(each.body_bytes for _, _, each in self.out)
        assert {taker.tag for taker in queue.consumers.all if taker.waiting} == {t.tag for t in self.model.waiting}

    @invariant()
    def the_journal_has_what_is_not_done_with(self) -> None:
        journal = journal_of(self.queue)
        alive = [*[entry[1] for entry in self.model.ready], *[entry[2] for entry in self.out]]
        assert set(journal.live) == {(self.queue.number, each.id) for each in alive if each.persistent}
        assert not journal.loose and not any(each.id for each in alive if not each.persistent)
        assert self.queue.journal.count >= len(journal.live) and self.queue.journal.body_bytes >= 0


TestQueueAgainstItsModel = QueueMachine.TestCase
TestQueueAgainstItsModel.settings = examples(40)


def filled(count: int, kind: type[Queue] = Queue) -> Queue:
    queue = new_queue(kind)
    enqueue([message() for _ in range(count)], queue)
    return queue


def test_settlements_after_the_deletion_of_the_queue_are_accepted() -> None:
    queue, log = filled(3), []
    queue.add_consumer(Taker("1", queue, log, False, 0, 3))
    queue.pump()
    queue.deleted = True
    (_, _, first, _), (_, two, second, _), (_, three, third, _) = log
    queue.settle([first])
    queue.requeue(two, second)
    queue.reject(three, third)
    assert (queue.ready, queue.unacked) == (0, 0)


class HeldPublisher(Publisher):
    """A publisher that records when it may continue."""

    def __init__(self) -> None:
        self.drained_by: list[Any] = []

    def drained(self, queue: Queue) -> None:
        self.drained_by.append(queue)


def test_a_full_queue_holds_publishers_until_it_has_drained() -> None:
    queue, publisher = filled(HOLD_ABOVE + 1), HeldPublisher()
    taker = Taker("1", queue, [], True, 0, 0)
    queue.add_consumer(taker)
    queue.pump()
    assert queue.congested()
    queue.held_publishers.hold(publisher)  # type: ignore[arg-type]
    queue.held_publishers.hold(publisher)  # type: ignore[arg-type]
    for left in (RELEASE_BELOW, RELEASE_BELOW - 1):
        assert not publisher.drained_by
        taker.credit = queue.ready - left
        queue.wake(taker)
        queue.pump()
    assert publisher.drained_by == [queue], "once, however often it was held"


def test_a_few_long_messages_fill_a_queue_too() -> None:
    queue = new_queue()
    enqueue([message(1 << 20) for _ in range(5)], queue)
    queue.add_consumer(Taker("1", queue, [], True, 0, 0))
    assert queue.congested()


@pytest.mark.parametrize("priority", [None, 1])
def test_long_headers_fill_a_queue_like_long_bodies(priority: int | None) -> None:
    queue, publisher = new_queue(arguments=Table.of({"x-max-priority": 1})), HeldPublisher()
    properties = Properties(headers=Table.of({"h": "v" * (1 << 17)}), priority=priority)
    enqueue([framed(RoutingAddress("", "q"), properties, b"") for _ in range(33)], queue)
    taker = Taker("1", queue, [], True, 0, 0)
    queue.add_consumer(taker)
    assert queue.congested()
    queue.held_publishers.hold(publisher)  # type: ignore[arg-type]
    taker.credit = 24
    queue.wake(taker)
    queue.pump()
    assert not publisher.drained_by and queue.ready == 9
    taker.credit = 2
    queue.wake(taker)
    queue.pump()
    assert publisher.drained_by == [queue]


@pytest.mark.parametrize("state", [None, MessageState(1000)], ids=["plain", "expiring"])
def test_a_reply_queue_keeps_the_oldest_replies_and_no_more_than_its_limit(state: MessageState | None) -> None:
    queue = new_queue(ReplyQueue, 0)
    messages = [message(frames=b"%d" % number) for number in range(ReplyQueue.LIMIT + 5)]
    for each in messages:
        each.state = state
    for batch in (messages[:10], messages[10:]):
        enqueue(batch, queue)
    kept = [each.frames for each in queue.ready_messages.default.fresh]
    assert kept == [each.frames for each in messages[: ReplyQueue.LIMIT]]
    assert (queue.ready, queue.ready_bytes) == (ReplyQueue.LIMIT, 10 * ReplyQueue.LIMIT)


def test_priorities_without_messages_are_not_looked_at_with_each_message() -> None:
    queue = new_queue(number=0, arguments=Table.of({"x-max-priority": 200, "x-max-length": 50}))
    levels = queue.ready_messages
    for level in range(1, 201):
        queue.push_at(level, [message()], 10)
        assert queue.get(True) is not None
    queue.push_at(0, [message() for _ in range(100)], 1_000)
    queue.pump()
    assert queue.dropped == 50 and levels.all == [levels.default]
    assert [chunk.count for chunk in levels.remove_all()] == [50] and levels.all == [levels.default]
    queue.push_at(7, [message()], 10)
    queue.push_at(9, [message()], 10)
    assert [fifo.level for fifo in levels.all] == [9, 7, 0]


@pytest.mark.pure("it counts calls")
def test_a_delivery_looks_for_due_messages_of_its_own_priority_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = new_queue(number=0, arguments=Table.of({"x-max-priority": 50, "x-message-ttl": 1_000}))
    for level in [*range(50), *[50] * 50]:
        queue.accept([framed(RoutingAddress("", "q"), Properties(priority=level), b"")], MADE, False)
    for position, each, _ in [queue.get(False) or pytest.fail("nothing") for _ in range(50)]:
        queue.requeue(position, each)
    queue.add_consumer(Taker("1", queue, log := [], True, 0, 1_000))
    looks, remove_due = 0, Fifo.remove_due

    def counted(fifo: Fifo, *arguments: int) -> list[Message]:
        nonlocal looks
        looks += 1
        return remove_due(fifo, *arguments)

    monkeypatch.setattr(Fifo, "remove_due", counted)
    before = queue.host.scheduler.spent
    queue.pump()
    assert len(log) == 100 and looks <= 3 * 100
    assert queue.host.scheduler.spent - before > 50 + 50, "requeued messages, and a look at each priority"


class PassingClock(FakeClock):
    """A clock of which each look takes a millisecond."""

    def now_ms(self) -> int:
        self.advance(1)
        return super().now_ms()


@pytest.mark.parametrize("ttl_ms", range(1, 12))
def test_a_deadline_that_passes_while_a_message_is_delivered(ttl_ms: int) -> None:
    queue = new_queue(number=0, arguments=Table.of({"x-message-ttl": ttl_ms}))
    queue.host.clock = PassingClock()
    queue.accept([message()], MADE, False)
    queue.add_consumer(Taker("1", queue, log := [], True, 0, 1_000))
    queue.pump()
    assert queue.ready == 0 and len(log) == (ttl_ms > 2)


@pytest.mark.pure("it replaces the clock's time")
def test_a_deadline_that_passes_between_two_looks_at_the_clock_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = new_queue(arguments=Table.of({"x-message-ttl": 100}))
    clock = fake_clock(queue.host.clock)
    for number in range(50):
        enqueue([message(number, False, b"x")], queue)
        clock.advance(1)
    at_rest, looks = clock.now_ms, count()
    monkeypatch.setattr(clock, "now_ms", lambda: at_rest() + next(looks))
    queue.pump()
    clock.advance(1000)
    assert not queue.ready


def test_queues_with_the_same_arguments_share_their_settings_unless_these_are_long() -> None:
    cache = QueueSettingsCache()
    short, long = (Table(Table.encode_items([("x-note", ("S", b"n" * size))])) for size in (9, CACHED_BYTES))
    assert cache.get(short, NO_POLICY) is cache.get(short, NO_POLICY)
    assert cache.get(long, NO_POLICY) is not cache.get(long, NO_POLICY)


COUNT = 200


def test_a_queue_takes_few_bytes_of_memory() -> None:
    """The memory was once 5,300 bytes, most of them for the empty deques of dead letters and messages."""
    host = new_queue().host
    with traced_memory() as memory:
        queues = [Queue(host, f"q{number}", number=number) for number in range(1, COUNT)]
    assert memory.held_bytes < 3_500 * len(queues)


@pytest.mark.parametrize("used", [False, True])
def test_a_deleted_queue_leaves_no_timer_that_holds_it(used: bool) -> None:
    node = new_node()
    vhost, clock = node.add_vhost("/"), fake_clock(node.clock)
    queue = vhost.declare_queue("q", arguments=Table.of({"x-expires": 60_000, "x-message-ttl": 60_000}))
    if used:
        clock.advance(10)
        queue.renew_expiry()
    waiting = {timer for timer in clock._timers if not timer.cancelled}
    assert waiting
    vhost.delete_queue(queue)
    assert not {timer for timer in clock._timers if not timer.cancelled} & waiting
