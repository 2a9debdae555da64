"""A consumer that raises loses no message, neither its own nor those of the consumers beside it."""

from __future__ import annotations

import pytest

from tests.support.clock import FakeClock
from tests.support.queues import Delivery, Taker, enqueue, journal_of, message, new_queue
from tests.support.session import SureJournal, connected, new_node
from warren.broker.core.jobs.scheduler import RETRY_MS
from warren.broker.core.messages.message import Message
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.route_target import RouteTarget
from warren.broker.core.queues.traffic_log import Origin
from warren.broker.core.vhost.tracer import Tracer


class Failing(Taker):
    """A consumer with a bug in its first delivery."""

    failures = 1
    forgotten: list[Message]

    def deliver(self, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("a bug")
        super().deliver(messages, position, step, redelivered)

    def failed(self, messages: list[Message]) -> None:
        self.forgotten = messages


def pumped(queue: Queue) -> None:
    """Pump the queue, which fails, and pump it again after the retry."""
    queue.host.pump()
    assert isinstance(queue.host.clock, FakeClock)
    queue.host.clock.advance(RETRY_MS)


@pytest.mark.parametrize("shared", [False, True], ids=["outputs of their own", "one output"])
@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("place", range(3))
def test_what_was_not_delivered_is_delivered_later_in_order(place: int, no_ack: bool, shared: bool) -> None:
    queue = new_queue()
    log: list[Delivery] = []
    for number in range(3):
        kind = Failing if number == place else Taker
        consumer = kind(str(number), queue, log, no_ack, 0, 100)
        consumer.output = log if shared else consumer
        queue.add_consumer(consumer)
    stored = [message(body_bytes=10 + number) for number in range(10)]
    enqueue(stored, queue)
    pumped(queue)
    assert sorted(position for _, position, _, _ in log) == list(range(1, 11))
    assert all(each is stored[position - 1] for _, position, each, _ in log)
    assert queue.ready == 0 and queue.unacked == (0 if no_ack else 10)
    assert queue.unacked_bytes == (0 if no_ack else sum(range(10, 20))) and queue.delivered_bytes == sum(range(10, 20))
    assert len(journal_of(queue).live) == (0 if no_ack else 10)


def test_a_requeued_message_stays_in_the_queue_too() -> None:
    queue = new_queue()
    log: list[Delivery] = []
    enqueue([message()], queue)
    got = queue.get(False)
    assert got is not None
    failing = Failing("failing", queue, log, False, 0, 100)
    queue.add_consumer(failing)
    queue.requeue(got[0], got[1])
    pumped(queue)
    assert [position for _, position, _, _ in log] == [1] and failing.forgotten == [got[1]]
    assert (queue.ready, queue.unacked) == (0, 1)


class FailingTracer(Tracer):
    """A tracer with a bug, which is noticed when the deliveries are in the output and recorded as unsettled."""

    failing = True

    def published(
        self, origin: Origin, message: Message, keys: tuple[str, ...], queues: tuple[RouteTarget, ...]
    ) -> None: ...

    def delivered(self, origin: Origin, message: Message, queue: str, redelivered: bool) -> None:
        if self.failing:
            raise RuntimeError("a bug")


def test_the_connection_of_a_client_whose_deliveries_fail_is_closed_and_others_get_them() -> None:
    node = new_node(SureJournal())
    vhost = node.vhosts["/"]
    client, other = connected(node), connected(node)
    channel = client.channel()
    channel.declare("queue", durable=True)
    channel.consume("queue")
    tracer = FailingTracer()
    vhost.add_tracer(tracer)
    other.channel().fill("queue", b"1", b"2", delivery_mode=2)
    tracer.failing = False
    assert isinstance(node.clock, FakeClock)
    node.clock.advance(0)
    client.expect_close(541)
    queue = vhost.queues["queue"]
    assert (queue.ready, queue.unacked) == (2, 0)
    node.clock.advance(RETRY_MS)
    got = other.channel().drain("queue")
    assert got == [b"1", b"2"] and queue.delivering.deliver == 0
