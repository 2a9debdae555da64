"""Counters of a channel, a queue, an exchange, a virtual host and the node while clients work."""

from collections.abc import Iterator

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel
from tests.support.in_process import InProcessPeer
from tests.support.session import statistics_of
from warren.broker.amqp.errors import ConnectionForced
from warren.broker.core.counters.statistics import DeliveryCounters, PublishCounters
from warren.broker.core.metadata.queue_types import CLASSIC, QUORUM


class Scenario:
    """A broker with one client, and the counters of its channel, the queue `q` and the virtual host."""

    def __init__(self) -> None:
        self.broker = InProcessPeer()
        self.client = self.broker.connect()
        self.ch: Channel = self.client.channel()
        self.vhost = self.broker.node.vhosts["/"]

    def channel(self) -> tuple[PublishCounters, DeliveryCounters]:
        (connection,) = self.broker.server.connections.values()
        channel = connection.channels[1]
        return channel.publishing, channel.delivering

    def delivering(self) -> list[DeliveryCounters]:
        """Return the delivery counters, which agree for the only channel, queue and virtual host and for the node."""
        self.broker.settle()
        node = statistics_of(self.broker.node)
        return [
            self.channel()[1],
            self.vhost.queues["q"].delivering,
            self.vhost.statistics.delivered(),
            node.delivering[CLASSIC],
        ]

    def publishing(self) -> list[PublishCounters]:
        self.broker.settle()
        return [self.channel()[0], self.vhost.statistics.publishing, statistics_of(self.broker.node).publishing]


@pytest.fixture
def scenario() -> Iterator[Scenario]:
    scenario = Scenario()
    scenario.ch.declare("q")
    yield scenario
    scenario.broker.close()


def test_what_is_published_counts_for_channel_exchange_queue_and_vhost(scenario: Scenario) -> None:
    for _ in range(5):
        scenario.ch.publish("", "q", b"body")
    assert [each.publish for each in scenario.publishing()] == [5, 5, 5]
    assert scenario.vhost.queues["q"].published == 5
    default = scenario.vhost.exchanges[""]
    assert (default.publish_in, default.publish_out) == (5, 5)
    assert scenario.vhost.statistics.routed == 5


def test_an_exchange_counts_each_queue_that_a_message_goes_to(scenario: Scenario) -> None:
    scenario.ch.declare("r")
    for queue in ("q", "r"):
        scenario.ch.bind(queue, "amq.fanout")
    for _ in range(3):
        scenario.ch.publish("amq.fanout", "", b"body")
    scenario.broker.settle()
    fanout = scenario.vhost.exchanges["amq.fanout"]
    assert (fanout.publish_in, fanout.publish_out, scenario.vhost.statistics.routed) == (3, 6, 6)


def test_what_goes_nowhere_is_returned_or_dropped(scenario: Scenario) -> None:
    scenario.ch.publish("", "nowhere", b"body")
    for _ in range(2):
        scenario.ch.publish("", "nowhere", b"body", mandatory=True)
    for each in scenario.publishing():
        assert (each.publish, each.drop_unroutable, each.return_unroutable) == (3, 1, 2)


def test_confirms_count_but_not_refusals(scenario: Scenario) -> None:
    scenario.ch.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    scenario.ch.confirm()
    for _ in range(3):
        scenario.ch.publish("", "full", b"body")
    assert [(each.publish, each.confirm) for each in scenario.publishing()] == [(3, 1)] * 3
    assert scenario.vhost.statistics.received_confirm == 3


def test_a_rolled_back_publish_does_not_count(scenario: Scenario) -> None:
    scenario.ch.transact()
    scenario.ch.publish("", "q", b"body")
    scenario.ch.rollback()
    scenario.ch.publish("", "q", b"body")
    scenario.ch.commit()
    assert [each.publish for each in scenario.publishing()] == [1, 1, 1]
    assert scenario.vhost.exchanges[""].publish_out == 1


@pytest.mark.parametrize("no_ack", [False, True])
def test_deliveries_and_acknowledgements_count(scenario: Scenario, no_ack: bool) -> None:
    for _ in range(4):
        scenario.ch.publish("", "q", b"body")
    scenario.ch.consume("q", no_ack=no_ack)
    for _ in range(4):
        delivery = scenario.ch.delivery()
    queue = scenario.vhost.queues["q"]
    assert (queue.unacked, queue.unacked_bytes) == ((0, 0) if no_ack else (4, 16))
    if not no_ack:
        scenario.ch.ack(delivery.tag, multiple=True)
    for each in scenario.delivering():
        assert (each.deliver, each.deliver_no_ack, each.ack) == ((0, 4, 0) if no_ack else (4, 0, 4))
        assert each.deliver_get == 4
    assert not queue.unacked and not queue.unacked_bytes


def test_acknowledgements_of_several_queues_count_for_each(scenario: Scenario) -> None:
    scenario.ch.declare("r")
    for queue in ("q", "r", "q"):
        scenario.ch.publish("", queue, b"body")
        assert scenario.ch.get(queue, no_ack=False) is not None
    scenario.ch.ack(0, multiple=True)
    scenario.broker.settle()
    assert [scenario.vhost.queues[name].delivering.ack for name in ("q", "r")] == [2, 1]
    assert [scenario.vhost.queues[name].unacked_bytes for name in ("q", "r")] == [0, 0]
    assert scenario.vhost.statistics.delivered().ack == 3


def test_what_is_acknowledged_before_an_unknown_tag_counts(scenario: Scenario) -> None:
    for _ in range(2):
        scenario.ch.publish("", "q", b"body")
        assert scenario.ch.get("q", no_ack=False) is not None
    scenario.client.raw(b"".join(ack_frame(tag) for tag in (1, 7)))
    scenario.ch.expect_close(406)
    scenario.broker.settle()
    queue = scenario.vhost.queues["q"]
    assert (queue.delivering.ack, queue.unacked, queue.ready) == (1, 0, 1)


def ack_frame(tag: int) -> bytes:
    return b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50" + tag.to_bytes(8, "big") + b"\x00\xce"


def test_gets_count_as_gets(scenario: Scenario) -> None:
    for _ in range(2):
        scenario.ch.publish("", "q", b"body")
    assert scenario.ch.get("q", no_ack=True) is not None
    got = scenario.ch.get("q", no_ack=False)
    assert got is not None
    scenario.ch.reject(got.tag, requeue=True)
    assert scenario.ch.get("q", no_ack=False) is not None
    assert scenario.ch.get("q", no_ack=True) is None
    for each in scenario.delivering():
        assert (each.get, each.get_no_ack, each.get_empty, each.redeliver) == (2, 1, 1, 1)
        assert each.deliver_get == 3


def test_quorum_queues_count_apart(scenario: Scenario) -> None:
    scenario.ch.declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    scenario.ch.publish("", "quorum", b"body")
    assert scenario.ch.get("quorum", no_ack=True) is not None
    statistics = statistics_of(scenario.broker.node)
    assert (statistics.delivering[QUORUM].get_no_ack, statistics.delivering[CLASSIC].get_no_ack) == (1, 0)


def test_sizes_of_bodies_count_whole(scenario: Scenario) -> None:
    for length in (10, 10, 2_000, 10, 200_000, 0):
        scenario.ch.publish("", "q", b"x" * length)
    scenario.broker.settle()
    sizes = statistics_of(scenario.broker.node).sizes
    assert sizes.counts() == [4, 0, 1, 0, 1, 0, 0, 0, 0]
    assert sizes.total_bytes == 202_030


def test_sizes_count_for_publishes_that_differ_in_their_headers(scenario: Scenario) -> None:
    for number, length in enumerate((10, 5_000, 10)):
        scenario.ch.publish("", "q", b"x" * length, {"message_id": str(number)})
    scenario.broker.settle()
    sizes = statistics_of(scenario.broker.node).sizes
    assert (sizes.counts()[:3], sizes.total_bytes) == ([2, 0, 1], 5_020)


@pytest.mark.parametrize("strategy", ["disabled", "at_most_once"])
def test_dead_letters_count_by_reason(scenario: Scenario, strategy: str) -> None:
    arguments: dict[str, object] = {"x-max-length": 1, "x-message-ttl": 1000}
    if strategy == "at_most_once":
        arguments["x-dead-letter-exchange"] = "amq.fanout"
    scenario.ch.declare("dead-lettering", arguments=arguments)
    for _ in range(3):
        scenario.ch.publish("", "dead-lettering", b"body")
    got = scenario.ch.get("dead-lettering", no_ack=False)
    assert got is not None
    scenario.ch.reject(got.tag, requeue=False)
    scenario.ch.publish("", "dead-lettering", b"body")
    scenario.broker.wait(2000)
    assert scenario.vhost.statistics.dead_lettered == {
        (CLASSIC, strategy, "maxlen"): 2,
        (CLASSIC, strategy, "rejected"): 1,
        (CLASSIC, strategy, "expired"): 1,
    }


def test_persistent_messages_are_known_until_they_are_done_with(scenario: Scenario) -> None:
    scenario.ch.declare("durable", durable=True)
    for mode in (1, 2, 2, 2):
        scenario.ch.publish("", "durable", b"body", {"delivery_mode": mode})
    scenario.broker.settle()
    kept = scenario.vhost.queues["durable"].journal
    assert (kept.count, kept.body_bytes) == (3, 12)
    for _ in range(2):
        got = scenario.ch.get("durable", no_ack=False)
    assert got is not None and kept.count == 3
    scenario.ch.ack(got.tag)
    scenario.broker.settle()
    assert (kept.count, kept.body_bytes) == (2, 8)
    scenario.ch.call(Basic.Recover, requeue=True)
    scenario.ch.call(Queue.Purge, queue="durable")
    assert (kept.count, kept.body_bytes) == (0, 0)


def test_counters_outlast_channels_and_queues(scenario: Scenario) -> None:
    scenario.ch.publish("", "q", b"body")
    assert scenario.ch.get("q", no_ack=True) is not None
    scenario.ch.call(Queue.Delete, queue="q")
    scenario.ch.close()
    scenario.broker.settle()
    statistics = statistics_of(scenario.broker.node)
    assert (statistics.publishing.publish, statistics.delivered().get_no_ack) == (1, 1)


def test_counters_outlast_virtual_hosts(scenario: Scenario) -> None:
    scenario.ch.publish("", "q", b"body")
    scenario.broker.settle()
    for connection in list(scenario.broker.server.connections.values()):
        connection.close(ConnectionForced("enough"))
    scenario.broker.node.delete_vhost("/")
    assert statistics_of(scenario.broker.node).publishing.publish == 1


def test_what_comes_and_goes_is_churn(scenario: Scenario) -> None:
    scenario.ch.declare("q")
    scenario.ch.call(Queue.Delete, queue="q")
    scenario.client.channel().close()
    scenario.broker.settle()
    churn = scenario.broker.node.churn
    assert (churn.queue_declared, churn.queue_created, churn.queue_deleted) == (2, 1, 1)
    assert (churn.channel_created, churn.channel_closed) == (2, 1)
    assert (churn.connection_created, churn.connection_closed) == (1, 0)
    scenario.broker.close_connection(scenario.client, "enough")
    assert (churn.connection_closed, churn.channel_closed) == (1, 2)


def test_logins_are_attempts_that_succeed_or_fail(scenario: Scenario) -> None:
    client = scenario.broker.dial()
    client.start()
    client.login("PLAIN", "\0guest\0wrong", {"authentication_failure_close": True})
    client.expect_close(403)
    attempts = scenario.broker.node.attempts["amqp091"]
    assert (attempts.succeeded, attempts.failed) == (1, 1)
