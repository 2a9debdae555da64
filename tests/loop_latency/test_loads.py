"""No step of serving AMQP holds the loop: what comes with one read, and what one turn of the loop runs.

Steps are measured in processor time, so that it does not matter what else the machine does.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process import InProcessPeer
from tools.bench.loads import LOADS, Load

from .broker import MeasuredPeer, StepMeter, StoredPeer, Traffic

MESSAGES = 5000
MANY = 100_000
FEW = 10_000  # of the loads whose messages cost most, behind M
LOAD_BYTES = 128 << 20  # of bodies in all


@pytest.fixture
def broker(step_meter: StepMeter) -> Iterator[InProcessPeer]:
    peer = MeasuredPeer(step_meter)
    yield peer
    peer.close()


@pytest.mark.parametrize("size", [16, 1024, 65_536])
@pytest.mark.parametrize("confirms", [False, True])
def test_publishes_and_deliveries(broker: InProcessPeer, step_meter: StepMeter, size: int, confirms: bool) -> None:
    channel = broker.connect().channel()
    consumer = broker.connect().channel()
    channel.declare("q")
    if confirms:
        channel.confirm()
    consumer.consume("q", no_ack=True)
    step_meter.begin()
    for _ in range(MESSAGES * 16 // max(size // 64, 16)):
        channel.publish("", "q", b"x" * size)
    broker.settle()
    step_meter.check()


def test_a_transaction_of_many(broker: InProcessPeer, step_meter: StepMeter) -> None:
    channel = broker.connect().channel()
    channel.declare("q")
    channel.transact()
    for _ in range(5000):
        channel.publish("", "q", b"x")
    step_meter.begin()
    channel.commit()
    step_meter.check()


def test_a_fanout_to_many_queues(broker: InProcessPeer, step_meter: StepMeter) -> None:
    channel = broker.connect().channel()
    for number in range(100):
        channel.declare(f"q{number}")
        channel.bind(f"q{number}", "amq.fanout")
    step_meter.begin()
    for _ in range(MESSAGES // 10):
        channel.publish("amq.fanout", "", b"x" * 100)
        broker.settle()
    step_meter.check()


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.title)
def test_a_load_of_the_benchmark(step_meter: StepMeter, tmp_path: Path, load: Load) -> None:
    messages = min(MANY if load.letter <= "M" else FEW, LOAD_BYTES // load.body_bytes)
    for _ in step_meter.attempts():
        peer = StoredPeer(step_meter, tmp_path) if load.durable else MeasuredPeer(step_meter)
        traffic = Traffic(peer, load)
        step_meter.begin()
        traffic.run(messages)
        peer.close()
        shutil.rmtree(tmp_path, ignore_errors=True)
        assert not load.consumers or traffic.received >= traffic.published >= messages
