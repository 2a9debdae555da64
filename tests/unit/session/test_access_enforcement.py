"""Topic permissions, and deletion of users and virtual hosts while their connections wait for something."""

from collections.abc import Callable

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.support import codec
from tests.support.amqp_client import Channel, Client
from tests.support.hashing import FakeHashing, fake_hash
from tests.support.session import SlowJournal, connected, dial, new_node, pipe_of
from warren.broker.amqp.errors import ConnectionForced
from warren.broker.core.access.passwords import ARGON2ID, hash_password
from warren.broker.core.definitions.definition_recorder import DefinitionRecorder
from warren.broker.core.node.node import Node
from warren.broker.core.queues.queue import Queue as ServerQueue
from warren.broker.core.vhost.observer import Observer
from warren.broker.net.access_enforcement import AccessEnforcement
from warren.broker.session.connection import Connection as Session


def evict(client: Client) -> None:
    """Make deletions close the connections of this client's node, as the server does."""
    session = pipe_of(client).connection

    def close(chosen: Callable[[Session], bool], reason: str) -> int:
        if chosen(session):
            session.close(ConnectionForced(reason))
        return 1

    session.node.observers.add(AccessEnforcement(close, lambda: [session], session.node))


def test_a_login_that_waits_is_refused_when_its_user_is_deleted_or_another_of_that_name() -> None:
    for again in (False, True):
        hashing = FakeHashing()
        node = new_node(hashing=hashing)
        node.users.add("u", fake_hash(b"right"), (), ARGON2ID)
        client = dial(node)
        evict(client)
        hashing.slow = True
        client.start()
        client.login("PLAIN", "\0u\0right")
        node.users.delete("u")
        if again:
            node.users.add("u", fake_hash(b"right"), (), ARGON2ID)
        hashing.answer()
        client.expect_close(403)


def test_observers_learn_that_a_queue_has_lost_the_consumer_of_a_user_who_may_not_read_it_any_more() -> None:
    consumers: list[tuple[str, int]] = []

    class Watching(Observer):
        def consumers_changed(self, queue: ServerQueue) -> None:
            consumers.append((queue.name, len(queue.consumers)))

    node = new_node()
    client = connected(node)
    evict(client)
    ch = client.channel(1)
    for name in ("kept", "lost"):
        ch.declare(name)
        ch.consume(name)
    node.observers.add(Watching())
    node.users.set_permission("guest", "/", ".*", ".*", "^kept$")
    assert consumers == [("lost", 0)]


def test_permissions_of_users_without_a_connection_in_the_virtual_host_concern_no_connection() -> None:
    node = new_node()
    client = connected(node)
    looks: list[str] = []

    def connections() -> list[Session]:
        looks.append("look")
        return [pipe_of(client).connection]

    node.observers.add(AccessEnforcement(lambda chosen, reason: 0, connections, node))
    node.add_vhost("v")
    node.users.add("u")
    for user, vhost in (("u", "/"), ("guest", "v")):
        node.users.set_permission(user, vhost, "", "", "")
        node.users.clear_permission(user, vhost)
    assert not looks
    node.users.set_permission("guest", "/", "", "", "")
    assert looks == ["look"]
    node.delete_vhost("/")  # its connections are closed
    node.scheduler.finish_all()
    assert looks == ["look"] and not node.users.find("guest").permissions


@pytest.mark.parametrize("what", ["user", "vhost"])
def test_a_reply_that_waits_for_the_disk_is_not_sent_any_more(what: str) -> None:
    journal = SlowJournal()
    node = new_node(journal)
    node.observers.add(DefinitionRecorder(node, []))
    client = connected(node)
    evict(client)
    ch = client.channel(1)
    ch.send(Queue.Declare, queue="q", durable=True)
    client.raw(codec.method_frame(1, Basic.Get, {"queue": "q"}))
    if what == "user":
        node.users.delete("guest")
    else:
        node.delete_vhost("/")
    client.expect_close(320, answer=False)
    journal.seal()
    journal.commit(journal.sealed)
    client.pump()
    assert not client.inbox(1) and not client.inbox(0)


def node_with(write: str, read: str, exchange: str = "amq.topic") -> Node:
    node = new_node()
    node.users.add("a.b", hash_password("a.b", b"salt"))
    node.users.set_permission("a.b", "/", ".*", ".*", ".*")
    node.users.set_topic_permission("a.b", "/", exchange, write, read)
    return node


def channel(node: Node) -> Channel:
    ch = connected(node, "a.b").channel()
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
