"""Bounds on the memory that a client can make the broker keep."""

import gc
import shutil
import tracemalloc
from pathlib import Path

import pytest
from pamqp.commands import Basic
from pamqp.commands import Queue as QueueMethods

from tests.loop_latency.broker import StepMeter, StoredPeer, fill
from tests.support import codec
from tests.support.in_process import InProcessPeer
from tests.support.traced_memory import traced_memory
from warren.broker.core.queues import paging, queue, ready_messages
from warren.broker.core.queues.ledger import Ledger
from warren.broker.core.queues.queue import Queue

PUBLISH = {"exchange": "", "routing_key": "queue"}


def test_contents_are_not_gathered_before_the_login() -> None:
    client = InProcessPeer().dial()
    client.start()
    client.raw(codec.method_frame(1, Basic.Publish, PUBLISH) + codec.header_frame(1, 1000))
    client.expect_close(505)


def test_a_publish_method_longer_than_any_can_be_is_refused_at_once() -> None:
    client = InProcessPeer().connect()
    client.channel(1)
    client.raw(codec.frame(1, 1, b"\0\x3c\0\x28" + bytes(100_000)))
    client.expect_close(502)


def test_a_client_that_does_not_read_is_not_served_without_end() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    ch = client.channel(1)
    ch.declare("queue")
    ch.publish("", "queue", bytes(1_000_000))
    ch.sync()
    broker.stall(client)
    for tag in range(1, 101):
        ch.send(Basic.Get, queue="queue")
        ch.reject(tag)
    broker.settle()
    assert broker.unsent_bytes(client) < 50_000_000


def test_an_idle_connection_with_a_channel_takes_less_than_4000_bytes_beside_its_socket() -> None:
    broker = InProcessPeer()
    count, clients = 100, [broker.connect() for _ in range(10)]  # what is allocated once
    for client in clients:
        client.channel(1)
    tracemalloc.start()
    try:
        before = broker_bytes()
        for _ in range(count):
            clients.append(broker.connect())
            clients[-1].channel(1)
        broker.log.clear()
        assert (broker_bytes() - before) / count < 4000
    finally:
        tracemalloc.stop()


def broker_bytes() -> int:
    """Return the traced bytes that the broker's own lines have allocated."""
    gc.collect()
    mine = tracemalloc.Filter(True, "*/warren/*")
    return sum(each.size for each in tracemalloc.take_snapshot().filter_traces([mine]).statistics("filename"))


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_one_long_message_of_each_of_many_queues_is_paged_out_and_read_for_few_consumers_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delivery_mode: int
) -> None:
    count, body = 100, bytes(50_000)
    monkeypatch.setattr(ready_messages, "PAGE_BYTES", len(body) // 2)
    monkeypatch.setattr(queue, "DELIVERED_BYTES", len(body) // 2)  # a read takes as long as a turn may
    monkeypatch.setattr(paging, "KEEP_BYTES", 0)
    monkeypatch.setattr(paging, "STEP_BYTES", 0)
    monkeypatch.setattr(Ledger, "FARTHEST", 4 * len(body))
    meter = StepMeter()
    peer = StoredPeer(meter, tmp_path, message_memory_bytes=1 << 20)
    client = peer.connect()
    channel = client.channel(1)
    ledger, excess_bytes = peer.node.ledger, []
    for number in range(count):
        channel.declare(f"q{number}", durable=True)
        channel.publish("", f"q{number}", body, {"delivery_mode": delivery_mode})
        peer.settle()
        excess_bytes.append(ledger.excess_bytes)
    assert max(excess_bytes) <= len(body) + Ledger.OVERHEAD
    _deliver = Queue._deliver

    def deliver(of: Queue) -> None:
        _deliver(of)
        excess_bytes.append(ledger.excess_bytes)

    monkeypatch.setattr(Queue, "_deliver", deliver)
    consume = {"queue": "", "consumer_tag": "", "no_local": False, "no_ack": False, "exclusive": False}
    names = [f"q{number}" for number in range(count)]
    client.raw(b"".join(codec.method_frame(1, Basic.Consume, consume | {"queue": name}) for name in names))
    peer.settle()
    assert sum(peer.node.vhosts["/"].queues[name].unacked for name in names) == count
    assert max(excess_bytes) <= 6 * len(body)
    peer.close()


@pytest.mark.parametrize("priorities", [0, 50])
def test_a_start_keeps_messages_with_times_to_live_in_memory_up_to_the_limit(tmp_path: Path, priorities: int) -> None:
    count, body = 50, bytes(100_000)
    peer = StoredPeer(StepMeter(), tmp_path / "before")
    channel = peer.connect().channel(1)
    arguments = {"x-message-ttl": 60_000} | ({"x-max-priority": priorities} if priorities else {})
    for number in range(count):
        name = "q" if priorities else f"q{number}"
        channel.declare(name, durable=True, arguments=arguments)
        channel.publish("", name, body, {"delivery_mode": 2, "priority": number})
    peer.settle()
    peer.close()
    shutil.copytree(tmp_path / "before", tmp_path / "after")  # the lock is this process's
    peer = StoredPeer(StepMeter(), tmp_path / "after", message_memory_bytes=1 << 20)
    peer.settle()
    queues = peer.node.vhosts["/"].queues.values()
    assert sum(queue.ready for queue in queues) == count and peer.node.ledger.excess_bytes <= 2 * len(body)
    peer.wait(59_000)
    assert sum(queue.ready for queue in queues) == count
    peer.wait(2_000)
    assert not any(queue.ready for queue in queues) and not peer.node.ledger.queued_bytes
    peer.close()


def publishes_with_own_keys(count: int, key_bytes: int) -> list[bytes]:
    return [
        codec.method_frame(1, Basic.Publish, {"exchange": "amq.topic", "routing_key": str(number).zfill(key_bytes)})
        + codec.header_frame(1, 100)
        + codec.body_frames(1, bytes(100), 1 << 17)
        for number in range(count)
    ]


@pytest.mark.parametrize("consumed", [False, True])
def test_routing_keys_are_paged_out_with_their_messages(tmp_path: Path, consumed: bool) -> None:
    peer = StoredPeer(StepMeter(), tmp_path, message_memory_bytes=1 << 20)
    client = peer.connect()
    channel = client.channel(1)
    channel.declare("q")
    channel.bind("q", "amq.topic", "#")
    if consumed:
        channel.consume("q")
    ledger = peer.node.ledger
    for number, publish in enumerate(publishes_with_own_keys(20_000, 255)):
        client.raw(publish)
        if number % 500 == 0:  # routes leave the cache
            channel.bind("q", "amq.topic", str(number))
            peer.settle()
    peer.settle()
    assert ledger.addresses.total < 5 << 20 and ledger.excess_bytes < 8 << 20
    assert peer.node.vhosts["/"].queues["q"].ready + peer.node.vhosts["/"].queues["q"].unacked == 20_000
    peer.close()


@pytest.mark.pure("compiled objects are smaller")
@pytest.mark.parametrize("key_bytes, cached", [(5, True), (255, False)])
def test_what_routing_keys_take_is_counted(key_bytes: int, cached: bool) -> None:
    """Each message has a key of its own. The cache of routes counts those that it has, until it is cleared."""
    count, peer = 5_000, InProcessPeer()
    client = peer.connect()
    channel = client.channel(1)
    channel.declare("q")
    channel.bind("q", "amq.topic", "#")
    publishes = publishes_with_own_keys(count + 1, key_bytes)
    client.raw(publishes.pop())
    peer.settle()
    ledger, [routes] = peer.node.ledger, peer.node.vhosts["/"].routes.values()

    def counted() -> int:
        return ledger.queued_bytes + ledger.addresses.total + routes.size_bytes

    tracemalloc.start()
    try:
        held, before = -tracemalloc.get_traced_memory()[0], counted()
        for publish in publishes:
            client.raw(publish)
        peer.settle()
        assert not ledger.addresses.total and len(routes) == count + 1
        if not cached:
            channel.bind("q", "amq.topic", "another")
            peer.settle()
            assert not routes
        held += tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.95 * held < counted() - before < 1.15 * held
    channel.call(QueueMethods.Purge, queue="q")
    assert not ledger.queued_bytes and not ledger.addresses.total


@pytest.mark.parametrize(
    ("limit_bytes", "delivery_mode", "most"), [(1 << 40, 1, 160), (1 << 40, 2, 160), (1000, 2, 12)]
)
def test_a_message_of_a_long_queue_takes_few_bytes_and_fewer_on_the_disk(
    tmp_path: Path, limit_bytes: int, delivery_mode: int, most: int
) -> None:
    """Each has 100 bytes. The place of one in the journal is included."""
    peer = StoredPeer(StepMeter(), tmp_path, message_memory_bytes=limit_bytes)
    peer.connect().channel().declare("q", durable=True)
    fill(peer, "q", 20_480, properties={"delivery_mode": delivery_mode})
    with traced_memory() as memory:
        fill(peer, "q", 40_960, properties={"delivery_mode": delivery_mode})
        peer.wait(0)
    assert peer.node.vhosts["/"].queues["q"].ready == 61_440
    assert memory.held_bytes < 40_960 * most + 100_000  # the publisher
    peer.close()
