"""Publishers wait while a queue that is being consumed has too much, and never for consumers that take nothing."""

import pytest
from pamqp.commands import Basic, Connection, Queue

from tests.support import codec
from tests.support.amqp_client import Channel, Client
from tests.support.session import SlowJournal, dial, new_node, pipe_of
from warren.broker.core.node.node import Node
from warren.broker.core.queues import fifo as line_module
from warren.broker.core.queues.flow_control import HOLD_ABOVE, RELEASE_BELOW
from warren.broker.core.queues.memory_budget import MemoryBudget
from warren.broker.session.flow_control import FREE_LOOKS, HOLD_PROGRESS, PublisherThrottle

PUBLISH = codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}) + codec.header_frame(1, 0)


class House:
    """A publisher, and a consumer with a prefetch that decides how much it takes."""

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
        """Acknowledge so many, which makes room for as many."""
        first = channel_of(self.consumer).unacked.oldest()[0]
        self.consumer.ack(first + count - 1, multiple=True)
        self.read()

    def read(self) -> None:
        """The consumer reads all that comes, if its socket lets it."""
        connection = pipe_of(self.consumer.client).connection
        while connection.output.writable and connection.take_output():
            connection.flushed()


def connected(node: Node) -> Client:
    client = dial(node)
    client.start()
    client.login("PLAIN", "\0guest\0guest")
    client.tune()
    client.call(Connection.Open, virtual_host="/")
    return client


def channel_of(ch: Channel):  # type: ignore[no-untyped-def]
    return pipe_of(ch.client).connection.channels[ch.number]


@pytest.fixture
def house() -> House:
    return House(1)


def test_a_publisher_is_held_when_a_consumed_queue_is_full(house: House) -> None:
    house.publish(HOLD_ABOVE)
    assert not house.link.held
    house.publish(2)
    assert house.link.held and house.queue in house.holding.queues


def test_nobody_is_held_by_a_queue_without_consumers(house: House) -> None:
    house.consumer.close()
    house.publish(HOLD_ABOVE + 100)
    assert not house.link.held


def test_who_publishes_elsewhere_is_not_held(house: House) -> None:
    house.publish(HOLD_ABOVE + 2)
    other = connected(house.node).channel(1)
    other.declare("elsewhere")
    other.publish("", "elsewhere", b"body")
    other.sync()
    assert not pipe_of(other.client).link.held


def test_who_also_consumes_is_always_read(house: House) -> None:
    house.publisher.declare("own")
    house.publisher.consume("own")
    house.publish(HOLD_ABOVE + 100)
    assert house.link.holds == 0


def test_it_goes_on_when_the_queue_has_drained() -> None:
    house = House(0xFFFF)
    consumer = pipe_of(house.consumer.client)
    consumer.connection.output.writable = False  # its socket is full for a while
    house.publish(HOLD_ABOVE + RELEASE_BELOW)
    assert house.link.held
    consumer.connection.output.writable = True
    while house.queue.ready >= RELEASE_BELOW:
        assert house.link.held
        consumer.connection.take_output()
        consumer.connection.flushed()
    assert not house.link.held and not house.holding.queues and not house.queue.held_publishers.held
    house.publish(1)
    assert house.link.holds == 1


def test_every_queue_must_drain_that_holds_a_publisher(house: House) -> None:
    house.consumer.declare("second")
    house.consumer.consume("second")
    for queue in ("queue", "second"):
        house.consumer.bind(queue, "amq.fanout")
    fanout = codec.method_frame(1, Basic.Publish, {"exchange": "amq.fanout"}) + codec.header_frame(1, 0)
    house.publisher.client.raw(fanout * (HOLD_ABOVE + 2))
    assert len(house.holding.queues) == 2
    house.consumer.call(Queue.Purge, queue="queue")
    assert house.link.held
    house.consumer.call(Queue.Purge, queue="second")
    assert not house.link.held


def test_a_consumer_that_takes_nothing_does_not_stop_a_publisher(house: House) -> None:
    house.publish(HOLD_ABOVE + 2)
    held = [house.holding.look() for _ in range(3 * (FREE_LOOKS + 1))]
    assert held == ([False] * FREE_LOOKS + [True]) * 3


def test_a_consumer_that_drains_keeps_it_held() -> None:
    house = House(HOLD_PROGRESS)
    house.publish(HOLD_ABOVE + HOLD_PROGRESS + 2)
    for _ in range(3):
        house.take(HOLD_PROGRESS)
        assert house.holding.look()


def test_one_that_drains_too_slowly_does_not() -> None:
    house = House(HOLD_PROGRESS)
    house.publish(HOLD_ABOVE + HOLD_PROGRESS + 2)
    assert house.holding.look(), "the first deliveries came after the hold"
    house.take(HOLD_PROGRESS - 1)
    assert not house.holding.look()


def test_few_long_messages_are_progress_too() -> None:
    node = new_node()
    queue = node.vhosts["/"].open_volatile("queue")
    holding = PublisherThrottle()
    assert holding.add(queue)
    queue.delivering.deliver, queue.delivered_bytes = 5, 5 << 20
    assert holding.look()
    queue.delivering.deliver += 1
    assert not holding.look()


@pytest.mark.parametrize("end", ["close", "loss"])
def test_a_held_publisher_that_goes_is_forgotten(house: House, end: str) -> None:
    house.publish(HOLD_ABOVE + 2)
    if end == "close":
        house.publisher.client.send(Connection.Close, reply_code=200)
    else:
        house.publisher.client.vanish()
    assert not house.queue.held_publishers.held and not house.holding.queues and not house.link.held


def test_the_last_consumer_takes_the_hold_along(house: House) -> None:
    house.publish(HOLD_ABOVE + 2)
    house.consumer.close()
    assert not house.link.held


@pytest.mark.parametrize("paged", [False, True])
def test_who_has_transient_messages_paged_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch, paged: bool) -> None:
    if paged:
        monkeypatch.setattr(line_module, "PAGE_ABOVE", 0)
        monkeypatch.setattr(MemoryBudget, "OVERHEAD", 1 << 60)
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
