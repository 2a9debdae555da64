"""pika's BlockingConnection: connections, publishing, consuming, settling, transactions, direct reply-to.

Mirrors pika's own tests/acceptance (blocking_adapter_test, async_adapter_tests).
"""

import datetime
import decimal

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    UnroutableError,
)

BIG_BODIES = [0, 1, 131_064, 131_065, 1_000_000, 10_000_000]

CAPABILITIES = {
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
}


@pytest.fixture
def connection(pika_connect):
    return pika_connect()


@pytest.fixture
def channel(connection):
    """A channel in confirm mode: each publish returns once the broker has confirmed it."""
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


@pytest.fixture
def queue(channel):
    return channel.queue_declare("", exclusive=True).method.queue


def test_the_url_form_connects_and_the_close_is_clean(broker_url):
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    channel = connection.channel()
    assert channel.is_open
    channel.close()
    assert channel.is_closed
    connection.close()
    assert connection.is_closed


def test_every_capability_is_announced(connection):
    properties = connection._impl.server_properties
    assert {name for name, on in properties["capabilities"].items() if on is True} >= CAPABILITIES
    assert {"product", "version", "platform", "cluster_name", "copyright", "information"} <= set(properties)
    assert connection.publisher_confirms_supported
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported
    assert connection.basic_nack_supported


def test_a_wrong_password_is_an_authentication_error(pika_connect):
    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED - Login was refused using authentication"):
        pika_connect(credentials=pika.PlainCredentials("guest", "not it"))


def test_an_unknown_vhost_is_refused(pika_connect):
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker), match=r"530.*vhost nowhere not found"):
        pika_connect(virtual_host="nowhere")


def test_the_tuned_limits_are_the_smaller_of_both_sides(pika_connect):
    connection = pika_connect(channel_max=3, frame_max=8192, heartbeat=7)
    tuned = connection._impl.params
    assert (tuned.channel_max, tuned.frame_max, tuned.heartbeat) == (3, 8192, 7)
    assert [connection.channel().channel_number for _ in range(3)] == [1, 2, 3]


def test_an_idle_connection_lives_on_heartbeats(pika_connect):
    connection = pika_connect(heartbeat=1)
    connection.process_data_events(time_limit=2.6)
    assert connection.is_open
    assert connection.channel().is_open


def test_a_new_secret_is_accepted_and_channels_stay(connection, channel):
    connection.update_secret("new secret", "for a test")
    assert connection.is_open
    assert channel.flow(True) is True


def test_queues_are_declared_and_deleted(channel, names):
    queue = names.queue()
    frame = channel.queue_declare(queue)
    assert (frame.method.queue, frame.method.message_count, frame.method.consumer_count) == (queue, 0, 0)
    assert channel.queue_declare(queue).method.queue == queue
    assert isinstance(channel.queue_delete(queue).method, pika.spec.Queue.DeleteOk)
    assert channel.queue_delete(queue).method.message_count == 0
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare(queue, passive=True)
    assert error.value.reply_code == 404
    assert error.value.reply_text == f"NOT_FOUND - no queue '{queue}' in vhost '/'"


def bodies(channel, queue):
    """Return all bodies in the queue, in order."""
    found = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def take(channel, queue, count):
    """Return the next deliveries of a consumer that acknowledges nothing."""
    deliveries = []
    for delivery in channel.consume(queue, inactivity_timeout=5):
        assert delivery[0] is not None, f"only {len(deliveries)} of {count} deliveries came"
        deliveries.append(delivery)
        if len(deliveries) == count:
            return deliveries
    raise AssertionError("the consumer was cancelled")


def test_a_confirmed_message_can_be_got(channel, queue):
    for body in (b"one", b"two", b"three"):
        channel.basic_publish("", queue, body)
    assert channel.queue_declare(queue, passive=True).method.message_count == 3
    method, properties, body = channel.basic_get(queue)
    assert (method.delivery_tag, method.redelivered, method.exchange, method.routing_key, method.message_count) == (
        1,
        False,
        "",
        queue,
        2,
    )
    assert (properties.delivery_mode, properties.headers, body) == (None, None, b"one")
    channel.basic_ack(method.delivery_tag)
    assert channel.queue_purge(queue).method.message_count == 2
    assert channel.basic_get(queue) == (None, None, None)


@pytest.mark.parametrize("size", BIG_BODIES)
def test_a_body_of_any_size_comes_back_whole(channel, queue, size):
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    channel.basic_publish("", queue, body)
    assert channel.basic_get(queue, auto_ack=True)[2] == body


def test_every_property_and_header_type_comes_back(channel, queue):
    headers = {
        "bool": True,
        "int": -5,
        "big": 1 << 40,
        "text": "café ⚙",
        "bytes": b"\x00\xff",
        "none": None,
        "time": datetime.datetime(2024, 2, 29, 12, 0, tzinfo=datetime.UTC),
        "decimal": decimal.Decimal("3.14"),
        "array": [1, "two", [3, {"four": 4}]],
        "table": {"a": {"b": {"c": [True, None]}}},
        "empty table": {},
        "empty array": [],
    }
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers=headers,
        delivery_mode=2,
        priority=3,
        correlation_id="correlation",
        reply_to="reply",
        expiration="60000",
        message_id="message",
        timestamp=1_700_000_000,
        type="type",
        user_id="guest",
        app_id="app",
        cluster_id="cluster",
    )
    channel.basic_publish("", queue, b"", sent)
    assert vars(channel.basic_get(queue, auto_ack=True)[1]) == vars(sent)


def test_an_unroutable_mandatory_message_is_returned_before_its_confirm(channel):
    properties = pika.BasicProperties(message_id="m1", headers={"a": 1})
    for _ in range(20):
        with pytest.raises(UnroutableError) as error:
            channel.basic_publish("amq.direct", "nobody", b"come back", properties, mandatory=True)
        (returned,) = error.value.messages
        assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
        assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", "nobody")
        assert (returned.body, vars(returned.properties)) == (b"come back", vars(properties))
    channel.basic_publish("amq.direct", "nobody", b"dropped")


def test_a_full_queue_that_rejects_nacks_the_publish(channel, names):
    queue = names.queue()
    channel.queue_declare(queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.basic_publish("", queue, b"fits")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"too much")
    assert bodies(channel, queue) == [b"fits"]


def test_a_consumer_gets_messages_in_order_and_its_cancel_keeps_them_unacknowledged(channel, queue):
    for number in range(100):
        channel.basic_publish("", queue, b"%d" % number)
    deliveries = take(channel, queue, 100)
    assert [delivery[2] for delivery in deliveries] == [b"%d" % number for number in range(100)]
    assert [delivery[0].delivery_tag for delivery in deliveries] == list(range(1, 101))
    assert not any(delivery[0].redelivered for delivery in deliveries)
    assert channel.cancel() == 0
    assert channel.basic_get(queue)[0] is None
    channel.basic_ack(100, multiple=True)


def test_deleting_the_queue_cancels_its_consumer(connection, channel, names):
    queue = names.queue()
    channel.queue_declare(queue)
    other = connection.channel()
    cancelled = []
    other.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = other.basic_consume(queue, lambda *args: None)
    channel.queue_delete(queue)
    while not cancelled:
        connection.process_data_events(time_limit=5)
    assert cancelled == [tag]
    assert other.consumer_tags == []
    assert other.is_open


def test_a_transaction_commits_and_rolls_back(connection, channel, queue):
    tx = connection.channel()
    tx.tx_select()
    tx.basic_publish("", queue, b"rolled back")
    tx.tx_rollback()
    tx.basic_publish("", queue, b"committed")
    assert bodies(channel, queue) == []
    tx.tx_commit()
    method, _, body = tx.basic_get(queue)
    assert body == b"committed"
    tx.basic_ack(method.delivery_tag)
    tx.tx_rollback()
    tx.basic_ack(method.delivery_tag)
    tx.tx_commit()
    tx.close()
    assert bodies(channel, queue) == []


def test_a_request_is_answered_by_direct_reply_to(pika_connect, connection, queue):
    client = connection.channel()
    replies = []
    client.basic_consume("amq.rabbitmq.reply-to", lambda *args: replies.append(args[1:]), auto_ack=True)
    client.basic_publish("", queue, b"request", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    client.flow(True)
    _, properties, _ = client.basic_get(queue, auto_ack=True)
    assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
    server = pika_connect().channel()
    server.queue_declare(properties.reply_to, passive=True)
    server.basic_publish("", properties.reply_to, b"reply")
    while not replies:
        connection.process_data_events(time_limit=5)
    ((method, _, body),) = replies
    assert (method.exchange, method.routing_key, method.redelivered, body) == ("", properties.reply_to, False, b"reply")
    client.close()
    with pytest.raises(ChannelClosedByBroker, match=r"404"):
        server.queue_declare(properties.reply_to, passive=True)
