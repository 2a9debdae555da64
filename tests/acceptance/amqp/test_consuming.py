"""Consumers: their turns, cancellation and deletion of their queues."""

from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import CAPABILITIES, Channel, Client
from tests.support.codec import Typed
from tests.support.peer import Name, Peer

from .numbers import fill


def test_consume_ok_comes_before_the_first_delivery(ch: Channel, queue: str) -> None:
    bodies = fill(ch, queue, 3)
    ch.send(Basic.Consume, queue=queue)
    reply = ch.next()
    assert isinstance(reply, Basic.ConsumeOk)
    assert str(reply.consumer_tag).startswith("amq.ctag-") and len(str(reply.consumer_tag)) == 31
    deliveries = ch.deliveries(3)
    assert [delivery.body for delivery in deliveries] == bodies
    assert [delivery.tag for delivery in deliveries] == [1, 2, 3]
    assert {delivery.method.consumer_tag for delivery in deliveries} == {reply.consumer_tag}
    assert not any(delivery.redelivered for delivery in deliveries)


def test_a_consumer_without_an_answer_gets_deliveries_all_the_same(ch: Channel, queue: str) -> None:
    ch.send(Basic.Consume, queue=queue, consumer_tag="tag", nowait=True)
    ch.publish("", queue, b"body")
    assert ch.delivery().method.consumer_tag == "tag"


def test_a_tag_is_used_once_on_a_channel(client: Client, ch: Channel, queue: str) -> None:
    ch.consume(queue, consumer_tag="tag")
    client.channel().consume(queue, consumer_tag="tag")
    closed = ch.refused(530, Basic.Consume, queue=queue, consumer_tag="tag")
    assert closed.reply_text == "NOT_ALLOWED - attempt to reuse consumer tag 'tag'"


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_an_exclusive_consumer_is_alone(client: Client, ch: Channel, queue: str, first: bool, second: bool) -> None:
    tag = ch.consume(queue, exclusive=first)
    closed = client.channel().refused(403, Basic.Consume, queue=queue, exclusive=second)
    assert closed.reply_text == f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    ch.declare(queue, passive=True)
    ch.publish("", queue, b"body")
    ch.delivery()
    ch.cancel(tag)
    client.channel().consume(queue, exclusive=second)


def test_an_exclusive_consumer_does_not_stop_get(client: Client, ch: Channel, queue: str) -> None:
    ch.qos(1)
    ch.consume(queue, exclusive=True)
    fill(ch, queue, 2, start=0)
    assert client.channel().drain(queue) == [b"1"]


def test_exclusive_use_ends_with_the_channel(client: Client, ch: Channel, queue: str) -> None:
    ch.consume(queue, exclusive=True)
    ch.close()
    client.channel().consume(queue, exclusive=True)


@pytest.mark.parametrize("priority", ["banana", None, {"a": 1}, [1], 1.5])
def test_a_consumer_priority_is_an_integer(ch: Channel, queue: str, priority: Any) -> None:
    arguments = {"x-priority": priority}
    closed = ch.refused(406, Basic.Consume, queue=queue, arguments=arguments)
    assert closed.reply_text.startswith("PRECONDITION_FAILED - invalid arg 'x-priority' for queue")
    if priority == "banana":
        assert closed.reply_text.endswith('expected integer, got longstr"')


@pytest.mark.parametrize("type_", ["classic", "quorum"])
@pytest.mark.parametrize("key", ["x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"])
def test_arguments_of_consumers_of_streams_are_refused(ch: Channel, name: Name, type_: str, key: str) -> None:
    ch.declare(queue := name("queue"), durable=True, arguments={"x-queue-type": type_})
    text = ch.client.channel().refused(406, Basic.Consume, queue=queue, arguments={key: "first"}).reply_text
    assert text.startswith(f"PRECONDITION_FAILED - invalid arg '{key}' for queue '{queue}' in ")
    assert text.endswith(f" of queue type rabbit_{type_}_queue")
    assert ch.declare(queue, passive=True).consumer_count == 0


@pytest.mark.parametrize(
    "arguments", [{"x-credit": {"credit": 1, "drain": False}}, {"x-purpose": "x"}, {"x-cancel-on-ha-failover": True}]
)
def test_other_arguments_of_consumers_have_no_effect(ch: Channel, name: Name, arguments: dict[str, Any]) -> None:
    ch.declare(queue := name("queue"))
    ch.fill(queue, b"0", b"1")
    ch.consume(queue, arguments=arguments)
    assert [ch.delivery().body for _ in range(2)] == [b"0", b"1"]


def test_consumers_are_served_by_priority(client: Client, ch: Channel, queue: str) -> None:
    ch.qos(1)
    high, middle, low = (
        ch.consume(queue, consumer_tag=tag, arguments={"x-priority": Typed("b", priority)} if priority else {})
        for tag, priority in (("high", 1), ("middle", 0), ("low", -1))
    )
    fill(ch, queue, 4, start=0)
    first, second, third = ch.deliveries(3)
    assert [item.method.consumer_tag for item in (first, second, third)] == [high, middle, low]
    ch.nothing(queue)
    ch.ack(second.tag)
    last = ch.delivery()
    assert (last.method.consumer_tag, last.body) == (middle, b"3")


def test_a_high_priority_consumer_with_room_gets_all(ch: Channel, queue: str) -> None:
    ch.consume(queue, consumer_tag="low", arguments={"x-priority": -1})
    ch.consume(queue, consumer_tag="high", arguments={"x-priority": 5})
    fill(ch, queue, 20)
    assert {delivery.method.consumer_tag for delivery in ch.deliveries(20)} == {"high"}


@pytest.mark.parametrize("no_ack", [True, False])
def test_equal_consumers_take_turns(client: Client, queue: str, no_ack: bool) -> None:
    channels = [client.channel() for _ in range(3)]
    for channel in channels:
        channel.consume(queue, no_ack=no_ack)
    publisher = client.channel()
    for at in range(9):
        publisher.publish("", queue, str(at).encode())
        publisher.sync()
    for at, channel in enumerate(channels):
        assert [item.body for item in channel.deliveries(3)] == [b"%d" % (at + 3 * turn) for turn in range(3)]


def test_consumers_of_one_channel_get_a_burst_in_order(client: Client, ch: Channel, queue: str) -> None:
    for tag in ("one", "two", "three"):
        ch.consume(queue, consumer_tag=tag)
    publisher = client.channel()
    for at in range(30):
        publisher.publish("", queue, b"%d" % at)
    burst = ch.deliveries(30)
    assert [item.body for item in burst] == [b"%d" % at for at in range(30)]
    assert [item.method.consumer_tag for item in burst[:6]] == ["one", "two", "three"] * 2


def test_a_cancelled_consumer_gets_no_more_and_keeps_what_it_has(client: Client, ch: Channel, queue: str) -> None:
    fill(ch, queue, 1)
    tag = ch.consume(queue)
    delivery = ch.delivery()
    ch.cancel(tag)
    ch.publish("", queue, b"later")
    ch.nothing()
    assert client.channel().drain(queue) == [b"later"]
    ch.ack(delivery.tag)
    ch.sync()
    ch.close()
    assert client.channel().count(queue) == 0


def test_cancelling_an_unknown_tag_is_no_error(ch: Channel) -> None:
    assert ch.call(Basic.Cancel, consumer_tag="unknown").consumer_tag == "unknown"
    ch.send(Basic.Cancel, consumer_tag="unknown", nowait=True)
    ch.nothing()


def test_consumers_of_a_deleted_queue_are_told(broker: Peer, client: Client, ch: Channel, queue: str) -> None:
    other = broker.connect().channel()
    tags = {ch.consume(queue), ch.consume(queue)}
    foreign = other.consume(queue)
    client.channel().call(Queue.Delete, queue=queue)
    cancels = [ch.next(), ch.next(), other.next()]
    assert all(isinstance(item, Basic.Cancel) and item.nowait for item in cancels)
    assert [{cancels[0].consumer_tag, cancels[1].consumer_tag}, cancels[2].consumer_tag] == [tags, foreign]
    ch.nothing()


@pytest.mark.parametrize("durable", [True, False])
def test_cancels_of_the_deleting_channel_follow_delete_ok(broker: Peer, ch: Channel, name: Name, durable: bool) -> None:
    queue = name("deleted")
    ch.declare(queue, durable=durable)
    tags = [ch.consume(queue), ch.consume(queue)]
    other = broker.connect().consumer(queue)
    ch.send(Queue.Delete, queue=queue)
    answers = [ch.next(), ch.next(), ch.next()]
    assert [answer.name for answer in answers] == ["Queue.DeleteOk", "Basic.Cancel", "Basic.Cancel"]
    assert [answer.consumer_tag for answer in answers[1:]] == tags
    assert isinstance(other.next(), Basic.Cancel)


def test_a_deletion_without_a_reply_is_followed_by_the_cancels(ch: Channel, queue: str) -> None:
    tag = ch.consume(queue)
    ch.send(Queue.Delete, queue=queue, nowait=True)
    assert ch.next().consumer_tag == tag
    ch.nothing()


@pytest.mark.differs("a client's cancel-ok is refused: 503")
def test_a_client_may_answer_the_servers_cancel(ch: Channel, queue: str) -> None:
    tag = ch.consume(queue)
    ch.call(Queue.Delete, queue=queue)
    ch.next()
    ch.send(Basic.CancelOk, consumer_tag=tag)
    ch.sync()


@pytest.mark.parametrize("said", [{}, {"consumer_cancel_notify": False}, {"consumer_cancel_notify": "yes"}])
def test_clients_that_cannot_be_told_are_not(broker: Peer, queue: str, said: dict[str, Any]) -> None:
    able = {key: value for key, value in CAPABILITIES.items() if key != "consumer_cancel_notify"}
    ch = broker.connect(capabilities={**able, **said}).consumer(queue)
    ch.call(Queue.Delete, queue=queue)
    ch.nothing()


def test_get_tells_how_many_are_left(ch: Channel, queue: str) -> None:
    fill(ch, queue, 3, start=0)
    for left in (2, 1, 0):
        message = ch.get(queue)
        method = message.method
        assert (method.message_count, method.routing_key, method.exchange) == (left, queue, "")
        assert (message.body, message.redelivered) == (b"%d" % (2 - left), False)
    assert isinstance(ch.call(Basic.Get, queue=queue), Basic.GetEmpty)


def test_get_and_consume_count_tags_together(ch: Channel, queue: str) -> None:
    fill(ch, queue, 3)
    first = ch.get(queue)
    ch.qos(1)
    ch.consume(queue)
    second = ch.delivery()
    third = ch.get(queue, no_ack=False)
    assert first is not None and third is not None
    assert [first.tag, second.tag, third.tag] == [1, 2, 3]


@pytest.mark.in_process("the link's room is set")
def test_a_consumer_that_does_not_read_swallows_no_more_than_its_buffer(broker: Peer, ch: Channel, queue: str) -> None:
    slow = broker.connect()
    slow.channel().consume(queue)
    broker.stall(slow)
    body = b"x" * 10_000
    for _ in range(2000):
        ch.publish("", queue, body)
    ch.sync()
    assert ch.count(queue) > 1500
    assert broker.unsent_bytes(slow) < 5_000_000
    ch.consume(queue)
    assert len(ch.deliveries(1000)) == 1000
