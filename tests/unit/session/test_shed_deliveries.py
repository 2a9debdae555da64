"""Contents of unacknowledged messages leave memory, and all that can become of a delivery becomes of them."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pamqp.commands import Basic, Tx
from pamqp.commands import Channel as AMQPChannel

from tests.loop_latency.broker import Prompter, StepMeter, StoredPeer
from tests.support import codec
from tests.support.amqp_client import Channel
from tests.support.clock import fake_clock
from tests.support.session import SureJournal, connected, new_node, pipe_of
from tests.support.traced_memory import traced_memory
from warren.broker.core.jobs.scheduler import AWAITS_OTHERS
from warren.broker.core.messages.message import Message
from warren.broker.core.queues import dead_lettering, paging, ready_messages
from warren.broker.core.queues import queue as queues
from warren.broker.core.queues.ledger import Ledger
from warren.broker.session.settlements import dead_lettered
from warren.broker.session.unacked import ROW_COST, UnackedDeliveries

BODY_BYTES = 100
COUNT = 30
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


class FailingJournal(SureJournal):
    """A journal that does not return messages while it is `failing`."""

    failing = False

    def read(self, ids: list[int], queue: int = 0) -> list[Message | None]:
        return [None] * len(ids) if self.failing else super().read(ids, queue)


def body(number: int) -> bytes:
    return b"%0*d" % (BODY_BYTES, number)


class Scene:
    """A node without memory, and a consumer of a queue that does not acknowledge COUNT messages."""

    def __init__(self, durable: bool = True, delivery_mode: int = 2, **arguments: Any) -> None:
        self.journal = FailingJournal()
        self.node = new_node(self.journal)
        self.node.ledger.limit_bytes = 0
        self.publisher = connected(self.node).channel()
        self.publisher.declare("q", durable=durable, arguments=arguments)
        self.publisher.declare("dead", durable=True)
        self.consumer: Channel = connected(self.node).channel()
        self.delivery_mode = delivery_mode

    @property
    def queue(self) -> queues.Queue:
        return self.node.vhosts["/"].queues["q"]

    @property
    def unacked(self) -> UnackedDeliveries:
        return pipe_of(self.consumer.client).connection.channels[self.consumer.number].unacked

    def advance(self, ms: int = 0) -> None:
        fake_clock(self.node.clock).advance(ms)

    def deliver(self, **fields: Any) -> list[int]:
        """Consume and publish; return the tags, whose messages are shed then."""
        return self._deliver(lambda number: {"delivery_mode": self.delivery_mode} | fields)

    def deliver_mixed(self) -> list[int]:
        """Consume and publish two transient messages, two persistent ones, and so on; return the tags."""
        return self._deliver(lambda number: {"delivery_mode": 1 + number // 2 % 2})

    def _deliver(self, properties: Callable[[int], dict[str, Any]]) -> list[int]:
        self.consumer.consume("q")
        for number in range(COUNT):
            self.publisher.publish("", "q", body(number), properties(number))
        self.publisher.sync()
        tags = [each.tag for each in self.consumer.deliveries(COUNT)]
        self.advance()
        assert self.queue.unacked == COUNT == len(self.unacked)
        return tags

    def check_shed(self, count: int = COUNT) -> None:
        ledger = self.node.ledger
        assert self.unacked.shed is not None and len(self.unacked.shed) == count == self.queue.shed
        assert not self.unacked.entries and self.queue.shed_bytes == count * BODY_BYTES
        assert (ledger.unacked_bytes, ledger.queued_bytes, ledger.shed_bytes) == (0, *2 * (count * ledger.SHED,))

    def check_empty(self) -> None:
        """Check that nothing is held, stored or counted any more."""
        self.advance()
        assert not len(self.unacked) and not self.queue.unacked and not self.queue.shed and not self.queue.ready
        assert not self.node.ledger.queued_bytes and not self.node.ledger.shed_bytes and not self.queue.shed_bytes
        assert not self.queue.unacked_bytes and not self.queue.journal.count and not self.queue.ready_bytes
        assert not self.journal.loose and not [key for key in self.journal.live if key[0] == self.queue.number]

    def drain(self, queue: str = "q") -> list[int]:
        self.advance()
        return [int(each) for each in self.publisher.drain(queue)]


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "KEEP_BYTES", 0)
    monkeypatch.setattr(paging, "STEP_BYTES", 0)


KINDS = [(True, 2), (True, 1), (False, 2)]


@pytest.mark.parametrize(("durable", "delivery_mode"), KINDS)
def test_acknowledged_one_by_one_in_any_order(durable: bool, delivery_mode: int) -> None:
    scene = Scene(durable, delivery_mode)
    tags = scene.deliver()
    scene.check_shed()
    assert len(scene.journal.loose) == (0 if durable and delivery_mode == 2 else COUNT)
    for number, tag in enumerate([*tags[::2], *tags[-1::-2]], 1):
        scene.consumer.ack(tag)
        scene.consumer.sync()
        assert scene.queue.unacked == COUNT - number
    scene.check_empty()
    scene.consumer.ack(tags[0])
    scene.consumer.expect_close(406)


@pytest.mark.parametrize(("durable", "delivery_mode"), KINDS)
def test_acknowledged_together(durable: bool, delivery_mode: int) -> None:
    scene = Scene(durable, delivery_mode)
    tags = scene.deliver()
    scene.consumer.ack(tags[9], multiple=True)
    scene.consumer.sync()
    scene.check_shed(COUNT - 10)
    scene.consumer.ack(tags[-1], multiple=True)
    scene.consumer.sync()
    scene.check_empty()


@pytest.mark.parametrize(("durable", "delivery_mode"), KINDS)
@pytest.mark.parametrize("how", ["nack", "nack all", "reject", "recover", "close", "vanish"])
def test_requeued_messages_are_delivered_again_in_order(durable: bool, delivery_mode: int, how: str) -> None:
    scene = Scene(durable, delivery_mode)
    tags = scene.deliver()
    scene.consumer.cancel(next(iter(scene_consumers(scene))))
    if how == "nack all":
        scene.consumer.nack(tags[-1], multiple=True)
    elif how == "recover":
        scene.consumer.call(Basic.Recover, requeue=True)
    elif how == "close":
        unacked, scene_unacked = scene.unacked, scene.queue
        scene.consumer.close()
        assert not len(unacked) and not scene_unacked.unacked
    elif how == "vanish":
        scene.consumer.client.vanish()
    else:
        for tag in tags[::-1]:
            (scene.consumer.nack if how == "nack" else scene.consumer.reject)(tag)
        scene.consumer.sync()
    scene.advance()
    fifo = scene.queue.ready_messages.default
    assert scene.queue.ready == COUNT == fifo.paged_count and scene.queue.ready_bytes == COUNT * BODY_BYTES
    ledger = scene.node.ledger
    assert ledger.queued_bytes == ledger.shed_bytes == COUNT * ledger.SHED and not fifo.resident
    again = [scene.publisher.get("q") for _ in range(COUNT)]
    assert [each is not None and (each.body, each.redelivered) for each in again] == [
        (body(number), True) for number in range(COUNT)
    ]
    assert not scene.node.ledger.queued_bytes and not scene.journal.loose and not scene.journal.live


def scene_consumers(scene: Scene) -> list[str]:
    return list(pipe_of(scene.consumer.client).connection.channels[scene.consumer.number].consumers)


def test_a_requeued_message_comes_before_those_that_were_never_delivered() -> None:
    scene = Scene()
    tags = scene.deliver()
    scene.consumer.cancel(scene_consumers(scene)[0])
    scene.publisher.fill("q", body(COUNT), delivery_mode=2)
    scene.consumer.nack(tags[5])
    scene.consumer.nack(tags[3])
    scene.consumer.sync()
    assert scene.queue.ready_messages.default.first_position == 4
    assert scene.drain() == [3, 5, COUNT]


@pytest.mark.parametrize(("durable", "delivery_mode"), KINDS)
def test_rejected_messages_are_dropped_unread(durable: bool, delivery_mode: int) -> None:
    scene = Scene(durable, delivery_mode)
    for tag in scene.deliver():
        scene.consumer.reject(tag, requeue=False)
    scene.consumer.sync()
    assert not scene.journal.reads
    scene.check_empty()


def test_a_rejected_message_that_cannot_be_read_returns_to_its_queue() -> None:
    scene = Scene(**DEAD)
    tags = scene.deliver()
    scene.consumer.cancel(scene_consumers(scene)[0])
    scene.journal.failing = True
    scene.consumer.reject(tags[0], requeue=False)
    scene.consumer.sync()
    assert (scene.queue.ready, scene.queue.stored, scene.queue.unacked) == (0, 1, COUNT - 1)
    scene.journal.failing = False
    scene.advance(10_000)
    assert scene.drain() == [0] and scene.drain("dead") == []


def test_requeued_messages_that_cannot_be_read_delay_no_others() -> None:
    scene = Scene()
    tags = scene.deliver()
    scene.consumer.cancel(scene_consumers(scene)[0])
    scene.consumer.nack(tags[-1], multiple=True)
    scene.consumer.sync()
    scene.publisher.fill("q", body(COUNT), delivery_mode=2)
    scene.journal.failing = True
    first = scene.publisher.get("q")
    assert first is not None and first.body == body(COUNT)
    assert (scene.queue.ready, scene.queue.stored, scene.queue.ready_bytes) == (0, COUNT, 0)
    scene.journal.failing = False
    scene.advance(10_000)
    assert scene.drain() == list(range(COUNT))
    scene.consumer.sync()
    scene.check_empty()


def test_delivery_attempts_are_counted() -> None:
    scene = Scene(**{"x-queue-type": "quorum", "x-delivery-limit": 2}, **DEAD)
    tags = scene.deliver()
    for attempt in (1, 2):
        for tag in tags:
            scene.consumer.reject(tag)
        scene.consumer.sync()
        scene.advance()
        again = scene.consumer.deliveries(COUNT)
        assert {each.headers["x-delivery-count"] for each in again} == {attempt}
        tags = [each.tag for each in again]
        scene.advance()
        assert scene.queue.shed == COUNT
    for tag in tags:
        scene.consumer.reject(tag)
    scene.consumer.sync()
    assert sorted(scene.drain("dead")) == list(range(COUNT))
    scene.check_empty()


@pytest.mark.parametrize(("durable", "delivery_mode"), KINDS)
def test_messages_whose_attempts_are_counted_and_not_stored_stay_in_memory(durable: bool, delivery_mode: int) -> None:
    scene = Scene(durable, delivery_mode, **{"x-delivery-limit": 2})
    scene.deliver()
    assert scene.queue.shed == (COUNT if durable and delivery_mode == 2 else 0)


def test_a_transaction_settles_them_or_makes_them_outstanding_again() -> None:
    scene = Scene()
    scene.consumer.transact()
    tags = scene.deliver()
    scene.consumer.ack(tags[4], multiple=True)
    scene.consumer.nack(tags[6], requeue=False)
    scene.consumer.rollback()
    assert scene.unacked.tags() == tags
    scene.publisher.fill("q", body(COUNT), delivery_mode=2)
    scene.consumer.delivery()
    scene.advance()
    scene.check_shed(COUNT + 1)
    scene.consumer.ack(tags[4], multiple=True)
    scene.consumer.commit()
    scene.check_shed(COUNT - 4)
    scene.consumer.ack(0, multiple=True)
    scene.consumer.commit()
    scene.check_empty()


@pytest.mark.parametrize(("durable", "delivery_mode"), KINDS)
@pytest.mark.parametrize("commits", [False, True])
def test_what_a_transaction_settles_is_shed_at_once(durable: bool, delivery_mode: int, commits: bool) -> None:
    scene = Scene(durable, delivery_mode)
    scene.node.ledger.limit_bytes = 1 << 40
    scene.consumer.transact()
    tags = scene.deliver()
    scene.node.ledger.limit_bytes = 0
    scene.publisher.fill("dead", b"")
    scene.consumer.ack(tags[9], multiple=True)
    scene.consumer.sync()
    assert scene.queue.shed >= 10
    if commits:
        scene.consumer.commit()
    else:
        scene.consumer.rollback()
        assert scene.unacked.tags() == tags
    scene.consumer.ack(0, multiple=True)
    scene.consumer.commit()
    scene.publisher.drain("dead")
    scene.check_empty()


@pytest.mark.parametrize(("durable", "delivery_mode"), KINDS)
@pytest.mark.parametrize("back", [False, True])
def test_a_deleted_queue_leaves_nothing(durable: bool, delivery_mode: int, back: bool) -> None:
    scene = Scene(durable, delivery_mode)
    tags = scene.deliver()
    queue = scene.queue
    scene.publisher.delete("q")
    if back:
        scene.consumer.nack(tags[-1], multiple=True)
    else:
        scene.consumer.ack(tags[-1], multiple=True)
    scene.consumer.sync()
    scene.advance()
    assert not queue.unacked and not scene.node.ledger.queued_bytes
    assert not scene.journal.loose and not scene.journal.live and not scene.journal.left


@pytest.mark.parametrize(("durable", "delivery_mode"), KINDS)
def test_a_purge_settles_requeued_ones(durable: bool, delivery_mode: int) -> None:
    scene = Scene(durable, delivery_mode)
    tags = scene.deliver()
    scene.consumer.cancel(scene_consumers(scene)[0])
    scene.consumer.nack(tags[9], multiple=True)
    scene.consumer.sync()
    assert scene.queue.purge() == 10
    scene.advance()
    scene.consumer.ack(tags[-1], multiple=True)
    scene.consumer.sync()
    scene.check_empty()


def test_what_has_to_be_stored_first_waits_for_room() -> None:
    scene = Scene(delivery_mode=1)
    scene.node.scheduler.disk_alarm(True)
    scene.deliver()
    assert not scene.queue.shed and scene.node.ledger.unacked_bytes
    scene.node.scheduler.disk_alarm(False)
    scene.publisher.fill("q", body(COUNT))
    scene.consumer.delivery()
    scene.advance()
    scene.check_shed(COUNT + 1)


def test_what_has_to_be_stored_first_is_shed_once_the_journal_has_caught_up_and_others_meanwhile() -> None:
    scene = Scene(delivery_mode=1)
    scene.node.ledger.limit_bytes = 1 << 40
    scene.deliver()
    scene.publisher.fill("dead", *[body(number) for number in range(5)], delivery_mode=2)
    scene.node.ledger.limit_bytes = 0
    scene.journal.much = True
    other = scene.node.vhosts["/"].queues["dead"]
    for _ in range(5):
        assert scene.consumer.get("dead", no_ack=False) is not None
        scene.advance()
    assert (other.shed, scene.queue.shed) == (5, 0)
    scene.journal.catch_up()
    scene.advance()
    assert scene.queue.shed == COUNT


def test_the_oldest_deliveries_are_shed_and_only_as_many_as_necessary() -> None:
    scene = Scene()
    ledger = scene.node.ledger
    each_bytes = ledger.UNACKED + BODY_BYTES
    ledger.limit_bytes = 10 * each_bytes
    tags = scene.deliver()
    assert list(scene.unacked.entries) == tags[scene.queue.shed :]
    assert ledger.limit_bytes - each_bytes < ledger.queued_bytes <= ledger.limit_bytes


def test_the_deliveries_of_a_queue_are_listed_with_shed_ones() -> None:
    scene = Scene()
    scene.node.ledger.limit_bytes = 10 * (scene.node.ledger.UNACKED + BODY_BYTES)
    tags = scene.deliver()
    listed = scene.unacked.of_queue(scene.queue, COUNT, COUNT)
    assert [tag for tag, _ in listed] == tags and {delivery[0] for _, delivery in listed} == {scene.queue}
    assert [delivery[2] for _, delivery in listed] == list(range(1, COUNT + 1))
    other = scene.node.vhosts["/"].queues["dead"]
    assert not scene.unacked.of_queue(other, COUNT, COUNT)
    assert [tag for tag, _ in scene.unacked.of_queue(scene.queue, 5, COUNT)] == tags[:5]


LIMIT_BYTES, BESIDE_BYTES = 4 << 20, 12 << 20  # the journal's buffer, and what is under way


@pytest.mark.parametrize("delivery_mode", [pytest.param(1, marks=pytest.mark.rest), 2])
@pytest.mark.parametrize(("body_bytes", "header_bytes"), [(1 << 20, 0), (0, 60_000)])
def test_a_consumer_that_acknowledges_nothing_holds_no_more_bytes_than_the_limit(
    tmp_path: Path, body_bytes: int, header_bytes: int, delivery_mode: int
) -> None:
    peer = StoredPeer(StepMeter(), tmp_path, message_memory_bytes=LIMIT_BYTES)
    publisher = peer.connect().channel()
    publisher.declare("q", durable=True)
    consumer = Prompter(peer)
    consumer.send(Basic.Consume, queue="q")
    properties: dict[str, Any] = {"delivery_mode": delivery_mode, "headers": {"h": "x" * header_bytes}}
    tracemalloc.start()
    try:
        before, held = tracemalloc.get_traced_memory()[0], []
        for _ in range((40 << 20) // (body_bytes + header_bytes)):
            publisher.publish("", "q", bytes(body_bytes), properties)
            publisher.sync()
            peer.wait(0)
            consumer.socket.outgoing.clear()
            held.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()
    assert consumer.unacked == len(held) and max(held) < LIMIT_BYTES + BESIDE_BYTES
    peer.close()


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("body_bytes", "header_bytes"), [(1 << 20, 0), (0, 60_000)])
def test_rejected_messages_are_read_no_faster_than_they_are_dead_lettered(
    tmp_path: Path, body_bytes: int, header_bytes: int, together: bool
) -> None:
    peer = StoredPeer(StepMeter(), tmp_path, message_memory_bytes=LIMIT_BYTES)
    publisher = peer.connect().channel()
    publisher.declare("q", durable=True, arguments=DEAD)
    publisher.declare("dead", durable=True)
    consumer = Prompter(peer)
    consumer.send(Basic.Consume, queue="q")
    properties: dict[str, Any] = {"delivery_mode": 2, "headers": {"h": "x" * header_bytes}}
    count = (40 << 20) // (body_bytes + header_bytes)
    for _ in range(count):
        publisher.publish("", "q", bytes(body_bytes), properties)
        publisher.sync()
        consumer.socket.outgoing.clear()
    with traced_memory() as memory:
        if together:
            consumer.send(Basic.Nack, delivery_tag=0, multiple=True, requeue=False)
        else:
            frames = [codec.method_frame(1, Basic.Reject, {"delivery_tag": tag}) for tag in range(1, count + 1)]
            consumer.socket.incoming += b"".join(frames)
        peer.wait(1000)
    assert not consumer.unacked and peer.node.vhosts["/"].queues["dead"].ready == count
    assert memory.peak_bytes < LIMIT_BYTES + BESIDE_BYTES
    peer.close()


@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"x-delivery-limit": 5}])
def test_dead_letters_of_deliveries_of_which_only_some_could_be_shed_are_in_order(
    arguments: dict[str, Any], transaction: bool
) -> None:
    """A transient message is not shed where its delivery attempts are counted."""
    scene = Scene(**DEAD, **arguments)
    if transaction:
        scene.consumer.transact()
    tags = scene.deliver_mixed()
    assert scene.unacked.shed_count == (14 if arguments else COUNT)
    scene.consumer.nack(tags[-1], multiple=True, requeue=False)
    if transaction:
        scene.consumer.commit()
    assert scene.drain("dead") == list(range(COUNT))
    scene.check_empty()


@pytest.mark.parametrize("how", ["nack", "recover", "vanish"])
def test_dead_letters_at_the_delivery_limit_are_in_order(how: str) -> None:
    scene = Scene(**DEAD, **{"x-delivery-limit": 0})
    tags = scene.deliver_mixed()
    assert scene.unacked.shed_count == 14
    if how == "nack":
        scene.consumer.nack(tags[-1], multiple=True)
    elif how == "recover":
        scene.consumer.call(Basic.Recover, requeue=True)
    else:
        scene.consumer.client.vanish()
    assert scene.drain("dead") == list(range(COUNT))


ENDS = ["commit", "commit of requeues", "nack", "recover", "close", "vanish"]


@pytest.mark.parametrize("is_behind", [False, True])
@pytest.mark.parametrize("how", ENDS)
def test_few_that_are_read_to_be_dead_lettered_wait_for_those_before_in_a_job(
    monkeypatch: pytest.MonkeyPatch, how: str, is_behind: bool
) -> None:
    """Steps that are done at once wait for nobody: the loop would stand still."""
    monkeypatch.setattr(dead_lettering, "SOME_BYTES", 0)
    scene = Scene(**DEAD, **({} if how == "commit" else {"x-delivery-limit": 0}))
    lines: list[str] = []
    scene.node.scheduler.report = lambda event, level, fields: lines.append(event)
    if how.startswith("commit"):
        scene.consumer.transact()
    tags = scene.deliver()
    queue, unacked = scene.queue, scene.unacked
    scene.journal.much = is_behind
    if how.startswith("commit"):
        scene.consumer.nack(tags[-1], multiple=True, requeue=how != "commit")
        scene.consumer.send(Tx.Commit)
    elif how == "nack":
        scene.consumer.nack(tags[-1], multiple=True)
    elif how == "recover":
        scene.consumer.send(Basic.Recover, requeue=True)
    elif how == "close":
        scene.consumer.send(AMQPChannel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    else:
        scene.consumer.client.vanish()
    scene.advance()
    scene.journal.catch_up()
    scene.advance()
    assert scene.drain("dead") == list(range(COUNT)) and not lines
    assert not queue.unacked and not len(unacked) and not queue.ready


def test_an_internal_connection_ends_while_much_is_dead_lettered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_lettering, "SOME_BYTES", 0)
    scene = Scene(**DEAD, **{"x-delivery-limit": 0})
    scene.deliver()
    pipe_of(scene.consumer.client).connection.channels[scene.consumer.number].end()
    assert scene.drain("dead") == list(range(COUNT)) and not scene.queue.unacked


@pytest.mark.pure("it passes what is no queue, which compiled functions refuse")
def test_dead_letters_of_a_full_disk_are_not_waited_for() -> None:
    """The acknowledgements behind them may have to make the room."""
    scene = Scene(**DEAD)
    queue = SimpleNamespace(outbox=SimpleNamespace(is_behind=True))
    assert next(dead_lettered(scene.node, [queue])) == AWAITS_OTHERS  # type: ignore[list-item]
    scene.node.scheduler.disk_alarm(True)
    assert not list(dead_lettered(scene.node, [queue]))  # type: ignore[list-item]


def test_a_look_at_those_that_were_shed_is_charged() -> None:
    """Each look makes a delivery of a row: 600,000 in few turns held the loop for 0.1 s each."""
    scene = Scene()
    scene.deliver()
    channel = pipe_of(scene.consumer.client).connection.channels[scene.consumer.number]
    assert sum(channel.pause_in_steps()) >= COUNT * ROW_COST
    assert sum(channel.shared_prefetch.count(COUNT, [channel.unacked.values()])) >= COUNT * ROW_COST
    scene.consumer.client.vanish()
    assert scene.drain() == list(range(COUNT))


def test_those_that_are_dead_lettered_in_one_step_are_read_together() -> None:
    """A store in a database takes a query for each read."""
    scene = Scene(**DEAD)
    tags = scene.deliver()
    scene.consumer.nack(tags[-1], multiple=True, requeue=False)
    scene.consumer.sync()
    scene.advance()
    assert scene.journal.reads == 1
    assert scene.drain("dead") == list(range(COUNT))


def test_what_comes_back_again_and_again_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_messages, "UNPAGE", 8)
    scene = Scene()
    tags = scene.deliver()
    scene.consumer.cancel(next(iter(pipe_of(scene.consumer.client).connection.channels[1].consumers)))
    scene.consumer.nack(tags[-1], multiple=True, requeue=True)
    scene.advance()
    again = connected(scene.node).channel()
    again.qos(3)
    again.consume("q")
    for _ in range(COUNT):
        last = [each.tag for each in again.deliveries(3)][-1]
        scene.advance()
        again.nack(last, multiple=True, requeue=True)
        scene.advance()
        assert scene.queue.ready_messages.default.resident <= 8


def test_a_reject_that_waits_for_the_journal_does_not_wait_for_a_full_disk() -> None:
    """The acknowledgements behind it may have to make the room."""
    scene = Scene(**DEAD)
    tags = scene.deliver()
    scene.journal.much = True
    scene.consumer.reject(tags[0], requeue=False)
    assert scene.queue.unacked == COUNT
    scene.node.scheduler.disk_alarm(True)
    scene.advance()
    scene.consumer.ack(tags[-1], multiple=True)
    scene.advance()
    assert not scene.queue.unacked and not len(scene.unacked)


def test_all_channels_may_end_while_the_shedding_waits_for_the_journal() -> None:
    scene = Scene(durable=False, delivery_mode=1)
    lines: list[str] = []
    scene.node.scheduler.report = lambda event, level, fields: lines.append(event)
    scene.node.ledger.limit_bytes = 1 << 40
    scene.deliver()
    scene.publisher.fill("dead", b"1", b"2", b"3", delivery_mode=2)
    scene.node.ledger.limit_bytes = 0
    scene.journal.much = True
    for _ in range(3):
        scene.consumer.get("dead", no_ack=False)
        scene.advance()
    assert scene.node.ledger.shedding and scene.queue.unacked == COUNT
    for client in (scene.consumer.client, scene.publisher.client):
        client.vanish()
    scene.advance()
    scene.node.ledger.add_unacked(1, 1_000)  # as deliveries that are still requeued
    scene.journal.catch_up()
    scene.advance()
    assert not lines and not scene.node.ledger.shedding


def test_queues_whose_consumers_hold_much_wait_for_memory_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one consumer that held all made the deliveries of each other queue wait for 0.1 s again and again."""
    for name, value in (("FAR", 10_000), ("FARTHEST", 20_000), ("LITTLE", 3_000)):
        monkeypatch.setattr(Ledger, name, value)
    scene, each_bytes = Scene(durable=False, delivery_mode=1), BODY_BYTES + Ledger.UNACKED
    scene.node.ledger.shedding = True  # by a job that waits
    names = ("q", "other", "last")
    held = {}
    for name in names:
        scene.publisher.declare(name)
        scene.consumer.consume(name)
        for number in range(COUNT):
            scene.publisher.publish("", name, body(number))
            scene.publisher.sync()
        held[name] = scene.node.vhosts["/"].queues[name].unacked * each_bytes
    excess_bytes = scene.node.ledger.queued_bytes
    assert excess_bytes > Ledger.FARTHEST and held["q"] <= Ledger.FAR + each_bytes
    assert Ledger.LITTLE < held["other"] <= Ledger.LITTLE + each_bytes and not held["last"]
    scene.node.ledger.shedding = False
    scene.advance(10)
    assert len(scene.consumer.deliveries(3 * COUNT)) == 3 * COUNT
