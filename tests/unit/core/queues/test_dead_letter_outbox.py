"""What a queue gives up goes a slice at a time, one after the other, and is never lost on the way."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp.commands import Queue as QueueMethods

from tests.support.amqp_client import Channel
from tests.support.clock import FakeClock
from tests.support.session import SlowJournal, SureJournal, connected, new_node
from warren.broker.core.queues import dead_lettering, queue

MANY = 3 * queue.SLICE
SOME = 5 * dead_lettering.SLICE
DURABLE = {"delivery_mode": 2}


class House:
    """A queue whose messages may go to another one, on a journal that looks at each settlement."""

    def __init__(self, dead_letters: bool = True, **arguments: Any) -> None:
        self.journal = SureJournal()
        self.node = new_node(self.journal)
        self.ch: Channel = connected(self.node).channel()
        self.ch.declare("letters", durable=True)
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        if dead_letters:
            given |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
        self.ch.declare("queue", durable=True, arguments=given)
        self.queue = self.node.vhosts["/"].queues["queue"]

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self.node.clock, FakeClock)
        return self.node.clock

    def kept(self, name: str) -> int:
        """Of a queue, by the journal."""
        number = self.node.vhosts["/"].queues[name].number
        return sum(1 for kept, _ in self.journal.live if kept == number)


def chain(length: int, **arguments: Any) -> Channel:
    """Queues named by numbers, each the dead letter queue of the one before; the last one keeps what it gets."""
    ch: Channel = connected(new_node(SlowJournal())).channel()
    for number in range(length):
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        given |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": str(number + 1)}
        ch.declare(str(number), arguments=given)
    ch.declare(str(length))
    return ch


@pytest.mark.parametrize("dead_letters", [False, True])
def test_many_that_expire_at_once_go_a_slice_at_a_time(dead_letters: bool) -> None:
    house = House(dead_letters, message_ttl=1000)
    house.ch.fill("queue", *[b"x"] * MANY, **DURABLE)
    left = [house.queue.ready]

    def look() -> None:
        if house.queue.ready != left[-1]:  # a timer that found no room for the job left in its turn changes nothing
            left.append(house.queue.ready)

    house.clock.after_each = look
    house.clock.advance(1000)
    assert left == [MANY, MANY - queue.SLICE, MANY - 2 * queue.SLICE, 0]
    assert house.kept("queue") == 0
    assert house.ch.count("letters") == house.kept("letters") == (MANY if dead_letters else 0)


@pytest.mark.parametrize("dead_letters", [False, True])
def test_so_do_many_that_a_new_limit_has_no_room_for(dead_letters: bool) -> None:
    house = House(dead_letters)
    house.ch.fill("queue", *[b"x"] * MANY, **DURABLE)
    house.node.policies.set("/", "limit", "^queue$", {"max-length": 10})
    assert house.ch.count("queue") == MANY - queue.SLICE
    house.clock.advance(1)
    assert house.ch.count("queue") == house.kept("queue") == 10
    assert house.ch.count("letters") == house.kept("letters") == (MANY - 10 if dead_letters else 0)


def test_so_do_many_that_are_refused_at_once() -> None:
    house = House()
    house.ch.fill("queue", *[b"x"] * SOME, **DURABLE)
    house.ch.consume("queue")
    house.ch.deliveries(SOME)
    house.ch.nack(0, multiple=True, requeue=False)
    assert house.ch.count("letters") == dead_lettering.SLICE
    assert house.kept("queue") == SOME - dead_lettering.SLICE, "those that wait are not forgotten"
    house.clock.advance(1)
    assert house.ch.count("letters") == SOME and house.kept("queue") == 0


def test_none_that_is_due_is_had_while_others_that_are_due_wait() -> None:
    house = House(False, message_ttl=1000)
    house.ch.fill("queue", *[b"x"] * MANY)
    seen: list[object] = []
    house.clock.after_each = lambda: seen.append(house.ch.get("queue"))
    house.clock.advance(1000)
    assert seen and not any(seen)


def test_a_flow_that_is_too_much_is_dropped_as_it_comes() -> None:
    house = House(max_length=10)
    house.ch.fill("queue", *[b"x"] * SOME)
    assert (house.ch.count("queue"), house.ch.count("letters")) == (10, SOME - 10)


def test_who_refuses_without_end_gets_no_more_until_it_is_buried() -> None:
    house = House()
    given_up = 2 * dead_lettering.MANY
    house.ch.fill("queue", *[b"x"] * given_up)
    house.ch.consume("queue", consumer_tag="refuses")
    house.ch.deliveries(given_up)
    house.ch.nack(0, multiple=True, requeue=False)
    publisher = connected(house.node).channel()
    seen: list[tuple[bool, int]] = []

    def turned() -> None:
        if house.queue.outbox.many and not seen:
            publisher.publish("", "queue", b"next")
        if house.queue.outbox.many or seen:
            seen.append((house.queue.outbox.many, house.queue.ready))

    house.clock.after_each = turned
    house.clock.advance(1)
    assert len(seen) > 2
    assert all(ready for many, ready in seen if many), "nothing is delivered while many wait"
    assert house.ch.delivery().body == b"next"
    assert house.ch.count("letters") == given_up


def test_what_waits_is_dead_lettered_although_its_queue_is_deleted() -> None:
    house = House()
    house.ch.fill("queue", *[b"x"] * SOME, **DURABLE)
    house.ch.consume("queue")
    house.ch.deliveries(SOME)
    house.ch.nack(0, multiple=True, requeue=False)
    house.ch.call(QueueMethods.Delete, queue="queue")
    house.clock.advance(0)
    assert house.ch.count("letters") == SOME and not house.journal.left
    house.clock.advance(1)
    assert house.ch.count("letters") == SOME


def test_what_waits_goes_before_the_node_stops() -> None:
    house = House()
    house.ch.fill("queue", *[b"x"] * SOME, **DURABLE)
    house.ch.consume("queue")
    house.ch.deliveries(SOME)
    house.ch.nack(0, multiple=True, requeue=False)
    house.ch.sync()
    house.node.finish()
    assert house.kept("letters") == SOME and not house.kept("queue")


def test_a_long_chain_of_queues_that_refuse_passes_a_message_on_to_its_end() -> None:
    ch = chain(300, max_length=0, overflow="reject-publish-dlx")
    ch.publish("", "0", b"message")
    assert ch.count("300") == 1


def test_so_does_one_of_queues_in_which_nothing_may_wait() -> None:
    ch = chain(100, message_ttl=0)
    ch.fill("0", *[b"%d" % number for number in range(50)])
    assert ch.drain("100") == [b"%d" % number for number in range(50)]
