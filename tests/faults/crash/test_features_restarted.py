"""Settings of queues and the state of their messages after a restart: limits, times, deaths, delivery counts."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from pamqp.commands import Basic, Queue
from pamqp.commands import Channel as ChannelMethods

from tests.support.amqp_client import Channel, Client, Content
from tests.support.broker_process import BrokerProcess
from tests.support.polling import until

from .test_restarted import PERSISTENT, confirmed, restart

__all__ = ["restart"]  # the fixture

pytestmark = pytest.mark.sockets
BODIES = [b"%d" % number for number in range(5)]
HOUR_S = 3600
HOUR_MS = HOUR_S * 1000
LEASE_MS = 4000  # a restart and the next command fit into it


def declare(client: Client, queue: str, dead: str = "", **arguments: Any) -> None:
    """Declare a durable queue whose dead letters go to another queue."""
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    if dead:
        given |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    client.channel().declare(queue, durable=True, arguments=given)


def arrives(channel: Channel, queue: str, count: int) -> list[Content]:
    """Return the messages that arrive in a queue soon."""
    channel.consume(queue, no_ack=True, consumer_tag=queue)
    came = channel.deliveries(count)
    channel.cancel(queue)
    return came


def exists(client: Client, queue: str) -> bool:
    """Whether a queue exists; asked by a binding, which does not renew the expiry of the queue."""
    channel = client.channel()
    channel.send(Queue.Bind, queue=queue, exchange="amq.fanout", routing_key="")
    if isinstance(channel.next(), Queue.BindOk):
        channel.close()
        return True
    channel.send(ChannelMethods.CloseOk)
    return False


def empty(channel: Channel, queue: str) -> None:
    """Wait until a queue has no messages."""
    until(lambda: not channel.count(queue), f"{queue} is empty")


def on_disk(client: Client) -> None:
    """Wait until all earlier work is on disk: until a message that is published now is confirmed."""
    declare(client, "barrier")
    confirmed(client, "barrier", [b"behind it"])


def test_limits_count_what_was_there_before(client: Client, restart: Callable[[], Client]) -> None:
    declare(client, "letters")
    declare(client, "by length", "letters", max_length=3)
    declare(client, "by bytes", "letters", max_length_bytes=3)
    declare(client, "refusing", max_length=3, overflow="reject-publish")
    for queue in ("by length", "by bytes", "refusing"):
        confirmed(client, queue, BODIES[:3])
    client = restart()
    channel = client.channel()
    channel.confirm()
    for number, queue in enumerate(("by length", "by bytes", "refusing"), 1):
        assert channel.count(queue) == 3
        channel.publish("", queue, b"x", PERSISTENT)
        assert channel.confirms([number]) == (({number}, set()) if number < 3 else (set(), {number}))
    assert channel.drain("by length") == channel.drain("by bytes") == [b"1", b"2", b"x"]
    assert channel.drain("refusing") == BODIES[:3]
    assert [letter.body for letter in arrives(channel, "letters", 2)] == [b"0", b"0"]


def test_the_earlier_deadline_is_kept_and_the_queue_goes_on_to_set_them(
    client: Client, daemon: BrokerProcess, restart: Callable[[], Client]
) -> None:
    declare(client, "letters")
    declare(client, "timed", "letters", message_ttl=HOUR_MS)
    confirmed(client, "timed", [b"before"])
    daemon.clock_ahead_s = HOUR_S / 2
    assert restart().channel().count("timed") == 1
    daemon.clock_ahead_s = HOUR_S
    channel = restart().channel()
    (letter,) = arrives(channel, "letters", 1)
    assert letter.headers["x-first-death-reason"] == "expired"
    channel.fill("timed", b"after", expiration="100")
    (letter,) = arrives(channel, "letters", 1)
    assert letter.headers["x-death"][0]["original-expiration"] == "100"


def test_dead_letters_at_least_once_wait_over_restarts(client: Client, restart: Callable[[], Client]) -> None:
    arguments = {"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-max-length": 2}
    client.channel().declare("letters", durable=True, arguments=arguments)
    arguments |= {"x-max-length": 10, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    arguments |= {"x-message-ttl": 1, "x-dead-letter-strategy": "at-least-once"}
    client.channel().declare("timed", durable=True, arguments=arguments)
    confirmed(client, "timed", BODIES)
    for expected in (BODIES[:2], BODIES[2:4], BODIES[4:]):
        client = restart()
        channel = client.channel()
        until(lambda: channel.count("letters") == len(expected), "the next ones are there")  # noqa: B023
        assert channel.drain("letters") == expected
        on_disk(client)
    channel = restart().channel()
    assert (channel.count("timed"), channel.count("letters")) == (0, 0)


def test_a_delayed_message_arrives_at_its_time(
    client: Client, daemon: BrokerProcess, restart: Callable[[], Client]
) -> None:
    declare(client, "later")
    channel = client.channel()
    channel.exchange("delaying", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
    channel.bind("later", "delaying")
    channel.confirm()
    channel.publish("delaying", "", b"hour", {**PERSISTENT, "headers": {"x-delay": HOUR_MS}})
    channel.confirms([1])
    daemon.clock_ahead_s = HOUR_S / 2
    assert restart().channel().count("later") == 0
    daemon.clock_ahead_s = HOUR_S + 1
    assert [content.body for content in arrives(restart().channel(), "later", 1)] == [b"hour"]


def test_priorities_and_deadlines_of_many_messages_hold(client: Client, restart: Callable[[], Client]) -> None:
    declare(client, "ranked", max_priority=3)
    channel = client.channel()
    channel.confirm()
    count = 5000
    for number in range(count):
        properties = {**PERSISTENT, "priority": number % 4}
        if number % 5 == 0:
            properties["expiration"] = "1" if number % 10 else "3600000"
        channel.publish("", "ranked", b"%d" % number, properties)
    assert channel.confirms(range(1, count + 1))[1] == set()
    out = [channel.get("ranked", no_ack=False) for _ in range(10)]
    client = restart()
    channel = client.channel()
    channel.consume("ranked", no_ack=True)
    alive = [number for number in range(count) if number % 10 != 5]
    expected = [b"%d" % number for level in (3, 2, 1, 0) for number in alive if number % 4 == level]
    came = channel.deliveries(len(expected))
    assert [delivery.body for delivery in came] == expected
    assert [delivery.redelivered for delivery in came[:10]] == [True] * 10
    assert [content.body for content in out if content] == expected[:10]


def test_a_circle_is_seen_that_began_before(
    client: Client, daemon: BrokerProcess, restart: Callable[[], Client]
) -> None:
    declare(client, "one", "two", message_ttl=50)
    declare(client, "two", "one", message_ttl=HOUR_MS)
    confirmed(client, "one", [b"body"])
    empty(client.channel(), "one")
    on_disk(client)
    assert restart().channel().count("two") == 1
    daemon.clock_ahead_s = HOUR_S
    channel = restart().channel()
    empty(channel, "two")
    assert channel.count("one") == 0


def test_dead_letters_are_as_persistent_as_what_died(client: Client, restart: Callable[[], Client]) -> None:
    declare(client, "letters")
    declare(client, "source", "letters")
    confirmed(client, "source", [b"kept"])
    confirmed(client, "source", [b"not kept"], {"delivery_mode": 1})
    channel = client.channel()
    channel.consume("letters")
    for body in (b"kept", b"not kept"):
        channel.reject_next("source")
        assert channel.delivery().body == body
    confirmed(client, "letters", [b"behind them"])
    channel = restart().channel()
    assert channel.drain("letters") == [b"kept", b"behind them"]
    assert channel.count("source") == 0


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen"])
def test_a_kill_finds_a_dying_message_in_one_queue_or_the_other(daemon: BrokerProcess, reason: str) -> None:
    daemon.start()
    for number in range(4):
        client = daemon.connect()
        source, letters = f"source {number}", f"letters {number}"
        declare(client, letters)
        declare(client, source, letters, **{"maxlen": {"max_length": 0}, "expired": {"message_ttl": 5}}.get(reason, {}))
        confirmed(client, source, BODIES)
        channel = client.channel()
        if reason == "rejected":
            for _ in BODIES:
                channel.send(Basic.Get, queue=source)
            channel.nack(0, multiple=True, requeue=False)
        channel.sync() if number % 2 else time.sleep(0.002 * number)  # any moment will do
        daemon.kill()
        daemon.start()
        channel = daemon.connect().channel()
        if reason == "expired":
            empty(channel, source)
        left = channel.drain(source) + channel.drain(letters)
        assert sorted(left) == BODIES


def test_the_time_of_an_unused_queue_starts_anew(
    client: Client, daemon: BrokerProcess, restart: Callable[[], Client]
) -> None:
    declare(client, "leased", expires=HOUR_MS)
    confirmed(client, "leased", [b"body"])
    daemon.clock_ahead_s = 2 * HOUR_S
    client = restart()
    assert exists(client, "leased")
    declare(client, "unused", expires=LEASE_MS)
    declare(client, "held", expires=LEASE_MS)
    client = restart()
    client.channel().consume("held")
    until(lambda: not exists(client, "unused"), "the unused queue is deleted")
    assert exists(client, "held") and exists(client, "leased")


def test_an_auto_delete_queue_waits_for_a_new_consumer(client: Client, restart: Callable[[], Client]) -> None:
    client.channel().declare("fleeting", durable=True, auto_delete=True)
    confirmed(client, "fleeting", BODIES)
    client = restart()
    channel = client.channel()
    assert channel.count("fleeting") == 5
    tag = channel.consume("fleeting")
    channel.deliveries(5)
    channel.cancel(tag)
    channel.refused(404, Queue.Declare, queue="fleeting", passive=True)
    client.channel().declare("other", durable=True)
    restart().channel().refused(404, Queue.Declare, queue="fleeting", passive=True)


def test_a_queue_that_expired_or_was_auto_deleted_stays_away(client: Client, restart: Callable[[], Client]) -> None:
    declare(client, "leased", expires=50)
    confirmed(client, "leased", BODIES)
    until(lambda: not exists(client, "leased"), "it is deleted")
    declare(client, "behind")  # is answered when the deletion before it is stored, which no client waits for
    client = restart()
    client.channel().refused(404, Queue.Declare, queue="leased", passive=True)
    declare(client, "leased", expires=60000)
    assert client.channel().count("leased") == 0


def test_quorum_queues_stay_what_they_are_and_keep_all_their_messages(
    client: Client, daemon: BrokerProcess, restart: Callable[[], Client]
) -> None:
    """A message without a priority is where one with the priority 4 is."""
    declare(client, "quorum", queue_type="quorum")
    for priority in (None, 0, 9, 4, None, 3, 40, 31):
        properties = {**PERSISTENT, "priority": priority} if priority is not None else PERSISTENT
        confirmed(client, "quorum", [b"%d" % priority if priority is not None else b"none"], properties)
    confirmed(client, "quorum", [b"transient"], {"delivery_mode": 1})
    client = restart()
    client.channel().refused(540, Queue.Delete, queue="quorum", if_empty=True)
    expected = [b"40", b"31", b"9", b"none", b"4", b"none", b"transient", b"3", b"0"]
    assert daemon.connect().channel().drain("quorum") == expected
