"""Alarms."""

from typing import Any

import pytest
from pamqp.commands import Connection

from warren.broker.core.telemetry.resource_alarms import DISK, MEMORY

pytestmark = pytest.mark.in_process("sets alarms")


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
