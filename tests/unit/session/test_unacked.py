"""The collection of unsettled deliveries by itself, and the prefetch limit that consumers share."""

import gc
import time
from collections.abc import Iterator
from itertools import chain
from random import Random
from sys import getsizeof
from typing import Any

import pytest

from tests.support.in_process import InProcessPeer, socket_of
from tests.support.queues import message, new_queue
from tests.support.speed import within
from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.core.jobs.scheduler import SLICE
from warren.broker.core.messages.message import VALUES
from warren.broker.core.queues.sorted_rows import SortedRows
from warren.broker.session.prefetch import WAKE_COST, WOKEN
from warren.broker.session.unacked import LOOKUP_SHIFT, PART, SPAN, SPLIT_COST, Settlement, Unacked, UnackedDeliveries

QUEUE, MESSAGE = new_queue(), message()
LARGEST_BYTES = 2 << 20  # of one dict


class SingleEntries(dict[int, Any]):
    """Entries that are found by their tags alone."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("all entries are looked at")

    __iter__ = __reversed__ = items = values = keys = _refuse  # type: ignore[assignment]


def outstanding(*tags: int) -> UnackedDeliveries:
    unacked = UnackedDeliveries()
    for tag in tags:
        unacked.add(tag, delivery(tag))
    return unacked


def delivery(tag: int) -> Unacked:
    return QUEUE, None, tag, MESSAGE


def up_to(unacked: UnackedDeliveries, tag: int) -> list[int]:
    return [one for some in unacked.slices(unacked.tags_up_to(tag)[0]) for one in some if one in unacked]


def put_back(unacked: UnackedDeliveries, removed: list[tuple[int, Unacked]]) -> Iterator[int]:
    return unacked.put_back([(tag, delivery, Settlement.ACK) for tag, delivery in removed])


def test_tags_up_to_one_have_those_outstanding_in_their_order() -> None:
    assert up_to(outstanding(1, 3, 4, 9), 4) == [1, 3, 4]
    assert up_to(outstanding(1, 3, 4, 9), 9) == [1, 3, 4, 9]


def test_tags_are_looked_for_from_the_last_ones_on() -> None:
    unacked = outstanding(1, 3, 4, 9)
    assert list(unacked.tags_up_to(4)[0]) == [1, 2, 3, 4]
    assert list(unacked.tags_up_to(9)[0]) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("left", [1, 3])
def test_those_that_are_left_are_found_without_a_look_at_removed_ones(left: int) -> None:
    """A dict takes the longer to find its first or last entry the more were removed there."""
    unacked = outstanding(*range(1, 1_001))
    unacked.pop_many([*range(1, 100), *range(100 + left, 1_001)])
    unacked.entries = SingleEntries(unacked.entries)
    for tag in range(100, 100 + left):
        assert up_to(unacked, tag)[-1] == tag


def test_a_gap_wider_than_is_tried_tag_by_tag() -> None:
    unacked = outstanding(1, 2, 1_000_000, 1_000_001)
    tags, cost = unacked.tags_up_to(1_000_000)
    assert list(unacked.slices(tags)) == [[1, 2, 1_000_000]] and cost == SPAN >> LOOKUP_SHIFT


@pytest.mark.parametrize("tag", [2, 5])
def test_a_tag_that_is_not_outstanding_is_an_error(tag: int) -> None:
    unacked = outstanding(1, 3)
    for fails in (unacked.check, unacked.pop):
        with pytest.raises(PreconditionFailed, match=f"unknown delivery tag {tag}"):
            fails(tag)
    assert unacked.tags() == [1, 3]


def test_many_are_removed_together() -> None:
    unacked = outstanding(1, 2, 4)
    assert unacked.pop_many(range(1, 4)) == [delivery(1), delivery(2)]
    assert unacked.tags() == [4]
    assert unacked.take_all() == [{4: delivery(4)}] and not unacked


def test_one_is_put_back_among_many_in_short_steps() -> None:
    unacked = outstanding(*range(1, 5_001))
    looks = 0

    class Counted(SingleEntries):
        def get(self, *arguments: Any) -> Any:
            nonlocal looks
            looks += 1
            return super().get(*arguments)

    unacked.entries = Counted(unacked.entries)
    for _ in put_back(unacked, [(7, unacked.pop(7))]):
        assert looks <= 2 * SLICE
        looks = 0
    assert all(tag in unacked for tag in range(1, 5_001))


def test_deliveries_made_while_others_are_put_back_come_after_them() -> None:
    unacked, tags = outstanding(*range(1, 10_001)), list(range(1, 10_001))
    removed = [(tag, unacked.pop(tag)) for tag in range(1, 9_001, 2)]
    for _ in put_back(unacked, removed):
        for tag in range(tags[-1] + 1, tags[-1] + 601) if len(tags) < 15_000 else ():
            tags.append(tag)
            unacked.add(tag, delivery(tag))
    assert len(tags) > 15_000 and unacked.tags() == tags


@pytest.mark.parametrize("order", ["ascending", "descending", "any"])
def test_very_many_are_in_parts_whatever_is_removed_and_put_back(order: str) -> None:
    """One dict of a million takes 20 ms to grow."""
    tags = list(range(1, 100_001))
    unacked = outstanding(*tags)
    assert len(unacked) == len(tags) and getsizeof(unacked.entries) < LARGEST_BYTES
    random = Random(1)
    removed_tags = tags[20_000:]
    if order == "any":
        random.shuffle(removed_tags)
    elif order == "descending":
        removed_tags.reverse()
    removed = [(tag, unacked.pop(tag)) for tag in removed_tags]
    assert len(unacked) == 20_000 and unacked.tags() == tags[:20_000]
    for _ in put_back(unacked, removed):
        pass
    assert unacked.tags() == tags
    parts = unacked.take_all()
    assert max(map(getsizeof, parts)) < 2 * LARGEST_BYTES and sum(map(len, parts)) == len(tags)


def test_a_part_that_is_divided_is_charged() -> None:
    """The division takes some milliseconds, and many parts may grow in the same step."""
    unacked, count = outstanding(*range(1, 60_001)), 60_000
    removed = [(tag, unacked.pop(tag)) for tag in range(1, count + 1)]
    cost = sum(put_back(unacked, removed))
    assert len(unacked) == count and len(unacked._older) > 1
    assert cost >= count + len(unacked._older) * SPLIT_COST


def test_deliveries_are_found_in_all_parts() -> None:
    unacked = outstanding(*range(1, 60_001))
    for tag in (1, 20_000, 60_000):
        unacked.check(tag)
        assert unacked.get(tag) == delivery(tag) == unacked.pop(tag)
        assert tag not in unacked
    middle = range(15_000, 45_000, 3)
    left = [tag for tag in middle if tag != 20_000 and tag in unacked]
    assert [tag for tag, _ in unacked.pop_items(middle)] == left
    assert not unacked.pop_many(middle) and up_to(unacked, 15_005) == [
        *range(2, 15_000),
        15_001,
        15_002,
        15_004,
        15_005,
    ]
    listed = unacked.of_queue(QUEUE, 50_000, 10)
    assert (
        [tag for tag, _ in listed]
        == unacked.tags()
        == [tag for some in unacked.slices(range(1, 60_001)) for tag in some if tag in unacked]
    )


@pytest.mark.parametrize("every", [0, 50, 1000])
def test_parts_of_which_few_are_left_take_little_memory(every: int) -> None:
    """The first delivery is never settled, nor are a few of the others."""
    unacked = outstanding(1)
    held = {1}
    for tag in range(2, 20 * PART):
        unacked.add(tag, delivery(tag))
        if every and not tag % every:
            held.add(tag)
        elif tag % 3:
            unacked.pop(tag)
        if tag > PART and tag % 3 == 0 and tag - PART not in held:
            unacked.pop_elsewhere(tag - PART)
    parts = [*unacked._older, unacked.entries]
    left = [tag for part in parts for tag in part]
    assert held <= set(left) == set(unacked.tags()) and len(unacked) == len(left)
    assert sum(map(getsizeof, parts)) < 4 * LARGEST_BYTES + 150 * len(left)
    assert [len(unacked.pop_many([tag])) for tag in held] == [1] * len(held)


def test_a_rollback_makes_no_object_for_each_delivery() -> None:
    """The garbage collector looks at all objects that were made in the last turns together: a million take long."""
    unacked = outstanding(*range(1, 40_001))
    settled = [(tag, unacked.pop(tag), Settlement.ACK) for tag in range(1, 30_001)]
    made = 0
    gc.collect()
    gc.disable()
    try:
        for _ in unacked.put_back(settled):
            made = max(made, len(gc.get_objects(generation=0)))
    finally:
        gc.enable()
    assert made < 1_000 and len(unacked) == 40_000


def test_shed_ones_are_listed_part_by_part() -> None:
    """A million of them took 50 ms to be sorted."""
    unacked = UnackedDeliveries()
    unacked.shed = SortedRows(VALUES)
    for tag in range(1, 100_001, 2):
        unacked.shed.add(tag, (tag, tag, 0, 100, 0), QUEUE)
    unacked.add(50_000, delivery(50_000))
    tags = unacked.slices(range(1, 1_000_000_000))
    begun_s = time.thread_time()
    first = next(tags)
    assert within((time.thread_time() - begun_s) * 1000, 2)
    assert [*first, *chain(*tags)] == sorted([*range(1, 100_001, 2), 50_000])


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
