"""No step that concerns very many messages holds the loop: of a queue, an exchange, a channel or the journal."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue, Tx

from tests.support.journal import commit
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.queues import ready_messages
from warren.broker.storage.compaction import LONG_BYTES

from .broker import BODY_BYTES, MeasuredPeer, Prompter, StepMeter, StoredPeer, fill
from .meter import limit_ms

MANY = 50_000  # a slice of what is requeued or read from the journal takes up to 7 ms
LIMIT_MS = limit_ms(MANY)
FEW = MANY // 5  # of what costs most, and is done in slices of some hundred
TTL_MS = 60_000
PERSISTENT = {"delivery_mode": 2}
DELAYED = {"headers": {"x-delay": TTL_MS}}


def queues_of_many(step_meter: StepMeter, count: int = MANY, **arguments: object) -> Iterator[MeasuredPeer]:
    """A broker with a queue `q` of these arguments that holds very many messages, for each attempt."""
    given = {f"x-{key.replace('_', '-')}": arguments[key] for key in arguments}
    for peer in step_meter.peers(LIMIT_MS):
        peer.connect().channel().declare("q", arguments=given)
        fill(peer, "q", count)
        yield peer


def ready(peer: MeasuredPeer, queue: str = "q") -> int:
    return peer.node.vhosts["/"].queues[queue].ready


# What is done with messages that are ready


def purge(peer: MeasuredPeer) -> None:
    Prompter(peer).send(Queue.Purge, queue="q")


def delete(peer: MeasuredPeer) -> None:
    Prompter(peer).send(Queue.Delete, queue="q")


def get(peer: MeasuredPeer) -> None:
    Prompter(peer).send(Basic.Get, FEW, queue="q", no_ack=True)
    assert ready(peer) == MANY - FEW


def consume(peer: MeasuredPeer) -> None:
    consumer = Prompter(peer)
    consumer.send(Basic.Consume, queue="q")
    assert consumer.unacked == MANY


def limit(peer: MeasuredPeer) -> None:
    peer.set_policy("limit", "^q$", {"max-length": 1})
    peer.wait(1000)
    assert ready(peer) == 1


@pytest.mark.parametrize("action", [purge, delete, get, consume, limit], ids=lambda action: action.__name__)
def test_messages_that_are_ready(step_meter: StepMeter, action: Callable[[MeasuredPeer], None]) -> None:
    for peer in queues_of_many(step_meter):
        step_meter.begin()
        action(peer)


@pytest.mark.parametrize("dead_letters", [False, True], ids=["dropped", "dead-lettered"])
def test_messages_that_expire_at_the_same_time(step_meter: StepMeter, dead_letters: bool) -> None:
    target = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"} if dead_letters else {}
    count = FEW if dead_letters else MANY
    for peer in queues_of_many(step_meter, count, message_ttl=TTL_MS, **target):
        peer.connect().channel().declare("dead")
        step_meter.begin()
        peer.wait(2 * TTL_MS)
        assert ready(peer) == 0 and ready(peer, "dead") == count * dead_letters


def test_messages_whose_delay_ends_at_the_same_time(step_meter: StepMeter) -> None:
    for peer in step_meter.peers(LIMIT_MS):
        channel = peer.connect().channel()
        channel.exchange("later", "direct", arguments={"x-delayed-exchange": True})
        channel.declare("q")
        channel.bind("q", "later", "q")
        fill(peer, "q", FEW, "later", DELAYED)
        assert ready(peer) == 0
        peer.wait(2 * TTL_MS)
        assert ready(peer) == FEW


# What is done with deliveries that are not acknowledged


def ack_nearly_all(consumer: Prompter) -> None:
    consumer.send(Basic.Ack, delivery_tag=consumer.unacked - 1, multiple=True)
    assert consumer.unacked == 1


def requeue_all(consumer: Prompter) -> None:
    consumer.send(Basic.Nack, delivery_tag=0, multiple=True, requeue=True)


def drop_nearly_all(consumer: Prompter) -> None:
    consumer.send(Basic.Nack, delivery_tag=MANY - 1, multiple=True, requeue=False)
    assert consumer.unacked == 1


def end(consumer: Prompter) -> None:
    consumer.channel.client.vanish()


ENDINGS = (ack_nearly_all, requeue_all, drop_nearly_all, end)


@pytest.mark.parametrize("action", ENDINGS, ids=lambda action: action.__name__)
def test_deliveries_that_are_outstanding(step_meter: StepMeter, action: Callable[[Prompter], None]) -> None:
    for peer in queues_of_many(step_meter):
        consumer = Prompter(peer)
        consumer.send(Basic.Consume, queue="q")
        step_meter.begin()
        action(consumer)
        peer.wait(1000)


@pytest.mark.parametrize(("kind", "tag"), [(Tx.Commit, MANY - 1), (Tx.Rollback, 0)], ids=["commit", "rollback"])
def test_a_transaction_that_acknowledges_many(step_meter: StepMeter, kind: Any, tag: int) -> None:
    for peer in queues_of_many(step_meter):
        consumer = Prompter(peer, transactional=True)
        consumer.send(Basic.Consume, queue="q")
        step_meter.begin()
        consumer.send(Basic.Ack, multiple=True, delivery_tag=tag)
        consumer.send(kind)
        peer.wait(1000)
        assert consumer.unacked == (MANY - tag if kind is Tx.Commit else MANY)


# What the journal does


def test_messages_that_are_paged_out_and_read_back(step_meter: StepMeter, tmp_path: Path) -> None:
    for peer in step_meter.stored_peers(tmp_path, message_memory_bytes=1 << 20, limit_ms=LIMIT_MS):
        peer.connect().channel().declare("q", durable=True)
        step_meter.begin()
        fill(peer, "q", MANY, properties=PERSISTENT)
        Prompter(peer).send(Basic.Consume, queue="q", no_ack=True)
        assert ready(peer) == 0 and peer.journal.read_messages


def test_long_headers_that_are_paged_out_and_read_back(
    step_meter: StepMeter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The headers are as long as one frame takes; the bodies are empty."""
    monkeypatch.setattr(ready_messages, "PAGE_ABOVE", 1)
    for peer in step_meter.stored_peers(tmp_path, message_memory_bytes=1 << 20):
        channel = peer.connect().channel()
        channel.declare("q", durable=True)
        for _ in range(300):
            channel.publish("", "q", b"", {"headers": {"h": "v" * 130_900}})
        peer.settle()
        assert peer.node.ledger.queued_bytes < 2 << 20
        consumer = Prompter(peer)
        step_meter.begin()
        consumer.send(Basic.Consume, queue="q", no_ack=True)
        while ready(peer):
            consumer.socket.outgoing.clear()
            peer.settle()
        assert peer.journal.read_messages > 250 and not peer.node.ledger.queued_bytes


@pytest.mark.parametrize("content", [(b"", {"h": "v" * 130_900}), (bytes(130_900), {})], ids=["header", "body"])
def test_long_messages_that_expire_on_the_disk(
    step_meter: StepMeter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: tuple[bytes, dict[str, object]]
) -> None:
    monkeypatch.setattr(ready_messages, "PAGE_ABOVE", 1)
    peer = StoredPeer(step_meter, tmp_path, message_memory_bytes=1 << 20)
    channel = peer.connect().channel()
    channel.declare("q", arguments={"x-message-ttl": TTL_MS})
    for _ in range(1_000):
        channel.publish("", "q", content[0], {"headers": content[1]})
    peer.settle()
    step_meter.begin()
    peer.wait(TTL_MS)
    assert ready(peer) == 0
    step_meter.check()
    peer.close()


def test_messages_that_a_start_has_recovered(step_meter: StepMeter, tmp_path: Path) -> None:
    """The start itself serves nobody yet."""
    for number in step_meter.attempts(LIMIT_MS):
        stopped, started = tmp_path / f"{number}", tmp_path / f"{number} again"
        peer = StoredPeer(step_meter, stopped)
        peer.connect().channel().declare("q", durable=True)
        fill(peer, "q", MANY, properties=PERSISTENT)
        peer.close()
        shutil.copytree(stopped, started)  # the lock is this process's
        peer = StoredPeer(step_meter, started)
        step_meter.begin()
        assert ready(peer) == MANY
        Prompter(peer).send(Basic.Consume, queue="q", no_ack=True)
        assert ready(peer) == 0
        peer.close()


def test_compaction_and_the_checkpoints_that_it_needs(step_meter: StepMeter, tmp_path: Path) -> None:
    for peer in step_meter.stored_peers(tmp_path, segment_bytes=2 << 20, limit_ms=LIMIT_MS):
        channel = peer.connect().channel()
        channel.declare("q", durable=True)
        channel.declare("rare", durable=True)
        step_meter.begin()
        for _ in range(50):
            fill(peer, "q", MANY // 50 - 20, properties=PERSISTENT)
            channel.fill("rare", *[bytes(BODY_BYTES)] * 20, **PERSISTENT)
        before = len(peer.journal.segments)
        purge(peer)
        for _ in range(200):  # a slice is copied with each batch
            channel.fill("rare", b"x", **PERSISTENT)
            channel.sync()
        assert len(peer.journal.segments) < before and ready(peer, "rare") == 50 * 20 + 200


@pytest.mark.parametrize("live", [True, False])
def test_compaction_of_a_segment_with_a_message_as_long_as_a_copy_may_be_or_longer(
    step_meter: StepMeter, tmp_path: Path, live: bool
) -> None:
    for peer in step_meter.stored_peers(tmp_path, segment_bytes=1 << 20):
        journal = peer.journal
        length = LONG_BYTES - 1000 if live else 8 * LONG_BYTES
        sizes = [length] * 5 if live else [length, 10, 10]  # a segment is copied if most of its bytes are dead
        messages = [Message(RoutingAddress("", "q"), bytes(size), 1, 0, 0, True) for size in sizes]
        number = max(journal.segments)
        journal.append([1], messages)
        commit(journal)
        journal.settle_many(1, messages[1:] if live else messages[:-1])
        seal = step_meter.measured(journal.seal)
        for _ in range(4):
            journal.queue_deleted(2)  # so that there is something to commit
            batch = seal()
            batch.write()
            batch.sync()
            journal.committed(batch.number)
        assert number not in journal.segments
