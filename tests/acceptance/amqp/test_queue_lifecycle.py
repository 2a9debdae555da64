"""Exclusive and auto-delete queues, deletion of queues, and their bindings."""

from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name, Peer

ON_LOCKED = [
    (Queue.Declare, {"exclusive": True}),
    (Queue.Declare, {}),
    (Queue.Declare, {"passive": True}),
    (Basic.Consume, {}),
    (Basic.Get, {}),
    (Queue.Purge, {}),
    (Queue.Delete, {}),
    (Queue.Bind, {"exchange": "amq.direct"}),
    (Queue.Unbind, {"exchange": "amq.direct", "routing_key": "bound"}),
]


@pytest.mark.parametrize(("method", "fields"), ON_LOCKED)
def test_an_exclusive_queue_is_closed_to_other_connections(
    broker: Peer, ch: Channel, name: Name, method: type, fields: dict[str, Any]
) -> None:
    ch.declare(queue := name("queue"), exclusive=True)
    ch.bind(queue, "amq.direct", "bound")
    closed = broker.connect().channel().refused(405, method, queue=queue, **fields)
    assert closed.reply_text.startswith(
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in "
    )


def test_an_exclusive_queue_is_open_to_the_other_channels_of_its_connection(client: Client, name: Name) -> None:
    client.channel().declare(queue := name("queue"), exclusive=True)
    other = client.channel()
    other.declare(queue, exclusive=True)
    other.publish("", queue, b"body")
    assert other.drain(queue) == [b"body"]


def test_anyone_may_publish_to_an_exclusive_queue(broker: Peer, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), exclusive=True)
    other = broker.connect().channel()
    other.publish("", queue, b"body")
    other.sync()
    assert ch.drain(queue) == [b"body"]


def test_an_exclusive_queue_is_gone_before_close_ok(broker: Peer, ch: Channel, name: Name) -> None:
    owner = broker.connect()
    owner.channel().declare(queue := name("queue"), exclusive=True)
    owner.close()
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


@pytest.mark.in_process("over a socket the end is seen a little later")
def test_an_exclusive_queue_goes_with_a_client_that_vanishes(broker: Peer, ch: Channel, name: Name) -> None:
    owner = broker.connect()
    owner.channel().declare(queue := name("queue"), exclusive=True)
    owner.vanish()
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


def test_an_exclusive_queue_outlives_its_consumers(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), exclusive=True)
    ch.cancel(ch.consume(queue))
    ch.close()
    client.channel().declare(queue, passive=True)


def test_an_auto_delete_queue_goes_with_its_last_consumer(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), auto_delete=True)
    first, second = ch.consume(queue), ch.consume(queue)
    ch.cancel(first)
    ch.declare(queue, passive=True)
    ch.send(Basic.Cancel, consumer_tag=second, nowait=True)
    ch.refused(404, Queue.Declare, queue=queue, passive=True)
    again = client.channel()
    again.declare(queue, auto_delete=True)
    again.consume(queue)
    again.close()
    client.channel().refused(404, Queue.Declare, queue=queue, passive=True)


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), auto_delete=True)
    ch.publish("", queue, b"body")
    assert ch.drain(queue) == [b"body"]
    ch.close()
    client.channel().declare(queue, passive=True)


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


def test_binding_to_a_missing_exchange_is_refused(ch: Channel, queue: str) -> None:
    closed = ch.refused(404, Queue.Bind, queue=queue, exchange="missing", routing_key="key")
    assert closed.reply_text == "NOT_FOUND - no exchange 'missing' in vhost '/'"


def test_binding_a_missing_queue_is_refused(ch: Channel) -> None:
    closed = ch.refused(404, Queue.Bind, queue="missing", exchange="amq.direct", routing_key="key")
    assert closed.reply_text == "NOT_FOUND - no queue 'missing' in vhost '/'"
