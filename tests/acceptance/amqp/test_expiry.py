"""Expiry of messages."""

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name, Peer

TTL_MS = 200


@pytest.fixture
def short(ch: Channel, name: Name) -> str:
    """A queue whose messages expire after TTL_MS."""
    ch.declare(queue := name("short"), arguments={"x-message-ttl": TTL_MS})
    return queue


@pytest.mark.in_process("to the millisecond")
@pytest.mark.parametrize("own", [False, True])
def test_a_message_expires_at_its_time_and_not_before(broker: Peer, ch: Channel, name: Name, own: bool) -> None:
    ch.declare(queue := name("queue"), arguments={} if own else {"x-message-ttl": 100})
    properties = {"expiration": "100"} if own else {}
    ch.fill(queue, b"body", **properties)
    broker.wait(99)
    assert ch.count(queue) == 1
    broker.wait(1)
    assert ch.count(queue) == 0


def test_get_skips_what_has_expired(broker: Peer, ch: Channel, short: str) -> None:
    ch.fill(short, b"one", b"two")
    broker.wait(150)
    ch.fill(short, b"three")
    broker.wait(100)
    message = ch.call(Basic.Get, queue=short, no_ack=True)
    assert (message.body, message.method.message_count) == (b"three", 0)
    assert ch.get(short) is None


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_persistent_messages_expire_like_others(broker: Peer, ch: Channel, name: Name, delivery_mode: int) -> None:
    ch.declare(queue := name("queue"), durable=True, arguments={"x-message-ttl": 100})
    ch.fill(queue, b"body", delivery_mode=delivery_mode)
    broker.wait(150)
    assert ch.get(queue) is None


def test_each_queue_has_its_own_time(broker: Peer, ch: Channel, short: str, name: Name) -> None:
    ch.declare(longer := name("longer"), arguments={"x-message-ttl": 315360000000})
    ch.declare(forever := name("forever"))
    for queue in (short, longer, forever):
        ch.bind(queue, "amq.fanout")
    ch.publish("amq.fanout", "", b"body")
    ch.sync()
    broker.wait(TTL_MS + 50)
    assert [ch.count(queue) for queue in (short, longer, forever)] == [0, 1, 1]


def test_a_queue_whose_messages_expired_is_empty(broker: Peer, ch: Channel, short: str) -> None:
    ch.fill(short, b"one", b"two")
    broker.wait(TTL_MS + 50)
    assert ch.call(Queue.Purge, queue=short).message_count == 0
    assert ch.call(Queue.Delete, queue=short, if_empty=True).message_count == 0


# The smaller time


@pytest.mark.parametrize(("ttl_ms", "expiration"), [(100, "60000"), (60000, "100")])
def test_the_smaller_of_both_times_counts(broker: Peer, ch: Channel, name: Name, ttl_ms: int, expiration: str) -> None:
    ch.declare(queue := name("queue"), arguments={"x-message-ttl": ttl_ms})
    ch.fill(queue, b"body", expiration=expiration)
    assert ch.count(queue) == 1
    broker.wait(150)
    assert ch.count(queue) == 0


# Only the head expires


@pytest.mark.parametrize("consumes", [False, True])
def test_what_dies_behind_the_head_is_not_delivered(broker: Peer, ch: Channel, queue: str, consumes: bool) -> None:
    ch.fill(queue, b"lives")
    ch.fill(queue, b"dies", b"dies", expiration="100")
    ch.fill(queue, b"lives on")
    broker.wait(150)
    if consumes:
        ch.consume(queue, no_ack=True)
        assert [delivery.body for delivery in ch.deliveries(2)] == [b"lives", b"lives on"]
        ch.nothing(queue)
    else:
        message = ch.call(Basic.Get, queue=queue, no_ack=True)
        assert (message.body, message.method.message_count) == (b"lives", 1)
        assert ch.drain(queue) == [b"lives on"]


def test_what_dies_behind_the_head_stays_until_it_is_the_head(broker: Peer, ch: Channel, queue: str) -> None:
    ch.fill(queue, b"lives")
    ch.fill(queue, b"dies", expiration="100")
    broker.wait(150)
    assert ch.count(queue) == 2
    out = ch.get(queue, no_ack=False)
    assert out is not None and out.body == b"lives"
    ch.ack(out.tag)
    ch.sync()
    assert ch.count(queue) == 0


def test_what_waits_for_a_busy_consumer_expires(broker: Peer, ch: Channel, short: str) -> None:
    ch.qos(1)
    ch.consume(short)
    ch.fill(short, b"one", b"two", b"three")
    first = ch.delivery()
    broker.wait(TTL_MS + 50)
    ch.ack(first.tag)
    ch.nothing(short)
    ch.fill(short, b"four")
    assert ch.delivery().body == b"four"


# At once


@pytest.mark.parametrize("own", [False, True])
def test_a_time_to_live_of_zero_is_for_waiting_consumers(client: Client, ch: Channel, name: Name, own: bool) -> None:
    ch.declare(queue := name("queue"), arguments={} if own else {"x-message-ttl": 0})
    properties = {"expiration": "0"} if own else {}
    ch.fill(queue, b"nobody waits", **properties)
    assert ch.get(queue) is None
    consumer = client.channel()
    tag = consumer.consume(queue)
    ch.fill(queue, b"somebody waits", **properties)
    delivery = consumer.delivery()
    assert (delivery.body, delivery.redelivered) == (b"somebody waits", False)
    consumer.cancel(tag)
    consumer.nack(delivery.tag)
    consumer.sync()
    assert ch.get(queue) is None
    assert ch.count(queue) == 0


def test_a_time_to_live_of_zero_is_not_for_busy_consumers(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), arguments={"x-message-ttl": 0})
    consumer = client.consumer(queue, prefetch=1)
    ch.fill(queue, b"one", b"two")
    consumer.ack(consumer.delivery().tag)
    consumer.nothing(queue)
    ch.fill(queue, b"three")
    assert consumer.delivery().body == b"three"


def test_a_time_to_live_of_zero_is_over_at_a_requeue(ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), arguments={"x-message-ttl": 0})
    ch.qos(1)
    ch.consume(queue)
    ch.fill(queue, b"body")
    ch.nack(ch.delivery().tag)
    ch.nothing(queue)
    assert ch.count(queue) == 0


# Back from a consumer


@pytest.mark.parametrize("how", ["nack", "reject", "recover", "channel"])
def test_what_is_requeued_keeps_its_time(broker: Peer, client: Client, ch: Channel, short: str, how: str) -> None:
    for wait_ms, left in ((TTL_MS * 3 // 5, 1), (TTL_MS + 50, 0)):
        consumer = client.channel()
        ch.fill(short, b"body")
        out = consumer.get(short, no_ack=False)
        broker.wait(wait_ms)
        come_back(consumer, out.tag, how)
        assert ch.count(short) == left
        broker.wait(TTL_MS * 3 // 5)
        assert ch.count(short) == 0


def come_back(consumer: Channel, tag: int, how: str) -> None:
    """Requeue a message in one of the possible ways."""
    if how == "channel":
        consumer.close()
        return
    if how == "recover":
        consumer.call(Basic.Recover, requeue=True)
        return
    (consumer.nack if how == "nack" else consumer.reject)(tag)
    consumer.sync()


def test_what_is_out_does_not_expire(broker: Peer, ch: Channel, short: str) -> None:
    ch.fill(short, b"body")
    out = ch.get(short, no_ack=False)
    broker.wait(2 * TTL_MS)
    ch.ack(out.tag)
    ch.sync()  # the tag was known


# Confirms and transactions


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("ttl_ms", [0, 1])
def test_what_expires_is_confirmed(ch: Channel, name: Name, durable: bool, ttl_ms: int) -> None:
    ch.declare(queue := name("queue"), durable=durable, arguments={"x-message-ttl": ttl_ms})
    ch.confirm()
    for _ in range(50):
        ch.publish("", queue, b"body", {"delivery_mode": 2})
    assert ch.confirms(range(1, 51)) == (set(range(1, 51)), set())


@pytest.mark.parametrize("own", [False, True])
def test_the_time_of_a_message_starts_at_the_commit(broker: Peer, ch: Channel, name: Name, own: bool) -> None:
    ch.declare(queue := name("queue"), arguments={} if own else {"x-message-ttl": TTL_MS})
    ch.transact()
    ch.publish("", queue, b"body", {"expiration": str(TTL_MS)} if own else {})
    ch.sync()
    broker.wait(TTL_MS + 50)
    ch.commit()
    assert ch.count(queue) == 1
    broker.wait(TTL_MS + 50)
    assert ch.count(queue) == 0


def test_what_a_transaction_acknowledged_does_not_expire_at_its_rollback(broker: Peer, ch: Channel, short: str) -> None:
    ch.fill(short, b"body")
    ch.transact()
    out = ch.get(short, no_ack=False)
    ch.ack(out.tag)
    ch.sync()
    broker.wait(TTL_MS + 50)
    ch.rollback()
    ch.ack(out.tag)
    ch.commit()


# Policies


@pytest.mark.policies
def test_the_smaller_of_argument_and_policy_counts(broker: Peer, ch: Channel, name: Name) -> None:
    ch.declare(smaller := name("smaller"), arguments={"x-message-ttl": 100})
    ch.declare(larger := name("larger"), arguments={"x-message-ttl": 60000})
    ch.declare(none := name("none"))
    broker.set_policy(name("ttl"), name(""), {"message-ttl": 200}, apply_to="queues")
    for queue in (smaller, larger, none):
        ch.fill(queue, b"body")
    broker.wait(150)
    assert [ch.count(queue) for queue in (smaller, larger, none)] == [0, 1, 1]
    broker.wait(100)
    assert [ch.count(queue) for queue in (larger, none)] == [0, 0]


@pytest.mark.policies
def test_a_policy_leaves_the_time_of_what_is_queued_as_it_is(broker: Peer, ch: Channel, queue: str, name: Name) -> None:
    ch.fill(queue, b"before")
    broker.set_policy(name("ttl"), name(""), {"message-ttl": 500}, apply_to="queues")
    ch.fill(queue, b"behind a head that stays")
    broker.wait(600)
    assert ch.count(queue) == 2
    assert ch.drain(queue) == [b"before"]
    ch.fill(queue, b"meanwhile")
    broker.clear_policy(name("ttl"))
    ch.fill(queue, b"after")
    broker.wait(600)
    assert ch.drain(queue) == [b"after"]
