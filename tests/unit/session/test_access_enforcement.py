"""Deletion of users and virtual hosts while their connections wait for something."""

from collections.abc import Callable

import pytest
from pamqp.commands import Basic, Connection, Queue

from tests.support import codec
from tests.support.amqp_client import Client
from tests.support.hashing import FakeHashing, fake_hash
from tests.support.session import SlowJournal, dial, new_node, pipe_of
from warren.broker.amqp.errors import ConnectionForced
from warren.broker.core.access.passwords import ARGON2ID
from warren.broker.core.definitions.definition_recorder import DefinitionRecorder
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
    client = dial(node)
    evict(client)
    client.start()
    client.login("PLAIN", "\0guest\0guest")
    client.tune()
    client.call(Connection.Open, virtual_host="/")
    ch = client.channel(1)
    for name in ("kept", "lost"):
        ch.declare(name)
        ch.consume(name)
    node.observers.add(Watching())
    node.users.set_permission("guest", "/", ".*", ".*", "^kept$")
    assert consumers == [("lost", 0)]


def test_permissions_of_users_without_a_connection_in_the_virtual_host_concern_no_connection() -> None:
    node = new_node()
    client = dial(node)
    client.start()
    client.login("PLAIN", "\0guest\0guest")
    client.tune()
    client.call(Connection.Open, virtual_host="/")
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
    client = dial(node)
    evict(client)
    client.start()
    client.login("PLAIN", "\0guest\0guest")
    client.tune()
    client.call(Connection.Open, virtual_host="/")
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
