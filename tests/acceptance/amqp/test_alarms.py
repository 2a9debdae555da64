"""Alarms, and connections that the node closes."""

from typing import Any

import pytest
from pamqp.commands import Connection

from tests.support.amqp_client import Client
from warren.broker.core.telemetry.resource_alarms import DISK, MEMORY

pytestmark = pytest.mark.in_process("sets alarms, and deletes users and virtual hosts")


@pytest.mark.parametrize("body", [b"body", b""], ids=["with a body", "without"])
def test_a_publisher_is_told_of_the_alarm_and_of_its_end(broker: Any, ch: Any, queue: str, body: bytes) -> None:
    ch.fill(queue, b"before")
    broker.node.alarms.set(MEMORY)
    assert ch.get(queue).body == b"before"
    ch.publish("", queue, body)
    blocked = ch.client.next()
    assert isinstance(blocked, Connection.Blocked) and blocked.reason == "low on memory"
    witness = broker.connect().channel()
    assert witness.drain(queue) == ([] if body else [b""])
    broker.node.alarms.clear(MEMORY)
    assert isinstance(ch.client.next(), Connection.Unblocked)
    assert ch.drain(queue) == ([body] if body else [])


def test_of_two_alarms_both_must_be_over(broker: Any, ch: Any, queue: str) -> None:
    broker.node.alarms.set(MEMORY)
    ch.publish("", queue, b"body")
    assert isinstance(ch.client.next(), Connection.Blocked)
    broker.node.alarms.set(DISK)
    broker.node.alarms.clear(MEMORY)
    ch.client.nothing_for(1000)
    broker.node.alarms.clear(DISK)
    assert isinstance(ch.client.next(), Connection.Unblocked)
    assert ch.drain(queue) == [b"body"]


def test_who_is_blocked_for_long_is_not_taken_for_dead(broker: Any, queue: str) -> None:
    ch = broker.connect(heartbeat=1).channel()
    broker.node.alarms.set(DISK)
    ch.publish("", queue, b"body")
    broker.wait(10_000)
    broker.node.alarms.clear(DISK)
    assert [type(ch.client.next()) for _ in range(2)] == [Connection.Blocked, Connection.Unblocked]
    assert ch.drain(queue) == [b"body"]


def test_the_connections_of_a_deleted_user_are_closed(broker: Any, client: Client) -> None:
    broker.add_user("leaver")
    leaver = broker.connect("leaver", "leaver")
    broker.node.users.delete("leaver")
    assert leaver.expect_close(320).reply_text == "CONNECTION_FORCED - user 'leaver' is deleted"
    client.channel()


def test_the_connections_to_a_deleted_vhost_are_closed(broker: Any, client: Client) -> None:
    broker.add_vhost("short")
    broker.node.users.set_permission("guest", "short", ".*", ".*", ".*")
    there = broker.connect(vhost="short")
    ch = there.channel()
    ch.declare("own", exclusive=True)
    ch.consume("own")
    broker.node.delete_vhost("short")
    assert there.expect_close(320).reply_text == "CONNECTION_FORCED - vhost 'short' is deleted"
    client.channel()
    assert broker.node.open_connections == 1


def test_the_name_that_a_client_gives_itself_is_listed(broker: Any) -> None:
    client = broker.dial()
    client.start()
    client.send(
        Connection.StartOk,
        client_properties={"connection_name": "my own"},
        mechanism="PLAIN",
        response="\0guest\0guest",
        locale="en_US",
    )
    client.tune()
    client.call(Connection.Open, virtual_host="/")
    (connection,) = broker.server.connections.values()
    assert connection.client_name == "my own" and connection.state_text == "running"
