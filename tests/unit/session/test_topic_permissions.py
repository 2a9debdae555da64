"""Rights on the routing keys of topic exchanges."""

import pytest
from pamqp.commands import Connection, Exchange, Queue

from tests.support.amqp_client import Channel
from tests.support.session import dial, new_node
from warren.broker.core.access.passwords import hash_password
from warren.broker.core.node.node import Node


def node_with(write: str, read: str, exchange: str = "amq.topic") -> Node:
    node = new_node()
    node.users.add("a.b", hash_password("a.b", b"salt"))
    node.users.set_permission("a.b", "/", ".*", ".*", ".*")
    node.users.set_topic_permission("a.b", "/", exchange, write, read)
    return node


def channel(node: Node) -> Channel:
    client = dial(node)
    client.start()
    client.login("PLAIN", "\0a.b\0a.b")
    client.tune()
    client.call(Connection.Open, virtual_host="/")
    ch = client.channel()
    ch.declare("q")
    return ch


def publish_refusal(ch: Channel, exchange: str, key: str, **headers: object) -> str:
    """Publish, and return the text of the refusal or an empty one."""
    ch.publish(exchange, key, b"", {"headers": headers} if headers else None)
    try:
        ch.sync()
    except AssertionError as error:
        return str(error)
    return ""


def refusal(what: str, key: str, exchange: str = "amq.topic") -> str:
    return f"{what} access to topic '{key}' in exchange '{exchange}' in vhost '/' refused for user 'a.b'"


def test_keys_are_asked_for_on_publish() -> None:
    node = node_with("^{username}\\.", "")
    ch = channel(node)
    for _ in range(2):
        assert publish_refusal(ch, "amq.topic", "a.b.c") == ""
    assert refusal("write", "axb.c") in publish_refusal(ch, "amq.topic", "axb.c")


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_keys_in_headers_are_asked_for_too(header: str) -> None:
    node = node_with("^mine", "")
    assert publish_refusal(channel(node), "amq.topic", "mine", **{header: ["mine too"]}) == ""
    assert refusal("write", "yours") in publish_refusal(
        channel(node), "amq.topic", "mine", **{header: ["mine", "yours"]}
    )
    assert publish_refusal(channel(node), "amq.direct", "mine", **{header: ["yours"]}) == ""


def test_other_exchanges_other_types_and_other_users_are_not_concerned() -> None:
    node = node_with("", "")
    ch = channel(node)
    ch.exchange("other", "topic")
    for exchange in ("other", "amq.direct", "amq.fanout", ""):
        assert publish_refusal(ch, exchange, "q") == ""
    node.users.set_topic_permission("a.b", "/", "amq.direct", "", "")
    assert publish_refusal(ch, "amq.direct", "q") == ""
    ch.bind("q", "other", "any")
    ch.bind("q", "amq.direct", "any")
    node.users.set_topic_permission("guest", "/", "other", "", "")
    assert publish_refusal(ch, "other", "q") == ""


def test_keys_of_bindings_are_asked_for() -> None:
    node = node_with("", "^{username}\\.#$")
    ch = channel(node)
    ch.exchange("inner", "fanout")
    for kind, ends in (
        (Queue.Bind, {"queue": "q", "exchange": "amq.topic"}),
        (Queue.Unbind, {"queue": "q", "exchange": "amq.topic"}),
        (Exchange.Bind, {"destination": "inner", "source": "amq.topic"}),
        (Exchange.Unbind, {"destination": "inner", "source": "amq.topic"}),
    ):
        ch.call(kind, routing_key="a.b.#", **ends)
        closed = ch.client.channel().refused(403, kind, routing_key="#", **ends)
        assert closed.reply_text == f"ACCESS_REFUSED - {refusal('read', '#')}"


def test_a_change_acts_at_once_also_on_keys_that_were_published_before() -> None:
    node = node_with(".*", ".*")
    ch = channel(node)
    assert publish_refusal(ch, "amq.topic", "k") == ""
    node.users.set_topic_permission("a.b", "/", "amq.topic", "^x", "")
    assert refusal("write", "k") in publish_refusal(ch, "amq.topic", "k")
    node.users.clear_topic_permission("a.b", "/")
    assert publish_refusal(ch.client.channel(), "amq.topic", "k") == ""


def test_the_right_to_the_exchange_comes_first() -> None:
    node = node_with("^x", "")
    node.users.set_permission("a.b", "/", ".*", "^$", ".*")
    assert "write access to exchange 'amq.topic'" in publish_refusal(channel(node), "amq.topic", "k")
