"""Prefetch limits."""

import pytest
from pamqp.commands import Basic

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name

from .numbers import fill


@pytest.mark.parametrize("settle", ["ack", "ack multiple", "nack", "nack multiple", "reject", "recover"])
def test_a_settled_delivery_makes_room_for_the_next(ch: Channel, queue: str, settle: str) -> None:
    fill(ch, queue, 15)
    ch.qos(5)
    ch.consume(queue)
    out = ch.deliveries(5)
    ch.nothing(queue)
    if settle == "recover":
        ch.call(Basic.Recover, requeue=True)
    elif "multiple" in settle:
        method = ch.ack if settle.startswith("ack") else ch.nack
        method(out[-1].tag, multiple=True)
    else:
        for delivery in out:
            {"ack": ch.ack, "nack": ch.nack, "reject": ch.reject}[settle](delivery.tag)
    again = ch.deliveries(5)
    ch.nothing(queue)
    assert [item.redelivered for item in again] == [settle.split()[0] != "ack"] * 5


def test_each_consumer_has_a_limit_of_its_own(ch: Channel, queue: str, name: Name) -> None:
    fill(ch, queue, 20)
    ch.qos(2)
    ch.consume(queue, consumer_tag="two")
    ch.qos(3)
    ch.consume(queue, consumer_tag="three")
    tags = [delivery.method.consumer_tag for delivery in ch.deliveries(5)]
    ch.nothing(queue)
    assert (tags.count("two"), tags.count("three")) == (2, 3)


def test_get_neither_obeys_the_limit_nor_uses_it_up(ch: Channel, queue: str) -> None:
    fill(ch, queue, 10)
    ch.qos(2)
    for _ in range(3):
        assert ch.get(queue, no_ack=False) is not None
    ch.consume(queue)
    ch.deliveries(2)
    ch.nothing(queue)
    assert ch.get(queue, no_ack=False) is not None


def test_consumers_that_need_not_acknowledge_have_no_limit(ch: Channel, queue: str) -> None:
    fill(ch, queue, 50)
    ch.qos(1)
    ch.consume(queue, no_ack=True)
    ch.deliveries(50)


def test_zero_is_no_limit(ch: Channel, queue: str) -> None:
    fill(ch, queue, 300)
    ch.qos(0)
    ch.consume(queue)
    ch.deliveries(300)


def test_a_shared_limit_counts_all_consumers(ch: Channel, queue: str) -> None:
    fill(ch, queue, 10)
    ch.qos(3, globally=True)
    ch.consume(queue)
    ch.consume(queue)
    out = ch.deliveries(3)
    ch.nothing(queue)
    ch.ack(out[1].tag, multiple=True)
    ch.deliveries(2)
    ch.nothing(queue)


def test_a_shared_limit_is_changed_while_consuming(ch: Channel, queue: str) -> None:
    fill(ch, queue, 20)
    ch.qos(2, globally=True)
    ch.consume(queue)
    ch.deliveries(2)
    ch.nothing(queue)
    ch.qos(5, globally=True)
    ch.deliveries(3)
    ch.nothing(queue)
    ch.qos(1, globally=True)
    ch.ack(4, multiple=True)
    ch.nothing(queue)
    ch.ack(5)
    assert ch.delivery().tag == 6
    ch.nothing(queue)
    ch.qos(0, globally=True)
    ch.deliveries(14)


def test_a_shared_limit_counts_what_was_out_before(ch: Channel, queue: str) -> None:
    fill(ch, queue, 6)
    ch.consume(queue, consumer_tag="first")
    out = ch.deliveries(6)
    ch.cancel("first")
    ch.qos(3, globally=True)
    fill(ch, queue, 3)
    ch.consume(queue, consumer_tag="second")
    ch.nothing(queue)
    ch.ack(out[3].tag, multiple=True)
    assert ch.delivery().method.consumer_tag == "second"
    ch.nothing(queue)


def test_a_shared_limit_is_the_channels(client: Client, ch: Channel, queue: str) -> None:
    fill(ch, queue, 10)
    other = client.channel()
    for channel in (ch, other):
        channel.qos(2, globally=True)
        channel.consume(queue)
    ch.deliveries(2)
    other.deliveries(2)
    ch.nothing(queue)
    other.nothing(queue)


def test_a_full_shared_limit_stops_consumers_without_acknowledgement(ch: Channel, queue: str, name: Name) -> None:
    ch.declare(free := name("free"))
    fill(ch, queue, 2)
    ch.qos(1, globally=True)
    ch.consume(free, consumer_tag="free", no_ack=True)
    ch.consume(queue, consumer_tag="bound")
    out = ch.delivery()
    fill(ch, free, 2)
    ch.nothing(queue, free)
    ch.ack(out.tag)
    # Now the free consumer may be served as long as the other one has not filled the limit again.
    items = [ch.delivery().method.consumer_tag for _ in range(1)]
    assert items[0] in ("free", "bound")


def test_both_limits_hold_together(ch: Channel, queue: str) -> None:
    fill(ch, queue, 20)
    ch.qos(4)
    ch.qos(7, globally=True)
    ch.consume(queue, consumer_tag="one")
    ch.consume(queue, consumer_tag="two")
    tags = [delivery.method.consumer_tag for delivery in ch.deliveries(7)]
    ch.nothing(queue)
    assert max(tags.count("one"), tags.count("two")) == 4


def test_queues_share_a_channel_fairly(ch: Channel, name: Name) -> None:
    queues = [str(ch.declare(name(word)).queue) for word in ("a", "b", "c")]
    for queue in queues:
        fill(ch, queue, 30)
    ch.qos(1, globally=True)
    for queue in queues:
        ch.consume(queue, consumer_tag=queue)
    counts = dict.fromkeys(queues, 0)
    for _ in range(30):
        delivery = ch.delivery()
        counts[delivery.method.consumer_tag] += 1
        ch.ack(delivery.tag)
    assert min(counts.values()) >= 3  # none starves


@pytest.mark.parametrize("globally", [False, True])
def test_in_a_transaction_room_is_made_by_the_commit(ch: Channel, queue: str, globally: bool) -> None:
    fill(ch, queue, 3, start=0)
    ch.transact()
    ch.qos(1, globally=globally)
    ch.consume(queue)
    first = ch.delivery()
    ch.ack(first.tag)
    ch.nothing(queue)
    ch.rollback()
    ch.nothing(queue)
    ch.ack(first.tag)
    ch.nothing(queue)
    ch.commit()
    assert ch.delivery().body == b"1"
    ch.nothing(queue)
