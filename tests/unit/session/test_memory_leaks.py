"""Memory leaks: objects that must be freed once nothing can use them."""

from collections.abc import Callable

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.support.amqp_client import Channel, Client
from tests.support.in_process import InProcessPeer, socket_of
from warren.broker.session.connection import Connection


@pytest.fixture
def broker() -> InProcessPeer:
    return InProcessPeer()


def connection_of(broker: InProcessPeer, client: Client) -> Connection:
    return broker.server.connections[socket_of(client).transport]


def test_a_refused_reply_consumer_leaves_no_reply_queue(broker: InProcessPeer) -> None:
    ch = broker.connect().channel()
    ch.send(Basic.Consume, queue="amq.rabbitmq.reply-to", no_ack=True, arguments={"x-priority": "high"})
    ch.expect_close(406)
    assert not broker.node.vhosts["/"].reply_queues


def test_a_connection_forgets_exclusive_queues_that_went_with_their_consumer(broker: InProcessPeer) -> None:
    client = broker.connect()
    ch = client.channel()
    for _ in range(3):
        queue = ch.declare(exclusive=True, auto_delete=True).queue
        ch.cancel(ch.consume(queue))
    assert not connection_of(broker, client).owned


def test_a_long_chain_of_auto_delete_exchanges_goes_at_once(broker: InProcessPeer) -> None:
    ch = broker.connect().channel()
    before = set(broker.node.vhosts["/"].exchanges)
    for number in range(500):
        ch.exchange(f"link-{number}", "fanout", auto_delete=True)
        if number:
            ch.call(Exchange.Bind, destination=f"link-{number}", source=f"link-{number - 1}")
    ch.declare("queue")
    ch.bind("queue", "link-499")
    ch.call(Queue.Delete, queue="queue")
    assert set(broker.node.vhosts["/"].exchanges) == before


def congest(broker: InProcessPeer, publisher: Client) -> Channel:
    """Fill a queue whose consumer takes nothing until its publisher is held; return the consumer's channel."""
    ch = broker.connect().channel()
    ch.declare("queue")
    ch.qos(1)
    ch.consume("queue")
    other = publisher.channel()
    for _ in range(9000):
        other.publish("", "queue")
    other.sync()
    assert connection_of(broker, publisher).publisher_throttle.queues
    return ch


def delete(ch: Channel) -> None:
    ch.call(Queue.Delete, queue="queue")


def purge(ch: Channel) -> None:
    ch.call(Queue.Purge, queue="queue")


@pytest.mark.parametrize("end", [delete, purge])
def test_a_held_publisher_is_free_when_its_queue_is_emptied_or_gone(
    broker: InProcessPeer, end: Callable[[Channel], None]
) -> None:
    publisher = broker.connect()
    ch = congest(broker, publisher)
    end(ch)
    assert not connection_of(broker, publisher).publisher_throttle.queues


def test_a_queue_forgets_a_held_publisher_that_has_gone(broker: InProcessPeer) -> None:
    publisher = broker.connect()
    congest(broker, publisher)
    publisher.vanish()
    assert not broker.node.vhosts["/"].queues["queue"].held_publishers.held
