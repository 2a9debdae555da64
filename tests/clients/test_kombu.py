"""kombu over its pyamqp transport. Mirrors kombu's own integration tests (t/integration/common.py)."""

import socket
from collections import deque

import pytest
from amqp.exceptions import PreconditionFailed
from kombu import Connection, Consumer, Exchange, Producer, Queue, pools
from kombu.common import Broadcast, eventloop
from kombu.pidbox import Mailbox

TIMEOUT_S = 60


@pytest.fixture
def connect(names, broker_host, broker_port):
    opened = []

    def open_one(**options):
        options.setdefault("transport_options", {"confirm_publish": True})
        connection = Connection(broker_host, port=broker_port, transport="pyamqp", connect_timeout=TIMEOUT_S, **options)
        opened.append(connection)
        connection.connect()
        return connection

    yield open_one
    pools.reset()  # the mailbox publishes on pooled connections
    for connection in opened:
        connection.release()


@pytest.fixture
def connection(connect):
    return connect()


@pytest.fixture
def channel(connection):
    return connection.default_channel


def drain(connection, *consumers, count):
    """Consume `count` messages in all and acknowledge them."""
    came = []

    def on_message(body, message):
        came.append(body)
        message.ack()

    for consumer in consumers:
        consumer.register_callback(on_message)
        consumer.consume()
    while len(came) < count:
        connection.drain_events(timeout=TIMEOUT_S)
    for consumer in consumers:
        consumer.cancel()
    return came


def test_connect_reconnect_and_close(connection):
    assert connection.connected
    connection.close()
    assert not connection.connected
    connection.ensure_connection(max_retries=1)
    assert connection.connected


@pytest.mark.parametrize("body", [{"a": [1, 2.5, None, "é"]}, "text", b"bytes", "x" * 1_000_000])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_body_is_published_and_consumed(connection, channel, names, body, compression):
    queue = Queue(names.queue(), Exchange(names.exchange(), "direct"), "key", auto_delete=True)
    Producer(channel).publish(
        body, exchange=queue.exchange, routing_key="key", declare=[queue], compression=compression, retry=True
    )
    consumer = Consumer(channel, [queue], accept=["json", "text/plain", "application/data"])
    assert drain(connection, consumer, count=1) == [body]


def test_queue_options_become_arguments(channel, names):
    options = {"expires": 60, "message_ttl": 30, "max_length": 10, "max_length_bytes": 1000, "max_priority": 5}
    queue = Queue(names.queue(), **options)(channel)
    queue.declare()
    queue.declare()
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-max-priority'"):
        Queue(queue.name, **{**options, "max_priority": 6})(channel).declare()


def test_a_changed_prefetch_is_obeyed_at_once(connection, channel, names):
    """Celery raises the shared limit of the channel like this when it takes tasks with an ETA."""
    queue = Queue(names.queue())
    producer = Producer(channel)
    for number in range(5):
        producer.publish(number, routing_key=queue.name, declare=[queue])
    came = []
    consumer = Consumer(channel, [queue], on_message=came.append)
    consumer.qos(prefetch_count=1, apply_global=True)
    consumer.consume()
    for limit in (1, 3, 4):
        consumer.qos(prefetch_count=limit, apply_global=True)
        while len(came) < limit:
            connection.drain_events(timeout=TIMEOUT_S)
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0.1)
    consumer.recover(requeue=True)
    while len(came) < 8:
        connection.drain_events(timeout=TIMEOUT_S)
    assert [message.payload for message in came] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert [message.delivery_info["redelivered"] for message in came] == [False] * 4 + [True] * 4


def test_an_unroutable_message_reaches_on_return(connection):
    returned = []
    with connection.channel() as channel:
        producer = Producer(channel, on_return=lambda *args: returned.append(args))
        producer.publish("back", routing_key="no.such.queue", mandatory=True)
    ((error, exchange, routing_key, message),) = returned
    assert (error.reply_code, exchange, routing_key) == (312, "", "no.such.queue")
    assert message.body == "back"


def test_a_broadcast_reaches_every_consumer(connect, names):
    exchange = names.exchange("broadcast")
    came = deque()
    listeners = [connect() for _ in range(2)]
    for connection in listeners:
        Consumer(connection, [Broadcast(exchange)], callbacks=[lambda body, _: came.append(body)]).consume()
    with pools.producers[listeners[0]].acquire(block=True) as producer:
        producer.publish("to all", exchange=Exchange(exchange, "fanout"))
    for connection in listeners:
        for _ in eventloop(connection, limit=1, timeout=TIMEOUT_S):
            pass
    assert list(came) == ["to all"] * 2


def test_a_mailbox_asks_and_is_answered(connect, names):
    """pidbox, the base of Celery's remote control: a fanout exchange, queues that expire, a reply exchange."""
    namespace = names.exchange("mailbox")
    names.exchanges += [f"{namespace}.pidbox", f"reply.{namespace}.pidbox"]
    serving, asking = connect(), connect()
    handlers = {"add": lambda state, a, b: a + b}
    node = Mailbox(namespace)(serving).Node("node", {}, serving.default_channel, handlers)
    consumer = node.listen()
    mailbox, channel = Mailbox(namespace)(asking), asking.default_channel
    mailbox.reply_queue(channel).declare()
    mailbox._publish("add", {"a": 2, "b": 3}, reply_ticket="ticket", channel=channel, timeout=TIMEOUT_S)
    serving.drain_events(timeout=TIMEOUT_S)
    assert mailbox._collect("ticket", limit=1, timeout=TIMEOUT_S, channel=channel) == [{"node": 5}]
    consumer.cancel()
