"""Purges and deletions remove messages at once, and release them in slices."""

import pytest
from pamqp.commands import Queue as QueueMethods

from tests.support.amqp_client import Channel, Client, Silence
from tests.support.clock import fake_clock
from tests.support.session import SlowJournal, SureJournal, connected, new_node
from warren.broker.amqp.properties import Properties
from warren.broker.core.jobs.scheduler import SLICE, TURN_COST
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.node.node import Node
from warren.broker.core.queues import ready_messages as line_module
from warren.broker.core.queues.queue import Queue

MANY = 4 * TURN_COST


class House:
    """A durable queue with MANY messages, and a clock that records how many each turn releases."""

    def __init__(self) -> None:
        self.journal = SlowJournal()
        self.node: Node = new_node(self.journal)
        self.clock = fake_clock(self.node.clock)
        self.clock.after_each = self._turned
        self.released: list[int] = []
        self.queue = self.declared()
        for _ in range(MANY // 1000):
            self.fill(1000)
        self._left = MANY

    def declared(self) -> Queue:
        return self.node.vhosts["/"].declare_queue("q", durable=True)

    def fill(self, count: int) -> None:
        vhost = self.node.vhosts["/"]
        properties = Properties(delivery_mode=2)
        messages = [framed(RoutingAddress("", "q"), properties, b"body") for _ in range(count)]
        vhost.enqueue(messages, 4 * count, True, (vhost.queues["q"],))

    def kept(self) -> int:
        """Return how many of the first MANY messages are still in the journal."""
        return sum(1 for _, id_ in [*self.journal.live, *self.journal.left] if id_ <= MANY)

    def _turned(self) -> None:
        left = self.kept()
        self.released.append(self._left - left)
        self._left = left

    def check_slices(self) -> None:
        """Let time pass, and check that all are released, in several short turns."""
        self._turned()  # released at once
        self.clock.advance(0)
        assert not self._left and sum(self.released) == MANY
        assert max(self.released) < TURN_COST + SLICE


def take(ch: Channel, count: int) -> None:
    """Get messages by basic.get, without settling them."""
    for _ in range(count):
        assert ch.get("q", no_ack=False) is not None


def replies(client: Client) -> list[object]:
    """Return the replies that the client has received."""
    try:
        return [client.next(1)]
    except Silence:
        return []


@pytest.fixture(params=["in memory", "on the disk"])
def house(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> House:
    if request.param == "on the disk":
        monkeypatch.setattr(line_module, "PAGE_ABOVE", 100)
        monkeypatch.setattr("warren.broker.core.queues.ledger.Ledger.OVERHEAD", 1 << 60)
    house = House()
    assert house.queue.ready_messages.paged == (request.param == "on the disk")
    return house


def test_a_purge_takes_effect_before_the_messages_are_released(house: House) -> None:
    finished: list[int] = []
    assert house.queue.purge(finished=lambda: finished.append(house.kept())) == MANY
    assert house.queue.ready == house.queue.ready_bytes == house.queue.journal.count == 0
    assert house.kept() and not finished
    house.fill(3)
    assert [house.queue.get(True) is not None for _ in range(4)] == [True, True, True, False]
    house.check_slices()
    assert finished == [0]
    assert house.node.ledger.queued_bytes == 0


def test_a_deleted_queue_is_released_in_slices_and_its_name_is_free_at_once(house: House) -> None:
    assert house.node.vhosts["/"].delete_queue(house.queue) == MANY
    assert not house.journal.live
    house.queue = house.declared()
    house.fill(2)
    assert house.queue.ready == 2
    house.check_slices()
    assert house.queue.ready == 2 and len(house.journal.live) == 2


def test_releases_are_finished_before_the_node_stops() -> None:
    house = House()
    house.queue.purge()
    house.node.finish()
    assert not house.kept() and not len(house.node.scheduler)


def test_purge_ok_is_sent_when_the_journal_has_the_purge() -> None:
    house = House()
    client = connected(house.node)
    ch = client.channel(1)
    ch.send(QueueMethods.Purge, queue="q")
    house.clock.advance(0)
    assert not house.kept()
    assert replies(client) == []
    house.journal.commit(house.journal.ticket())
    ok = ch.reply_to(QueueMethods.Purge)
    assert ok.message_count == MANY


def test_messages_in_the_outbox_still_count_after_a_purge() -> None:
    journal = SureJournal()
    node = new_node(journal)
    ch = connected(node).channel()
    ch.declare("letters", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    ch.declare("q", durable=True, arguments=arguments)
    queue = node.vhosts["/"].queues["q"]
    ch.fill("q", *[b"x"] * 1000, delivery_mode=2)
    take(ch, 500)
    ch.nack(0, multiple=True, requeue=False)
    queue.purge()
    assert queue.journal.count == len(queue.outbox)
    fake_clock(node.clock).advance(1000)
    assert queue.journal.count == queue.journal.body_bytes == 0 and len(queue.outbox) == 0
    assert ch.count("letters") == 500
