"""The shared prefetch limit of a channel's consumers while many messages wait."""

import pytest

from tests.support.in_process import InProcessPeer, socket_of
from warren.broker.session.prefetch import WAKE_COST, WOKEN


@pytest.mark.parametrize("limit", [1, 3])
def test_consumers_of_one_queue_do_not_overdraw_their_shared_limit(limit: int) -> None:
    client = InProcessPeer().connect()
    ch, publisher = client.channel(), client.channel()
    ch.declare("queue")
    ch.qos(limit, globally=True)
    for tag in ("one", "two"):
        ch.consume("queue", consumer_tag=tag)
    for number in range(10):
        publisher.publish("", "queue", b"%d" % number)
    publisher.sync()
    for tag in range(1, 8):
        assert [ch.delivery() for _ in range(limit if tag == 1 else 1)][-1].tag == tag + limit - 1
        ch.sync()
        assert not ch.client.inbox(ch.number)
        ch.ack(tag)


def test_consumers_of_one_queue_wait_by_priority() -> None:
    """Consumer Priorities: also where one was served longer ago than another of a higher priority."""
    client = InProcessPeer().connect()
    ch, publisher = client.channel(), client.channel()
    ch.declare("queue")
    ch.qos(1, globally=True)
    for tag, priority in (("low", -1), ("one", 0), ("two", 0)):
        ch.consume("queue", consumer_tag=tag, arguments={"x-priority": priority})
    for number in range(4):
        publisher.publish("", "queue", b"%d" % number)
    publisher.sync()
    tags = []
    for number in range(4):
        tags.append(ch.delivery().method.consumer_tag)
        ch.ack(number + 1)
    assert tags == ["one", "two", "one", "two"]


@pytest.mark.parametrize("multiple", [False, True])
def test_consumers_that_wait_get_the_room_in_turn(multiple: bool) -> None:
    """The room is of those served longest ago, also where one takes it for which others are woken as well."""
    ch = InProcessPeer().connect().channel()
    ch.qos(4, globally=True)
    for queue, tags in {"a": ("a1",), "b": ("b1", "b2"), "c": ("c1",)}.items():
        ch.declare(queue)
        ch.fill(queue, *[b"x"] * 20)
        for tag in tags:
            ch.consume(queue, consumer_tag=tag)
    got = []
    for _ in range(7):
        ch.sync()
        deliveries = [ch.delivery() for _ in range(4)]
        got.append(" ".join(delivery.method.consumer_tag for delivery in deliveries))
        for delivery in deliveries[-1:] if multiple else deliveries:
            ch.ack(delivery.tag, multiple=multiple)
    in_turn = ["b1 b2 b1 b2", "c1 c1 c1 c1", "a1 a1 a1 a1"]
    assert got == ["a1 a1 a1 a1", "a1 a1 a1 a1", *in_turn, *in_turn][: len(got)]


def test_consumers_of_empty_queues_that_a_settlement_wakes_are_charged() -> None:
    """And in the next turns, in which more of them are woken."""
    broker = InProcessPeer()
    ch = broker.connect().channel()
    ch.declare("full")
    ch.declare("empty", arguments={"x-max-length": 0})
    ch.qos(1, globally=True)
    ch.publish("", "full", b"x")
    ch.consume("full")
    for _ in range(3 * WOKEN):
        ch.consume("empty")
    consumers = list(broker.node.vhosts["/"].queues["empty"].consumers.all)
    ch.publish("", "empty", b"x")
    ch.sync()
    before = broker.node.scheduler.spent
    ch.ack(1)
    ch.sync()
    assert broker.node.scheduler.spent - before >= WOKEN * WAKE_COST
    assert sum([consumer.waiting for consumer in consumers]) == 2 * WOKEN
    broker.node.scheduler._left = 0  # other jobs had this turn
    shared = broker.server.connections[socket_of(ch.client).transport].channels[ch.number].shared_prefetch
    shared._wake_more()
    assert sum([consumer.waiting for consumer in consumers]) == 2 * WOKEN
    broker.wait(0)
    assert not any(consumer.waiting for consumer in consumers)


@pytest.mark.parametrize("priority", [0, 1])
@pytest.mark.parametrize("deleted", [False, True])
def test_consumers_that_are_removed_while_they_wait_are_not_kept(deleted: bool, priority: int) -> None:
    broker = InProcessPeer()
    client = broker.connect()
    ch = client.channel()
    ch.declare("queue")
    ch.qos(1, globally=True)
    ch.publish("", "queue", b"1")
    ch.publish("", "queue", b"2")
    ch.consume("queue", consumer_tag="first")
    ch.delivery()
    shared = broker.server.connections[socket_of(client).transport].channels[ch.number].shared_prefetch
    for number in range(10):
        if deleted:
            ch.declare(f"queue{number}")
            ch.publish("", f"queue{number}")
            ch.consume(f"queue{number}", consumer_tag="one", arguments={"x-priority": priority})
            ch.delete(f"queue{number}")
            ch.next()
        else:
            ch.consume("queue", consumer_tag="one", arguments={"x-priority": priority})
            ch.cancel("one")
        assert [len(entries._blocks[0]) for entries in (shared._turns, shared._of_queues)] == [1, 1]
    ch.consume("queue", consumer_tag="last")
    ch.ack(1)
    assert ch.delivery().body == b"2"


def test_a_consumer_that_waits_is_kept_when_many_others_are_removed() -> None:
    """One of the highest priority gets the turn of another one of its queue, which still waits then."""
    ch = InProcessPeer().connect().channel()
    ch.declare("queue")
    ch.declare("other")
    ch.qos(1, globally=True)
    ch.fill("queue", *[b"%d" % number for number in range(10)])
    ch.publish("", "other")
    for tag, priority in (("low", -1), ("high", 1)):
        ch.consume("queue", consumer_tag=tag, arguments={"x-priority": priority})
    for number in range(1, 4):
        assert ch.delivery().tag == number
        ch.ack(number)
    for _ in range(10):
        ch.consume("other", consumer_tag="other")
        ch.cancel("other")
    assert ch.delivery().method.consumer_tag == "high"
    ch.cancel("high")
    ch.ack(4)
    assert ch.delivery().method.consumer_tag == "low"
