"""No step of serving AMQP holds the loop: what comes with one read, and what one turn of the loop runs.

Steps are measured in processor time, so that it does not matter what else the machine does.
"""

import shutil
from pathlib import Path

import pytest

from tools.bench.loads import LOADS, Load

from .broker import MeasuredPeer, StepMeter, StoredPeer, Traffic

MANY = 100_000
FEW = 10_000  # of the loads whose messages cost most, behind M
LOAD_BYTES = 128 << 20  # of bodies in all


def test_a_transaction_of_many(peer: MeasuredPeer, step_meter: StepMeter) -> None:
    channel = peer.connect().channel()
    channel.declare("q")
    channel.transact()
    for _ in range(5000):
        channel.publish("", "q", b"x")
    step_meter.begin()
    channel.commit()
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
