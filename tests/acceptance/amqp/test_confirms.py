"""Publisher confirms."""

import pytest
from pamqp.commands import Basic, Confirm, Queue, Tx

from tests.support.amqp_client import Channel, Client, Content
from tests.support.peer import Name, Peer

PERSISTENT = {"delivery_mode": 2}


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("persistent", [0, 1, 3])  # none, all, or each third
@pytest.mark.parametrize("mandatory", [False, True])
def test_each_is_confirmed_once(ch: Channel, name: Name, durable: bool, persistent: int, mandatory: bool) -> None:
    ch.declare(queue := name("queue"), durable=durable)
    ch.confirm()
    for number in range(1, 41):
        target = queue if number % 2 else "nowhere"
        properties = PERSISTENT if persistent and not number % persistent else None
        ch.publish("", target, b"%d" % number, properties, mandatory=mandatory)
    returned: set[int] = set()
    waiting = set(range(1, 41))
    while waiting:
        item = ch.next()
        if isinstance(item, Content):
            returned.add(int(item.body))
            continue
        assert isinstance(item, Basic.Ack) and item.delivery_tag in waiting
        acked = {number for number in waiting if number <= item.delivery_tag} if item.multiple else {item.delivery_tag}
        assert not mandatory or {number for number in acked if number % 2 == 0} <= returned
        waiting -= acked
    assert returned == (set(range(2, 41, 2)) if mandatory else set())
    assert ch.count(queue) == 20


def test_a_publish_to_many_queues_is_confirmed_once(ch: Channel, name: Name) -> None:
    ch.exchange(exchange := name("exchange"), "fanout")
    for at in range(10):
        ch.declare(queue := name(f"queue-{at}"), durable=at % 2 == 0)
        ch.bind(queue, exchange)
    ch.confirm()
    for _ in range(5):
        ch.publish(exchange, "", b"body", PERSISTENT)
    assert ch.confirms(range(1, 6)) == ({1, 2, 3, 4, 5}, set())
    ch.nothing()


@pytest.mark.parametrize("no_ack", [True, False])
def test_what_is_consumed_at_once_is_confirmed_too(ch: Channel, client: Client, name: Name, no_ack: bool) -> None:
    ch.declare(queue := name("queue"), durable=True)
    consumer = client.consumer(queue, no_ack=no_ack)
    ch.confirm()
    for _ in range(10):
        ch.publish("", queue, b"body", PERSISTENT)
    assert ch.confirms(range(1, 11)) == (set(range(1, 11)), set())
    consumer.deliveries(10)


def test_numbers_start_with_the_first_publish_after_select(ch: Channel, queue: str) -> None:
    for _ in range(3):
        ch.publish("", queue, b"before")
    ch.confirm()
    ch.publish("", queue, b"after")
    assert ch.confirms([1]) == ({1}, set())
    ch.confirm()  # again: the numbers go on
    ch.publish("", queue, b"after")
    assert ch.confirms([2]) == ({2}, set())


def test_each_channel_counts_for_itself(client: Client, queue: str) -> None:
    one, two, plain = client.channel(), client.channel(), client.channel()
    one.confirm()
    two.send(Confirm.Select, nowait=True)
    for channel in (one, two, two, plain):
        channel.publish("", queue, b"body")
    assert one.confirms([1]) == ({1}, set())
    assert two.confirms([1, 2]) == ({1, 2}, set())
    plain.nothing()


def test_a_refused_publish_is_not_confirmed(ch: Channel) -> None:
    ch.confirm()
    ch.publish("missing", "key", b"body")
    ch.expect_close(404)
    again = ch.client.channel(ch.number)
    again.publish("", "nowhere", b"body")
    again.nothing()


@pytest.mark.parametrize("settle", ["nack", "reject", "drop", "recover"])
def test_confirms_do_not_depend_on_what_the_consumer_says(client: Client, ch: Channel, name: Name, settle: str) -> None:
    ch.declare(queue := name("queue"), durable=True)
    consumer = client.consumer(queue)
    ch.confirm()
    for _ in range(10):
        ch.publish("", queue, b"body", PERSISTENT)
    for delivery in consumer.deliveries(10):
        if settle in ("nack", "reject"):
            (consumer.nack if settle == "nack" else consumer.reject)(delivery.tag)
        elif settle == "drop":
            consumer.reject(delivery.tag, requeue=False)
    if settle == "recover":
        consumer.call(Basic.Recover, requeue=True)
    assert ch.confirms(range(1, 11)) == (set(range(1, 11)), set())


def test_a_confirmed_message_is_seen_by_every_channel(broker: Peer, ch: Channel, queue: str) -> None:
    other = broker.connect().channel()
    ch.confirm()
    for number in range(1, 51):
        ch.publish("", queue, b"body")
        ch.confirms([number])
        assert other.get(queue) is not None


@pytest.mark.parametrize("end", [Queue.Delete, Queue.Purge])
def test_messages_that_are_deleted_or_purged_are_confirmed(client: Client, ch: Channel, name: Name, end: type) -> None:
    ch.declare(queue := name("queue"), durable=True)
    ch.confirm()
    for _ in range(50):
        ch.publish("", queue, b"body", PERSISTENT)
    client.channel().call(end, queue=queue)
    assert ch.confirms(range(1, 51)) == (set(range(1, 51)), set())


@pytest.mark.parametrize(("first", "second"), [(Confirm.Select, Tx.Select), (Tx.Select, Confirm.Select)])
def test_a_channel_is_confirming_or_transactional(ch: Channel, first: type, second: type) -> None:
    ch.call(first)
    modes = {Confirm.Select: "confirm", Tx.Select: "tx"}
    text = f"PRECONDITION_FAILED - cannot switch from {modes[first]} to {modes[second]} mode"
    assert ch.refused(406, second).reply_text == text
