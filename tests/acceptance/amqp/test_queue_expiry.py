"""Expiry of unused queues."""

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.support.amqp_client import Channel, Client, describe
from tests.support.codec import Typed
from tests.support.peer import Name, Peer

EXPIRES_MS = 400
PART_MS = 250  # twice that is more than EXPIRES_MS
AFTER_MS = 500


@pytest.fixture
def leased(ch: Channel, name: Name) -> str:
    """A queue that is deleted if it is not used for EXPIRES_MS."""
    ch.declare(queue := name("leased"), arguments={"x-expires": EXPIRES_MS})
    return queue


def is_deleted(client: Client, queue: str) -> bool:
    """Whether a queue is deleted; asked without a use of it."""
    ch = client.channel()
    ch.send(Queue.Bind, queue=queue, exchange="amq.fanout", routing_key="")
    answer = ch.next()
    if isinstance(answer, Queue.BindOk):
        return False
    assert answer.reply_code == 404, describe(answer)
    return True


@pytest.mark.parametrize("letter", "sIil")
def test_a_queue_nobody_uses_goes(broker: Peer, client: Client, ch: Channel, name: Name, letter: str) -> None:
    ch.declare(queue := name("queue"), arguments={"x-expires": Typed(letter, EXPIRES_MS)})
    assert not is_deleted(client, queue)
    broker.wait(AFTER_MS)
    closed = ch.refused(404, Queue.Declare, queue=queue, passive=True)
    assert closed.reply_text == f"NOT_FOUND - no queue '{queue}' in vhost '/'"


@pytest.mark.in_process("to the millisecond")
def test_a_queue_goes_at_its_time_and_not_before(broker: Peer, client: Client, leased: str) -> None:
    broker.wait(EXPIRES_MS - 1)
    assert not is_deleted(client, leased)
    broker.wait(1)
    assert is_deleted(client, leased)


@pytest.mark.parametrize("use", ["passive", "active", "get", "get that finds something"])
def test_a_use_makes_it_stay(broker: Peer, client: Client, ch: Channel, leased: str, use: str) -> None:
    ch.fill(leased, b"body", b"body")
    for _ in range(2):
        broker.wait(PART_MS)
        match use:
            case "passive":
                ch.declare(leased, passive=True)
            case "active":
                ch.declare(leased, arguments={"x-expires": EXPIRES_MS})
            case "get":
                ch.drain(leased)
            case _:
                assert ch.get(leased) is not None
    assert goes_after_two_parts(broker, client, leased)


def goes_after_two_parts(broker: Peer, client: Client, queue: str) -> bool:
    """Whether a queue is there after a part of its time, and deleted after one more."""
    broker.wait(PART_MS)
    is_there = not is_deleted(client, queue)
    broker.wait(PART_MS)
    return is_there and is_deleted(client, queue)


def test_publishing_is_no_use(broker: Peer, client: Client, ch: Channel, leased: str) -> None:
    for _ in range(2):
        broker.wait(PART_MS)
        ch.fill(leased, b"body")
    assert is_deleted(client, leased)


def test_what_is_out_does_not_hold_it(broker: Peer, client: Client, ch: Channel, leased: str) -> None:
    ch.fill(leased, b"one", b"two")
    one, two = ch.get(leased, no_ack=False), ch.get(leased, no_ack=False)
    assert one is not None and two is not None
    broker.wait(AFTER_MS)
    assert is_deleted(client, leased)
    ch.ack(one.tag)
    ch.nack(two.tag)
    ch.sync()  # neither tag was unknown


def test_the_time_starts_when_the_last_one_cancels(broker: Peer, client: Client, ch: Channel, leased: str) -> None:
    first, second = ch.consume(leased), ch.consume(leased)
    broker.wait(AFTER_MS)
    ch.cancel(first)
    broker.wait(AFTER_MS)
    ch.cancel(second)
    assert goes_after_two_parts(broker, client, leased)


def test_the_end_of_a_channel_ends_the_use_of_its_consumers(broker: Peer, client: Client, leased: str) -> None:
    consumer = client.consumer(leased)
    broker.wait(AFTER_MS)
    consumer.close()
    assert not is_deleted(client, leased)
    broker.wait(AFTER_MS)
    assert is_deleted(client, leased)


def test_a_consumer_that_comes_in_time_is_served_without_end(broker: Peer, ch: Channel, leased: str) -> None:
    broker.wait(PART_MS)
    ch.consume(leased, no_ack=True)
    for body in (b"one", b"two"):
        broker.wait(AFTER_MS)
        ch.publish("", leased, body)
        assert ch.delivery().body == body


def test_its_bindings_go_and_an_exchange_that_lived_by_them(broker: Peer, ch: Channel, leased: str, name: Name) -> None:
    ch.exchange(exchange := name("exchange"), auto_delete=True)
    ch.bind(leased, exchange, "key")
    broker.wait(AFTER_MS)
    ch.refused(404, Exchange.Declare, exchange=exchange, exchange_type="direct", passive=True)


def test_its_messages_vanish(broker: Peer, ch: Channel, dlx: str, dead: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), arguments={"x-expires": 100, "x-dead-letter-exchange": dlx})
    ch.fill(queue, b"body")
    broker.wait(150)
    ch.refused(404, Queue.Declare, queue=queue, passive=True)
    dead.nothing(name("letters"))


def test_its_name_is_free(broker: Peer, ch: Channel, leased: str) -> None:
    ch.fill(leased, b"body")
    broker.wait(AFTER_MS)
    assert ch.declare(leased).message_count == 0
    broker.wait(AFTER_MS)
    ch.declare(leased, passive=True)


def test_an_exclusive_queue_expires_too(broker: Peer, client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), exclusive=True, arguments={"x-expires": 100})
    broker.wait(150)
    assert is_deleted(client, queue)


def test_an_auto_delete_queue_without_a_consumer_expires(broker: Peer, client: Client, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), auto_delete=True, arguments={"x-expires": 100})
    broker.wait(150)
    assert is_deleted(client, queue)


def test_a_get_comes_too_late(broker: Peer, ch: Channel, leased: str) -> None:
    broker.wait(AFTER_MS)
    ch.refused(404, Basic.Get, queue=leased)


@pytest.mark.policies
def test_a_policy_gives_queues_a_time(broker: Peer, client: Client, ch: Channel, name: Name) -> None:
    ch.declare(argument := name("argument"), arguments={"x-expires": 100})
    ch.declare(policy := name("policy"), arguments={"x-expires": 60000})
    ch.declare(unused := name("unused"), arguments={"x-expires": 60000})
    ch.declare(plain := name("plain"))
    ch.consume(argument)  # holds it while the policy is made
    broker.set_policy(name("expires"), name(""), {"expires": EXPIRES_MS}, apply_to="queues")
    ch.cancel(ch.consume(plain))
    ch.cancel(ch.consume(policy))
    broker.wait(AFTER_MS)
    queues = (argument, policy, unused, plain)
    assert [is_deleted(client, queue) for queue in queues] == [False, True, True, True]


@pytest.mark.policies
def test_a_policy_that_goes_lets_queues_stay(broker: Peer, client: Client, ch: Channel, queue: str, name: Name) -> None:
    broker.set_policy(name("expires"), name(""), {"expires": 5000}, apply_to="queues")
    broker.clear_policy(name("expires"))
    broker.wait(5100)
    assert not is_deleted(client, queue)
