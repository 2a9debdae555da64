"""The last messages of queues from which nothing is delivered leave memory once that is used up, and come back."""

from collections.abc import Iterator

import pytest

from tests.faults.simulation.brokers.accounts import check_ledger
from tests.support.clock import fake_clock
from tests.support.session import SureJournal, connected, new_node
from warren.broker.core.jobs.scheduler import TURN_COST
from warren.broker.core.queues import chunks, ready_messages
from warren.broker.core.queues.ledger import Ledger
from warren.broker.core.queues.paging import SWEEP_MS
from warren.broker.core.queues.ready_messages import Fifo

PAGE_ABOVE, BODY_BYTES = 10, 100
LIMIT = 100  # messages in memory


@pytest.fixture(autouse=True)
def small_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_messages, "PAGE_ABOVE", PAGE_ABOVE)
    monkeypatch.setattr(ready_messages, "UNPAGE", 4)
    monkeypatch.setattr(ready_messages, "RUN", 4)
    monkeypatch.setattr(chunks, "RUN", 4)


class Scene:
    """A node with memory for LIMIT messages, a queue `first` with as many, and `others`."""

    def __init__(self, durable: bool = True, delivery_mode: int = 2, header_bytes: int = 0) -> None:
        self.journal = SureJournal()
        self.node = new_node(self.journal)
        self.channel = connected(self.node).channel()
        self.delivery_mode = delivery_mode
        self.headers = {"headers": {"h": "v" * header_bytes}} if header_bytes else {}
        self.node.ledger.limit_bytes = LIMIT * (BODY_BYTES + Ledger.OVERHEAD + (header_bytes and header_bytes + 40))
        for name in ("first", "other"):
            self.channel.declare(name, durable=durable)
        self.publish("first", range(LIMIT - 1))

    def publish(self, queue: str, numbers: range) -> None:
        for number in numbers:
            properties = {"delivery_mode": self.delivery_mode} | self.headers
            self.channel.publish("", queue, b"%0*d" % (BODY_BYTES, number), properties)
        self.channel.sync()

    def fifo(self, name: str) -> Fifo:
        return self.node.vhosts["/"].queues[name].ready_messages.default

    def advance(self, ms: int) -> None:
        fake_clock(self.node.clock).advance(ms)

    def exceed(self) -> None:
        """Publish more than there is memory for, one by one, and wait for a sweep."""
        for number in range(2 * PAGE_ABOVE):
            self.publish("other", range(number, number + 1))
        self.advance(0)
        check_ledger(self.node, [])

    def check_order(self) -> None:
        """Check that all messages are there, in order, and that nothing is left of them."""
        for name, count in (("first", LIMIT - 1), ("other", 2 * PAGE_ABOVE)):
            self.advance(0)
            assert [int(each) for each in self.channel.drain(name)] == list(range(count))
        assert not self.node.ledger.queued_bytes and not self.journal.loose and not self.journal.live


@pytest.mark.pure("it lowers constants of the core, so that few messages are needed")
@pytest.mark.parametrize("header_bytes", [0, 1000])
@pytest.mark.parametrize("pack_above", [1, 30, 1000])
@pytest.mark.parametrize(("durable", "delivery_mode"), [(True, 2), (True, 1), (False, 2)])
def test_the_last_messages_of_a_queue_that_was_filled_first_leave_memory(
    monkeypatch: pytest.MonkeyPatch, durable: bool, delivery_mode: int, pack_above: int, header_bytes: int
) -> None:
    monkeypatch.setattr(ready_messages, "PACK_ABOVE", pack_above)
    scene = Scene(durable, delivery_mode, header_bytes)
    if pack_above < 1000 and not header_bytes:
        scene.node.ledger.limit_bytes = scene.node.ledger.queued_bytes
    first = scene.fifo("first")
    assert first.resident == LIMIT - 1
    scene.exceed()
    assert PAGE_ABOVE + 4 < first.resident < LIMIT - 1 == len(first)
    assert scene.node.ledger.queued_bytes <= scene.node.ledger.limit_bytes
    scene.node.ledger.limit_bytes = 0
    scene.publish("other", range(0))
    scene.check_order()


@pytest.mark.pure("it lowers constants of the core, so that few messages are needed")
def test_a_queue_gives_its_memory_up_only_if_nothing_is_delivered_from_it() -> None:
    scene = Scene()
    first = scene.fifo("first")
    assert scene.channel.get("first") is not None
    scene.publish("first", range(LIMIT - 1, LIMIT))
    scene.exceed()
    assert first.resident == LIMIT - 1
    scene.node.ledger.limit_bytes = 0
    scene.publish("other", range(20, 21))
    scene.advance(SWEEP_MS - 1)
    assert first.resident == LIMIT - 1, "swept too early"
    scene.advance(1)
    scene.publish("other", range(21, 22))
    scene.advance(0)
    for each in (first, scene.fifo("other")):
        assert PAGE_ABOVE <= each.resident <= PAGE_ABOVE + 4, "some stay, as they pass through memory"
    check_ledger(scene.node, [])


@pytest.mark.pure("it lowers constants of the core, so that few messages are needed")
def test_nothing_is_shed_while_the_disk_is_full() -> None:
    scene = Scene()
    scene.node.scheduler.disk_alarm(True)
    scene.exceed()
    assert scene.fifo("first").resident == LIMIT - 1 and not len(scene.node.scheduler)
    scene.node.scheduler.disk_alarm(False)
    scene.advance(SWEEP_MS)
    scene.publish("other", range(20, 21))
    scene.advance(0)
    assert scene.fifo("first").resident < LIMIT - 1


def test_one_step_sheds_no_more_than_a_chunk_or_a_mebibyte() -> None:
    scene = Scene()
    scene.node.ledger.limit_bytes = 1 << 40
    for name, body_bytes in (("first", 0), ("other", 400 << 10)):
        for _ in range(3 * PAGE_ABOVE):
            scene.channel.publish("", name, bytes(body_bytes))
    scene.channel.sync()
    for name, count in (("first", 4), ("other", 2)):
        before = scene.fifo(name).resident
        assert scene.fifo(name).shed() > 0
        assert before - scene.fifo(name).resident <= count


def test_no_job_makes_a_step_in_the_middle_of_a_publish() -> None:
    """A job could delete a queue of its route."""
    scene = Scene()
    steps: list[int] = []

    def job() -> Iterator[int]:
        for step in range(3):
            steps.append(step)
            yield TURN_COST

    scene.node.scheduler.start("job", job())
    assert steps == [0]
    for number in range(2 * PAGE_ABOVE):
        scene.publish("other", range(number, number + 1))
    assert scene.fifo("other").paged_count and steps == [0]
    scene.advance(0)
    assert steps == [0, 1, 2]


def test_long_messages_in_front_of_very_many_short_ones_leave_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The average length says nothing of those in memory."""
    monkeypatch.setattr(ready_messages, "PAGE_BYTES", 10_000)
    scene = Scene()
    scene.node.ledger.limit_bytes = 1_300_000  # more than a batch and PAGE_BYTES
    scene.node.vhosts["/"].queues["first"].purge()
    scene.advance(0)
    for _ in range(PAGE_ABOVE // 2):
        scene.channel.publish("", "first", bytes(300_000), {"delivery_mode": 2})
    scene.publish("first", range(20 * LIMIT))
    for _ in range(3):
        scene.exceed()
        scene.advance(SWEEP_MS)
    assert not scene.node.ledger.exceeded and len(scene.fifo("first")) == PAGE_ABOVE // 2 + 20 * LIMIT
