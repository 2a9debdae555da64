"""Priority queues."""

import random
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name, Peer

LEVELS = pytest.mark.differs("there a live message of a higher level holds back the expiry of lower ones")


@pytest.fixture
def ranked(ch: Channel, name: Name) -> str:
    """A queue with priorities from 0 to 5."""
    return declare(ch, name("ranked"))


def declare(ch: Channel, queue: str, most: Any = 5, **arguments: Any) -> str:
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    ch.declare(queue, arguments={"x-max-priority": most, **given})
    return queue


def publish(ch: Channel, queue: str, *priorities: int | None, **properties: Any) -> None:
    """Publish a message of each priority; its body is the priority and a number."""
    for number, priority in enumerate(priorities):
        given = properties if priority is None else {**properties, "priority": priority}
        ch.publish("", queue, f"{priority}.{number}".encode(), given)
    ch.sync()


@pytest.mark.parametrize("most", [3, 10, 255])
def test_the_more_urgent_come_first_and_equals_in_turn(ch: Channel, name: Name, most: int) -> None:
    declare(ch, queue := name("queue"), most)
    random.Random(most).shuffle(priorities := [*range(most + 1)] * 2)
    ch.confirm()  # RabbitMQ counts what it has confirmed
    publish(ch, queue, *priorities)
    ch.confirms(range(1, 2 * most + 3))
    assert ch.count(queue) == 2 * most + 2
    came = [body.split(b".") for body in ch.drain(queue)]
    assert [int(priority) for priority, _ in came] == sorted(priorities, reverse=True)
    numbers = [int(number) for _, number in came]
    assert all(first < second for first, second in zip(numbers[::2], numbers[1::2], strict=True))


@pytest.mark.parametrize(
    ("priorities", "order"),
    [
        ((5, 200, 6, 5), [b"5.0", b"200.1", b"6.2", b"5.3"]),
        ((None, 0, 1, None), [b"1.2", b"None.0", b"0.1", b"None.3"]),
    ],
)
def test_a_priority_above_the_highest_is_the_highest_and_none_the_lowest(
    ch: Channel, ranked: str, priorities: tuple[int | None, ...], order: list[bytes]
) -> None:
    publish(ch, ranked, *priorities)
    messages = [message for message in (ch.get(ranked) for _ in range(4)) if message]
    assert [message.body for message in messages] == order
    as_published = [body.split(b".")[0].decode() for body in order]
    assert [str(message.properties.priority) for message in messages] == as_published


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 0}])
def test_a_queue_without_priorities_takes_no_notice(ch: Channel, name: Name, arguments: dict[str, Any]) -> None:
    ch.declare(queue := name("queue"), arguments=arguments)
    publish(ch, queue, 1, 9, 5)
    assert ch.drain(queue) == [b"1.0", b"9.1", b"5.2"]


def test_what_a_consumer_has_is_not_taken_back(ch: Channel, ranked: str) -> None:
    ch.qos(2)
    ch.consume(ranked)
    publish(ch, ranked, 1, 1, 1)
    publish(ch, ranked, 5)
    first, second = ch.deliveries(2)
    assert [first.body, second.body] == [b"1.0", b"1.1"]
    ch.ack(first.tag)
    assert ch.delivery().body == b"5.0"


def test_the_priority_is_that_of_each_copy(ch: Channel, name: Name) -> None:
    for most in (1, 5):
        declare(ch, name(f"queue-{most}"), most)
        ch.bind(name(f"queue-{most}"), "amq.fanout")
    for priority in (1, 3, 2):
        ch.publish("amq.fanout", "", b"%d" % priority, {"priority": priority})
    ch.sync()
    assert ch.drain(name("queue-1")) == [b"1", b"3", b"2"]
    assert ch.drain(name("queue-5")) == [b"3", b"2", b"1"]


@pytest.mark.parametrize("how", ["nack", "reject", "recover", "channel"])
def test_what_comes_back_returns_to_its_place(client: Client, ch: Channel, ranked: str, how: str) -> None:
    publish(ch, ranked, 3, 5, 3, 1)
    reader = client.channel()
    out = [message for message in (reader.get(ranked, no_ack=False) for _ in range(3)) if message]
    assert [message.body for message in out] == [b"5.1", b"3.0", b"3.2"]
    publish(ch, ranked, 5, 3)
    match how:
        case "nack":
            reader.nack(out[-1].tag, multiple=True)
        case "reject":
            for message in reversed(out):
                reader.reject(message.tag)
        case "recover":
            reader.call(Basic.Recover, requeue=True)
        case _:
            reader.close()
    if how != "channel":
        reader.sync()
    came = [message for message in (ch.get(ranked) for _ in range(6)) if message]
    assert [message.body for message in came] == [b"5.1", b"5.0", b"3.0", b"3.2", b"3.1", b"1.3"]
    assert [message.redelivered for message in came] == [True, False, True, True, False, False]


# With other features


@LEVELS
def test_each_level_expires_by_itself(broker: Peer, ch: Channel, ranked: str) -> None:
    publish(ch, ranked, 0, 1, expiration="100")
    publish(ch, ranked, 0, 1, expiration="60000")
    broker.wait(150)
    assert ch.count(ranked) == 2
    assert ch.drain(ranked) == [b"1.1", b"0.0"]


@LEVELS
def test_a_level_expires_below_one_that_lives(broker: Peer, ch: Channel, ranked: str) -> None:
    publish(ch, ranked, 5)
    publish(ch, ranked, 1, expiration="100")
    broker.wait(150)
    assert ch.count(ranked) == 1


def test_an_expired_message_is_never_late(broker: Peer, ch: Channel, ranked: str) -> None:
    publish(ch, ranked, 5)
    publish(ch, ranked, 1, 0, expiration="100")
    broker.wait(150)
    assert ch.drain(ranked) == [b"5.0"]


def test_dead_letters_keep_their_priority(broker: Peer, client: Client, ch: Channel, name: Name, ranked: str) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": ranked}
    ch.declare(source := name("source"), arguments={**arguments, "x-message-ttl": 50})
    publish(ch, source, 1, 4, 2)
    broker.wait(100)
    assert ch.drain(ranked) == [b"4.1", b"2.2", b"1.0"]


def test_too_many_push_out_the_most_urgent(ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    declare(ch, queue := name("queue"), 5, max_length=2, dead_letter_exchange=dlx)
    publish(ch, queue, 1, 5, 3)
    assert dead.delivery().body == b"5.1"
    publish(ch, queue, 0)
    assert dead.delivery().body == b"3.2"
    assert ch.drain(queue) == [b"1.0", b"0.0"]


def test_bytes_of_all_levels_count(ch: Channel, name: Name) -> None:
    declare(ch, queue := name("queue"), 5, max_length_bytes=7)
    publish(ch, queue, 1, 2, 3)  # of three bytes each
    assert ch.drain(queue) == [b"2.1", b"1.0"]


def test_a_full_queue_refuses_whatever_the_priority(ch: Channel, name: Name) -> None:
    declare(ch, queue := name("queue"), 5, max_length=1, overflow="reject-publish")
    ch.confirm()
    for priority in (1, 5):
        ch.publish("", queue, b"%d" % priority, {"priority": priority})
    assert ch.confirms([1, 2]) == ({1}, {2})
    assert ch.drain(queue) == [b"1"]


def test_a_single_active_consumer_is_served_by_priority(client: Client, ch: Channel, name: Name) -> None:
    declare(ch, queue := name("queue"), 5, single_active_consumer=True)
    publish(ch, queue, 1, 5, 3)
    ch.consume(queue, no_ack=True)
    other = client.consumer(queue, no_ack=True)
    assert [delivery.body for delivery in ch.deliveries(3)] == [b"5.1", b"3.2", b"1.0"]
    other.nothing(queue)


def test_purge_takes_all_levels(ch: Channel, ranked: str) -> None:
    publish(ch, ranked, 1, 5, 3, None)
    assert ch.call(Queue.Purge, queue=ranked).message_count == 4
    assert ch.get(ranked) is None


def test_a_transaction_delivers_by_priority(client: Client, ch: Channel, ranked: str) -> None:
    other = client.channel()
    other.transact()
    publish(other, ranked, 1, 5, 3)
    assert ch.get(ranked) is None
    other.commit()
    assert ch.drain(ranked) == [b"5.1", b"3.2", b"1.0"]


def test_many_messages_of_few_priorities_keep_their_order(ch: Channel, ranked: str) -> None:
    priorities = [random.Random(7).randrange(6) for _ in range(10)] * 100
    publish(ch, ranked, *priorities, delivery_mode=2)
    ch.consume(ranked, no_ack=True)
    came = [delivery.body for delivery in ch.deliveries(1000)]
    sent = [f"{priority}.{number}".encode() for number, priority in enumerate(priorities)]
    assert came == sorted(sent, key=lambda body: -int(body.split(b".")[0]))
