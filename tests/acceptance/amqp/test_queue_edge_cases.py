"""Exclusive and auto-delete queues in corner cases, and arguments without effect."""

from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.support.amqp_client import CAPABILITIES, Channel, Client
from tests.support.peer import Name, Peer

# Exclusive


def test_with_an_exclusive_queue_go_its_bindings_and_what_lived_by_them(broker: Peer, ch: Channel, name: Name) -> None:
    owner = broker.connect()
    channel = owner.channel()
    ch.exchange(source := name("source"), "fanout", auto_delete=True)
    ch.exchange(middle := name("middle"), "fanout", auto_delete=True)
    ch.call(Exchange.Bind, source=source, destination=middle, routing_key="")
    channel.declare(queue := name("queue"), exclusive=True)
    channel.bind(queue, middle)
    owner.close()
    for exchange in (source, middle):
        ch.client.channel().refused(404, Exchange.Declare, exchange=exchange, exchange_type="fanout", passive=True)


def test_with_an_exclusive_queue_go_what_other_channels_held_of_it(broker: Peer, ch: Channel, name: Name) -> None:
    owner = broker.connect()
    one, two = owner.channel(), owner.channel()
    one.declare(queue := name("queue"), durable=True, exclusive=True)
    one.fill(queue, b"0", b"1", delivery_mode=2)
    two.qos(1)
    two.consume(queue)
    two.delivery()
    owner.close()
    assert ch.declare(queue).message_count == 0
    assert ch.get(queue) is None


def test_the_end_of_the_channel_that_declared_it_is_no_end(client: Client, name: Name) -> None:
    first, second = client.channel(), client.channel()
    first.declare(queue := name("queue"), exclusive=True)
    first.fill(queue, b"body")
    first.close()
    assert second.drain(queue) == [b"body"]


def test_its_name_is_free_for_another(broker: Peer, ch: Channel, name: Name) -> None:
    for _ in range(3):
        owner = broker.connect()
        channel = owner.channel()
        assert channel.declare(queue := name("queue"), exclusive=True).message_count == 0
        channel.fill(queue, b"body")
        owner.close()
    ch.declare(queue, durable=True)


def test_confirms_of_messages_that_went_with_it_are_complete(broker: Peer, ch: Channel, name: Name) -> None:
    owner = broker.connect()
    owner.channel().declare(queue := name("queue"), exclusive=True)
    ch.confirm()
    for _ in range(50):
        ch.publish("", queue, b"body", {"delivery_mode": 2})
    ch.sync()
    owner.close()
    assert ch.confirms(range(1, 51)) == (set(range(1, 51)), set())
    ch.publish("", queue, b"body", mandatory=True)
    assert ch.next().method.reply_code == 312


def test_an_exclusive_queue_may_be_deleted_by_its_owner(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), exclusive=True)
    client.channel().call(Queue.Delete, queue=queue)
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


@pytest.mark.parametrize("auto_delete", [True, False])
def test_an_exclusive_queue_may_also_go_with_its_last_consumer(ch: Channel, name: Name, auto_delete: bool) -> None:
    ch.declare(queue := name("queue"), exclusive=True, auto_delete=auto_delete)
    ch.cancel(ch.consume(queue))
    if auto_delete:
        ch.refused(404, Queue.Declare, queue=queue, passive=True)
    else:
        ch.declare(queue, passive=True)


def test_an_exclusive_queue_takes_what_a_queue_takes(
    broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel
) -> None:
    arguments = {"x-max-length": 2, "x-message-ttl": 100, "x-dead-letter-exchange": dlx, "x-max-priority": 3}
    ch.declare(queue := name("queue"), exclusive=True, arguments=arguments)
    ch.fill(queue, b"0", b"1", b"2")
    assert dead.delivery().headers["x-death"][0]["reason"] == "maxlen"
    broker.wait(150)
    assert [letter.headers["x-death"][0]["reason"] for letter in dead.deliveries(2)] == ["expired", "expired"]


# Auto-delete


@pytest.mark.parametrize("end", ["cancel", "nowait", "channel", "connection", "error"])
def test_an_auto_delete_queue_goes_however_its_last_consumer_ends(
    broker: Peer, ch: Channel, name: Name, end: str
) -> None:
    ch.declare(queue := name("queue"), auto_delete=True)
    ch.bind(queue, "amq.fanout")
    other = broker.connect()
    reader = other.channel()
    tag = reader.consume(queue)
    match end:
        case "cancel":
            reader.cancel(tag)
        case "nowait":
            reader.send(Basic.Cancel, consumer_tag=tag, nowait=True)
            reader.sync()
        case "channel":
            reader.close()
        case "connection":
            other.close()
        case _:
            reader.refused(404, Queue.Declare, queue="missing", passive=True)
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


def test_an_auto_delete_queue_stays_while_anyone_consumes(broker: Peer, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), auto_delete=True)
    others = [broker.connect() for _ in range(3)]
    for other in others:
        other.channel().consume(queue)
    for other in others:
        ch.declare(queue, passive=True)
        other.close()
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


def test_what_was_out_of_it_is_settled_in_silence(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), auto_delete=True)
    ch.fill(queue, b"0", b"1", b"2")
    tag = ch.consume(queue)
    out = ch.deliveries(3)
    ch.cancel(tag)
    ch.ack(out[0].tag)
    ch.nack(out[1].tag)
    ch.reject(out[2].tag, requeue=False)
    ch.sync()
    assert ch.declare(queue, auto_delete=True).message_count == 0


def test_it_goes_though_messages_wait(ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), auto_delete=True)
    ch.qos(1)
    tag = ch.consume(queue)
    ch.fill(queue, b"0", b"1", b"2")
    ch.delivery()
    ch.cancel(tag)
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


def test_gets_declares_and_bindings_do_not_end_it(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), auto_delete=True)
    ch.bind(queue, "amq.direct", "key")
    ch.call(Queue.Unbind, queue=queue, exchange="amq.direct", routing_key="key")
    ch.fill(queue, b"body")
    other = client.channel()
    assert other.get(queue, no_ack=False) is not None
    other.close()
    ch.call(Queue.Purge, queue=queue)
    ch.declare(queue, auto_delete=True)
    assert ch.count(queue) == 0


def test_a_consumer_that_was_refused_is_none(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), auto_delete=True)
    client.channel().refused(406, Basic.Consume, queue=queue, arguments={"x-priority": "high"})
    ch.declare(queue, passive=True)


def test_an_auto_delete_queue_may_be_durable(ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), durable=True, auto_delete=True)
    ch.fill(queue, b"body", delivery_mode=2)
    tag = ch.consume(queue)
    ch.delivery()
    ch.cancel(tag)
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


@pytest.mark.parametrize("notified", [True, False])
def test_a_queue_without_consumers_is_deleted_without_a_notification(broker: Peer, name: Name, notified: bool) -> None:
    client = broker.connect(capabilities=CAPABILITIES if notified else {})
    ch = client.channel()
    ch.declare(queue := name("queue"), auto_delete=True)
    ch.cancel(ch.consume(queue))
    ch.nothing()


# Arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-mode": "lazy"},
        {"x-queue-mode": "default"},
        {"x-queue-version": 1},
        {"x-queue-version": 2},
        {"x-queue-mode": "lazy", "x-queue-version": 2, "x-queue-type": "classic"},
        {"x-queue-master-locator": "min-masters"},
        {"x-ha-policy": "all"},
        {"x-quorum-target-group-size": 3},
        {"x-stream-filter-size-bytes": 100},
        {"x-cache-size": 10, "x-cache-ttl": 10, "x-deduplication-header": "h"},
    ],
)
@pytest.mark.parametrize("durable", [True, False])
def test_arguments_of_other_days_are_taken(ch: Channel, name: Name, durable: bool, arguments: dict[str, Any]) -> None:
    ch.declare(queue := name("queue"), durable=durable, arguments=arguments)
    ch.declare(queue, durable=durable, arguments=arguments)
    ch.fill(queue, b"0", b"1", b"2", delivery_mode=2)
    ch.nack(ch.get(queue, no_ack=False).tag)
    ch.sync()
    assert ch.drain(queue) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(("first", "second"), [("lazy", "default"), ("lazy", None)])
def test_the_mode_is_compared(ch: Channel, name: Name, first: str, second: str | None) -> None:
    ch.declare(queue := name("queue"), arguments={"x-queue-mode": first})
    ch.refused(406, Queue.Declare, queue=queue, arguments={"x-queue-mode": second} if second else {})


@pytest.mark.parametrize(
    "arguments", [{"x-queue-version": 3}, {"x-queue-version": "2"}, {"x-queue-mode": "zzz"}, {"x-queue-mode": 1}]
)
def test_nonsense_is_refused(ch: Channel, name: Name, arguments: dict[str, Any]) -> None:
    ch.refused(406, Queue.Declare, queue=name("queue"), arguments=arguments)


def test_the_other_headers_exchange_is_there(ch: Channel, queue: str) -> None:
    ch.bind(queue, "amq.match", arguments={"a": 1})
    ch.publish("amq.match", "", b"body", {"headers": {"a": 1}})
    ch.exchange("amq.match", "headers", passive=True)
    assert ch.drain(queue) == [b"body"]


@pytest.mark.parametrize("auto_delete", [True, False])
def test_transient_queues_for_all_are_permitted(broker: Peer, ch: Channel, name: Name, auto_delete: bool) -> None:
    arguments = {"x-expires": 60000, "x-message-ttl": 5000}  # as a mailbox of Celery
    ch.declare(queue := name("queue"), auto_delete=auto_delete, arguments=arguments)
    other = broker.connect().channel()
    other.fill(queue, b"body")
    assert other.drain(queue) == [b"body"]
