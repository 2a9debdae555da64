"""Quorum queues: the rules of queues that are declared with this type."""

from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name, Peer

QUORUM = {"x-queue-type": "quorum"}


def declare(ch: Channel, queue: str, **arguments: Any) -> str:
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    ch.declare(queue, durable=True, arguments={**QUORUM, **given})
    return queue


@pytest.fixture
def quorum(ch: Channel, name: Name) -> str:
    return declare(ch, name("quorum"))


# What it may not be


@pytest.mark.parametrize(("fields", "text"), [
    ({"durable": False}, "invalid property 'non-durable' for queue '{}' in vhost '/'"),
    ({"durable": True, "exclusive": True}, "invalid property 'exclusive-owner' for queue '{}' in vhost '/'"),
    ({"durable": True, "auto_delete": True}, "invalid property 'auto-delete' for queue '{}' in vhost '/'"),
])  # fmt: skip
def test_it_is_durable_and_for_all(ch: Channel, name: Name, fields: dict[str, bool], text: str) -> None:
    closed = ch.refused(406, Queue.Declare, queue=(queue := name("queue")), arguments=QUORUM, **fields)
    assert closed.reply_text == f"PRECONDITION_FAILED - {text.format(queue)}"


def test_it_has_a_name(ch: Channel) -> None:
    closed = ch.refused(406, Queue.Declare, queue="", durable=True, arguments=QUORUM)
    assert closed.reply_text.endswith("Cannot declare a server-named queue for type rabbit_quorum_queue")


@pytest.mark.parametrize("arguments", [{"x-max-priority": 5}, {"x-queue-mode": "lazy"}])
def test_arguments_of_classic_queues_are_refused(ch: Channel, name: Name, arguments: dict[str, Any]) -> None:
    ch.refused(406, Queue.Declare, queue=name("queue"), durable=True, arguments={**QUORUM, **arguments})


def test_a_queue_does_not_change_its_type(ch: Channel, quorum: str, name: Name) -> None:
    for given in ({}, {"x-queue-type": "classic"}):
        closed = ch.client.channel().refused(406, Queue.Declare, queue=quorum, durable=True, arguments=given)
        assert f"inequivalent arg 'x-queue-type' for queue '{quorum}' in vhost '/': " in closed.reply_text
    ch.declare(classic := name("classic"), durable=True)
    ch.refused(406, Queue.Declare, queue=classic, durable=True, arguments=QUORUM)


def test_it_is_declared_again_as_it_was(ch: Channel, quorum: str) -> None:
    ch.declare(quorum, durable=True, arguments=QUORUM)
    ch.declare(quorum, passive=True)


@pytest.mark.parametrize("condition", ["if_unused", "if_empty"])
def test_it_is_not_deleted_on_a_condition(ch: Channel, quorum: str, condition: str) -> None:
    ch.refused(540, Queue.Delete, queue=quorum, **{condition: True})


def test_streams_are_refused_with_a_clear_text(broker: Peer, ch: Channel, name: Name) -> None:
    if not broker.in_process:
        pytest.skip("other brokers have them")
    closed = ch.refused(406, Queue.Declare, queue=name("queue"), durable=True, arguments={"x-queue-type": "stream"})
    assert "stream" in closed.reply_text


# What it does as others do


def test_it_takes_delivers_counts_purges_and_goes(ch: Channel, quorum: str) -> None:
    ch.confirm()
    for body in (b"0", b"1", b"2", b"3"):
        ch.publish("", quorum, body, {"delivery_mode": 1})
    assert ch.confirms(range(1, 5)) == ({1, 2, 3, 4}, set())
    assert ch.get(quorum) is not None
    out = ch.get(quorum, no_ack=False)
    assert out is not None and out.body == b"1"
    assert ch.call(Queue.Purge, queue=quorum).message_count == 2
    ch.ack(out.tag)
    assert ch.call(Queue.Delete, queue=quorum).message_count == 0
    ch.refused(404, Queue.Declare, queue=quorum, passive=True)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_what_comes_back_above_a_length_limit_goes_to_consumers_that_wait(ch: Channel, name: Name, kind: str) -> None:
    """A classic queue drops it first."""
    arguments = {"x-queue-type": kind, "x-max-length": 1}
    ch.declare(queue := name("queue"), durable=True, arguments=arguments)
    ch.qos(4)
    ch.consume(queue)
    for body in (b"0", b"1", b"2", b"3"):
        ch.fill(queue, body)
    out = ch.deliveries(4)
    other = ch.client.consumer(queue, no_ack=True)
    other.sync()
    ch.nack(out[-1].tag, multiple=True, requeue=True)
    ch.close()
    bodies = [delivery.body for delivery in other.deliveries(4 if kind == "quorum" else 1)]
    assert sorted(bodies) == ([b"0", b"1", b"2", b"3"] if kind == "quorum" else [b"3"])


def test_get_is_not_for_a_single_active_consumer(ch: Channel, name: Name) -> None:
    declare(ch, queue := name("queue"), single_active_consumer=True)
    closed = ch.refused(405, Basic.Get, queue=queue)
    assert closed.reply_text == (
        f"RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '/'. "
        "basic.get operations are not supported by quorum queues with single active consumer"
    )


@pytest.mark.differs("3.10 refuses a global limit with 540")
def test_a_global_limit_is_each_consumers_own(ch: Channel, quorum: str) -> None:
    ch.qos(1, globally=True)
    first, second = ch.consume(quorum), ch.consume(quorum)
    ch.fill(quorum, b"0", b"1", b"2")
    assert [delivery.method.consumer_tag for delivery in ch.deliveries(2)] == [first, second]
    ch.nothing(quorum)


def test_it_has_a_length(ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    declare(ch, queue := name("queue"), max_length=2, dead_letter_exchange=dlx)
    ch.fill(queue, b"0", b"1", b"2", b"3")
    letters = dead.deliveries(2)
    assert [letter.body for letter in letters] == [b"0", b"1"]
    assert letters[0].headers["x-death"][0]["reason"] == "maxlen"


def test_it_refuses_what_is_too_much(ch: Channel, name: Name) -> None:
    declare(ch, queue := name("queue"), max_length=1, overflow="reject-publish")
    ch.confirm()
    verdicts = []
    for number in range(1, 5):
        ch.publish("", queue, b"%d" % number)
        verdicts.append(bool(ch.confirms([number])[0]))
    assert verdicts[0] and not any(verdicts[2:])  # RabbitMQ lets one more pass
    assert ch.drain(queue) == [b"%d" % number for number in range(1, 1 + sum(verdicts))]


def test_it_drops_the_front_where_refused_ones_would_be_dead_letters(ch: Channel, name: Name) -> None:
    declare(ch, queue := name("queue"), max_length=1, overflow="reject-publish-dlx")
    ch.fill(queue, b"0", b"1", b"2")
    assert ch.drain(queue) == [b"2"]


def test_its_messages_expire(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    declare(ch, queue := name("queue"), message_ttl=200, dead_letter_exchange=dlx)
    ch.fill(queue, b"0")
    broker.wait(300)
    ch.get(queue)  # a quorum queue of RabbitMQ looks at its messages when it is asked
    letter = dead.delivery()
    assert (letter.body, letter.headers["x-death"][0]["reason"]) == (b"0", "expired")


@pytest.mark.differs("there it is looked at every few seconds only")
def test_it_expires(broker: Peer, ch: Channel, name: Name) -> None:
    declare(ch, queue := name("queue"), expires=500)
    broker.wait(1200)
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


# How often a message comes back


def count_of(item: Any) -> int | None:
    value: int | None = item.headers.get("x-delivery-count")
    return value


def test_it_counts_how_often_a_message_came_back(ch: Channel, quorum: str) -> None:
    ch.fill(quorum, b"body", headers={"mine": 1})
    ch.qos(1)
    ch.consume(quorum)
    for expected in (None, 1, 2, 3):
        delivery = ch.delivery()
        assert (count_of(delivery), delivery.redelivered) == (expected, expected is not None)
        assert delivery.headers["mine"] == 1
        ch.reject(delivery.tag)


@pytest.mark.differs("before 4.3 each way back counted")
@pytest.mark.parametrize("transaction", [False, True])
def test_a_nack_is_no_failure(ch: Channel, name: Name, transaction: bool) -> None:
    declare(ch, queue := name("queue"), delivery_limit=1)
    ch.fill(queue, b"body")
    end = ch.sync
    if transaction:
        ch.transact()
        end = ch.commit
    ch.qos(1)
    ch.consume(queue)
    for send_back in [ch.nack] * 5 + [ch.reject] * 2:
        delivery = ch.delivery()
        send_back(delivery.tag)
        end()
    assert delivery.headers["x-delivery-count"] == 1
    ch.nothing(queue)


@pytest.mark.parametrize("type_", ["quorum", "classic"])
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_message_comes_back_so_often_and_dies(
    broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel, type_: str, limit: int
) -> None:
    if type_ == "classic" and not broker.in_process:
        pytest.skip("only ours has a limit for classic queues")
    arguments = {"x-queue-type": type_, "x-delivery-limit": limit, "x-dead-letter-exchange": dlx}
    ch.declare(queue := name("queue"), durable=True, arguments=arguments)
    ch.fill(queue, b"body")
    ch.qos(1)
    ch.consume(queue)
    for at in range(limit + 1):
        delivery = ch.delivery()
        assert count_of(delivery) == (at or None)
        dead.nothing()
        ch.reject(delivery.tag)
    letter = dead.delivery()
    (death,) = letter.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("delivery_limit", queue, 1)
    assert letter.headers["x-first-death-reason"] == "delivery_limit"
    ch.nothing(queue)


@pytest.mark.parametrize("how", ["channel", "connection"])
def test_the_loss_of_its_consumer_counts(broker: Peer, ch: Channel, name: Name, how: str) -> None:
    declare(ch, queue := name("queue"), delivery_limit=1)
    ch.fill(queue, b"body")
    for expected in (None, 1):
        other = broker.connect()
        reader = other.channel()
        reader.qos(1)
        reader.consume(queue)
        assert count_of(reader.delivery()) == expected
        reader.close() if how == "channel" else other.close()
    ch.sync()
    assert ch.get(queue) is None


@pytest.mark.differs("before 4.0 there was no limit unless one was asked for")
def test_the_limit_is_twenty_if_none_is_asked_for(ch: Channel, quorum: str) -> None:
    ch.fill(quorum, b"body")
    ch.qos(1)
    ch.consume(quorum)
    for _ in range(21):
        ch.reject(ch.delivery().tag)
    ch.nothing(quorum)


@pytest.mark.differs("before 4.0 there was no limit of that name that is none")
def test_a_limit_below_zero_is_none(ch: Channel, name: Name) -> None:
    declare(ch, queue := name("queue"), delivery_limit=-1)
    ch.fill(queue, b"body")
    ch.qos(1)
    ch.consume(queue)
    for at in range(50):
        delivery = ch.delivery()
        assert count_of(delivery) == (at or None)
        ch.reject(delivery.tag)


@pytest.mark.differs("before 4.0 it had no priorities, before 4.3 two of them")
def test_priorities_have_thirty_two_levels(ch: Channel, quorum: str) -> None:
    for priority in (4, 0, 31, 200, None, 5):
        given = {} if priority is None else {"priority": priority}
        ch.publish("", quorum, str(priority).encode(), given)
    ch.sync()
    assert ch.drain(quorum) == [b"31", b"200", b"5", b"4", b"None", b"0"]


@pytest.mark.differs("before 4.0 a consumer of a higher priority did not come before")
def test_a_more_important_single_consumer_comes_before(client: Client, ch: Channel, name: Name) -> None:
    declare(ch, queue := name("queue"), single_active_consumer=True)
    low, high = client.channel(), client.channel()
    low.consume(queue)
    ch.fill(queue, b"0")
    out = low.delivery()
    high.consume(queue, arguments={"x-priority": 1})
    low.ack(out.tag)
    low.sync()
    ch.fill(queue, b"1")
    assert high.delivery().body == b"1"
    low.nothing(queue)
