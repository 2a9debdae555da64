"""Limits on queues, exchanges, virtual hosts, connections and channels, and their errors."""

import pytest

from tests.support.recording_observer import RecordingObserver
from warren.broker.amqp.errors import Invalid, PreconditionFailed, Unknown
from warren.broker.core.node.node import Node
from warren.broker.core.policies.limits import Limits
from warren.broker.core.vhost.vhost import VHost


@pytest.fixture
def limits(node: Node) -> Limits:
    node.users.add("u")
    return node.limits


def queue(vhost: VHost, name: str) -> None:
    vhost.declare_queue(name)


def exchange(vhost: VHost, name: str) -> None:
    vhost.declare_exchange(name, "fanout")


def test_there_are_no_limits_by_default(limits: Limits) -> None:
    assert limits.vhost_connections("/") is limits.vhost_queues("/") is limits.vhost_connections("none") is None
    assert limits.user_connections("u") is limits.user_channels("u") is limits.user_channels("none") is None


def test_a_negative_limit_is_none_and_zero_is_one(limits: Limits) -> None:
    limits.set_vhost("/", {"max-connections": -1, "max-queues": 0})
    assert limits.vhost_connections("/") is None and limits.vhost_queues("/") == 0
    limits.set_user("u", {"max-connections": 0, "max-channels": -5})
    assert limits.user_connections("u") == 0 and limits.user_channels("u") is None


def test_one_queue_more_than_a_vhost_may_have_is_refused(limits: Limits, vhost: VHost) -> None:
    limits.set_vhost("/", {"max-queues": 2})
    queue(vhost, "a")
    queue(vhost, "b")
    for _ in range(2):
        with pytest.raises(PreconditionFailed) as raised:
            queue(vhost, "c")
        assert raised.value.text == "cannot declare queue 'c': queue limit in vhost '/' (2) is reached"
        queue(vhost, "a")
    vhost.delete_queue(vhost.queues["a"])
    queue(vhost, "c")
    limits.set_vhost("/", {"max-queues": 0})
    queue(vhost, "c")
    with pytest.raises(PreconditionFailed):
        queue(vhost, "d")
    limits.clear_vhost("/")
    queue(vhost, "d")


def test_the_whole_node_may_be_limited(node: Node, limits: Limits, vhost: VHost) -> None:
    other = node.add_vhost("other")
    queue(vhost, "a")
    limits.queues, limits.exchanges, limits.vhosts = 1, len(vhost.exchanges) + len(other.exchanges), 2
    with pytest.raises(PreconditionFailed) as raised:
        queue(other, "b")
    assert raised.value.text == "cannot declare queue 'b': queue limit in cluster (1) is reached"
    with pytest.raises(PreconditionFailed) as raised:
        exchange(other, "e")
    count = limits.exchanges
    assert raised.value.text == f"cannot declare exchange 'e' in vhost 'other': exchange limit of {count} is reached"
    limits.exchanges += 1
    exchange(other, "e")
    exchange(other, "e")
    with pytest.raises(Invalid) as refused:
        node.add_vhost("third")
    assert refused.value.text == "cannot create vhost 'third': vhost limit of 2 is reached"
    assert node.add_vhost("other") is other


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"max-queues": "x"}, 'max-queues should be a number, actually was <<"x">>'),
        ({"max-queues": 1.5}, "max-queues should be a number, actually was 1.5"),
        ({"foo": 1}, 'Unrecognised terms [{<<"foo">>,1}] in limits'),
        ([1], "Unrecognised terms [1] in limits"),
    ],
)
def test_wrong_limits_of_a_vhost_are_refused(node: Node, value: object, line: str) -> None:
    with pytest.raises(Invalid) as raised:
        node.parameters.set("/", "vhost-limits", "limits", value)
    assert raised.value.text == f"Validation failed\n\n{line}\n"


def test_limits_of_a_vhost_have_one_name(node: Node, limits: Limits) -> None:
    with pytest.raises(Invalid) as raised:
        node.parameters.set("/", "vhost-limits", "other", {})
    assert raised.value.text == "Validation failed\n\nname not recognised\n"
    limits.clear_vhost("/")
    with pytest.raises(Unknown):
        limits.set_vhost("none", {})


def test_limits_of_a_user_are_added_to_and_taken_away(node: Node, limits: Limits) -> None:
    watcher = RecordingObserver()
    node.observers.add(watcher)
    limits.set_user("u", {"max-connections": 5})
    limits.set_user("u", {"max-channels": 7.0})
    limits.set_user("u", {"max-channels": 7})
    assert (limits.user_connections("u"), limits.user_channels("u")) == (5, 7)
    assert watcher.take_changes() == ["+user u"] * 2
    limits.clear_user("u", "max-connections")
    assert (limits.user_connections("u"), limits.user_channels("u")) == (None, 7)
    limits.clear_user("u")
    limits.clear_user("u")
    assert limits.user_channels("u") is None and watcher.take_changes() == ["+user u"] * 2


def test_wrong_limits_of_a_user_are_refused(limits: Limits) -> None:
    with pytest.raises(Invalid) as raised:
        limits.set_user("u", {"max-connections": "x", "max-queues": 1})
    assert raised.value.text == (
        'max-connections should be a number, actually was <<"x">>\n'
        'Unrecognised terms [{<<"max-queues">>,1}] in user-limits'
    )
    with pytest.raises(Invalid):
        limits.clear_user("u", "max-queues")
    with pytest.raises(Unknown):
        limits.set_user("none", {})
