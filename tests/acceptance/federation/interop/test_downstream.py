"""Scenario 107: a real RabbitMQ is our downstream, and one of a ring."""

from typing import Any

import pytest

from tests.support.federation import UPSTREAM_TYPE, Place, fields, headers
from tests.support.polling import until
from warren.broker.session.connection import Connection

from .rabbit import Rabbit

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(180)]

QUEUE = "federation: fed.x -> rabbit:/:fed.x"


def linked(rabbit: Rabbit, up: Place, **settings: Any) -> Any:
    """A channel with a queue `here` at the RabbitMQ, which gets what is published at ours with the key k."""
    there = rabbit.channel()
    there.exchange("fed.x", "topic", durable=True)
    there.declare("here", durable=True)
    there.bind("here", "fed.x", "k")
    rabbit.federate("^fed", up.uri, **settings)
    rabbit.running()
    up.bound("fed.x", "k")
    return there


def taken(rabbit: Rabbit, channel: Any, queue: str, count: int) -> list[bytes]:
    until(lambda: rabbit.ready(queue) >= count, lambda: f"{count} in {queue}: {rabbit.ready(queue)}")
    bodies: list[bytes] = channel.drain(queue)
    return bodies


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish", "no-ack"])
def test_messages_of_ours_come_to_a_rabbitmq(rabbit: Rabbit, up: Place, mode: str) -> None:
    there = linked(rabbit, up, ack_mode=mode)
    for number in range(500):
        up.ch.publish("fed.x", "k", b"%d" % number, {"delivery_mode": 2})
    assert taken(rabbit, there, "here", 500) == [b"%d" % number for number in range(500)]
    up.ch.publish("fed.x", "k", b"more")
    until(lambda: rabbit.ready("here"), "another")
    message = there.get("here")
    assert message is not None
    ((_, entry),) = headers(message)["x-received-from"][1]
    assert dict(entry)["cluster-name"] == ("S", "a") and dict(entry)["vhost"] == ("S", up.vhost)


def test_what_a_rabbitmq_makes_here_is_what_it_makes_at_others(rabbit: Rabbit, up: Place) -> None:
    linked(rabbit, up, max_hops=3)
    assert up.queues() == [QUEUE]
    (name,) = [name for name in up.exchanges() if name.startswith(QUEUE)]
    internal = up.exchange(name)
    assert internal is not None and internal.type_name == UPSTREAM_TYPE and internal.internal
    arguments = dict(fields(internal.arguments))
    assert (arguments["x-max-hops"], arguments["x-downstream-name"]) == (("l", 3), ("S", "rabbit"))
    ((_, _, bound),) = up.bindings("fed.x")
    ((_, entry),) = dict(fields(bound))["x-bound-from"][1]
    assert dict(entry)["hops"][1] == 3 and dict(entry)["cluster-name"] == ("S", "rabbit")


def test_a_rabbitmq_finds_its_internal_exchange_when_it_looks(rabbit: Rabbit, up: Place) -> None:
    linked(rabbit, up)
    (name,) = [name for name in up.exchanges() if name.startswith(QUEUE)]
    up.ch.exchange(name, UPSTREAM_TYPE, passive=True)
    rabbit.unfederate()
    until(lambda: not up.queues() and up.exchanges() == ["fed.x"], lambda: f"{up.queues()} {up.exchanges()}")


def test_a_rabbitmq_whose_connection_was_closed_comes_back(rabbit: Rabbit, up: Place) -> None:
    there = linked(rabbit, up)
    for round_ in range(3):
        assert up.act(up.site.host.close_connections, is_link, "bye") == 1
        up.ch.publish("fed.x", "k", b"%d" % round_)
        assert taken(rabbit, there, "here", 1) == [b"%d" % round_]
        rabbit.running()
        until(lambda: len(up.exchanges()) == 2, lambda: str(up.exchanges()))


def is_link(connection: Connection) -> bool:
    return connection.client_name.startswith("Federation link")


def test_a_queue_of_a_rabbitmq_pulls_from_ours(rabbit: Rabbit, up: Place) -> None:
    up.ch.declare("fed.q", durable=True)
    rabbit.channel().declare("fed.q", durable=True)
    rabbit.federate("^fed", up.uri)
    rabbit.running()
    up.ch.fill("fed.q", *(b"%d" % number for number in range(50)))
    wanting = rabbit.channel()
    wanting.consume("fed.q", no_ack=True)
    assert [message.body for message in wanting.deliveries(50)] == [b"%d" % number for number in range(50)]
    assert until(up.consumers, "its consumer") == [("federation-link-u0", -1)]
    wanting.client.close()
    until(lambda: not up.consumers(), lambda: str(up.consumers()))


def test_queues_that_federate_each_other_share_their_work(rabbit: Rabbit, up: Place) -> None:
    there = rabbit.channel()
    there.declare("fed.q", durable=True)
    up.ch.declare("fed.q", durable=True)
    rabbit.federate("^fed", up.uri)
    up.federate("^fed", rabbit.uri)
    rabbit.running()
    up.running()
    for number in range(10):
        up.ch.publish("", "fed.q", b"ours %d" % number)
        there.publish("", "fed.q", b"theirs %d" % number)
    wanting = up.channel()
    wanting.consume("fed.q", no_ack=True)
    assert len({message.body for message in wanting.deliveries(20)}) == 20
    wanting.client.close()
    wanting = rabbit.channel()
    wanting.consume("fed.q", no_ack=True)
    up.ch.fill("fed.q", b"back")
    assert wanting.delivery().body == b"back"


def test_a_ring_with_a_rabbitmq_in_it_brings_one_copy_to_everybody(rabbit: Rabbit, everywhere: list[Place]) -> None:
    first, second, _ = everywhere
    there = rabbit.channel()
    there.exchange("fed.x", "fanout", durable=True)
    there.declare("here")
    there.bind("here", "fed.x", "k")
    for place in (first, second):
        place.ch.exchange("fed.x", "fanout", durable=True)
        place.listener("fed.x", "k", queue="here")
    rabbit.federate("^fed", second.uri, max_hops=2)
    first.federate("^fed", rabbit.uri, max_hops=2)
    second.federate("^fed", first.uri, max_hops=2)
    for one in (rabbit, first, second):
        one.running()
        one.bound("fed.x", "k", "k")
    for channel, body in ((there, b"rabbit"), (first.ch, b"first"), (second.ch, b"second")):
        channel.publish("fed.x", "k", body)
    expected = {b"rabbit", b"first", b"second"}
    until(lambda: (rabbit.ready("here"), first.ready("here"), second.ready("here")) == (3, 3, 3), "three each")
    for place in (first, second):
        assert set(place.ch.drain("here")) == expected
    assert set(taken(rabbit, there, "here", 3)) == expected
