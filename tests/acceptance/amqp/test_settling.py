"""Settlement: ack, nack, reject, recover, and the requeues of a closing channel."""

import pytest
from pamqp import base
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel, Client, Content
from tests.support.peer import Name, Peer

from .numbers import fill


def held(ch: Channel, queue: str) -> Content:
    message = ch.get(queue, no_ack=False)
    assert message is not None
    return message


def ends_with_unknown_tag(ch: Channel, tag: int, method: type[base.Frame]) -> None:
    closed = ch.expect_close(406)
    assert closed.reply_text == f"PRECONDITION_FAILED - unknown delivery tag {tag}"
    assert (closed.class_id, closed.method_id) == (method.index >> 16, method.index & 0xFFFF)


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("multiple", [False, True])
def test_a_delivery_is_acknowledged_once(ch: Channel, queue: str, in_transaction: bool, multiple: bool) -> None:
    fill(ch, queue, 2)
    if in_transaction:
        ch.transact()
    first, _ = held(ch, queue), held(ch, queue)
    ch.ack(first.tag)
    ch.ack(first.tag, multiple=multiple)
    ends_with_unknown_tag(ch, first.tag, Basic.Ack)


@pytest.mark.parametrize(
    ("method", "tag"),
    [(Basic.Ack, 0), (Basic.Ack, 123456), (Basic.Ack, 2**63), (Basic.Nack, 7), (Basic.Reject, 7)]
    + [(Basic.Nack, 2**64 - 1), (Basic.Reject, 2**63)],
)
def test_a_tag_that_was_never_given_is_refused(ch: Channel, method: type[base.Frame], tag: int) -> None:
    ch.send(method, delivery_tag=tag)
    ends_with_unknown_tag(ch, tag, method)


def test_a_tag_belongs_to_its_channel(client: Client, ch: Channel, queue: str) -> None:
    fill(ch, queue, 1)
    other = client.channel()
    other.ack(held(ch, queue).tag)
    ends_with_unknown_tag(other, 1, Basic.Ack)


def test_a_delivery_without_acknowledgement_has_no_tag_to_settle(ch: Channel, queue: str) -> None:
    fill(ch, queue, 1)
    assert ch.get(queue, no_ack=True) is not None
    ch.ack(1)
    ends_with_unknown_tag(ch, 1, Basic.Ack)


def test_acknowledging_all_of_nothing_is_no_error(ch: Channel) -> None:
    ch.ack(0, multiple=True)
    ch.nack(0, multiple=True)
    ch.sync()


@pytest.mark.parametrize(("tag", "multiple", "back"), [(2, False, [2]), (2, True, [1, 2]), (0, True, [1, 2, 3])])
def test_nack_gives_back_one_or_some_or_all(ch: Channel, queue: str, tag: int, multiple: bool, back: list[int]) -> None:
    fill(ch, queue, 3)
    for _ in range(3):
        held(ch, queue)
    ch.nack(tag, multiple=multiple)
    ch.sync()
    again = [held(ch, queue) for _ in range(ch.count(queue))]
    assert [int(message.body) for message in again] == back
    assert all(message.redelivered for message in again)
    assert [message.tag for message in again] == [4, 5, 6][: len(back)]
    ch.nack(2)
    ends_with_unknown_tag(ch, 2, Basic.Nack)


def test_nack_without_requeue_drops(client: Client, ch: Channel, queue: str) -> None:
    fill(ch, queue, 3)
    for _ in range(3):
        held(ch, queue)
    ch.nack(2, multiple=True, requeue=False)
    ch.close()
    assert client.channel().drain(queue) == [b"3"]


def test_reject_gives_back_or_drops(client: Client, ch: Channel, queue: str) -> None:
    fill(ch, queue, 2)
    first, second = held(ch, queue), held(ch, queue)
    ch.reject(second.tag, requeue=False)
    ch.reject(first.tag, requeue=True)
    ch.sync()
    again = held(ch, queue)
    assert (again.body, again.redelivered) == (b"1", True)
    ch.reject(again.tag, requeue=False)
    ch.close()
    assert client.channel().count(queue) == 0


def test_a_rejected_delivery_may_come_straight_back(ch: Channel, queue: str) -> None:
    ch.consume(queue)
    fill(ch, queue, 1)
    assert not ch.delivery().redelivered
    for tag in range(1, 10):
        ch.reject(tag)
        again = ch.delivery()
        assert (again.redelivered, again.tag) == (True, tag + 1)


def test_what_is_given_back_takes_its_old_place(client: Client, ch: Channel, queue: str) -> None:
    fill(ch, queue, 5)
    for _ in range(4):
        held(ch, queue)
    ch.nack(3, multiple=True)
    ch.sync()
    assert client.channel().drain(queue) == [b"1", b"2", b"3", b"5"]
    ch.nack(4)
    ch.sync()
    assert ch.drain(queue) == [b"4"]


def test_what_is_given_back_one_by_one_takes_its_old_place(ch: Channel, queue: str) -> None:
    bodies = fill(ch, queue, 9)
    for _ in range(7):
        held(ch, queue)
    for tag in (4, 1, 7, 2, 6, 3, 5):
        ch.reject(tag)
    ch.sync()
    assert ch.drain(queue) == bodies


def test_a_closing_channel_gives_its_own_back_to_the_other(client: Client, queue: str) -> None:
    one, two = client.channel(), client.channel()
    one.consume(queue)
    two.consume(queue)
    publisher = client.channel()
    for at in (1, 2, 3, 4):
        publisher.publish("", queue, str(at).encode())
        publisher.sync()
    assert [item.body for item in one.deliveries(2)] == [b"1", b"3"]
    assert [item.body for item in two.deliveries(2)] == [b"2", b"4"]
    one.close()
    assert [(item.body, item.redelivered) for item in two.deliveries(2)] == [(b"1", True), (b"3", True)]


@pytest.mark.parametrize("end", ["channel", "connection", "vanish", "error"])
def test_all_that_was_out_is_back_in_order(broker: Peer, ch: Channel, queue: str, end: str) -> None:
    bodies = fill(ch, queue, 2000)
    client = broker.connect()
    consumer = client.consumer(queue)
    consumer.deliveries(5)
    consumer.ack(5, multiple=True)
    consumer.deliveries(100)
    match end:
        case "channel":
            consumer.close()
        case "connection":
            client.close()
        case "vanish":
            client.vanish()
        case "error":
            consumer.send(Queue.Declare, queue="missing", passive=True)
            while isinstance(item := consumer.next(), Content):
                pass
            assert item.name == "Channel.Close"
    while end != "channel" and not broker.in_process and ch.count(queue) < 1995:
        pass  # over a socket, and on RabbitMQ after an error, it may be a moment later
    assert ch.count(queue) == 1995
    assert ch.drain(queue) == bodies[5:]


def test_deliveries_without_acknowledgement_do_not_come_back(client: Client, ch: Channel, queue: str) -> None:
    fill(ch, queue, 3)
    assert ch.get(queue, no_ack=True) is not None
    ch.consume(queue, no_ack=True)
    ch.deliveries(2)
    ch.close()
    assert client.channel().count(queue) == 0


@pytest.mark.parametrize("method", [Basic.Recover, Basic.RecoverAsync])
def test_recover_brings_back_all_that_was_out(ch: Channel, queue: str, method: type[base.Frame]) -> None:
    fill(ch, queue, 2)
    held(ch, queue)
    ch.consume(queue)
    assert ch.delivery().body == b"2"
    ch.send(method, requeue=True)
    items = [ch.next() for _ in range(3 if method is Basic.Recover else 2)]
    if method is Basic.Recover:
        items = [item for item in items if not isinstance(item, Basic.RecoverOk)]
    assert [(item.body, item.redelivered) for item in items] == [(b"1", True), (b"2", True)]


def test_recover_brings_back_nothing_that_needed_no_acknowledgement(ch: Channel, queue: str) -> None:
    fill(ch, queue, 1)
    ch.consume(queue, no_ack=True)
    ch.delivery()
    ch.call(Basic.Recover, requeue=True)
    ch.nothing(queue)


def test_one_ack_covers_get_and_consume_and_every_queue(client: Client, ch: Channel, queue: str, name: Name) -> None:
    ch.declare(other := name("other"))
    fill(ch, queue, 2)
    fill(ch, other, 1)
    held(ch, other)
    held(ch, queue)
    ch.consume(queue)
    ch.ack(ch.delivery().tag, multiple=True)
    ch.close()
    probe = client.channel()
    assert (probe.count(queue), probe.count(other)) == (0, 0)


def test_an_ack_of_many_leaves_the_later_ones(client: Client, ch: Channel, queue: str) -> None:
    fill(ch, queue, 5)
    for _ in range(5):
        held(ch, queue)
    ch.ack(2)
    ch.ack(4, multiple=True)
    ch.close()
    assert client.channel().drain(queue) == [b"5"]


@pytest.mark.parametrize("settle", ["ack", "nack", "reject"])
def test_settling_what_came_from_a_deleted_queue_is_no_error(ch: Channel, queue: str, settle: str) -> None:
    fill(ch, queue, 3)
    first = held(ch, queue)
    held(ch, queue)
    ch.call(Queue.Delete, queue=queue)
    {"ack": ch.ack, "nack": ch.nack, "reject": ch.reject}[settle](first.tag)
    ch.ack(0, multiple=True)
    ch.sync()
    ch.ack(first.tag)
    ends_with_unknown_tag(ch, first.tag, Basic.Ack)


@pytest.mark.timeout(120)
def test_an_ack_of_twenty_thousand_is_one_step(client: Client, ch: Channel, queue: str) -> None:
    fill(ch, queue, 20_000)
    ch.consume(queue)
    ch.deliveries(20_000)
    ch.ack(19_999, multiple=True)
    ch.sync()
    ch.ack(5, multiple=True)
    ends_with_unknown_tag(ch, 5, Basic.Ack)
    probe = client.channel()
    assert probe.drain(queue) == [b"20000"]
