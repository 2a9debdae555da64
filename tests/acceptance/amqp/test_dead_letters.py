"""Dead-lettering: which messages, and when."""

import pytest
from pamqp.commands import Queue

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name, Peer

# Arguments


def test_a_key_is_not_added_later(ch: Channel, source: str, dlx: str) -> None:
    arguments = {"x-dead-letter-exchange": dlx, "x-dead-letter-routing-key": "key"}
    ch.refused(406, Queue.Declare, queue=source, arguments=arguments)


@pytest.mark.parametrize("exchange", [None, "nowhere"])
def test_without_an_exchange_for_them_they_are_dropped(ch: Channel, name: Name, exchange: str | None) -> None:
    ch.declare(queue := name("queue"), arguments={"x-dead-letter-exchange": name(exchange)} if exchange else {})
    ch.fill(queue, b"body")
    ch.reject_next(queue)
    assert ch.count(queue) == 0


# Reasons


@pytest.mark.parametrize("how", ["reject", "nack", "nack many", "reject from consumer"])
def test_what_is_rejected_is_dead_lettered(ch: Channel, source: str, dead: Channel, how: str) -> None:
    ch.fill(source, b"one", b"two", b"three")
    if "consumer" in how:
        ch.consume(source)
        tags = [delivery.tag for delivery in ch.deliveries(3)]
    else:
        tags = [message.tag for message in (ch.get(source, no_ack=False) for _ in range(3)) if message]
    if how == "nack many":
        ch.nack(tags[-1], multiple=True, requeue=False)
    for tag in [] if how == "nack many" else tags:
        ch.nack(tag, requeue=False) if how == "nack" else ch.reject(tag, requeue=False)
    letters = dead.deliveries(3)
    assert [letter.body for letter in letters] == [b"one", b"two", b"three"]
    assert {letter.headers["x-first-death-reason"] for letter in letters} == {"rejected"}
    assert not any(letter.redelivered for letter in letters)
    assert ch.count(source) == 0


@pytest.mark.parametrize("ttl_ms", [0, 1, 100])
@pytest.mark.parametrize("own", [False, True])
def test_what_expires_is_dead_lettered(
    broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel, ttl_ms: int, own: bool
) -> None:
    arguments = {"x-dead-letter-exchange": dlx, **({} if own else {"x-message-ttl": ttl_ms})}
    ch.declare(queue := name("source"), arguments=arguments)
    ch.fill(queue, b"one", b"two", b"three", **({"expiration": str(ttl_ms)} if own else {}))
    broker.wait(ttl_ms)
    letters = dead.deliveries(3)
    assert [letter.body for letter in letters] == [b"one", b"two", b"three"]
    assert {letter.headers["x-first-death-reason"] for letter in letters} == {"expired"}


def test_what_exceeds_the_length_is_dead_lettered(ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.declare(queue := name("source"), arguments={"x-dead-letter-exchange": dlx, "x-max-length": 1})
    ch.fill(queue, b"one", b"two", b"three")
    letters = dead.deliveries(2)
    assert [letter.body for letter in letters] == [b"one", b"two"]
    assert {letter.headers["x-first-death-reason"] for letter in letters} == {"maxlen"}
    assert ch.drain(queue) == [b"three"]


@pytest.mark.parametrize("how", ["ack", "no_ack", "requeue", "channel", "purge", "delete", "auto-delete"])
def test_nothing_else_is_dead_lettered(
    client: Client, ch: Channel, name: Name, dlx: str, dead: Channel, how: str
) -> None:
    arguments = {"x-dead-letter-exchange": dlx}
    ch.declare(queue := name("source"), auto_delete=how == "auto-delete", arguments=arguments)
    ch.fill(queue, b"one", b"two")
    other = client.channel()
    if how == "purge":
        ch.call(Queue.Purge, queue=queue)
    elif how == "delete":
        ch.call(Queue.Delete, queue=queue)
    elif how == "no_ack":
        ch.drain(queue)
    else:
        other.qos(1)
        tag = other.consume(queue)
        delivery = other.delivery()
        match how:
            case "ack":
                other.ack(delivery.tag)
            case "requeue":
                other.nack(delivery.tag)
            case "channel":
                other.close()
            case _:
                other.cancel(tag)
    if how != "channel":
        other.sync()
    dead.nothing(name("letters"))


def test_a_rejected_message_of_a_deleted_queue_is_dropped(ch: Channel, source: str, name: Name, dead: Channel) -> None:
    ch.fill(source, b"body")
    message = ch.get(source, no_ack=False)
    ch.call(Queue.Delete, queue=source)
    ch.reject(message.tag, requeue=False)
    ch.sync()
    dead.nothing(name("letters"))


def test_a_transaction_dead_letters_at_its_commit(client: Client, source: str, name: Name, dead: Channel) -> None:
    ch = client.channel()
    ch.transact()
    ch.publish("", source, b"body")
    ch.commit()
    ch.reject_next(source)
    dead.nothing(name("letters"))
    ch.rollback()
    dead.nothing(name("letters"))
    ch.reject(1, requeue=False)
    ch.commit()
    assert dead.delivery().body == b"body"


# When


def test_expired_messages_arrive_promptly(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.declare(queue := name("source"), arguments={"x-dead-letter-exchange": dlx, "x-message-ttl": 1000})
    for _ in range(3):
        ch.fill(queue, b"body")
        broker.wait(300)
    for _ in range(3):  # each within a fifth of its time
        dead.nothing()
        broker.wait(200)
        assert dead.delivery().body == b"body"
        dead.nothing()
        broker.wait(100)


def test_what_is_requeued_arrives_as_promptly(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.declare(queue := name("source"), arguments={"x-dead-letter-exchange": dlx, "x-message-ttl": 500})
    ch.fill(queue, b"body")
    message = ch.get(queue, no_ack=False)
    broker.wait(300)
    ch.nack(message.tag)
    broker.wait(100)
    dead.nothing(queue)
    broker.wait(200)
    assert dead.delivery().headers["x-first-death-reason"] == "expired"


@pytest.mark.in_process("to the millisecond")
def test_what_is_requeued_too_late_arrives_at_once(
    broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel
) -> None:
    ch.declare(queue := name("source"), arguments={"x-dead-letter-exchange": dlx, "x-message-ttl": 500})
    ch.fill(queue, b"body")
    message = ch.get(queue, no_ack=False)
    broker.wait(600)
    dead.nothing()
    ch.nack(message.tag)
    assert dead.delivery().headers["x-first-death-reason"] == "expired"
