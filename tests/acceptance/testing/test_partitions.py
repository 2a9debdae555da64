"""Partitions of a broker for tests from its clients, as both notice them."""

import threading
import time
from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.adapters.utils.connection_workflow import AMQPConnectorStackTimeout

from tests.support.http import HTTPClient
from tests.support.polling import until
from warren.testing import Broker, VHost

from .clients import channel_of, connect, hears_nothing

pytestmark = pytest.mark.sockets


def api_of(broker: Broker) -> HTTPClient:
    return HTTPClient(broker.http_url.removeprefix("http://"), "/api")


def messages_of(vhost: VHost, queue: str) -> int:
    """The number of messages of a queue, of which no client is asked."""
    return int(api_of(vhost.broker).get(f"/queues/{vhost}/{queue}").json["messages"])


def publisher_of(vhost: VHost, name: str = "") -> BlockingChannel:
    """A channel without confirms, so that a publish does not wait, and a queue q."""
    channel = connect(vhost, name).channel()
    channel.queue_declare("q")
    return channel


def test_what_is_sent_arrives_after_the_partition_in_both_directions(broker: Broker, vhost: VHost) -> None:
    channel = publisher_of(vhost)
    received: list[bytes] = []
    channel.basic_consume("q", lambda *delivery: received.append(delivery[3]), auto_ack=True)
    other = publisher_of(vhost, "other")
    with broker.partition():
        channel.basic_publish("", "q", b"from the client")
        channel.connection.process_data_events(0.1)
        assert messages_of(vhost, "q") == 0 and received == []
    until(lambda: channel.connection.process_data_events(0.05) or received == [b"from the client"])
    with broker.partition("none*"):
        other.basic_publish("", "q", b"to the client")
        until(lambda: channel.connection.process_data_events(0.05) or len(received) == 2)


def test_only_connections_with_a_matching_name_are_cut_off_also_new_ones(broker: Broker, vhost: VHost) -> None:
    shop, stock = publisher_of(vhost, "shop-1"), publisher_of(vhost, "stock")
    with broker.partition("shop-*"):
        shop.basic_publish("", "q", b"x")
        stock.basic_publish("", "q", b"y")
        until(lambda: messages_of(vhost, "q") == 1)
        with pytest.raises(AMQPConnectorStackTimeout):
            connect(vhost, "shop-2", stack_timeout=0.2)
        connect(vhost, "stock-2").close()
    assert {stock.basic_get("q", auto_ack=True)[2], get_soon(stock)} == {b"x", b"y"}
    connect(vhost, "shop-2").close()


def get_soon(channel: BlockingChannel) -> bytes:
    found: list[bytes] = []
    until(lambda: found.append(channel.basic_get("q", auto_ack=True)[2]) or found[-1] is not None)
    return found[-1]


def test_a_client_of_a_partition_cannot_connect_and_one_that_waits_is_served_at_its_end(
    broker: Broker, vhost: VHost
) -> None:
    with broker.partition():
        with pytest.raises(AMQPConnectorStackTimeout):
            connect(vhost, stack_timeout=0.2)
        waiting = threading.Thread(target=connect, args=[vhost, "patient"], daemon=True)
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
    waiting.join(30)
    assert not waiting.is_alive()


def drop(broker: Broker, vhost: VHost) -> None:
    broker.drop_connections("early")


def close(broker: Broker, vhost: VHost) -> None:
    broker.drop_connections("early", reason="maintenance")


def delete(broker: Broker, vhost: VHost) -> None:
    vhost.delete()


@pytest.mark.parametrize("end", [drop, close, delete])
def test_a_client_notices_only_after_the_partition_that_the_broker_has_closed(
    broker: Broker, vhost: VHost, end: Callable[[Broker, VHost], None]
) -> None:
    connection = connect(vhost, "early")
    with broker.partition():
        end(broker, vhost)
        connection.process_data_events(0.2)
        assert connection.is_open
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        until(lambda: connection.process_data_events(0.1))


@pytest.mark.rest("waits for heartbeats")
def test_both_sides_give_up_by_their_heartbeats(broker: Broker, vhost: VHost) -> None:
    """A message that the client has not acknowledged goes to another one, while the client still believes in it."""
    cut_off, other = channel_of(vhost, "cut-off", heartbeat=1), channel_of(vhost, "other")
    cut_off.queue_declare("q")
    cut_off.basic_publish("", "q", b"x")
    assert cut_off.basic_get("q")[2] == b"x"
    with broker.partition("cut-off"):
        assert get_soon(other) == b"x"
        with pytest.raises(pika.exceptions.AMQPHeartbeatTimeout):
            until(lambda: cut_off.connection.process_data_events(0.5))
    assert not [row for row in api_of(broker).get("/connections").json if row["user_provided_name"] == "cut-off"]


def test_partitions_overlap(broker: Broker, vhost: VHost) -> None:
    channel = publisher_of(vhost, "shop")
    outer = broker.partition("sh*")
    with broker.partition():
        outer.undo()
        outer.undo()
        assert hears_nothing(channel)
    assert channel.is_open
    channel = publisher_of(vhost, "shop")
    broker.partition("shop")
    broker.partition("*op")
    broker.heal()
    channel.queue_declare("q", passive=True)


def test_a_partition_ends_with_a_reset_and_a_delay_goes_on_after_it(broker: Broker, vhost: VHost) -> None:
    channel = publisher_of(vhost)
    with broker.delay(100):
        with broker.partition():
            channel.basic_publish("", "q", b"x")
        begun_s = time.monotonic()
        channel.queue_declare("q", passive=True)
        assert time.monotonic() - begun_s >= 0.1
    broker.partition()
    broker.reset()
    assert get_soon(channel) == b"x"


def test_a_large_message_waits_for_the_end(broker: Broker, vhost: VHost) -> None:
    """More than all buffers of the sockets hold, and than the broker holds back before it stops deliveries."""
    body = bytes(12_000_000)
    channel = publisher_of(vhost)
    received: list[int] = []
    consumer = publisher_of(vhost, "consumer")
    consumer.basic_consume("q", lambda *delivery: received.append(len(delivery[3])), auto_ack=True)
    with broker.partition("consumer"):
        channel.basic_publish("", "q", body)
        channel.basic_publish("", "q", body)
        channel.queue_declare("q", passive=True)
        consumer.connection.process_data_events(0.1)
        assert received == []
    until(lambda: consumer.connection.process_data_events(0.05) or received == [len(body)] * 2)
