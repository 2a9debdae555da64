"""pika's BlockingConnection: publishing, consuming, settling, transactions, direct reply-to.

Mirrors pika's own blocking_adapter_test; connections and declarations are in test_pika, exchanges in test_pika_routing.
"""

import datetime
import decimal

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

BIG_BODIES = [0, 1, 131_064, 131_065, 1_000_000, 10_000_000]


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


def test_a_body_passes_between_connections_with_other_frame_sizes(pika_connect, names):
    queue = names.queue()
    small, large = (pika_connect(frame_max=size).channel() for size in (8192, 131_072))
    large.queue_declare(queue)
    for source, sink in ((small, large), (large, small)):
        body = bytes(range(256)) * 400
        source.confirm_delivery()
        source.basic_publish("", queue, body)
        assert sink.basic_get(queue, auto_ack=True)[2] == body


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


def test_without_confirms_a_return_reaches_the_callback(connection):
    channel = connection.channel()
    returned = []
    channel.add_on_return_callback(lambda *args: returned.append(args[3]))
    channel.basic_publish("", "no.such.queue", b"back", mandatory=True)
    channel.flow(True)
    connection.process_data_events(time_limit=0)
    assert returned == [b"back"]


def test_a_full_queue_that_rejects_nacks_the_publish(channel, names):
    queue = names.queue()
    channel.queue_declare(queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.basic_publish("", queue, b"fits")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"too much")
    assert bodies(channel, queue) == [b"fits"]


@pytest.mark.parametrize("wrong", [{"expiration": "soon"}, {"expiration": "-1"}, {"user_id": "somebody"}])
def test_a_wrong_property_is_refused(channel, queue, wrong):
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.basic_publish("", queue, b"", pika.BasicProperties(**wrong))
    assert error.value.reply_code == 406


def test_the_prefetch_limits_what_is_unacknowledged(connection, channel, queue):
    for number in range(6):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_qos(prefetch_count=2)
    came = []
    channel.basic_consume(queue, lambda ch, method, properties, body: came.append((method.delivery_tag, body)))
    connection.process_data_events(time_limit=0.2)
    assert [body for _, body in came] == [b"0", b"1"]
    channel.basic_ack(came[-1][0], multiple=True)
    connection.process_data_events(time_limit=0.2)
    assert [body for _, body in came] == [b"0", b"1", b"2", b"3"]


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


def test_nack_and_reject_put_back_in_order_or_drop(channel, queue):
    for body in (b"a", b"b", b"c", b"d"):
        channel.basic_publish("", queue, body)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(4)]
    channel.basic_nack(tags[1], multiple=True, requeue=True)
    channel.basic_reject(tags[2], requeue=False)
    method, _, body = channel.basic_get(queue)
    assert (body, method.redelivered) == (b"a", True)
    channel.basic_reject(method.delivery_tag, requeue=True)
    channel.basic_nack(tags[3], requeue=True)
    assert bodies(channel, queue) == [b"a", b"b", b"d"]


@pytest.mark.parametrize("crazy", [123456, 1])
def test_acknowledging_what_is_not_outstanding_closes_the_channel(channel, queue, crazy):
    channel.basic_publish("", queue, b"one")
    channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
    channel.basic_ack(crazy)
    with pytest.raises(ChannelClosedByBroker, match=rf"406.*PRECONDITION_FAILED - unknown delivery tag {crazy}"):
        channel.queue_declare(queue, passive=True)


def test_a_closed_channel_and_recover_return_the_unacknowledged(connection, channel, queue):
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", queue, body)
    other = connection.channel()
    assert [delivery[2] for delivery in take(other, queue, 3)] == [b"a", b"b", b"c"]
    other.close()
    other = connection.channel()
    assert [other.basic_get(queue)[2] for _ in range(3)] == [b"a", b"b", b"c"]
    other.basic_recover(requeue=True)
    deliveries = [other.basic_get(queue) for _ in range(3)]
    assert [(method.redelivered, body) for method, _, body in deliveries] == [(True, b"a"), (True, b"b"), (True, b"c")]


def test_what_was_taken_without_acknowledgement_does_not_return(connection, channel, queue):
    channel.basic_publish("", queue, b"gone")
    other = connection.channel()
    assert other.basic_get(queue, auto_ack=True)[2] == b"gone"
    other.close()
    assert bodies(channel, queue) == []


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


def test_the_consume_generator_ends_when_the_broker_cancels_it(connection, channel, names):
    queue = names.queue()
    channel.queue_declare(queue)
    other = connection.channel()
    other.confirm_delivery()
    other.basic_publish("", queue, b"last")
    seen = []
    for method, _, body in other.consume(queue):
        seen.append(body)
        other.basic_ack(method.delivery_tag)
        channel.queue_delete(queue)
    assert seen == [b"last"]


def test_exclusive_and_unknown_consumers(connection, channel, queue):
    channel.basic_consume(queue, lambda *args: None, exclusive=True)
    with pytest.raises(ChannelClosedByBroker, match=rf"403.*queue '{queue}' in vhost '/' in exclusive use"):
        connection.channel().basic_consume(queue, lambda *args: None)


def test_priorities_of_consumers_decide_who_is_served(connection, channel, queue):
    came = []
    for priority in (0, 5, -3):
        own = connection.channel()
        own.basic_consume(
            queue, lambda *args, p=priority: came.append(p), auto_ack=True, arguments={"x-priority": priority}
        )
    for _ in range(10):
        channel.basic_publish("", queue, b"")
    while len(came) < 10:
        connection.process_data_events(time_limit=5)
    assert came == [5] * 10


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


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda c: c.tx_commit(), "channel is not transactional"),
        (lambda c: c.tx_rollback(), "channel is not transactional"),
        (lambda c: (c.confirm_delivery(), c.tx_select()), "cannot switch from confirm to tx mode"),
        (lambda c: (c.tx_select(), c.confirm_delivery()), "cannot switch from tx to confirm mode"),
    ],
    ids=["commit", "rollback", "confirm to tx", "tx to confirm"],
)
def test_a_channel_has_one_mode(connection, call, text):
    with pytest.raises(ChannelClosedByBroker, match=r"406.*PRECONDITION_FAILED - " + text):
        call(connection.channel())


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


def test_direct_reply_to_needs_a_consumer_that_does_not_acknowledge(connection):
    with pytest.raises(ChannelClosedByBroker, match=r"406.*reply consumer cannot acknowledge"):
        connection.channel().basic_consume("amq.rabbitmq.reply-to", lambda *args: None)
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker, match=r"406.*fast reply consumer does not exist"):
        channel.basic_publish("", "q", b"", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
