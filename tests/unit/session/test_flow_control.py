"""Flow control: publishers wait for a congested queue with consumers, but never for consumers that take nothing."""

import pytest
from pamqp.commands import Basic, Connection, Queue

from tests.support import codec
from tests.support.amqp_client import Channel
from tests.support.session import SlowJournal, connected, new_node, pipe_of
from warren.broker.core.queues import ready_messages as line_module
from warren.broker.core.queues.flow_control import HOLD_ABOVE, RELEASE_BELOW
from warren.broker.core.queues.ledger import Ledger
from warren.broker.session.publisher_throttle import FREE_LOOKS, HOLD_PROGRESS, PublisherThrottle

PUBLISH = codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}) + codec.header_frame(1, 0)


class Scenario:
    """A publisher, and a consumer whose prefetch decides how much it takes."""

    def __init__(self, prefetch: int) -> None:
        self.node = new_node()
        self.consumer = connected(self.node).channel(1)
        self.consumer.declare("queue")
        self.consumer.qos(prefetch)
        self.consumer.consume("queue")
        self.publisher = connected(self.node).channel(1)
        self.link = pipe_of(self.publisher.client).link
        self.holding = pipe_of(self.publisher.client).connection.publisher_throttle
        self.queue = self.node.vhosts["/"].queues["queue"]

    def publish(self, count: int) -> None:
        self.publisher.client.raw(PUBLISH * count)
        self.read()

    def take(self, count: int) -> None:
        """Acknowledge `count` deliveries, which makes room for as many."""
        first = channel_of(self.consumer).unacked.tags()[0]
        self.consumer.ack(first + count - 1, multiple=True)
        self.read()

    def read(self) -> None:
        """Let the consumer read its input, if its socket allows that."""
        connection = pipe_of(self.consumer.client).connection
        while connection.output.writable and connection.take_output():
            connection.flushed()


def channel_of(ch: Channel):  # type: ignore[no-untyped-def]
    return pipe_of(ch.client).connection.channels[ch.number]


@pytest.fixture
def scenario() -> Scenario:
    return Scenario(1)


def test_nobody_is_held_by_a_queue_without_consumers(scenario: Scenario) -> None:
    scenario.consumer.close()
    scenario.publish(HOLD_ABOVE + 100)
    assert not scenario.link.held


def test_who_publishes_elsewhere_is_not_held(scenario: Scenario) -> None:
    scenario.publish(HOLD_ABOVE + 2)
    other = connected(scenario.node).channel(1)
    other.declare("elsewhere")
    other.publish("", "elsewhere", b"body")
    other.sync()
    assert not pipe_of(other.client).link.held


def test_who_also_consumes_is_always_read(scenario: Scenario) -> None:
    scenario.publisher.declare("own")
    scenario.publisher.consume("own")
    scenario.publish(HOLD_ABOVE + 100)
    assert scenario.link.holds == 0


def test_it_goes_on_when_the_queue_has_drained() -> None:
    scenario = Scenario(0xFFFF)
    consumer = pipe_of(scenario.consumer.client)
    consumer.connection.output.writable = False  # its socket is full for a while
    scenario.publish(HOLD_ABOVE + RELEASE_BELOW)
    assert scenario.link.held
    consumer.connection.output.writable = True
    while scenario.queue.ready >= RELEASE_BELOW:
        assert scenario.link.held
        consumer.connection.take_output()
        consumer.connection.flushed()
    assert not scenario.link.held and not scenario.holding.queues and not scenario.queue.held_publishers.held
    scenario.publish(1)
    assert scenario.link.holds == 1


def test_every_queue_must_drain_that_holds_a_publisher(scenario: Scenario) -> None:
    scenario.consumer.declare("second")
    scenario.consumer.consume("second")
    for queue in ("queue", "second"):
        scenario.consumer.bind(queue, "amq.fanout")
    fanout = codec.method_frame(1, Basic.Publish, {"exchange": "amq.fanout"}) + codec.header_frame(1, 0)
    scenario.publisher.client.raw(fanout * (HOLD_ABOVE + 2))
    assert len(scenario.holding.queues) == 2
    scenario.consumer.call(Queue.Purge, queue="queue")
    assert scenario.link.held
    scenario.consumer.call(Queue.Purge, queue="second")
    assert not scenario.link.held


def test_a_consumer_that_takes_nothing_does_not_stop_a_publisher(scenario: Scenario) -> None:
    scenario.publish(HOLD_ABOVE + 2)
    held = [scenario.holding.check_progress() for _ in range(3 * (FREE_LOOKS + 1))]
    assert held == ([False] * FREE_LOOKS + [True]) * 3


def test_a_consumer_that_drains_keeps_it_held() -> None:
    scenario = Scenario(HOLD_PROGRESS)
    scenario.publish(HOLD_ABOVE + HOLD_PROGRESS + 2)
    for _ in range(3):
        scenario.take(HOLD_PROGRESS)
        assert scenario.holding.check_progress()


def test_one_that_drains_too_slowly_does_not() -> None:
    scenario = Scenario(HOLD_PROGRESS)
    scenario.publish(HOLD_ABOVE + HOLD_PROGRESS + 2)
    assert scenario.holding.check_progress(), "the first deliveries came after the hold"
    scenario.take(HOLD_PROGRESS - 1)
    assert not scenario.holding.check_progress()


def test_few_long_messages_are_progress_too() -> None:
    node = new_node()
    queue = node.vhosts["/"].open_reply_queue("queue")
    holding = PublisherThrottle()
    assert holding.add(queue)
    queue.delivering.deliver, queue.delivered_bytes = 5, 5 << 20
    assert holding.check_progress()
    queue.delivering.deliver += 1
    assert not holding.check_progress()


@pytest.mark.parametrize("end", ["close", "loss"])
def test_a_held_publisher_that_goes_is_forgotten(scenario: Scenario, end: str) -> None:
    scenario.publish(HOLD_ABOVE + 2)
    if end == "close":
        scenario.publisher.client.send(Connection.Close, reply_code=200)
    else:
        scenario.publisher.client.vanish()
    assert not scenario.queue.held_publishers.held and not scenario.holding.queues and not scenario.link.held


def test_the_last_consumer_takes_the_hold_along(scenario: Scenario) -> None:
    scenario.publish(HOLD_ABOVE + 2)
    scenario.consumer.close()
    assert not scenario.link.held


@pytest.mark.parametrize("paged", [False, True])
def test_who_has_transient_messages_paged_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch, paged: bool) -> None:
    if paged:
        monkeypatch.setattr(line_module, "PAGE_ABOVE", 0)
        monkeypatch.setattr(Ledger, "OVERHEAD", 1 << 60)
    journal = SlowJournal()
    publisher = connected(new_node(journal)).channel(1)
    publisher.declare("queue")
    connection = pipe_of(publisher.client).connection
    publisher.client.raw(PUBLISH * 10)
    journal.much = True
    publisher.client.raw(PUBLISH)
    assert connection.suspended == paged
    if paged:
        journal.commit(journal.ticket())
        assert not connection.suspended
