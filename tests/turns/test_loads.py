"""No step of serving AMQP holds the loop: what comes with one read, and what one turn of the loop runs.

Steps are measured in processor time, so that it does not matter what else the machine does.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pamqp.commands import Queue

from tests.support.in_process import FakeSocket, InProcessPeer

from .meter import LIMIT_MS

MESSAGES = 5000
MANY = 100_000


class Meter:
    """`longest_s` is the longest step since `begin`."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    def measured(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def measure(*arguments: Any) -> Any:
            begun_s = time.thread_time()
            try:
                return step(*arguments)
            finally:
                self.longest_s = max(self.longest_s, time.thread_time() - begun_s)

        return measure

    def begin(self) -> None:
        self.longest_s = 0.0

    def check(self) -> None:
        assert self.longest_s * 1000 <= LIMIT_MS


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    made = Meter()
    monkeypatch.setattr(FakeSocket, "feed", made.measured(FakeSocket.feed))
    return made


@pytest.fixture
def broker(meter: Meter) -> Iterator[InProcessPeer]:
    peer = InProcessPeer()
    call_soon = peer.loop.call_soon
    peer.loop.call_soon = lambda callback, *arguments: call_soon(meter.measured(callback), *arguments)  # type: ignore[method-assign]
    yield peer
    peer.close()


@pytest.mark.parametrize("size", [16, 1024, 65_536])
@pytest.mark.parametrize("confirms", [False, True])
def test_publishes_and_deliveries(broker: InProcessPeer, meter: Meter, size: int, confirms: bool) -> None:
    channel = broker.connect().channel()
    consumer = broker.connect().channel()
    channel.declare("q")
    if confirms:
        channel.confirm()
    consumer.consume("q", no_ack=True)
    meter.begin()
    for _ in range(MESSAGES * 16 // max(size // 64, 16)):
        channel.publish("", "q", b"x" * size)
    broker.settle()
    meter.check()


def test_an_acknowledgement_of_many(broker: InProcessPeer, meter: Meter) -> None:
    channel = broker.connect().channel()
    channel.declare("q")
    for _ in range(20_000):
        channel.publish("", "q", b"x")
    channel.consume("q")
    last = channel.deliveries(20_000)[-1]
    meter.begin()
    channel.ack(last.method.delivery_tag, multiple=True)
    broker.settle()
    meter.check()


def test_a_transaction_of_many(broker: InProcessPeer, meter: Meter) -> None:
    channel = broker.connect().channel()
    channel.declare("q")
    channel.transact()
    for _ in range(5000):
        channel.publish("", "q", b"x")
    meter.begin()
    channel.commit()
    meter.check()


def test_a_fanout_to_many_queues(broker: InProcessPeer, meter: Meter) -> None:
    channel = broker.connect().channel()
    for number in range(100):
        channel.declare(f"q{number}")
        channel.bind(f"q{number}", "amq.fanout")
    meter.begin()
    for _ in range(MESSAGES // 10):
        channel.publish("amq.fanout", "", b"x" * 100)
        broker.settle()
    meter.check()


def test_a_purge_of_a_long_queue(broker: InProcessPeer, meter: Meter) -> None:
    channel = broker.connect().channel()
    channel.declare("q")
    for _ in range(MANY):
        channel.publish("", "q", b"x")
    broker.settle()
    meter.begin()
    channel.call(Queue.Purge, queue="q")
    meter.check()


def test_the_end_of_a_long_queue(broker: InProcessPeer, meter: Meter) -> None:
    channel = broker.connect().channel()
    channel.declare("q")
    for _ in range(MANY):
        channel.publish("", "q", b"x")
    broker.settle()
    meter.begin()
    channel.delete("q")
    meter.check()
