"""What is counted while clients work, of a channel, a queue, an exchange, a virtual host and the node."""

from collections.abc import Iterator

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel
from tests.support.in_process import InProcessPeer
from warren.broker.amqp.errors import ConnectionForced
from warren.broker.core.counters.statistics import DeliveryCounters, PublishCounters
from warren.broker.core.metadata.queue_types import CLASSIC, QUORUM


class House:
    """A broker with one client, and what its channel, the queue `q` and the virtual host have counted."""

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
        """Of the channel, the queue, the virtual host and the node: they agree where there is one of each."""
        self.broker.settle()
        node = self.broker.node.statistics()
        return [
            self.channel()[1],
            self.vhost.queues["q"].delivering,
            self.vhost.statistics.delivered(),
            node.delivering[CLASSIC],
        ]

    def publishing(self) -> list[PublishCounters]:
        self.broker.settle()
        return [self.channel()[0], self.vhost.statistics.publishing, self.broker.node.statistics().publishing]


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    house.ch.declare("q")
    yield house
    house.broker.close()


def test_what_is_published_counts_for_channel_exchange_queue_and_vhost(house: House) -> None:
    for _ in range(5):
        house.ch.publish("", "q", b"body")
    assert [each.publish for each in house.publishing()] == [5, 5, 5]
    assert house.vhost.queues["q"].published == 5
    default = house.vhost.exchanges[""]
    assert (default.publish_in, default.publish_out) == (5, 5)
    assert house.vhost.statistics.routed == 5


def test_an_exchange_counts_each_queue_that_a_message_goes_to(house: House) -> None:
    house.ch.declare("r")
    for queue in ("q", "r"):
        house.ch.bind(queue, "amq.fanout")
    for _ in range(3):
        house.ch.publish("amq.fanout", "", b"body")
    house.broker.settle()
    fanout = house.vhost.exchanges["amq.fanout"]
    assert (fanout.publish_in, fanout.publish_out, house.vhost.statistics.routed) == (3, 6, 6)


def test_what_goes_nowhere_is_returned_or_dropped(house: House) -> None:
    house.ch.publish("", "nowhere", b"body")
    for _ in range(2):
        house.ch.publish("", "nowhere", b"body", mandatory=True)
    for each in house.publishing():
        assert (each.publish, each.drop_unroutable, each.return_unroutable) == (3, 1, 2)


def test_confirms_count_but_not_refusals(house: House) -> None:
    house.ch.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    house.ch.confirm()
    for _ in range(3):
        house.ch.publish("", "full", b"body")
    assert [(each.publish, each.confirm) for each in house.publishing()] == [(3, 1)] * 3
    assert house.vhost.statistics.received_confirm == 3


def test_a_rolled_back_publish_does_not_count(house: House) -> None:
    house.ch.transact()
    house.ch.publish("", "q", b"body")
    house.ch.rollback()
    house.ch.publish("", "q", b"body")
    house.ch.commit()
    assert [each.publish for each in house.publishing()] == [1, 1, 1]
    assert house.vhost.exchanges[""].publish_out == 1


@pytest.mark.parametrize("no_ack", [False, True])
def test_deliveries_and_acknowledgements_count(house: House, no_ack: bool) -> None:
    for _ in range(4):
        house.ch.publish("", "q", b"body")
    house.ch.consume("q", no_ack=no_ack)
    for _ in range(4):
        delivery = house.ch.delivery()
    queue = house.vhost.queues["q"]
    assert (queue.unacked, queue.unacked_bytes) == ((0, 0) if no_ack else (4, 16))
    if not no_ack:
        house.ch.ack(delivery.tag, multiple=True)
    for each in house.delivering():
        assert (each.deliver, each.deliver_no_ack, each.ack) == ((0, 4, 0) if no_ack else (4, 0, 4))
        assert each.deliver_get == 4
    assert not queue.unacked and not queue.unacked_bytes


def test_acknowledgements_of_several_queues_count_for_each(house: House) -> None:
    house.ch.declare("r")
    for queue in ("q", "r", "q"):
        house.ch.publish("", queue, b"body")
        assert house.ch.get(queue, no_ack=False) is not None
    house.ch.ack(0, multiple=True)
    house.broker.settle()
    assert [house.vhost.queues[name].delivering.ack for name in ("q", "r")] == [2, 1]
    assert [house.vhost.queues[name].unacked_bytes for name in ("q", "r")] == [0, 0]
    assert house.vhost.statistics.delivered().ack == 3


def test_what_is_acknowledged_before_an_unknown_tag_counts(house: House) -> None:
    for _ in range(2):
        house.ch.publish("", "q", b"body")
        assert house.ch.get("q", no_ack=False) is not None
    house.client.raw(b"".join(ack_frame(tag) for tag in (1, 7)))
    house.ch.expect_close(406)
    house.broker.settle()
    queue = house.vhost.queues["q"]
    assert (queue.delivering.ack, queue.unacked, queue.ready) == (1, 0, 1)


def ack_frame(tag: int) -> bytes:
    return b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50" + tag.to_bytes(8, "big") + b"\x00\xce"


def test_gets_count_as_gets(house: House) -> None:
    for _ in range(2):
        house.ch.publish("", "q", b"body")
    assert house.ch.get("q", no_ack=True) is not None
    got = house.ch.get("q", no_ack=False)
    assert got is not None
    house.ch.reject(got.tag, requeue=True)
    assert house.ch.get("q", no_ack=False) is not None
    assert house.ch.get("q", no_ack=True) is None
    for each in house.delivering():
        assert (each.get, each.get_no_ack, each.get_empty, each.redeliver) == (2, 1, 1, 1)
        assert each.deliver_get == 3


def test_quorum_queues_count_apart(house: House) -> None:
    house.ch.declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    house.ch.publish("", "quorum", b"body")
    assert house.ch.get("quorum", no_ack=True) is not None
    statistics = house.broker.node.statistics()
    assert (statistics.delivering[QUORUM].get_no_ack, statistics.delivering[CLASSIC].get_no_ack) == (1, 0)


def test_sizes_of_bodies_count_whole(house: House) -> None:
    for length in (10, 10, 2_000, 10, 200_000, 0):
        house.ch.publish("", "q", b"x" * length)
    house.broker.settle()
    sizes = house.broker.node.statistics().sizes
    assert sizes.counts() == [4, 0, 1, 0, 1, 0, 0, 0, 0]
    assert sizes.total_bytes == 202_030


def test_sizes_count_for_publishes_that_differ_in_their_headers(house: House) -> None:
    for number, length in enumerate((10, 5_000, 10)):
        house.ch.publish("", "q", b"x" * length, {"message_id": str(number)})
    house.broker.settle()
    sizes = house.broker.node.statistics().sizes
    assert (sizes.counts()[:3], sizes.total_bytes) == ([2, 0, 1], 5_020)


@pytest.mark.parametrize("strategy", ["disabled", "at_most_once"])
def test_dead_letters_count_by_reason(house: House, strategy: str) -> None:
    arguments: dict[str, object] = {"x-max-length": 1, "x-message-ttl": 1000}
    if strategy == "at_most_once":
        arguments["x-dead-letter-exchange"] = "amq.fanout"
    house.ch.declare("dying", arguments=arguments)
    for _ in range(3):
        house.ch.publish("", "dying", b"body")
    got = house.ch.get("dying", no_ack=False)
    assert got is not None
    house.ch.reject(got.tag, requeue=False)
    house.ch.publish("", "dying", b"body")
    house.broker.wait(2000)
    assert house.vhost.statistics.dead_lettered == {
        (CLASSIC, strategy, "maxlen"): 2,
        (CLASSIC, strategy, "rejected"): 1,
        (CLASSIC, strategy, "expired"): 1,
    }


def test_persistent_messages_are_known_until_they_are_done_with(house: House) -> None:
    house.ch.declare("durable", durable=True)
    for mode in (1, 2, 2, 2):
        house.ch.publish("", "durable", b"body", {"delivery_mode": mode})
    house.broker.settle()
    kept = house.vhost.queues["durable"].journal
    assert (kept.count, kept.body_bytes) == (3, 12)
    for _ in range(2):
        got = house.ch.get("durable", no_ack=False)
    assert got is not None and kept.count == 3
    house.ch.ack(got.tag)
    house.broker.settle()
    assert (kept.count, kept.body_bytes) == (2, 8)
    house.ch.call(Basic.Recover, requeue=True)
    house.ch.call(Queue.Purge, queue="durable")
    assert (kept.count, kept.body_bytes) == (0, 0)


def test_counters_outlast_channels_and_queues(house: House) -> None:
    house.ch.publish("", "q", b"body")
    assert house.ch.get("q", no_ack=True) is not None
    house.ch.call(Queue.Delete, queue="q")
    house.ch.close()
    house.broker.settle()
    statistics = house.broker.node.statistics()
    assert (statistics.publishing.publish, statistics.delivered().get_no_ack) == (1, 1)


def test_counters_outlast_virtual_hosts(house: House) -> None:
    house.ch.publish("", "q", b"body")
    house.broker.settle()
    for connection in list(house.broker.server.connections.values()):
        connection.close(ConnectionForced("enough"))
    house.broker.node.delete_vhost("/")
    assert house.broker.node.statistics().publishing.publish == 1


def test_what_comes_and_goes_is_churn(house: House) -> None:
    house.ch.declare("q")
    house.ch.call(Queue.Delete, queue="q")
    house.client.channel().close()
    house.broker.settle()
    churn = house.broker.node.churn
    assert (churn.queue_declared, churn.queue_created, churn.queue_deleted) == (2, 1, 1)
    assert (churn.channel_created, churn.channel_closed) == (2, 1)
    assert (churn.connection_created, churn.connection_closed) == (1, 0)
    house.broker.close_connection(house.client, "enough")
    assert (churn.connection_closed, churn.channel_closed) == (1, 2)


def test_logins_are_attempts_that_succeed_or_fail(house: House) -> None:
    client = house.broker.dial()
    client.start()
    client.login("PLAIN", "\0guest\0wrong", {"authentication_failure_close": True})
    client.expect_close(403)
    attempts = house.broker.node.attempts["amqp091"]
    assert (attempts.succeeded, attempts.failed) == (1, 1)
