"""Messages of several queues are stored once when memory is used up, and each queue has its own until it lets it go."""

from collections.abc import Iterable
from sys import getsizeof
from typing import cast

import pytest
from pamqp.commands import Queue

from tests.faults.simulation.brokers.accounts import check_ledger
from tests.support.clock import fake_clock
from tests.support.session import SureJournal, connected, new_node
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import (
    NO_ADDRESS,
    PAGE_BYTES,
    PAGES,
    ByteCount,
    SharedMessage,
    framed,
    shared_message,
)
from warren.broker.core.messages.message_state import MessageState
from warren.broker.core.queues import chunks, paging, ready_messages
from warren.broker.core.queues.ledger import Ledger
from warren.broker.core.queues.queue import Queue as BrokerQueue
from warren.broker.session.channel import Channel

PAGE_ABOVE, RUN = 5, 4  # in these tests
COUNT = 20
NAMES = ("a", "b", "c")
TTL = {"x-message-ttl": 60_000}
PLAIN: dict[str, dict[str, int]] = {name: {} for name in NAMES}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_messages, "PAGE_ABOVE", PAGE_ABOVE)
    monkeypatch.setattr(ready_messages, "UNPAGE", 4)
    monkeypatch.setattr(ready_messages, "RUN", RUN)
    monkeypatch.setattr(chunks, "RUN", RUN)
    monkeypatch.setattr(paging, "KEEP_BYTES", 0)
    monkeypatch.setattr(paging, "STEP_BYTES", 0)


class Scene:
    """A node without memory for messages, and queues with these arguments that are bound to one fanout exchange."""

    def __init__(self, queues: dict[str, dict[str, int]], delivery_mode: int = 1) -> None:
        self.journal = SureJournal()
        self.node = new_node(self.journal)
        self.node.ledger.limit_bytes = 0
        self.channel = connected(self.node).channel()
        self.delivery_mode = delivery_mode
        self.channel.exchange("fan", "fanout")
        for name, arguments in queues.items():
            self.channel.declare(name, arguments=arguments)
            self.channel.bind(name, "fan")

    def queue(self, name: str) -> BrokerQueue:
        return self.node.vhosts["/"].queues[name]

    def publish(self) -> None:
        for number in range(COUNT):
            self.channel.publish("fan", "", b"%d" % number, {"delivery_mode": self.delivery_mode})
            self.advance()

    def advance(self, ms: int = 0) -> None:
        self.channel.sync()
        fake_clock(self.node.clock).advance(ms)

    def paged(self) -> list[int]:
        """Return how many messages of each queue only the journal has."""
        return [self.queue(name).ready_messages.default.paged_count for name in NAMES]

    def drain(self, name: str) -> list[int]:
        self.advance()
        return [int(each) for each in self.channel.drain(name)]

    def check_ledger(self) -> None:
        """Compare what the ledger counts with what queues and channels hold."""
        check_ledger(self.node, cast("Iterable[Channel]", self.node.shedding.holders))

    def check_empty(self) -> None:
        self.advance()
        assert not self.node.ledger.shared.total and not self.node.ledger.handed_bytes
        assert not self.node.ledger.queued_bytes and not self.journal.loose and not self.journal.held.total()


pages = pytest.mark.pure("it lowers constants of the core, so that few messages are needed")


@pages
@pytest.mark.parametrize("delivery_mode", [1, 2])
@pytest.mark.parametrize("queues", [PLAIN, dict.fromkeys(NAMES, TTL)], ids=["plain", "with a time to live"])
def test_they_are_stored_once(queues: dict[str, dict[str, int]], delivery_mode: int) -> None:
    scene = Scene(queues, delivery_mode)
    scene.publish()
    paged = COUNT - PAGE_ABOVE - 1
    assert scene.paged() == [paged] * len(NAMES)
    assert scene.journal.stored == len(scene.journal.loose) == paged
    for name in NAMES:
        assert scene.drain(name) == list(range(COUNT))
    scene.check_empty()


def test_the_records_of_many_states_that_a_message_knows_count() -> None:
    shared = ByteCount()
    origin = shared_message(framed(NO_ADDRESS, Properties(), b""), shared, 0)
    for number in range(2 * PAGES):
        copy = origin.copy_for_queue()
        assert isinstance(copy, SharedMessage)
        copy.state = MessageState()
        copy.state.deadline_ms = number + 1
        copy.note_page(number)
        copy.note_page(number)
    del copy
    assert origin.pages is not None and shared.total == PAGES * PAGE_BYTES
    size_bytes = sum(map(getsizeof, [origin.pages, *origin.pages]))
    assert PAGES * PAGE_BYTES / 2 < size_bytes < PAGES * PAGE_BYTES
    del origin
    assert not shared.total


@pages
def test_queues_that_page_out_later_find_the_records_of_the_same_deadline() -> None:
    scene = Scene({"a": TTL, "b": {"x-message-ttl": 1000}, "c": TTL})
    scene.node.ledger.limit_bytes = 1 << 40
    scene.publish()
    scene.node.ledger.limit_bytes = 0
    for name in NAMES:
        assert scene.queue(name).ready_messages.default.shed()
    assert len(scene.journal.loose) == 2 * RUN
    scene.advance(2000)
    assert [scene.drain(name) for name in NAMES] == [list(range(COUNT)), [], list(range(COUNT))]
    scene.check_empty()


@pages
def test_a_queue_that_is_purged_or_deleted_takes_none_from_the_others() -> None:
    scene = Scene(PLAIN)
    scene.publish()
    scene.channel.call(Queue.Purge, queue="a")
    scene.channel.delete("b")
    assert scene.drain("c") == list(range(COUNT))
    scene.check_empty()


@pages
def test_one_of_which_no_queue_has_the_record_any_more_is_stored_again() -> None:
    scene = Scene(PLAIN)
    scene.node.ledger.limit_bytes = 1 << 40
    scene.publish()
    scene.node.ledger.limit_bytes = 0
    first, *others = (scene.queue(name).ready_messages.default for name in NAMES)
    assert first.shed() and len(scene.journal.loose) == RUN
    scene.channel.call(Queue.Purge, queue="a")
    scene.advance()
    assert not scene.journal.loose
    for each in others:
        assert each.shed()
    assert scene.journal.stored == 2 * RUN == 2 * len(scene.journal.loose)
    assert scene.drain("b") == scene.drain("c") == list(range(COUNT))
    scene.check_empty()


@pages
@pytest.mark.parametrize("end", ["ack", "nack", "reject", "vanish"])
def test_deliveries_of_them_are_stored_once_and_each_ends_as_it_would(end: str) -> None:
    scene = Scene(PLAIN)
    consumers = [connected(scene.node).channel() for _ in NAMES]
    started = [consumer.consume(name) for consumer, name in zip(consumers, NAMES, strict=True)]
    scene.publish()
    tags = [[each.tag for each in consumer.deliveries(COUNT)] for consumer in consumers]
    scene.advance()
    assert all(scene.queue(name).shed for name in NAMES)
    assert scene.journal.stored == len(scene.journal.loose) <= COUNT
    first = consumers[0]
    first.cancel(started[0])
    if end == "ack":
        first.ack(tags[0][-1], multiple=True)
    elif end == "vanish":
        first.client.vanish()
    else:
        first.nack(tags[0][-1], multiple=True, requeue=end == "nack")
    scene.advance()
    assert len(scene.journal.loose) <= COUNT
    for consumer, each in zip(consumers[1:], tags[1:], strict=True):
        consumer.ack(each[-1], multiple=True)
        consumer.sync()
    scene.advance()
    if end in ("nack", "vanish"):
        assert scene.drain("a") == list(range(COUNT))
    scene.check_empty()


# Memory


@pytest.mark.parametrize("arguments", [{}, TTL, {"x-max-priority": 3}], ids=["plain", "time to live", "priorities"])
@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_they_count_once_until_the_last_queue_lets_them_go(arguments: dict[str, int], delivery_mode: int) -> None:
    scene = Scene(dict.fromkeys(NAMES, arguments), delivery_mode)
    ledger = scene.node.ledger
    ledger.limit_bytes = 1 << 40
    scene.publish()
    once_bytes = ledger.shared.total
    copies = len(NAMES) if arguments else 0  # with a state of their own, beside the message as it was published
    once_bytes -= copies * COUNT * Ledger.ALONE
    assert COUNT * Ledger.ALONE < once_bytes < COUNT * Ledger.OVERHEAD
    for gone, name in enumerate(NAMES[::-1]):
        left = len(NAMES) - gone
        held_bytes = once_bytes + min(copies, left) * COUNT * Ledger.ALONE
        assert ledger.queued_bytes == held_bytes + left * COUNT * Ledger.ENTRY
        assert ledger.shared.total == held_bytes
        scene.check_ledger()
        assert scene.drain(name) == list(range(COUNT))
    scene.check_empty()


@pytest.mark.parametrize("end", ["ack", "requeue", "reject", "dead-letter", "expire", "purge", "delete", "roll back"])
def test_whatever_ends_them_lets_them_go_once(end: str) -> None:
    """Queue `a` has its messages delivered, `b` keeps them."""
    dead_letters = {"x-dead-letter-exchange": "dead"} if end in ("dead-letter", "expire") else {}
    ttl = {"x-message-ttl": 1000} if end == "expire" else {}
    scene = Scene({"a": dead_letters, "b": dead_letters | ttl})
    ledger = scene.node.ledger
    ledger.limit_bytes = 1 << 40
    scene.channel.exchange("dead", "fanout")
    for name in ("d", "e"):
        scene.channel.declare(name)
        scene.channel.bind(name, "dead")
    consumer = connected(scene.node).channel()
    if end == "roll back":
        consumer.transact()
    started = consumer.consume("a")
    scene.publish()
    tags = [each.tag for each in consumer.deliveries(COUNT)]
    scene.check_ledger()
    copies = COUNT * Ledger.ALONE if ttl else 0
    assert ledger.unacked_bytes == COUNT * Ledger.ENTRY and ledger.shared.total - copies < COUNT * Ledger.OVERHEAD
    consumer.cancel(started)
    if end in ("ack", "roll back"):
        consumer.ack(tags[-1], multiple=True)
    else:
        consumer.nack(tags[-1], multiple=True, requeue=end not in ("reject", "dead-letter"))
    if end == "roll back":
        consumer.rollback()
        consumer.client.vanish()
    scene.advance(2000)
    scene.check_ledger()
    if end == "purge":
        scene.channel.call(Queue.Purge, queue="a")
    elif end == "delete":
        scene.channel.delete("a")
    scene.advance()
    scene.check_ledger()
    left = {name: scene.drain(name) for name in ("a", "b", "d", "e") if name in scene.node.vhosts["/"].queues}
    dead = end in ("dead-letter", "expire")
    assert len(left["b"]) == (0 if end == "expire" else COUNT)
    assert len(left["d"]) == len(left["e"]) == (COUNT if dead else 0)
    assert len(left.get("a", ())) == (COUNT if end in ("requeue", "expire", "roll back") else 0)
    scene.check_empty()


@pytest.mark.parametrize("properties", [{}, {"expiration": "60000"}])
def test_one_for_very_many_queues_counts_once(properties: dict[str, str]) -> None:
    """A message that enters them in many steps, which have one content."""
    scene = Scene({f"q{number}": {} for number in range(1500)})
    scene.node.ledger.limit_bytes = 1 << 40
    scene.channel.publish("fan", "", bytes(100_000), properties)
    while len(scene.node.scheduler):
        fake_clock(scene.node.clock).advance(0)
    assert all(queue.ready == 1 for queue in scene.node.vhosts["/"].queues.values())
    copies = 1500 * Ledger.ALONE if properties else 0
    assert 100_000 < scene.node.ledger.shared.total - copies < 101_000
    scene.check_ledger()
