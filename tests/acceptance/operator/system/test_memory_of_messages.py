"""The memory of messages that the broker says it has, by what holds them, beside what its process has grown by."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Tx

from tests.support import codec
from tests.support.amqp_client import Channel
from tests.support.broker_process import BrokerProcess
from tests.support.polling import until
from tools.bench.process import rss_bytes

TOTAL_BYTES = 48 << 20
OTHER_BYTES = 4 << 20  # caches, and what the allocator keeps
FRAME_MAX = 131_072
LONG = 16 << 20  # the longest body
BURST = 100
LIMIT_BYTES = 64 << 20  # of messages in memory
BACKLOG_BYTES = 480 << 20
BESIDE_BYTES = 48 << 20  # the journal's buffers, an output, caches and the allocator

pytestmark = pytest.mark.rest("needs more than a second")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path, "--http", "127.0.0.1:0", memory=True)
    process.configure("collect_statistics_interval = 200", "warren.transaction_max_size = 100MB")
    with process:
        yield process


def publish(
    channel: Channel, body_bytes: int, header_bytes: int = 0, total_bytes: int = TOTAL_BYTES, delivery_mode: int = 2
) -> None:
    """Publish messages of this length to the queue `q`, `total_bytes` of them, each with its own content."""
    for at in range(total_bytes // (body_bytes + header_bytes)):
        headers = {"headers": {"h": f"{at:0{header_bytes}}"}} if header_bytes else {}
        properties = {"delivery_mode": delivery_mode} | headers
        channel.publish("", "q", f"{at:0{body_bytes}}".encode() if body_bytes else b"", properties)
        if not at % BURST:
            channel.sync()
    channel.sync()


def ready(broker: BrokerProcess, body_bytes: int, header_bytes: int) -> None:
    channel = broker.connect().channel()
    channel.declare("q")
    publish(channel, body_bytes, header_bytes)


def unacknowledged(broker: BrokerProcess, body_bytes: int, header_bytes: int) -> None:
    ready(broker, body_bytes, header_bytes)
    consumer = broker.connect().channel()
    consumer.consume("q")
    consumer.deliveries(TOTAL_BYTES // (body_bytes + header_bytes))


def in_transactions(broker: BrokerProcess, body_bytes: int, header_bytes: int) -> None:
    channel = broker.connect().channel()
    channel.declare("q")
    channel.call(Tx.Select)
    publish(channel, body_bytes, header_bytes)


def arriving(broker: BrokerProcess, body_bytes: int, header_bytes: int) -> None:
    for _ in range(TOTAL_BYTES // LONG):
        channel = broker.connect().channel()
        channel.declare("q")
        frames = codec.method_frame(1, Basic.Publish, {"routing_key": "q"}) + codec.header_frame(1, LONG)
        channel.client.raw(frames + codec.body_frames(1, b"x" * (LONG - 1000), FRAME_MAX))


@pytest.mark.parametrize(("use", "hold", "body_bytes", "header_bytes"), [
    ("queue_procs", ready, 100, 0),
    ("queue_procs", ready, 1 << 20, 0),
    ("queue_procs", ready, 0, 60_000),
    ("connection_channels", unacknowledged, 1000, 0),
    ("connection_channels", unacknowledged, 0, 60_000),
    ("connection_channels", in_transactions, 10_000, 0),
    ("connection_readers", arriving, LONG, 0),
])  # fmt: skip
def test_what_is_counted_is_what_the_process_has_grown_by(
    broker: BrokerProcess, use: str, hold: Callable[[BrokerProcess, int, int], None], body_bytes: int, header_bytes: int
) -> None:
    def by_use() -> dict[str, Any]:
        memory = broker.http().get("/nodes/warren@test/memory").json["memory"]
        assert isinstance(memory, dict)
        return memory

    before, grown = by_use(), rss_bytes(broker.process.pid)
    hold(broker, body_bytes, header_bytes)
    counted = 0

    def settled() -> bool:
        nonlocal counted
        last, counted = counted, by_use()[use] - before[use]
        return counted == last and counted > TOTAL_BYTES // 2

    until(settled, within_s=10, every_s=0.5)
    grown = rss_bytes(broker.process.pid) - grown
    assert abs(grown - counted) < 0.1 * grown + OTHER_BYTES, f"{counted >> 20} MiB counted, {grown >> 20} held"


@pytest.mark.parametrize("delivery_mode", [1, 2])
@pytest.mark.parametrize("held", ["ready", "unacknowledged", "requeued"])
@pytest.mark.parametrize(("body_bytes", "header_bytes"), [(1 << 20, 0), (0, 60_000), (1000, 0)])
def test_the_memory_of_a_backlog_is_limited_in_bytes(
    tmp_path: Path, body_bytes: int, header_bytes: int, held: str, delivery_mode: int
) -> None:
    process = BrokerProcess(tmp_path)
    process.configure(f"warren.message_memory = {LIMIT_BYTES}")
    with process as broker:
        channel = broker.connect().channel()
        channel.declare("q", durable=True)
        consumer = broker.connect().channel()
        before = rss_bytes(broker.process.pid)
        if held != "ready":
            consumer.consume("q")
        highest = 0
        for _ in range(BACKLOG_BYTES // TOTAL_BYTES):
            publish(channel, body_bytes, header_bytes, delivery_mode=delivery_mode)
            if held != "ready":
                consumer.deliveries(TOTAL_BYTES // (body_bytes + header_bytes))
            highest = max(highest, rss_bytes(broker.process.pid) - before)
        if held == "requeued":
            consumer.client.close()
            highest = max(highest, rss_bytes(broker.process.pid) - before)
        assert highest <= LIMIT_BYTES + BESIDE_BYTES, f"{highest >> 20} MiB"
