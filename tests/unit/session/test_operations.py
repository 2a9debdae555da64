"""Operations of an operator on a channel without a client: refused, counted and undone like a client's."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.in_process import InProcessPeer
from tests.support.session import operator_channel
from warren.broker.amqp.errors import AccessRefused, Invalid, NotFound, NotNow, PreconditionFailed, ResourceLocked
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.app.build import build_settings
from warren.broker.core.access.passwords import hash_password
from warren.broker.session.management_channel import ManagementChannel

Open = Callable[..., ManagementChannel]


@pytest.fixture
def peer() -> Iterator[InProcessPeer]:
    made = InProcessPeer()
    yield made
    made.close()


@pytest.fixture
def channel_of(peer: InProcessPeer) -> Open:
    """Return a channel of a user, who is created with these permissions unless it is guest."""

    def made(user: str = "guest", *permissions: str) -> ManagementChannel:
        users = peer.node.users
        if users.get(user) is None:
            users.add(user, hash_password(user, b"salt"))
            users.set_permission(user, "/", *permissions)
        return operator_channel(peer.node, users.find(user), build_settings(peer.config))

    return made


def test_what_is_declared_and_deleted_is_there_and_gone(peer: InProcessPeer, channel_of: Open) -> None:
    channel, vhost = channel_of(), peer.node.vhosts["/"]
    channel.declare_queue("q", durable=True)
    channel.declare_exchange("x", "topic", durable=True)
    channel.declare_exchange("y", "fanout", durable=True)
    channel.bind("x", "queue", "q", "a.#", Table.EMPTY)
    channel.bind("x", "exchange", "y", "b", Table.EMPTY)
    assert {binding.destination.name for binding in vhost.exchanges["x"].outgoing.values()} == {"q", "y"}
    channel.unbind("x", "exchange", "y", "b", Table.EMPTY)
    channel.unbind("x", "queue", "q", "a.#", Table.EMPTY)
    assert not vhost.exchanges["x"].outgoing
    channel.delete_exchange("x")
    channel.delete_queue("q")
    assert "x" not in vhost.exchanges and "q" not in vhost.queues


def test_permissions_and_equivalence_are_those_of_clients(peer: InProcessPeer, channel_of: Open) -> None:
    owner = peer.connect().channel()
    owner.declare("own", exclusive=True)
    channel_of().declare_queue("q", durable=True)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'durable'"):
        channel_of().declare_queue("q")
    with pytest.raises(AccessRefused, match="reserved prefix"):
        channel_of().declare_queue("amq.q", durable=True)
    with pytest.raises(ResourceLocked):
        channel_of().delete_queue("own")
    with pytest.raises(NotFound):
        channel_of().purge("nope")
    with pytest.raises(Invalid, match="255 octets"):
        channel_of().declare_queue("é" * 128, durable=True)
    reader = channel_of("reader", "", "", ".*")
    for refused in (
        lambda: reader.declare_queue("r", durable=True),
        lambda: reader.delete_queue("q"),
        lambda: reader.bind("amq.topic", "queue", "q", "k", Table.EMPTY),
        lambda: reader.publish("amq.topic", "k", Properties(), b""),
    ):
        with pytest.raises(AccessRefused):
            refused()
    with pytest.raises(AccessRefused):
        channel_of("writer", "", ".*", "").get("q", 1, no_ack=True)


def test_a_publish_is_routed_or_not_or_refused_and_counted(peer: InProcessPeer, channel_of: Open) -> None:
    channel, vhost = channel_of(), peer.node.vhosts["/"]
    channel.declare_queue("q", durable=True, arguments=Table.of({"x-max-length": 1, "x-overflow": "reject-publish"}))
    said = [channel.publish("", key, Properties(delivery_mode=2), b"body") for key in ("q", "nope", "q")]
    assert [(one.routed, one.refused) for one in said] == [(True, False), (False, False), (True, True)]
    counted = vhost.statistics.publishing
    assert (counted.publish, counted.return_unroutable) == (3, 1)
    with pytest.raises(NotFound, match="no exchange 'nope'"):
        channel.publish("nope", "k", Properties(), b"")
    with pytest.raises(PreconditionFailed, match="larger than configured max size"):
        channel.publish("", "q", Properties(), bytes(build_settings(peer.config).max_message_size + 1))
    with pytest.raises(PreconditionFailed, match="user_id"):
        channel.publish("", "q", Properties(user_id="other"), b"")
    peer.node.alarms.set("memory")
    with pytest.raises(NotNow, match="low on memory"):
        channel.publish("", "q", Properties(), b"")


def test_messages_that_were_got_go_back_to_the_head_in_their_order(peer: InProcessPeer, channel_of: Open) -> None:
    channel = channel_of()
    queue = channel.declare_queue("q")
    for number in range(3):
        channel.publish("", "q", Properties(message_id=str(number)), b"%d" % number)
    got = channel.get("q", 2, no_ack=False)
    assert [(one.message.body, one.redelivered, one.left) for one in got] == [(b"0", False, 2), (b"1", False, 1)]
    channel.give_back(failed=False)
    assert (queue.ready, queue.unacked) == (3, 0)
    again = channel.get("q", 5, no_ack=False)
    assert [(one.message.body, one.redelivered) for one in again] == [(b"0", True), (b"1", True), (b"2", False)]
    channel.reject()
    assert (queue.ready, queue.unacked, channel.get("q", 1, no_ack=True)) == (0, 0, [])


def test_closing_gives_back_what_was_not_settled_and_leaves_nothing(peer: InProcessPeer, channel_of: Open) -> None:
    channel = channel_of()
    queue = channel.declare_queue("q")
    channel.publish("", "q", Properties(), b"body")
    channel.get("q", 1, no_ack=False)
    assert peer.node.connection_counts.channels == 1
    channel.close()
    assert (queue.ready, peer.node.connection_counts.channels, peer.node.open_connections) == (1, 0, 0)


def test_consumers_have_what_is_published_at_once(peer: InProcessPeer, channel_of: Open) -> None:
    consumer = peer.connect().channel()
    consumer.declare("q")
    consumer.consume("q", no_ack=True)
    channel_of().publish("", "q", Properties(), b"body")
    assert consumer.delivery().body == b"body"
