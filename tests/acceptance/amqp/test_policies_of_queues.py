"""Policies that change queues in use."""

import pytest
from pamqp.commands import Queue

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name, Peer

pytestmark = pytest.mark.policies


def length(ch: Channel, queue: str, count: int = 9) -> int:
    """Publish `count` messages, and return how many the queue keeps."""
    ch.call(Queue.Purge, queue=queue)
    ch.fill(queue, *[b"x"] * count)
    return ch.count(queue)


def test_a_policy_holds_for_what_is_declared_later(broker: Peer, ch: Channel, name: Name) -> None:
    broker.set_policy(name("policy"), f"{name('')}.*later", {"max-length": 3}, apply_to="queues")
    ch.declare(queue := name("a-later-one"))
    ch.declare(other := name("another"))
    assert (length(ch, queue), length(ch, other)) == (3, 9)


def test_a_policy_is_changed(broker: Peer, ch: Channel, queue: str, name: Name) -> None:
    for limit in (3, 5, 1):
        broker.set_policy(name("policy"), name(""), {"max-length": limit}, apply_to="queues")
        assert length(ch, queue) == limit
    broker.set_policy(name("policy"), name(""), {"max-length-bytes": 2}, apply_to="queues")
    assert length(ch, queue) == 2
    broker.set_policy(name("policy"), "nothing has this name", {"max-length-bytes": 2}, apply_to="queues")
    assert length(ch, queue) == 9


@pytest.mark.parametrize(("argument", "policy"), [(2, 4), (4, 2)])
def test_the_smaller_of_argument_and_policy_holds(
    broker: Peer, ch: Channel, name: Name, argument: int, policy: int
) -> None:
    ch.declare(queue := name("queue"), arguments={"x-max-length": argument})
    broker.set_policy(name("policy"), name(""), {"max-length": policy}, apply_to="queues")
    assert length(ch, queue) == 2


def test_the_overflow_of_the_argument_holds(broker: Peer, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), arguments={"x-overflow": "reject-publish"})
    definition = {"max-length": 1, "overflow": "drop-head"}
    broker.set_policy(name("policy"), name(""), definition, apply_to="queues")
    ch.fill(queue, b"first", b"second")
    assert ch.drain(queue) == [b"first"]


def test_a_policy_limits_deliveries(broker: Peer, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), durable=True, arguments={"x-queue-type": "quorum"})
    broker.set_policy(name("policy"), name(""), {"delivery-limit": 2}, apply_to="queues")
    ch.qos(1)
    ch.consume(queue)
    ch.fill(queue, b"body")
    for _ in range(3):
        ch.reject(ch.delivery().tag)
    ch.nothing(queue)


def test_what_waits_is_delivered_under_new_rules(broker: Peer, client: Client, ch: Channel, name: Name) -> None:
    """A consumer that is busy during a change of policies is served as before."""
    ch.declare(queue := name("queue"))
    ch.qos(1)
    ch.consume(queue)
    ch.fill(queue, b"0", b"1", b"2", b"3")
    out = ch.delivery()
    broker.set_policy(name("policy"), name(""), {"max-length": 2, "message-ttl": 60000}, apply_to="queues")
    ch.ack(out.tag)
    out = ch.delivery()
    assert out.body == b"2"
    ch.nack(out.tag)
    assert ch.delivery().redelivered


def test_both_policies_hold_together(broker: Peer, ch: Channel, queue: str, name: Name) -> None:
    broker.set_policy(name("policy"), name(""), {"max-length": 4}, apply_to="queues")
    broker.set_policy(name("operator"), name(""), {"max-length-bytes": 3}, apply_to="queues", operator=True)
    assert length(ch, queue) == 3
    broker.clear_policy(name("operator"), operator=True)
    assert length(ch, queue) == 4
