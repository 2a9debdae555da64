"""Very many unacknowledged messages whose contents leave memory do not hold the loop, whatever becomes of them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pamqp.commands import Basic, Tx

from tests.support import codec
from tests.support.in_process import FakeSocket
from warren.broker.core.queues import paging, ready_messages

from .broker import BODY_BYTES, Prompter, StepMeter, StoredPeer, fill
from .test_messages import ack_nearly_all, end, requeue_all

FEW = 8_000
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "KEEP_BYTES", 0)


def consumed(peer: StoredPeer, delivery_mode: int, transactional: bool = False) -> Prompter:
    """Return the consumer of a queue all of whose messages are shed, about."""
    channel = peer.connect().channel()
    channel.declare("q", durable=True, arguments=DEAD)
    channel.declare("dead")
    consumer = Prompter(peer, transactional)
    consumer.send(Basic.Consume, queue="q")
    fill(peer, "q", FEW, properties={"delivery_mode": delivery_mode})
    peer.wait(0)
    assert consumer.unacked == FEW and peer.node.vhosts["/"].queues["q"].shed > FEW - 5_000
    return consumer


def ack_each(consumer: Prompter) -> None:
    frames = [codec.method_frame(consumer.channel.number, Basic.Ack, {"delivery_tag": tag}) for tag in range(1, FEW)]
    consumer.socket.incoming += b"".join(frames)
    consumer.peer.settle()
    assert consumer.unacked == 1


def reject_nearly_all(consumer: Prompter) -> None:
    consumer.send(Basic.Nack, delivery_tag=FEW - 1, multiple=True, requeue=False)
    consumer.peer.wait(1000)
    assert consumer.unacked == 1
    assert consumer.peer.node.vhosts["/"].queues["dead"].ready == FEW - 1


@pytest.mark.parametrize("delivery_mode", [1, 2])
@pytest.mark.parametrize("action", [ack_each, ack_nearly_all, requeue_all, reject_nearly_all, end])
def test_deliveries_that_were_shed(
    step_meter: StepMeter, tmp_path: Path, delivery_mode: int, action: Callable[[Prompter], None]
) -> None:
    for peer in step_meter.stored_peers(tmp_path, message_memory_bytes=1000):
        action(consumed(peer, delivery_mode))
        peer.wait(1000)


@pytest.mark.parametrize("kind", [Tx.Commit, Tx.Rollback])
def test_a_transaction_that_acknowledges_shed_ones(step_meter: StepMeter, tmp_path: Path, kind: type) -> None:
    for peer in step_meter.stored_peers(tmp_path, message_memory_bytes=1000):
        consumer = consumed(peer, 2, transactional=True)
        consumer.send(Basic.Ack, multiple=True, delivery_tag=FEW - 1)
        consumer.send(kind)
        peer.wait(1000)
        assert consumer.unacked == (1 if kind is Tx.Commit else FEW)


@pytest.mark.parametrize("settlement", ["reject", "commit of rejects", "requeue above the limit", "end"])
def test_long_shed_ones_that_are_dead_lettered_are_read_no_faster_than_they_go(
    step_meter: StepMeter, tmp_path: Path, settlement: str
) -> None:
    count, body_bytes, limit_bytes = 60, 1_000_000, 4 << 20
    held: list[int] = []

    def look(peer: StoredPeer, _: float) -> None:
        held.append(peer.node.ledger.queued_bytes + peer.node.ledger.dead_letters.total)

    for peer in step_meter.stored_peers(tmp_path, message_memory_bytes=limit_bytes):
        channel = peer.connect().channel()
        channel.declare("q", durable=True, arguments=DEAD | {"x-queue-type": "quorum", "x-delivery-limit": 0})
        channel.declare("dead", durable=True)
        consumer = Prompter(peer, settlement == "commit of rejects")
        consumer.send(Basic.Consume, queue="q")
        for _ in range(count):
            channel.publish("", "q", bytes(body_bytes), {"delivery_mode": 2})
            peer.settle()
            consumer.socket.outgoing.clear()
        peer.wait(10)
        step_meter.begin()
        step_meter.after_each = partial(look, peer)
        if settlement == "requeue above the limit":
            consumer.send(Basic.Recover, requeue=True)
        elif settlement == "end":
            consumer.channel.client.vanish()
        else:
            consumer.send(Basic.Nack, delivery_tag=0, multiple=True, requeue=False)
            if settlement == "commit of rejects":
                consumer.send(Tx.Commit)
        peer.wait(1000)
        step_meter.after_each = lambda _: None
        assert peer.node.vhosts["/"].queues["dead"].ready == count
        assert max(held) < limit_bytes + 16 * body_bytes


@pytest.mark.parametrize(("count", "body_bytes"), [(20_000, BODY_BYTES), (200, 130_000)])
def test_messages_of_a_queue_that_delivers_nothing(
    step_meter: StepMeter, tmp_path: Path, count: int, body_bytes: int
) -> None:
    for peer in step_meter.stored_peers(tmp_path):
        channel = peer.connect().channel()
        for name in ("q", "other"):
            channel.declare(name)
        if body_bytes == BODY_BYTES:
            fill(peer, "q", count)
        else:
            for _ in range(count):
                channel.publish("", "q", bytes(body_bytes))
            peer.settle()
        peer.node.ledger.limit_bytes = 1000
        step_meter.begin()
        fill(peer, "other", ready_messages.PAGE_ABOVE + 1_000)
        peer.wait(1000)
        [first, *_] = peer.node.vhosts["/"].queues["q"].ready_messages.all
        assert (
            first.resident * body_bytes < 3 << 20 and first.resident <= ready_messages.PAGE_ABOVE + ready_messages.RUN
        )
        assert len(first) == count


@pytest.mark.parametrize("requeue", [False, True])
def test_shed_ones_of_many_megabytes_are_read_and_passed_on_in_two_turns(
    step_meter: StepMeter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requeue: bool
) -> None:
    count, body_bytes = 3, 12_000_000  # with 16 the copies alone take longer than a turn where memory is slow
    write = FakeSocket.write

    def write_short(socket: FakeSocket, data: bytes) -> None:
        if len(data) < body_bytes:  # that of the test copies more and more
            write(socket, data)

    monkeypatch.setattr(FakeSocket, "write", write_short)
    for peer in step_meter.stored_peers(tmp_path, message_memory_bytes=8 << 20):
        channel = peer.connect().channel()
        channel.declare("q", durable=True, arguments=DEAD)
        channel.declare("dead", durable=True)
        consumer = Prompter(peer)
        consumer.send(Basic.Consume, queue="q")
        for _ in range(count):
            channel.publish("", "q", bytes(body_bytes), {"delivery_mode": 2})
            peer.settle()
        peer.wait(10)
        queue = peer.node.vhosts["/"].queues["q"]
        assert queue.shed == count
        step_meter.begin()
        consumer.send(Basic.Nack, delivery_tag=0, multiple=True, requeue=requeue)
        peer.wait(1000)
        assert (queue.unacked, peer.node.vhosts["/"].queues["dead"].ready) == ((count, 0) if requeue else (0, count))


def test_a_sweep_of_queues_with_very_many_priorities(step_meter: StepMeter, tmp_path: Path) -> None:
    """Few messages of a queue stay in memory, of all its priorities together, which is looked at once."""
    for peer in step_meter.stored_peers(tmp_path):
        channel = peer.connect().channel()
        channel.declare("other")
        for number in range(5):
            channel.declare(f"q{number}", arguments={"x-max-priority": 255})
            for level in range(256):
                channel.publish("", f"q{number}", b"", {"priority": level})
            peer.settle()
        peer.node.ledger.limit_bytes = 1000
        step_meter.begin()
        fill(peer, "other", 10)
        peer.wait(1000)
        assert peer.node.ledger.exceeded
