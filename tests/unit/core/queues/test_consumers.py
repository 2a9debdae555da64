"""The order in which consumers are served, and consumers that fail."""

import pytest
from pytest import MonkeyPatch

from tests.support.clock import fake_clock
from tests.support.queues import Delivery, Taker, enqueue, journal_of, message, new_queue
from tests.support.session import SureJournal, connected, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.core.jobs.scheduler import RETRY_MS
from warren.broker.core.messages.message import Message
from warren.broker.core.queues import consumers as consumers_module
from warren.broker.core.queues.consumers import (
    GROUPS_SHIFT,
    LEVEL_COST,
    LOOK_COST,
    LOOKS,
    Consumer,
    ConsumerGroup,
    Consumers,
    SingleActiveConsumers,
    Turn,
)
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.route_target import RouteTarget
from warren.broker.core.queues.sorted_entries import BLOCK
from warren.broker.core.queues.traffic_log import MADE, Origin
from warren.broker.core.vhost.tracer import Tracer


class FakeConsumer(Consumer):
    def __init__(
        self, tag: str, credit: int = 100, priority: int = 0, exclusive: bool = False, shares: bool = False
    ) -> None:
        super().__init__(tag, None, False, exclusive, priority)
        self.credit = credit
        self.shares = shares
        self.asked = 0

    def room(self, body_bytes: int) -> int:
        self.asked += 1
        return self.credit


def turn(consumers: Consumers, wanted: int) -> tuple[str, int]:
    takers, room = consumers.take_turn(wanted, 0)
    return "".join(taker.tag for taker in takers), room


def consumers_of(*members: FakeConsumer) -> Consumers:
    consumers = Consumers(new_queue().host.scheduler)
    for consumer in members:
        consumers.add(consumer)
    return consumers


def test_the_turn_goes_round() -> None:
    consumers = consumers_of(FakeConsumer("a"), FakeConsumer("b"), FakeConsumer("c"))
    assert [turn(consumers, 2)[0] for _ in range(3)] == ["ab", "ca", "bc"]


def test_nobody_can_take_more_than_the_one_with_the_least_room() -> None:
    assert turn(consumers_of(FakeConsumer("a", 5), FakeConsumer("b", 3), FakeConsumer("c", 9)), 100) == ("abc", 3)


def test_the_one_after_the_last_served_is_first() -> None:
    consumers = consumers_of(FakeConsumer("a"), FakeConsumer("b"), FakeConsumer("c"))
    takers, _ = consumers.take_turn(100, 0)
    consumers.rotate(takers, 7)
    assert turn(consumers, 3)[0] == "bca"


def test_takers_that_got_nothing_come_before_consumers_that_were_not_asked() -> None:
    consumers = consumers_of(FakeConsumer("a"), FakeConsumer("b"), FakeConsumer("c"), FakeConsumer("d"))
    takers, _ = consumers.take_turn(3, 0)
    consumers.rotate(takers, 1)
    assert turn(consumers, 4)[0] == "bcda"


def test_a_consumer_without_room_is_not_asked_again_before_it_wakes() -> None:
    full = FakeConsumer("a", 0)
    consumers = consumers_of(full, FakeConsumer("b"))
    for _ in range(3):
        assert turn(consumers, 1)[0] == "b"
    assert full.waiting and full.asked == 1
    consumers.wake(full)
    full.credit = 1
    assert turn(consumers, 2) == ("ba", 1)


def test_waking_a_consumer_that_does_not_wait_gives_no_second_turn() -> None:
    consumer = FakeConsumer("a")
    consumers = consumers_of(consumer)
    consumers.wake(consumer)
    assert turn(consumers, 5)[0] == "a"


@pytest.mark.pure("it lowers a constant of the core, so that few consumers are needed")
@pytest.mark.parametrize("each", [1, 2])
def test_consumers_of_very_many_priorities_are_served_in_several_turns(each: int, monkeypatch: MonkeyPatch) -> None:
    """The queue serves those of each priority by themselves, which takes longer than a batch."""
    monkeypatch.setattr(consumers_module, "WASTED_COST", 5 * (LEVEL_COST + (each > 1) * LOOK_COST * each))
    members = [FakeConsumer("c", 1, priority=number // each) for number in range(12 * each)]
    consumers = consumers_of(*members)
    served, counts = 0, []
    while consumers.any_ready() and len(counts) < 10:
        takers, _ = consumers.take_turn(100, 0)
        for taker in takers:
            assert isinstance(taker, FakeConsumer)
            taker.credit = 0
        served += len(takers)
        if not takers:
            counts.append(served)
            consumers.wasted_cost = 0
    assert counts == [5 * each, 10 * each, 12 * each]


def test_consumers_that_are_asked_in_vain_are_charged() -> None:
    queue = new_queue()
    for number in range(100):
        queue.consumers.add(FakeConsumer(str(number), 0))
    queue.push([message()], 10)
    queue.pump()
    assert queue.host.scheduler.spent == 100 * LOOK_COST


def test_consumers_that_get_none_of_the_messages_they_were_asked_for_are_charged() -> None:
    consumers = consumers_of(*[FakeConsumer(str(number)) for number in range(100)])
    for served in (1, 100):
        takers, _ = consumers.take_turn(100, 0)
        consumers.rotate(takers, served)
    assert consumers.wasted_cost == 99 * LOOK_COST


def test_a_consumer_that_shares_its_room_is_taken_alone() -> None:
    consumers = consumers_of(
        FakeConsumer("a"), FakeConsumer("b", shares=True), FakeConsumer("c", shares=True), FakeConsumer("d")
    )
    assert [turn(consumers, 9)[0] for _ in range(4)] == ["a", "b", "c", "da"]


@pytest.mark.parametrize("waits", [False, True])
def test_a_removed_consumer_leaves_the_turn(waits: bool) -> None:
    consumer = FakeConsumer("a", 0 if waits else 1, priority=3)
    consumers = consumers_of(consumer, FakeConsumer("b"))
    turn(consumers, 1)
    assert consumer.waiting == waits
    assert consumers.remove(consumer) and not consumers.remove(consumer)
    consumers.wake(consumer)
    assert not consumer.waiting and len(consumers) == 1
    assert turn(consumers, 2)[0] == "b"


def test_a_priority_is_removed_with_its_last_consumer_and_added_again() -> None:
    first, second = FakeConsumer("a", priority=7), FakeConsumer("b", priority=7)
    consumers = consumers_of(first, second)
    consumers.remove(first)
    assert turn(consumers, 1)[0] == "b"
    consumers.remove(second)
    assert turn(consumers, 1) == ("", 0)
    consumers.add(first)
    assert turn(consumers, 1)[0] == "a"


def test_a_priority_is_found_among_very_many_without_a_move_of_all() -> None:
    turn = Turn()
    for priority in range(10 * BLOCK):
        turn.of(-priority)[FakeConsumer("c", priority=-priority)] = None
    assert [consumer.priority for consumer in turn.best()] == [0]
    assert max(len(block) for block in turn._priorities._blocks) <= BLOCK


def test_the_consumers_are_exclusive_until_the_exclusive_one_is_removed() -> None:
    consumer = FakeConsumer("a", exclusive=True)
    consumers = consumers_of(consumer)
    assert consumers.exclusive
    consumers.remove(consumer)
    assert not consumers.exclusive and list(consumers.all) == []


def single(*members: FakeConsumer, preempts: bool = False) -> SingleActiveConsumers:
    consumers = SingleActiveConsumers(new_queue().host.scheduler, preempts)
    for consumer in members:
        consumers.add(consumer)
    return consumers


def test_a_single_active_consumer_is_served_until_it_is_removed() -> None:
    first, second = FakeConsumer("a"), FakeConsumer("b")
    consumers = single(first, second)
    assert [turn(consumers, 5) for _ in range(2)] == [("a", 100)] * 2
    consumers.remove(first)
    assert turn(consumers, 5) == ("b", 100)
    consumers.remove(second)
    assert turn(consumers, 5) == ("", 0) and not consumers.any_ready()


def test_the_next_active_consumer_has_the_highest_priority_and_came_first() -> None:
    first = FakeConsumer("a")
    consumers = single(first, FakeConsumer("b"), FakeConsumer("c", priority=1), FakeConsumer("d", priority=1))
    assert turn(consumers, 1)[0] == "a", "a higher priority alone does not make active"
    consumers.remove(first)
    assert turn(consumers, 1)[0] == "c"


def test_while_the_active_consumer_is_full_nobody_is_served() -> None:
    first = FakeConsumer("a", credit=0)
    consumers = single(first, FakeConsumer("b"))
    assert turn(consumers, 1) == ("", 0) and first.waiting and not consumers.any_ready()
    first.credit = 2
    consumers.wake(first)
    assert turn(consumers, 1) == ("a", 2)


def test_where_priorities_preempt_the_active_consumer_first_settles_what_it_has() -> None:
    first = FakeConsumer("a")
    first.unacked = 1
    consumers = single(first, FakeConsumer("b"), FakeConsumer("c", priority=1), preempts=True)
    assert turn(consumers, 1) == ("", 0)
    first.unacked = 0
    consumers.wake(first)
    assert turn(consumers, 1)[0] == "c"
    consumers.remove(first)
    assert turn(consumers, 1)[0] == "c"


def test_a_consumer_preempted_by_one_that_left_again_is_served_as_before() -> None:
    first, second = FakeConsumer("a"), FakeConsumer("b", priority=1)
    first.unacked = 1
    consumers = single(first, second, preempts=True)
    assert turn(consumers, 1) == ("", 0)
    consumers.remove(second)
    assert turn(consumers, 1) == ("a", 100)


class Asked:
    """A queue whose consumers have to be asked in several pumps before those that have room."""

    def __init__(self, by_priority: bool, **arguments: object) -> None:
        table = Table.of({f"x-{name.replace('_', '-')}": value for name, value in arguments.items()})
        self.queue = new_queue(number=0, arguments=table)
        self.deliveries: list[Delivery] = []
        for number in range(600 if by_priority else 2 * LOOKS):
            priority, credit = (number, 1) if by_priority else (0, 0)
            self.queue.consumers.add(Taker(str(number), self.queue, self.deliveries, True, priority, credit))
        self.queue.consumers.add(Taker("last", self.queue, self.deliveries, True, -1, 1_000))

    def pump(self) -> None:
        self.queue.pump()
        fake_clock(self.queue.host.clock).advance(0)


@pytest.mark.parametrize("by_priority", [True, False])
def test_a_length_limit_drops_nothing_while_consumers_with_room_are_not_asked_yet(by_priority: bool) -> None:
    asked = Asked(by_priority, max_length=0)
    asked.queue.push([message() for _ in range(900)], 9_000)
    asked.pump()
    assert len(asked.deliveries) == 900 and not asked.queue.dropped
    asked.queue.push([message() for _ in range(900)], 9_000)
    asked.pump()
    room = 1_000 + 600 * by_priority
    assert (len(asked.deliveries), asked.queue.dropped) == (room, 1_800 - room)


@pytest.mark.parametrize("limits", [{"max_length": 1, "overflow": "reject-publish"}, {"message_ttl": 0}])
@pytest.mark.parametrize("by_priority", [True, False])
def test_no_message_is_refused_or_expires_while_consumers_with_room_are_not_asked_yet(
    by_priority: bool, limits: dict[str, object]
) -> None:
    asked = Asked(by_priority, **limits)
    for _ in range(900):
        assert not asked.queue.accept([message()], MADE, False).refused
    asked.pump()
    assert len(asked.deliveries) == 900 and not asked.queue.expired


@pytest.mark.parametrize("limit", ["max_length", "message_ttl", "reject"])
def test_a_paused_queue_drops_refuses_and_expires_nothing_that_a_consumer_has_room_for(limit: str) -> None:
    """Deliveries are requeued in steps meanwhile."""
    rejects = {"max_length": 1, "overflow": "reject-publish"}
    arguments = rejects if limit == "reject" else {limit: 0}
    queue = new_queue(
        number=0, arguments=Table.of({f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
    )
    deliveries: list[Delivery] = []
    queue.add_consumer(Taker("a", queue, deliveries, True, 0, 5))
    queue.pump()
    queue.pause()
    for _ in range(5):
        assert not queue.accept([message()], MADE, False).refused
        queue.pump()
    queue.resume()
    queue.pump()
    assert len(deliveries) == 5 and not queue.dropped and not queue.expired
    queue.pause()
    queue.push([message() for _ in range(5)], 50)
    queue.resume()
    queue.pump()
    assert limit != "max_length" or (queue.ready, queue.dropped) == (0, 5), "no consumer has room"


class Group(ConsumerGroup):
    """A group that counts how often it is asked. `has_room`: its consumers may have room, and are not woken yet."""

    def __init__(self, queue: Queue, has_room: bool) -> None:
        super().__init__()
        self.has_room = has_room
        self.asked = 0
        self.consumer = Taker("", queue, [], True, 0, 0)
        self.consumer.group = self
        queue.add_consumer(self.consumer)

    def free(self) -> None:
        self.freed = True
        self.consumer.queue.host.scheduler.freed += 1

    def still_freed(self) -> bool:
        self.asked += 1
        self.freed = self.has_room
        return self.freed


def grouped(*has_room: bool, **arguments: object) -> tuple[Queue, list[Group]]:
    """Return a queue with a message more than its limit, and freed groups of its consumers."""
    table = Table.of({"x-max-length": 1, "x-overflow": "reject-publish"} | arguments)
    queue = new_queue(number=0, arguments=table)
    groups = [Group(queue, one) for one in has_room]
    queue.accept([message()], MADE, False)
    queue.pump()
    for group in groups:
        group.free()
    return queue, groups


@pytest.mark.parametrize("has_room", [True, False])
def test_groups_of_consumers_are_asked_once_for_many_publishes_to_a_full_queue(has_room: bool) -> None:
    queue, groups = grouped(*[False] * 10, has_room)
    for _ in range(5):
        assert len(queue.accept([message() for _ in range(5)], MADE, False).refused) == (0 if has_room else 5)
    assert [group.asked for group in groups] == [1] * 11
    queue.pump()
    groups[0].free()
    queue.accept([message()], MADE, False)
    assert groups[0].asked == 2 and groups[1].asked == 1


def test_a_group_without_a_consumer_of_the_queue_does_not_count() -> None:
    queue, [group, other] = grouped(True, False)
    queue.remove_consumer(group.consumer)
    assert queue.accept([message()], MADE, False).refused and not group.asked and other.asked
    queue.consumers.remove_all()
    other.free()
    assert queue.accept([message()], MADE, False).refused and other.asked == 1


def test_of_consumers_with_a_single_active_one_the_group_of_this_one_counts() -> None:
    queue, [active, other] = grouped(False, True, **{"x-single-active-consumer": True})
    assert queue.accept([message()], MADE, False).refused and not other.asked
    active.has_room = True
    active.free()
    assert not queue.accept([message()], MADE, False).refused


def test_very_many_groups_count_at_what_it_takes_to_look_at_them() -> None:
    queue, groups = grouped(*[False] * 1_000)
    before = queue.host.scheduler.spent
    assert not queue.consumers.any_freed() and not queue.consumers.any_freed()
    assert queue.host.scheduler.spent - before == 1_000 >> GROUPS_SHIFT and groups[-1].asked == 1


def test_of_very_many_groups_some_are_asked_at_a_time() -> None:
    queue, groups = grouped(*[False] * 3 * LOOKS)
    assert [queue.consumers.any_freed() for _ in range(4)] == [True, True, False, False]
    assert [group.asked for group in groups] == [1] * len(groups)


class Failing(Taker):
    """A consumer with a bug in its first delivery."""

    failures = 1
    forgotten: list[Message]

    def deliver(self, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("a bug")
        super().deliver(messages, position, step, redelivered)

    def failed(self, messages: list[Message]) -> None:
        self.forgotten = messages


def pumped(queue: Queue) -> None:
    """Pump the queue, which fails, and pump it again after the retry."""
    queue.host.pump()
    fake_clock(queue.host.clock).advance(RETRY_MS)


@pytest.mark.parametrize("shared", [False, True], ids=["outputs of their own", "one output"])
@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("place", range(3))
def test_what_was_not_delivered_is_delivered_later_in_order(place: int, no_ack: bool, shared: bool) -> None:
    queue = new_queue()
    log: list[Delivery] = []
    for number in range(3):
        kind = Failing if number == place else Taker
        consumer = kind(str(number), queue, log, no_ack, 0, 100)
        consumer.output = log if shared else consumer
        queue.add_consumer(consumer)
    stored = [message(body_bytes=10 + number) for number in range(10)]
    enqueue(stored, queue)
    pumped(queue)
    assert sorted(position for _, position, _, _ in log) == list(range(1, 11))
    assert all(each is stored[position - 1] for _, position, each, _ in log)
    assert queue.ready == 0 and queue.unacked == (0 if no_ack else 10)
    assert queue.unacked_bytes == (0 if no_ack else sum(range(10, 20))) and queue.delivered_bytes == sum(range(10, 20))
    assert len(journal_of(queue).live) == (0 if no_ack else 10)


def test_a_requeued_message_stays_in_the_queue_too() -> None:
    queue = new_queue()
    log: list[Delivery] = []
    enqueue([message()], queue)
    got = queue.get(False)
    assert got is not None
    failing = Failing("failing", queue, log, False, 0, 100)
    queue.add_consumer(failing)
    queue.requeue(got[0], got[1])
    pumped(queue)
    assert [position for _, position, _, _ in log] == [1] and failing.forgotten == [got[1]]
    assert (queue.ready, queue.unacked) == (0, 1)


class FailingTracer(Tracer):
    """A tracer with a bug, which is noticed when the deliveries are in the output and recorded as unsettled."""

    failing = True

    def published(
        self, origin: Origin, message: Message, keys: tuple[str, ...], queues: tuple[RouteTarget, ...]
    ) -> None: ...

    def delivered(self, origin: Origin, message: Message, queue: str, redelivered: bool) -> None:
        if self.failing:
            raise RuntimeError("a bug")


def test_the_connection_of_a_client_whose_deliveries_fail_is_closed_and_others_get_them() -> None:
    node = new_node(SureJournal())
    vhost = node.vhosts["/"]
    client, other = connected(node), connected(node)
    channel = client.channel()
    channel.declare("queue", durable=True)
    channel.consume("queue")
    tracer = FailingTracer()
    vhost.add_tracer(tracer)
    other.channel().fill("queue", b"1", b"2", delivery_mode=2)
    tracer.failing = False
    fake_clock(node.clock).advance(0)
    client.expect_close(541)
    queue = vhost.queues["queue"]
    assert (queue.ready, queue.unacked) == (2, 0)
    node.clock.advance(RETRY_MS)
    got = other.channel().drain("queue")
    assert got == [b"1", b"2"] and queue.delivering.deliver == 0
