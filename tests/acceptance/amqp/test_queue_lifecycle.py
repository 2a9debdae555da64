"""Exclusive and auto-delete queues, deletion of queues, their bindings, and arguments without effect."""

from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.support.amqp_client import CAPABILITIES, Channel, Client
from tests.support.peer import Name, Peer

ON_LOCKED = [
    (Queue.Declare, {"exclusive": True}), (Queue.Declare, {}), (Queue.Declare, {"passive": True}),
    (Basic.Consume, {}), (Basic.Get, {}), (Queue.Purge, {}), (Queue.Delete, {}),
    (Queue.Bind, {"exchange": "amq.direct"}), (Queue.Unbind, {"exchange": "amq.direct", "routing_key": "bound"}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "fields"), ON_LOCKED)
def test_an_exclusive_queue_is_closed(broker: Peer, ch: Channel, name: Name, method: type, fields: Any) -> None:
    ch.declare(queue := name("queue"), exclusive=True)
    ch.bind(queue, "amq.direct", "bound")
    closed = broker.connect().channel().refused(405, method, queue=queue, **fields)
    assert f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in " in closed.reply_text


def test_anyone_may_publish_to_an_exclusive_queue(broker: Peer, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), exclusive=True)
    other = broker.connect().channel()
    other.publish("", queue, b"body")
    other.sync()
    assert ch.drain(queue) == [b"body"]


@pytest.mark.in_process("over a socket the end is seen a little later")
def test_an_exclusive_queue_goes_with_a_client_that_vanishes(broker: Peer, ch: Channel, name: Name) -> None:
    owner = broker.connect()
    owner.channel().declare(queue := name("queue"), exclusive=True)
    owner.vanish()
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


def test_deleting_a_missing_queue_is_no_error(ch: Channel, queue: str) -> None:
    ch.publish("", queue, b"body")
    assert [ch.call(Queue.Delete, queue=queue).message_count for _ in range(2)] == [1, 0]


def test_a_queue_that_is_not_empty_stays_if_only_an_empty_one_is_to_go(client: Client, ch: Channel, queue: str) -> None:
    ch.publish("", queue, b"body")
    ch.sync()
    closed = client.channel().refused(406, Queue.Delete, queue=queue, if_empty=True)
    assert closed.reply_text == f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"
    assert ch.get(queue, no_ack=False) is not None
    assert ch.call(Queue.Delete, queue=queue, if_empty=True).message_count == 0  # what is out does not count


def test_a_queue_in_use_stays_if_only_an_unused_one_is_to_go(client: Client, ch: Channel, queue: str) -> None:
    tag = ch.consume(queue)
    closed = client.channel().refused(406, Queue.Delete, queue=queue, if_unused=True)
    assert closed.reply_text == f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"
    ch.cancel(tag)
    ch.call(Queue.Delete, queue=queue, if_unused=True)


def test_purge_takes_what_is_ready_and_leaves_what_is_out(ch: Channel, queue: str) -> None:
    for body in (b"1", b"2", b"3"):
        ch.publish("", queue, body)
    out = ch.get(queue, no_ack=False)
    assert [ch.call(Queue.Purge, queue=queue).message_count for _ in range(2)] == [2, 0]
    ch.nack(out.tag)
    ch.sync()
    assert ch.drain(queue) == [b"1"]


def test_no_name_means_the_queue_declared_last(ch: Channel, queue: str) -> None:
    ch.bind("", "amq.direct", "")  # and without a routing key, its name is that too
    ch.publish("amq.direct", queue, b"body")
    ch.publish("amq.direct", "", b"nowhere")
    message = ch.get("")
    assert message is not None and message.body == b"body"
    assert ch.get("") is None
    ch.call(Queue.Unbind, queue="", exchange="amq.direct", routing_key="")
    ch.publish("amq.direct", queue, b"unbound")
    ch.sync()
    assert ch.call(Queue.Purge).message_count == 0
    ch.cancel(ch.consume(""))
    ch.call(Queue.Delete)
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


@pytest.mark.parametrize("fields", [{"passive": True}, {"nowait": True}])
def test_any_declare_makes_a_queue_the_last(client: Client, queue: str, fields: dict[str, bool]) -> None:
    ch = client.channel()
    ch.send(Queue.Declare, queue=queue, **fields)
    if "nowait" not in fields:
        ch.next()
    ch.publish("", queue, b"body")
    assert ch.drain("") == [b"body"]


def test_no_queue_with_a_key_of_its_own_keeps_the_key(ch: Channel, queue: str, name: Name) -> None:
    ch.exchange(exchange := name("exchange"))
    ch.bind("", exchange, "key")
    ch.publish(exchange, "key", b"body")
    assert ch.drain(queue) == [b"body"]


@pytest.mark.parametrize("other", [{"queue": "missing"}, {"exchange": "missing"}, {"routing_key": "missing"}])
def test_unbinding_what_is_not_bound_is_no_error(ch: Channel, queue: str, other: dict[str, str]) -> None:
    bound = {"queue": queue, "exchange": "amq.direct", "routing_key": queue}
    ch.bind(**bound)
    ch.call(Queue.Unbind, **{**bound, **other})
    ch.publish("amq.direct", queue, b"still bound")
    assert ch.drain(queue) == [b"still bound"]


def test_a_binding_is_known_by_its_key_and_its_arguments(ch: Channel, queue: str, name: Name) -> None:
    ch.exchange(exchange := name("exchange"))
    ch.bind(queue, exchange, "key", arguments={"a": 1, "b": "x"})
    ch.bind(queue, exchange, "key")
    ch.call(Queue.Unbind, queue=queue, exchange=exchange, routing_key="key")
    ch.publish(exchange, "key", b"one")
    ch.call(Queue.Unbind, queue=queue, exchange=exchange, routing_key="key", arguments={"a": 2, "b": "x"})
    ch.publish(exchange, "key", b"two")
    ch.call(Queue.Unbind, queue=queue, exchange=exchange, routing_key="key", arguments={"b": "x", "a": 1})
    ch.publish(exchange, "key", b"three")
    ch.sync()
    assert ch.drain(queue) == [b"one", b"two"]


@pytest.mark.parametrize("missing", ["exchange", "queue"])
def test_a_binding_needs_both_ends(ch: Channel, queue: str, missing: str) -> None:
    ends = {"queue": queue, "exchange": "amq.direct", missing: "missing"}
    closed = ch.refused(404, Queue.Bind, **ends, routing_key="key")
    assert closed.reply_text == f"NOT_FOUND - no {missing} 'missing' in vhost '/'"


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


def test_an_exclusive_queue_belongs_to_its_connection_and_outlives_its_channel(client: Client, name: Name) -> None:
    first, second = client.channel(), client.channel()
    first.declare(queue := name("queue"), exclusive=True)
    first.fill(queue, b"body")
    first.close()
    second.declare(queue, exclusive=True)
    assert second.drain(queue) == [b"body"]
    second.delete(queue)
    second.refused(404, Queue.Declare, queue=queue, passive=True)


def test_its_name_is_free_for_another(broker: Peer, ch: Channel, name: Name) -> None:
    for _ in range(3):
        owner = broker.connect()
        channel = owner.channel()
        assert channel.declare(queue := name("queue"), exclusive=True).message_count == 0
        channel.fill(queue, b"body")
        owner.close()
    ch.declare(queue, durable=True)


@pytest.mark.parametrize("auto_delete", [True, False])
def test_an_exclusive_queue_may_also_go_with_its_last_consumer(ch: Channel, name: Name, auto_delete: bool) -> None:
    ch.declare(queue := name("queue"), exclusive=True, auto_delete=auto_delete)
    ch.cancel(ch.consume(queue))
    if auto_delete:
        ch.refused(404, Queue.Declare, queue=queue, passive=True)
    else:
        ch.declare(queue, passive=True)


# Auto-delete


@pytest.mark.parametrize("end", ["cancel", "nowait", "channel", "connection", "error"])
def test_each_end_of_its_last_consumer_deletes_a_queue(broker: Peer, ch: Channel, name: Name, end: str) -> None:
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


@pytest.mark.parametrize("durable", [False, True])
def test_it_goes_though_messages_wait(ch: Channel, name: Name, durable: bool) -> None:
    ch.declare(queue := name("queue"), durable=durable, auto_delete=True)
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


@pytest.mark.parametrize("notified", [True, False])
def test_a_queue_without_consumers_is_deleted_without_a_notification(broker: Peer, name: Name, notified: bool) -> None:
    client = broker.connect(capabilities=CAPABILITIES if notified else {})
    ch = client.channel()
    ch.declare(queue := name("queue"), auto_delete=True)
    ch.cancel(ch.consume(queue))
    ch.nothing()


# Arguments


@pytest.mark.parametrize("arguments", [
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
])  # fmt: skip
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
