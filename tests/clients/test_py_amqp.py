"""py-amqp, the client below kombu and Celery. It prefers AMQPLAIN and sends only capabilities that it was given."""

import datetime
import decimal

import pytest
from amqp import Connection, Message
from amqp.exceptions import (
    AccessRefused,
    AMQPNotImplementedError,
    ConsumerCancelled,
    NotFound,
    PreconditionFailed,
)

TIMEOUT_S = 60


@pytest.fixture
def connect(names, broker_host, broker_port):
    opened = []

    def open_one(**options):
        connection = Connection(f"{broker_host}:{broker_port}", connect_timeout=TIMEOUT_S, **options)
        opened.append(connection)
        connection.connect()
        return connection

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect):
    return connect()


@pytest.fixture
def channel(connection):
    return connection.channel()


@pytest.fixture
def queue(channel):
    return channel.queue_declare("", exclusive=True, auto_delete=False).queue


def bodies(channel, queue):
    """Return all bodies in the queue, in order."""
    found = []
    while message := channel.basic_get(queue, no_ack=True):
        found.append(message.body)
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_both_mechanisms_log_in(connect, mechanism):
    connection = connect(login_method=mechanism)
    assert connection.connected
    assert connection.server_capabilities["publisher_confirms"] is True
    connection.close()
    assert not connection.connected


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_a_wrong_password_is_refused(connect, mechanism):
    with pytest.raises(AccessRefused, match=f"Login was refused using authentication mechanism {mechanism}"):
        connect(password="not it", login_method=mechanism)


def test_channels_open_close_and_flow(connection):
    for _ in range(50):
        connection.channel(5).close()
    channel = connection.channel(5)
    channel.flow(True)
    with pytest.raises(AMQPNotImplementedError):
        channel.flow(False)


@pytest.mark.parametrize(
    ("call", "error", "method", "text"),
    [
        (lambda c, q: c.queue_declare("no.such", passive=True), NotFound, (50, 10), "no queue 'no.such' in vhost '/'"),
        (lambda c, q: c.basic_get("no.such"), NotFound, (60, 70), "no queue 'no.such' in vhost '/'"),
        (lambda c, q: c.basic_consume("no.such"), NotFound, (60, 20), "no queue 'no.such' in vhost '/'"),
        (lambda c, q: c.exchange_declare("no.such", "", passive=True), NotFound, (40, 10), "no exchange 'no.such'"),
        (lambda c, q: c.queue_bind(q, "no.such"), NotFound, (50, 20), "no exchange 'no.such' in vhost '/'"),
        (lambda c, q: c.queue_declare(q, passive=False, exclusive=True), AccessRefused, (50, 10), "reserved prefix"),
        (lambda c, q: c.exchange_declare("amq.topic", "direct", durable=True), PreconditionFailed, (40, 10), "'type'"),
        (lambda c, q: c.exchange_delete("amq.direct"), AccessRefused, (40, 20), "deletion of system exchange"),
        (lambda c, q: c.basic_qos(1, 0, False), AMQPNotImplementedError, (60, 10), "prefetch_size!=0 (1)"),
        (lambda c, q: c.tx_commit(), PreconditionFailed, (90, 20), "channel is not transactional"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_errors_name_the_failing_method(channel, queue, call, error, method, text):
    with pytest.raises(error) as caught:
        call(channel, queue)
    assert caught.value.method_sig == method
    assert text in caught.value.reply_text


def test_nowait_methods_have_no_reply(channel, names):
    exchange, queue = names.exchange(), names.queue()
    channel.exchange_declare(exchange, "topic", nowait=True, auto_delete=False)
    channel.queue_declare(queue, nowait=True, auto_delete=False)
    channel.queue_bind(queue, exchange, "#", nowait=True)
    channel.basic_publish(Message("x"), exchange, "key")
    assert bodies(channel, queue) == ["x"]
    channel.queue_purge(queue, nowait=True)
    channel.queue_delete(queue, nowait=True)
    channel.exchange_delete(exchange, nowait=True)
    with pytest.raises(NotFound):
        channel.queue_declare(queue, passive=True)


def test_a_return_reaches_its_event_before_the_confirm(connect):
    channel = connect(confirm_publish=True).channel()
    events = []
    channel.events["basic_return"].add(lambda *args: events.append(args))
    channel.events["basic_ack"].add(lambda tag, multiple: events.append("ack"))
    channel.basic_publish(Message("back"), "", "no.such.queue", mandatory=True, confirm_timeout=TIMEOUT_S)
    (error, exchange, routing_key, message), ack = events
    assert (error.reply_code, error.reply_text, exchange, routing_key) == (312, "NO_ROUTE", "", "no.such.queue")
    assert (message.body, ack) == ("back", "ack")


def test_every_property_and_header_type_comes_back(channel, queue):
    headers = {
        "bool": True,
        "int": -5,
        "big": 1 << 40,
        "double": 2.5,
        "text": "café",
        "none": None,
        "time": datetime.datetime(2024, 2, 29),
        "decimal": decimal.Decimal("3.14"),
        "array": [1, "two", [3, {"four": 4}]],
        "table": {"a": {"b": []}},
    }
    properties = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "application_headers": headers,
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "x",
    }
    channel.basic_publish(Message("body", **properties), "", queue)
    assert channel.basic_get(queue, no_ack=True).properties == properties


def test_deleting_the_queue_cancels_its_consumer(connection, channel, names):
    queue, cancelled = names.queue(), []
    channel.queue_declare(queue, auto_delete=False)
    consumer_tag = channel.basic_consume(queue, on_cancel=cancelled.append)
    channel.queue_delete(queue)
    while not cancelled:
        connection.drain_events(timeout=TIMEOUT_S)
    assert cancelled == [consumer_tag]
    channel.queue_declare(queue, auto_delete=False)
    untold = channel.basic_consume(queue)
    with pytest.raises(ConsumerCancelled, match=untold):
        channel.queue_delete(queue)
        connection.drain_events(timeout=TIMEOUT_S)
