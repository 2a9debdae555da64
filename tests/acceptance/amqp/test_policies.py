"""Policies, as clients notice them. Most effects of the keys are tested with the feature."""

from typing import Any

import pytest
from pamqp.commands import Queue

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name, Peer
from warren.broker.amqp.errors import Invalid

pytestmark = pytest.mark.policies

QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture
def spare(ch: Channel, name: Name) -> str:
    """A queue bound to a fanout exchange with the same name, which is no alternate exchange yet."""
    ch.exchange(made := name("spare"), "fanout")
    ch.declare(made)
    ch.bind(made, made)
    return made


def test_a_policy_sets_and_clears_an_alternate_exchange(broker: Peer, ch: Channel, name: Name, spare: str) -> None:
    ch.exchange(source := name("source"))
    ch.publish(source, "nowhere", b"before")
    ch.sync()
    broker.set_policy(name("alternate"), f"^{source}$", {"alternate-exchange": spare}, apply_to="exchanges")
    ch.publish(source, "nowhere", b"while")
    ch.sync()
    broker.clear_policy(name("alternate"))
    ch.publish(source, "nowhere", b"after")
    assert ch.drain(spare) == [b"while"]


def test_the_argument_of_an_exchange_goes_before_its_policy(broker: Peer, ch: Channel, name: Name, spare: str) -> None:
    ch.exchange(other := name("other"), "fanout")
    broker.set_policy(name("alternate"), name("source"), {"alternate-exchange": other}, apply_to="exchanges")
    ch.exchange(source := name("source"), arguments={"alternate-exchange": spare})
    ch.publish(source, "nowhere", b"body")
    assert ch.drain(spare) == [b"body"]


def test_of_two_policies_that_match_one_holds(broker: Peer, ch: Channel, queue: str, name: Name) -> None:
    broker.set_policy(name("low"), name(""), {"max-length": 1}, 1, "queues")
    broker.set_policy(name("high"), name(""), {"max-length": 3}, 2, "queues")
    ch.fill(queue, b"1", b"2", b"3", b"4")
    assert ch.count(queue) == 3
    broker.clear_policy(name("high"))
    assert ch.count(queue) == 1
    broker.set_policy(name("low"), "^nothing", {"max-length": 1}, 1, "queues")
    ch.fill(queue, b"5", b"6")
    assert ch.drain(queue) == [b"4", b"5", b"6"]


def test_the_smaller_limit_of_operator_and_user_holds(broker: Peer, ch: Channel, queue: str, name: Name) -> None:
    broker.set_policy(name("own"), name(""), {"max-length": 4}, apply_to="queues")
    broker.set_policy(name("limit"), name(""), {"max-length": 2}, apply_to="queues", operator=True)
    ch.fill(queue, b"1", b"2", b"3", b"4", b"5")
    assert ch.count(queue) == 2
    broker.set_policy(name("limit"), name(""), {"max-length": 9}, apply_to="queues", operator=True)
    ch.fill(queue, b"6", b"7", b"8")
    assert ch.count(queue) == 4
    broker.clear_policy(name("own"))
    ch.fill(queue, *[b"x"] * 9)
    assert ch.count(queue) == 9
    broker.clear_policy(name("limit"), operator=True)
    ch.fill(queue, b"x")
    assert ch.count(queue) == 10


@pytest.mark.parametrize("apply_to", ["quorum_queues", "classic_queues"])
@pytest.mark.differs("3.10 knows no types of queues here")
def test_a_policy_for_one_type_of_queue_leaves_the_others(broker: Peer, ch: Channel, name: Name, apply_to: str) -> None:
    ch.declare(classic := name("classic"), durable=True)
    ch.declare(quorum := name("quorum"), durable=True, arguments=QUORUM)
    broker.set_policy(name("p"), name(""), {"max-length": 1}, apply_to=apply_to)
    for queue in (classic, quorum):
        ch.fill(queue, b"1", b"2")
    assert [ch.count(queue) for queue in (classic, quorum)] == ([2, 1] if apply_to == "quorum_queues" else [1, 2])


@pytest.mark.in_process("3.10 knows the limit for classic queues")
def test_a_policy_with_a_key_of_another_type_holds_for_none_of_this(broker: Peer, ch: Channel, name: Name) -> None:
    ch.declare(classic := name("classic"), durable=True)
    broker.set_policy(name("p"), name(""), {"max-length": 1, "delivery-limit": 5}, apply_to="queues")
    ch.fill(classic, b"1", b"2")
    assert ch.count(classic) == 2


@pytest.mark.in_process("looks at the refusal")
@pytest.mark.parametrize(("pattern", "definition", "operator", "line"), [
    ("x", {"nonsense": 1}, False, '[{<<"nonsense">>,1}] are not recognised policy settings'),
    ("x", {"max-length": -1}, False, "-1 is not a valid maximum length"),
    ("x", {"alternate-exchange": "e"}, True, '[{<<"alternate-exchange">>,<<"e">>}] are not recognised policy'),
    ("x", {}, False, "no policy provided"),
    ("(", {"max-length": 1}, False, "pattern should be regular expression but is invalid: "),
])  # fmt: skip
def test_a_bad_policy_is_refused(broker: Peer, pattern: str, definition: Any, operator: bool, line: str) -> None:
    with pytest.raises(Invalid) as raised:
        broker.set_policy("p", pattern, definition, operator=operator)
    assert raised.value.text.startswith(f"Validation failed\n\n{line}")


def test_a_queue_is_the_same_whatever_policies_say(broker: Peer, ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), arguments={"x-max-length": 5})
    broker.set_policy(name("p"), name(""), {"max-length": 1}, apply_to="queues")
    ch.declare(queue, arguments={"x-max-length": 5})
    ch.refused(406, Queue.Declare, queue=queue, arguments={"x-max-length": 1})


# Queues in use


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
def test_the_smaller_of_two_limits_holds(broker: Peer, ch: Channel, name: Name, argument: int, policy: int) -> None:
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
    assert ch.count(queue) == 0


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
