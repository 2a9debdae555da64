"""Ways of messages into queues: on each, exchanges drop duplicates of what queues took, or keep each message once."""

from collections.abc import Callable
from typing import Any

import pytest
from pamqp.commands import Tx

from tests.support.clock import fake_clock
from tests.support.session import SureJournal, connected, new_node, operator_channel
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.framing import content_frames
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.exchange_context import Emission
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.queues.dead_lettering import RETRY_MS
from warren.broker.session.internal_publisher import InternalPublisher
from warren.broker.session.settings import Settings
from warren.plugins.exchanges.delayed_message import DelayedMessageExchange
from warren.plugins.exchanges.recent_history import RecentHistoryExchange

FULL = {"x-max-length": 1, "x-overflow": "reject-publish"}
ALO = {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
WAYS = [
    *("publish", "transaction", "move", "http", "delayed", "dead letter at most once", "dead letter at least once"),
    *("link", "event", "emission"),
]
REPEATED = ("move", "link", "dead letter at least once")  # by the broker or its operator, until a queue takes it


class Ways:
    """A queue `q` behind an exchange `x`, which drops duplicates or keeps messages, and all that publishes to it."""

    def __init__(self, type_: str, behind: bool, queues: int = 1) -> None:
        self.node = new_node(SureJournal())
        self.node.registry.register("x-recent-history", RecentHistoryExchange)
        self.node.registry.register("x-delayed-message", DelayedMessageExchange)
        self.vhost = self.node.vhosts["/"]
        self.ch = connected(self.node).channel()
        self.ch.exchange("x", type_, durable=True, arguments={"x-message-deduplication": type_ == "fanout"})
        self.exchange = "outer" if behind else "x"
        if behind:
            self.ch.exchange("outer", "fanout")
            self.ch.bind_exchange("x", "outer")
        self.ch.declare("q", durable=True, arguments=FULL)
        self.ch.bind("q", "x")
        for number in range(queues - 1):
            self.ch.declare(f"with{number}")
            self.ch.bind(f"with{number}", "x")
        self.ch.exchange("late", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
        self.ch.bind_exchange(self.exchange, "late")
        self.ch.declare("origin", durable=True)
        dead = {"x-message-ttl": 10, "x-dead-letter-exchange": self.exchange}
        self.ch.declare("once", durable=True, arguments=dead)
        self.ch.declare("until", durable=True, arguments=dead | ALO)
        self.confirmed = connected(self.node).channel()
        self.confirmed.confirm()
        self.operator = operator_channel(self.node)
        self.link = InternalPublisher(
            self.node, Settings(Table.EMPTY), self.vhost, "link", lambda *_: None, self.soon, lambda: None
        )

    def soon(self, call: Callable[[], None]) -> None:
        self.node.clock.call_at(self.node.clock.now_ms(), call)

    def send(self, way: str, body: bytes) -> None:
        """Publish a message by this way, or try the same one again that is still there."""
        headers: dict[str, Any] = {"x-deduplication-header": "a"}
        fields: dict[str, Any] = {"headers": headers, "delivery_mode": 2}
        properties = Properties(headers=Table.of(headers), delivery_mode=2)
        exchange = self.vhost.exchanges[self.exchange]
        message = framed(RoutingAddress(self.exchange, ""), properties, body)
        if way == "publish":
            self.confirmed.publish(self.exchange, "", body, fields)
            assert self.confirmed.next().name in ("Basic.Ack", "Basic.Nack")
        elif way == "transaction":
            channel = connected(self.node).channel()
            channel.call(Tx.Select)
            channel.publish(self.exchange, "", body, fields)
            channel.send(Tx.Commit)
        elif way == "move":
            self.vhost.enqueue([message], len(body), True, (self.vhost.queues["origin"],))
            self.move()
        elif way == "http":
            self.operator.publish(self.exchange, "", properties, body)
        elif way == "delayed":
            self.ch.publish("late", "", body, fields | {"headers": headers | {"x-delay": 10}})
        elif way == "event":
            self.vhost.publish(exchange, message)
        elif way == "emission":
            self.vhost.emit(exchange, [Emission([exchange], [message])])
        elif way == "link":
            frames = content_frames(1, b"\0\0", body)[len(content_frames(1, b"\0\0", b"")) :]
            self.link.publish(self.exchange, "", [(properties.encode(), len(body), frames)])
        else:
            self.ch.publish("", "once" if way == "dead letter at most once" else "until", body, fields)
        self.pass_ms(100)

    def move(self) -> None:
        move = self.operator.move("origin", self.exchange, None)
        while move.step(100).unfinished:
            self.pass_ms(1)

    def again(self, way: str, body: bytes) -> None:
        """Try a message again that was refused."""
        if way == "link":
            self.send(way, body)
        elif way == "move":
            self.move()
        self.pass_ms(2 * RETRY_MS)

    def pass_ms(self, ms: int) -> None:
        fake_clock(self.node.clock).advance(ms)
        self.node.pump()

    @property
    def kept(self) -> list[bytes]:
        type_ = self.vhost.exchanges["x"].type
        assert isinstance(type_, RecentHistoryExchange)
        return [one.message.body for one in type_._kept.values()]


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_message_that_is_taken_is_remembered_and_repeats_are_dropped(way: str, behind: bool) -> None:
    ways = Ways("fanout", behind)
    ways.send(way, b"1")
    assert ways.ch.drain("q") == [b"1"]
    for other in WAYS:
        ways.send(other, b"2")
        ways.again(other, b"2")
        assert ways.ch.drain("q") == []
    assert not ways.ch.count("origin") and not len(ways.vhost.queues["until"].outbox)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("queues", [1, 2, 500])
@pytest.mark.parametrize("way", WAYS)
def test_a_message_that_a_full_queue_refuses_is_not_remembered(way: str, queues: int, behind: bool) -> None:
    """And that of which the sender or the broker makes another attempt is not a duplicate of itself."""
    ways = Ways("fanout", behind, queues)
    ways.ch.publish("", "q", b"stays")
    ways.send(way, b"1")
    ways.again(way, b"1")
    assert ways.ch.drain("q") == [b"stays"]
    ways.again(way, b"1")
    assert ways.ch.drain("q") == ([b"1"] if way in REPEATED else [])
    for number in range(3):
        ways.send(way, b"2")
        assert ways.ch.drain("q") == ([b"2"] if way not in REPEATED and not number else [])
    assert not ways.ch.count("origin") and not len(ways.vhost.queues["until"].outbox)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("queues", [1, 2, 500])
@pytest.mark.parametrize("way", WAYS)
def test_a_message_is_kept_once_however_often_it_is_tried(way: str, queues: int, behind: bool) -> None:
    ways = Ways("x-recent-history", behind, queues)
    ways.ch.publish("", "q", b"stays")
    ways.send(way, b"1")
    for _ in range(3):
        ways.again(way, b"1")
    assert ways.kept == ([] if way in REPEATED else [b"1"])
    assert ways.ch.drain("q") == [b"stays"]
    ways.again(way, b"1")
    assert ways.ch.drain("q") == ([b"1"] if way in REPEATED else [])
    assert ways.kept == [b"1"]
    ways.send(way, b"2")
    assert (ways.ch.drain("q"), ways.kept) == ([b"2"], [b"1", b"2"])


def test_a_duplicate_for_one_exchange_of_its_route_still_reaches_the_queues_of_others() -> None:
    """Another one was accepted between the publish and the commit."""
    ways = Ways("fanout", True)
    ways.ch.declare("plain")
    ways.ch.bind("plain", "outer")
    channel = connected(ways.node).channel()
    channel.transact()
    channel.publish("outer", "", b"1", {"headers": {"x-deduplication-header": "a"}})
    channel.sync()
    ways.send("publish", b"2")
    channel.commit()
    assert (ways.ch.drain("plain"), ways.ch.drain("q")) == ([b"2", b"1"], [b"2"])


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("queues", [1, 2, 500])
def test_a_move_takes_one_of_two_duplicates(queues: int, behind: bool) -> None:
    ways = Ways("fanout", behind, queues)
    ways.vhost.delete_queue(ways.vhost.queues["q"])
    ways.ch.declare("wide", durable=True)
    ways.ch.bind("wide", "x")
    for body, value in ((b"1", "a"), (b"2", "a"), (b"3", "b"), (b"4", "a"), (b"5", "b")):
        ways.ch.publish("", "origin", body, {"headers": {"x-deduplication-header": value}})
    ways.move()
    assert ways.ch.drain("wide") == [b"1", b"3"] and not ways.ch.count("origin")


@pytest.mark.parametrize("queues", [1, 500])
def test_a_message_whose_queues_are_deleted_before_its_commit_is_not_remembered(queues: int) -> None:
    ways = Ways("fanout", False, queues)
    channel = connected(ways.node).channel()
    channel.transact()
    channel.publish("x", "", b"1", {"headers": {"x-deduplication-header": "a"}}, mandatory=True)
    channel.sync()
    for queue in [queue for queue in ways.vhost.queues.values() if queue.name == "q" or "with" in queue.name]:
        ways.vhost.delete_queue(queue)
    channel.send(Tx.Commit)
    assert channel.next().reply_code == 406
    ways.ch.declare("q")
    ways.ch.bind("q", "x")
    ways.send("publish", b"2")
    assert ways.ch.drain("q") == [b"2"]
