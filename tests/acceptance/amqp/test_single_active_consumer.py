"""Queues with a single active consumer."""

from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name, Peer

SINGLE = {"x-single-active-consumer": True}


@pytest.fixture
def single(ch: Channel, name: Name) -> str:
    """A queue with a single active consumer."""
    ch.declare(queue := name("single"), arguments=SINGLE)
    return queue


def consumer(client: Client, queue: str, priority: int | None = None, **fields: Any) -> Channel:
    """Return a channel with a consumer of its own."""
    arguments = {} if priority is None else {"x-priority": priority}
    return client.consumer(queue, consumer_tag="tag", arguments=arguments, **fields)


def bodies(channel: Channel, count: int) -> list[bytes]:
    return [delivery.body for delivery in channel.deliveries(count)]


def test_false_is_as_if_it_were_not_there_for_the_consumers(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), arguments={"x-single-active-consumer": False})
    first, second = consumer(client, queue, no_ack=True), consumer(client, queue, no_ack=True)
    ch.fill(queue, b"0", b"1")
    assert bodies(first, 1) + bodies(second, 1) == [b"0", b"1"]


@pytest.mark.parametrize("no_ack", [False, True])
def test_the_first_one_gets_all(client: Client, ch: Channel, single: str, no_ack: bool) -> None:
    first, second, third = (consumer(client, single, no_ack=no_ack) for _ in range(3))
    sent = [b"%d" % at for at in range(50)]
    ch.fill(single, *sent)
    assert bodies(first, 50) == sent
    for other in (second, third):
        other.nothing(single)
    assert ch.declare(single, passive=True).consumer_count == 3


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_the_oldest_follows_in_turn(client: Client, ch: Channel, single: str, end: str) -> None:
    channels = [consumer(client, single, no_ack=True) for _ in range(3)]
    for at, channel in enumerate(channels):
        ch.fill(single, b"%d" % at)
        assert bodies(channel, 1) == [b"%d" % at]
        channel.cancel("tag") if end == "cancel" else channel.close()
    ch.fill(single, b"nobody is left")
    assert ch.drain(single) == [b"nobody is left"]


def test_it_follows_at_the_end_of_a_connection(broker: Peer, client: Client, ch: Channel, single: str) -> None:
    other = broker.connect()
    first, second = consumer(other, single), consumer(client, single)
    ch.fill(single, b"0", b"1")
    assert bodies(first, 2) == [b"0", b"1"]
    other.close()
    assert [(item.body, item.redelivered) for item in second.deliveries(2)] == [(b"0", True), (b"1", True)]


def test_the_end_of_one_that_waits_changes_nothing(client: Client, ch: Channel, single: str) -> None:
    first, second, third = (consumer(client, single, no_ack=True) for _ in range(3))
    second.cancel("tag")
    ch.fill(single, b"0")
    assert bodies(first, 1) == [b"0"]
    first.cancel("tag")
    ch.fill(single, b"1")
    assert bodies(third, 1) == [b"1"]
    second.nothing(single)


def test_with_a_full_prefetch_nobody_else_is_served(client: Client, ch: Channel, single: str) -> None:
    first, second = (consumer(client, single, prefetch=1) for _ in range(2))
    ch.fill(single, b"0", b"1", b"2")
    out = first.delivery()
    assert out.body == b"0"
    for channel in (first, second):
        channel.nothing(single)
    first.ack(out.tag)
    assert first.delivery().body == b"1"
    second.nothing(single)


@pytest.mark.differs("3.10 serves nobody after one that was cancelled with its prefetch full")
def test_what_a_cancelled_one_has_stays_with_it(client: Client, ch: Channel, single: str) -> None:
    first, second = (consumer(client, single, prefetch=2) for _ in range(2))
    ch.fill(single, b"0", b"1", b"2", b"3")
    out = first.deliveries(2)
    first.cancel("tag")
    assert bodies(second, 2) == [b"2", b"3"]
    first.ack(out[0].tag)
    first.nack(out[1].tag)
    first.sync()
    second.ack(1)
    last = second.delivery()
    assert (last.body, last.redelivered) == (b"1", True)


def test_what_the_active_one_returns_comes_back_to_it(client: Client, ch: Channel, single: str) -> None:
    first, second = consumer(client, single), consumer(client, single)
    ch.fill(single, b"0")
    first.nack(first.delivery().tag)
    again = first.delivery()
    assert (again.body, again.redelivered) == (b"0", True)
    second.nothing(single)


def test_one_channel_may_hold_several(ch: Channel, single: str) -> None:
    for tag in ("first", "second"):
        ch.consume(single, consumer_tag=tag, no_ack=True)
    ch.fill(single, b"0", b"1")
    assert [item.method.consumer_tag for item in ch.deliveries(2)] == ["first", "first"]
    ch.cancel("first")
    ch.fill(single, b"2")
    assert ch.delivery().method.consumer_tag == "second"


def test_the_most_important_follows(client: Client, ch: Channel, single: str) -> None:
    active = consumer(client, single, no_ack=True)
    low, high, also_high = (consumer(client, single, priority, no_ack=True) for priority in (-1, 5, 5))
    ch.fill(single, b"0")
    assert bodies(active, 1) == [b"0"]  # nobody is pushed aside
    for at, expected in enumerate((high, also_high, low)):
        (active, high, also_high)[at].cancel("tag")
        ch.fill(single, b"%d" % at)
        assert bodies(expected, 1) == [b"%d" % at]


def test_the_last_one_that_goes_and_comes_back_is_served(client: Client, ch: Channel, single: str) -> None:
    channel = consumer(client, single, no_ack=True)
    channel.cancel("tag")
    ch.fill(single, b"0")
    channel.consume(single, consumer_tag="tag", no_ack=True)
    assert bodies(channel, 1) == [b"0"]


def test_get_goes_past_it(client: Client, ch: Channel, single: str) -> None:
    first = client.consumer(single, prefetch=1)
    ch.fill(single, b"0", b"1")
    assert first.delivery().body == b"0"
    assert ch.drain(single) == [b"1"]


def test_an_auto_delete_queue_goes_with_the_last_that_waits(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), auto_delete=True, arguments=SINGLE)
    first, second = consumer(client, queue), consumer(client, queue)
    first.cancel("tag")
    ch.declare(queue, passive=True)
    second.cancel("tag")
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


def test_all_are_told_when_it_is_deleted(client: Client, ch: Channel, single: str) -> None:
    channels = [consumer(client, single) for _ in range(3)]
    ch.call(Queue.Delete, queue=single)
    for channel in channels:
        item = channel.next()
        assert isinstance(item, Basic.Cancel) and item.consumer_tag == "tag"


@pytest.mark.parametrize("others", [0, 1])
def test_an_exclusive_consumer_is_refused(client: Client, ch: Channel, single: str, others: int) -> None:
    for _ in range(others):
        consumer(client, single)
    closed = ch.refused(403, Basic.Consume, queue=single, exclusive=True)
    assert closed.reply_text.startswith(f"ACCESS_REFUSED - queue '{single}' in vhost '/' ")
