"""Consumers that have room again and are woken in turns, as they are very many: no message is lost meanwhile."""

from typing import Any

import pytest
from pamqp.commands import Basic
from pytest import MonkeyPatch

from tests.support import codec
from tests.support.clock import fake_clock
from tests.support.session import connected, new_node, pipe_of
from warren.broker.core.queues.per_message_enqueue import HAND_OVER_MS
from warren.broker.session.channel import Channel
from warren.broker.session.connection import WOKEN as WOKEN_BY_A_FLUSH

MANY = 1_000
LIMITS: dict[str, dict[str, Any]] = {
    "length limit": {"x-max-length": 0},
    "rejected publishes": {"x-max-length": 1, "x-overflow": "reject-publish"},
    "time to live": {"x-message-ttl": 0},
    "single active": {"x-max-length": 0, "x-single-active-consumer": True},
}


class Waiting:
    """Very many queues with limits, each with a consumer on one channel, where none has room for a message."""

    def __init__(self, limit: str, count: int = MANY) -> None:
        self.node = new_node()
        self.ch = connected(self.node).channel(1)
        self.publisher = connected(self.node).channel(1)
        self.pipe = pipe_of(self.ch.client)
        self.session = self.pipe.connection.channels[1]
        vhost = self.node.vhosts["/"]
        for number in range(count):
            self.ch.declare(f"q{number}", arguments=LIMITS[limit])
            self.ch.send(Basic.Consume, queue=f"q{number}", consumer_tag=str(number), nowait=True)
        self.sent = self.lost = 0  # messages to these queues
        self.queues = [vhost.queues[f"q{number}"] for number in range(count)]

    def fill(self) -> None:
        """Take all messages that the consumers may have, so that each waits after the next message for it."""
        self.ch.declare("full")
        self.publish("full", self.session.shared_prefetch.limit)
        self.ch.consume("full")
        self.read()
        self.publish_to_each()
        assert all(queue.consumers.first().waiting for queue in self.queues)
        self.lost = self.count_lost()

    def publish(self, queue: str, count: int = 1) -> None:
        frame = codec.method_frame(1, Basic.Publish, {"routing_key": queue}) + codec.header_frame(1, 0)
        self.publisher.client.raw(frame * count)

    def publish_to_each(self) -> None:
        self.sent += len(self.queues)
        for queue in self.queues:
            self.publish(queue.name)

    def read(self) -> None:
        """Read all that is sent within some turns of the loop."""
        clock = fake_clock(self.node.clock)
        for _ in range(MANY // 50):
            while self.pipe.link.asked:
                self.pipe.link.asked = False
                self.pipe.connection.take_output()
                self.pipe.connection.flushed()
            clock.advance(0)

    def count_lost(self) -> int:
        """Return the number of messages that were dropped, have expired or were refused."""
        taken = sum(queue.published - queue.dropped - queue.expired for queue in self.queues)
        return self.sent - taken

    def check(self) -> None:
        """Check that another message for each queue is delivered."""
        self.publish_to_each()
        assert self.count_lost() == self.lost
        self.read()
        assert self.count_lost() == self.lost and not any(queue.ready for queue in self.queues)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("change", ["acknowledgement", "higher limit", "no limit"])
def test_no_message_is_lost_while_consumers_under_a_shared_limit_are_woken(limit: str, change: str) -> None:
    waiting = Waiting(limit)
    waiting.ch.qos(2 * MANY, globally=True)
    waiting.fill()
    if change == "acknowledgement":
        waiting.ch.ack(2 * MANY, multiple=True)
    else:
        waiting.ch.qos(4 * MANY if change == "higher limit" else 0, globally=True)
    assert sum(queue.consumers.first().waiting for queue in waiting.queues) >= MANY // 2
    waiting.check()


@pytest.mark.parametrize("limit", LIMITS)
def test_no_message_is_lost_while_deliveries_are_counted_for_a_shared_limit(limit: str) -> None:
    """Deliveries of a quorum queue do not count in the end."""
    waiting = Waiting(limit, count=1)
    waiting.ch.declare("full", durable=True, arguments={"x-queue-type": "quorum"})
    waiting.ch.consume("full")
    waiting.publish("full", 10 * MANY)
    waiting.read()
    assert len(waiting.session.unacked) == 10 * MANY
    waiting.node.scheduler._left = 0  # other jobs had this turn
    waiting.ch.send(Basic.Qos, prefetch_count=2, global_=True)
    for _ in range(2):
        waiting.publish_to_each()
    shared = waiting.session.shared_prefetch
    assert shared.unacked > 2 and waiting.queues[0].consumers.first().waiting and not waiting.count_lost()
    waiting.read()
    assert shared.unacked == 2 and not waiting.count_lost()


@pytest.mark.parametrize("limit", LIMITS)
def test_no_message_is_lost_while_consumers_of_a_client_that_reads_again_are_woken(limit: str) -> None:
    waiting = Waiting(limit)
    connection = waiting.pipe.connection
    waiting.read()
    connection.output.writable = False
    waiting.publish_to_each()
    assert len(connection.stalled) == MANY
    connection.output.writable = True
    waiting.queues = waiting.queues[WOKEN_BY_A_FLUSH:]
    waiting.sent = len(waiting.queues)
    waiting.lost = waiting.count_lost()
    connection.flushed()
    assert all(queue.consumers.first().waiting for queue in waiting.queues)
    waiting.check()


def test_messages_above_a_length_limit_are_dropped_after_a_while_if_other_consumers_take_the_room() -> None:
    waiting = Waiting("length limit")
    waiting.ch.qos(1, globally=True)
    waiting.fill()
    waiting.ch.ack(1)
    other, last = waiting.queues[MANY // 2], waiting.queues[-1]
    for queue in (other, last):
        waiting.publish(queue.name)
    waiting.read()
    assert (other.dropped, last.dropped, last.ready) == (1, 1, 1)
    fake_clock(waiting.node.clock).advance(HAND_OVER_MS)
    assert (other.dropped, last.dropped, last.ready) == (1, 2, 0)


@pytest.mark.pure("replaces a constant and a method, which compiled callers do not look up")
@pytest.mark.parametrize("limit", ["length limit", "rejected publishes"])
def test_what_a_queue_takes_while_consumers_may_have_room_is_limited(monkeypatch: MonkeyPatch, limit: str) -> None:
    """A client can have its consumers count as such for as long as it likes."""
    monkeypatch.setattr("warren.broker.core.queues.queue.FAR", 50)
    monkeypatch.setattr(Channel, "still_freed", lambda channel: True)
    waiting = Waiting(limit, 1)
    waiting.session.note_freed()
    waiting.queues[0].consumers.first().waiting = True
    waiting.queues[0].consumers.put_off(waiting.queues[0].consumers.first())
    highest = 0
    for _ in range(300):
        waiting.publish("q0")
        highest = max(highest, waiting.queues[0].ready)
    assert 50 <= highest <= 52
