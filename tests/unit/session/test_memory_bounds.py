"""Bounds on the memory that a client can make the broker keep."""

import tracemalloc
from pathlib import Path

import pytest
from pamqp.commands import Basic

from tests.support import codec
from tests.support.in_process import InProcessPeer
from tests.turns.broker import StepMeter, StoredPeer, fill

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
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        fill(peer, "q", 40_960, properties={"delivery_mode": delivery_mode})
        peer.wait(0)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert peer.node.vhosts["/"].queues["q"].ready == 61_440
    assert held < 40_960 * most + 100_000  # the publisher
    peer.close()
