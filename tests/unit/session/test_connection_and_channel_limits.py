"""Limits on connections and channels, and new secrets, which may take rights away."""

import pytest
from pamqp.commands import Basic, Connection
from pamqp.commands import Channel as ChannelMethods

from tests.support.amqp_client import Channel, Client
from tests.support.session import connected, logged_in, new_node, pipe_of
from warren.broker.core.access.passwords import hash_password
from warren.broker.core.node.node import Node


def refused(node: Node, user: str = "guest", vhost: str = "/", **settings: object) -> str:
    """Return the text with which connection.open is refused."""
    client = logged_in(node, user, **settings)
    client.send(Connection.Open, virtual_host=vhost)
    closed = client.expect_close(530)
    assert (closed.class_id, closed.method_id) == (10, 40)
    return str(closed.reply_text).removeprefix("NOT_ALLOWED - ")


def with_user(node: Node) -> Node:
    node.users.add("u", hash_password("u", b"salt"))
    node.users.set_permission("u", "/", ".*", ".*", ".*")
    return node


def test_a_virtual_host_admits_so_many_connections() -> None:
    node = new_node()
    text = "access to vhost '/' refused for user 'guest': connection limit ({}) is reached"
    node.limits.set_vhost("/", {"max-connections": 0})
    assert refused(node) == text.format(0)
    node.limits.set_vhost("/", {"max-connections": 2})
    first, _ = connected(node), connected(node)
    assert refused(node) == text.format(2)
    first.close()
    third = connected(node)
    third.vanish()
    node.limits.set_vhost("/", {"max-connections": -1})
    for _ in range(3):
        connected(node)


def test_a_user_opens_so_many_connections() -> None:
    node = with_user(new_node())
    text = "connection refused for user 'u': user connection limit ({}) is reached"
    node.limits.set_user("u", {"max-connections": 0})
    assert refused(node, "u") == text.format(0)
    node.limits.set_user("u", {"max-connections": 1})
    first = connected(node, "u")
    assert refused(node, "u") == text.format(1)
    connected(node)
    first.vanish()
    connected(node, "u")


def test_the_checks_come_in_rabbitmqs_order() -> None:
    node = with_user(new_node())
    node.add_vhost("locked")
    connected(node, "u")
    node.limits.set_vhost("locked", {"max-connections": 0})
    node.limits.set_user("u", {"max-connections": 0})
    assert refused(node, "u", "none", connection_max=1) == "connection refused: node connection limit (1) is reached"
    assert refused(node, "u", "none") == "vhost none not found"
    assert refused(node, "u", "locked").endswith(": connection limit (0) is reached")
    node.limits.clear_vhost("locked")
    assert "user connection limit (0)" in refused(node, "u", "locked")
    node.limits.clear_user("u")
    assert refused(node, "u", "locked") == "access to vhost 'locked' refused for user 'u'"


def test_a_user_opens_so_many_channels_on_all_connections_together() -> None:
    node = with_user(new_node())
    node.limits.set_user("u", {"max-channels": 2})
    one, other = connected(node, "u"), connected(node, "u")
    one.channel()
    other.channel()
    connected(node).channel()
    with pytest.raises(AssertionError, match="530"):
        one.channel()
    text = "number of channels opened for user 'u' has reached the maximum allowed user limit of 2"
    other.channel()
    other.unopened(9).send(ChannelMethods.Open)
    assert other.expect_close(530).reply_text == f"NOT_ALLOWED - {text}"
    assert node.connection_counts.channels_of_user("u") == 0 and node.connection_counts.channels == 1


def test_a_node_has_so_many_channels() -> None:
    node = new_node()
    client = connected(node, channel_max_per_node=1)
    client.channel()
    client.unopened(2).send(ChannelMethods.Open)
    text = client.expect_close(530).reply_text
    assert text == "NOT_ALLOWED - number of channels opened on node 'node' has reached the maximum allowed limit of 1"


def test_a_channel_counts_once_however_it_ends() -> None:
    node = new_node()
    client = connected(node)
    client.channel().refused(404, Basic.Get, queue="none")
    client.channel().close()
    reopened = client.unopened(1)
    reopened.call(ChannelMethods.Open)
    assert node.connection_counts.channels == 1
    reopened.refused(404, Basic.Get, queue="none")
    client.vanish()
    assert (
        node.connection_counts.channels == 0
        and node.connection_counts.of_user("guest") == node.connection_counts.in_vhost("/") == 0
    )


# A new secret


def renewed(client: Client) -> None:
    client.call(Connection.UpdateSecret, new_secret="new", reason="old one expired")


def consuming(client: Client, queue: str) -> Channel:
    ch = client.channel()
    ch.declare(queue)
    ch.consume(queue, consumer_tag=f"of {queue}")
    return ch


def test_a_new_secret_has_rights_looked_at_again_and_ends_consumers_that_lost_theirs() -> None:
    node = with_user(new_node())
    client = connected(node, "u")
    kept, lost = consuming(client, "kept"), consuming(client, "lost")
    replies = client.channel()
    replies.consume("amq.rabbitmq.reply-to", no_ack=True)
    node.users.set_permission("u", "/", "", "", "^kept$")
    renewed(client)
    cancelled = lost.next()
    assert isinstance(cancelled, Basic.Cancel) and cancelled.consumer_tag == "of lost"
    kept.nothing()
    replies.nothing()
    queues = node.vhosts["/"].queues
    assert [len(queues[name].consumers) for name in ("kept", "lost")] == [1, 0]


def test_a_new_secret_is_refused_where_the_user_is_gone_or_may_not_be_here_any_more() -> None:
    for text in ("New secret was refused by one of the backends", "Secret update failed"):
        node = with_user(new_node())
        client = connected(node, "u")
        if text[0] == "N":
            node.users.delete("u")
        else:
            node.users.clear_permission("u", "/")
        client.send(Connection.UpdateSecret, new_secret="new", reason="")
        assert client.expect_close(530).reply_text == f"NOT_ALLOWED - {text}"
        assert pipe_of(client).connection.vhost is None
