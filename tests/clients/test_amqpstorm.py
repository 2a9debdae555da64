"""AMQPStorm. Mirrors its own functional tests (generic, reliability, web examples without the management API)."""

import pytest
from amqpstorm import AMQPChannelError, AMQPConnectionError, AMQPMessageError, Connection

TIMEOUT_S = 60


@pytest.fixture
def connect(names, broker_host, broker_port):
    opened = []

    def open_one(user="guest", password="guest", **options):
        opened.append(Connection(broker_host, user, password, port=broker_port, timeout=TIMEOUT_S, **options))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect):
    return connect()


@pytest.fixture
def channel(connection):
    """A channel with confirms: each publish returns once the broker has confirmed it."""
    channel = connection.channel(rpc_timeout=TIMEOUT_S)
    channel.confirm_deliveries()
    return channel


@pytest.fixture
def queue(channel):
    return channel.queue.declare(exclusive=True)["queue"]


def bodies(channel, queue):
    """Return all bodies in the queue, in order."""
    found = []
    while message := channel.basic.get(queue, no_ack=True):
        found.append(message.body)
    return found


def test_open_and_close(connect):
    connection = connect()
    assert connection.is_open
    assert connection.server_properties["capabilities"]["basic.nack"] is True
    channel = connection.channel()
    channel.close()
    assert channel.is_closed
    connection.close()
    assert connection.is_closed
    connection.open()
    assert connection.is_open


def test_a_wrong_password_is_refused(connect):
    with pytest.raises(AMQPConnectionError, match="Login was refused") as error:
        connect(password="not it")
    assert error.value.error_code == 403


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        (lambda c: c.queue.declare("no.such", passive=True), 404, "no queue 'no.such' in vhost '/'"),
        (lambda c: c.exchange.declare("no.such", passive=True), 404, "no exchange 'no.such' in vhost '/'"),
        (lambda c: c.basic.get("no.such"), 404, "no queue 'no.such' in vhost '/'"),
        (lambda c: c.basic.consume(print, "no.such"), 404, "no queue 'no.such' in vhost '/'"),
        (lambda c: c.exchange.declare("amq.direct", "topic", durable=True), 406, "inequivalent arg 'type'"),
        (lambda c: c.basic.publish("", "key", "no.such"), 404, "no exchange 'no.such' in vhost '/'"),
        (lambda c: c.tx.select(), 406, "cannot switch from confirm to tx mode"),
    ],
    ids=["queue", "exchange", "get", "consume", "type", "publish", "tx"],
)
def test_a_channel_error_closes_the_channel_which_can_be_opened_again(channel, call, code, text):
    with pytest.raises(AMQPChannelError, match=text) as error:
        call(channel)
    assert error.value.error_code == code
    channel.open()
    assert channel.queue.declare(exclusive=True)["queue"].startswith("amq.gen-")


def test_queues_and_exchanges_come_and_go(channel, names):
    exchange, queue = names.exchange(), names.queue()
    channel.exchange.declare(exchange, "topic")
    assert channel.queue.declare(queue, auto_delete=False)["message_count"] == 0
    channel.queue.bind(queue, exchange, "a.#")
    channel.basic.publish("in", "a.b", exchange)
    channel.basic.publish("out", "b", exchange)
    assert channel.queue.declare(queue, passive=True)["message_count"] == 1
    assert channel.queue.purge(queue)["message_count"] == 1
    channel.queue.unbind(queue, exchange, "a.#")
    channel.basic.publish("unbound", "a.b", exchange)
    assert bodies(channel, queue) == []
    assert channel.queue.delete(queue)["message_count"] == 0
    channel.exchange.delete(exchange)


def test_a_publish_is_confirmed_or_returned(channel, queue):
    assert channel.basic.publish("kept", queue) is True
    for _ in range(20):
        with pytest.raises(AMQPMessageError, match="NO_ROUTE") as error:
            channel.basic.publish("back", "no.such.queue", mandatory=True)
        assert error.value.error_code == 312
    assert bodies(channel, queue) == ["kept"]


def test_the_generator_gets_what_waits_and_a_cancel_ends_it(channel, queue):
    for body in ("a", "b"):
        channel.basic.publish(body, queue)
    tag = channel.basic.consume(queue=queue)
    came = []
    for message in channel.build_inbound_messages(break_on_empty=False):
        came.append(message.body)
        message.ack()
        if len(came) == 2:
            break
    assert channel.basic.cancel(tag)["consumer_tag"] == tag
    assert (came, channel.consumer_tags) == (["a", "b"], [])
