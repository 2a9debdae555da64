"""pika's BlockingConnection: connections, declarations and errors.

Mirrors pika's own tests/acceptance (blocking_adapter_test, async_adapter_tests).
"""

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

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
    return connection.channel()


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


def test_an_unknown_user_is_the_same_authentication_error(pika_connect):
    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED - Login was refused using authentication"):
        pika_connect(credentials=pika.PlainCredentials("nobody", "guest"))


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


def test_blocked_callbacks_can_be_registered(connection):
    calls = []
    connection.add_on_connection_blocked_callback(lambda *args: calls.append(args))
    connection.add_on_connection_unblocked_callback(lambda *args: calls.append(args))
    connection.process_data_events(time_limit=0)
    assert calls == []


def test_one_channel_number_can_be_reused_at_once_many_times(connection):
    for _ in range(100):
        channel = connection.channel(7)
        channel.close()
    assert connection.channel(7).is_open


def test_channel_flow_on_is_answered(channel):
    assert channel.flow(True) is True


def test_channel_flow_off_is_not_implemented(connection, channel):
    with pytest.raises(ConnectionClosedByBroker) as error:
        channel.flow(False)
    assert error.value.reply_code == 540
    assert connection.is_closed


@pytest.mark.parametrize(
    "call",
    [lambda c: c.basic_qos(prefetch_size=1), lambda c: c.basic_recover(requeue=False)],
    ids=["prefetch_size", "recover without requeue"],
)
def test_what_rabbitmq_does_not_implement_closes_the_connection_with_540(channel, call):
    with pytest.raises(ConnectionClosedByBroker) as error:
        call(channel)
    assert error.value.reply_code == 540


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


def test_an_unknown_queue_closes_the_channel_and_not_the_connection(connection, channel, names):
    queue = names.queue()
    for call in (lambda c: c.basic_get(queue), lambda c: c.basic_consume(queue, print), lambda c: c.queue_purge(queue)):
        failing = connection.channel()
        with pytest.raises(ChannelClosedByBroker) as error:
            call(failing)
        assert (error.value.reply_code, error.value.reply_text) == (404, f"NOT_FOUND - no queue '{queue}' in vhost '/'")
    assert channel.flow(True) is True


def test_the_server_names_a_queue(channel):
    queues = {channel.queue_declare("", exclusive=True).method.queue for _ in range(3)}
    assert len(queues) == 3
    assert all(queue.startswith("amq.gen-") and len(queue) == len("amq.gen-") + 22 for queue in queues)


def test_an_exclusive_queue_belongs_to_one_connection_and_is_deleted_with_it(pika_connect, connection, channel, names):
    queue = names.queue("exclusive")
    channel.queue_declare(queue, exclusive=True)
    other = pika_connect()
    calls = [
        lambda c: c.queue_declare(queue, exclusive=True),
        lambda c: c.queue_declare(queue, passive=True),
        lambda c: c.basic_consume(queue, print),
        lambda c: c.basic_get(queue),
        lambda c: c.queue_purge(queue),
        lambda c: c.queue_delete(queue),
        lambda c: c.queue_bind(queue, "amq.direct", "key"),
    ]
    for call in calls:
        with pytest.raises(ChannelClosedByBroker) as error:
            call(other.channel())
        assert error.value.reply_code == 405
        text = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'"
        assert error.value.reply_text.startswith(text)
    connection.close()
    with pytest.raises(ChannelClosedByBroker) as error:
        other.channel().queue_declare(queue, passive=True)
    assert error.value.reply_code == 404


@pytest.mark.parametrize(
    ("again", "text"),
    [
        (
            {"durable": True},
            "inequivalent arg 'durable' for queue 'Q' in vhost '/': received 'true'",
        ),
        (
            {"auto_delete": True},
            "inequivalent arg 'auto_delete' for queue 'Q' in vhost '/': received 'true'",
        ),
        ({"arguments": {"x-max-length": 10}}, "inequivalent arg 'x-max-length' for queue 'Q' in vhost '/': received"),
    ],
    ids=["durable", "auto_delete", "x-max-length"],
)
def test_redeclaring_a_queue_differently_is_refused(connection, channel, names, again, text):
    queue = names.queue()
    channel.queue_declare(queue)
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare(queue, **again)
    assert error.value.reply_code == 406
    assert error.value.reply_text.startswith("PRECONDITION_FAILED - " + text.replace("'Q'", f"'{queue}'"))
    assert connection.channel().queue_declare(queue, passive=True).method.queue == queue


def test_an_invalid_queue_argument_is_refused(channel, names):
    with pytest.raises(ChannelClosedByBroker, match="invalid arg 'x-expires' for queue") as error:
        channel.queue_declare(names.queue(), arguments={"x-expires": 0})
    assert error.value.reply_code == 406


def test_a_queue_name_reserved_for_the_broker_is_refused(channel):
    with pytest.raises(ChannelClosedByBroker, match=r"'amq.mine' contains reserved prefix 'amq\.\*'") as error:
        channel.queue_declare("amq.mine")
    assert error.value.reply_code == 403


def test_if_empty_and_if_unused_protect_a_queue(connection, channel, names):
    queue = names.queue()
    channel.confirm_delivery()
    channel.queue_declare(queue)
    channel.basic_publish("", queue, b"one")
    with pytest.raises(ChannelClosedByBroker, match=rf"406.*queue '{queue}' in vhost '/' not empty"):
        connection.channel().queue_delete(queue, if_empty=True)
    channel.basic_consume(queue, lambda *args: None)
    with pytest.raises(ChannelClosedByBroker, match=rf"406.*queue '{queue}' in vhost '/' in use"):
        connection.channel().queue_delete(queue, if_unused=True)


def test_an_auto_delete_queue_goes_with_its_last_consumer(channel, names):
    queue = names.queue()
    channel.queue_declare(queue, auto_delete=True)
    tag = channel.basic_consume(queue, lambda *args: None)
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 1
    channel.basic_cancel(tag)
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare(queue, passive=True)
    assert error.value.reply_code == 404


def test_names_may_be_long_and_unicode(channel, names):
    for queue in ("naïve ⚙ * name", "q" * 255):
        names.queues.append(queue)
        assert channel.queue_declare(queue).method.queue == queue
        assert channel.queue_declare(queue, passive=True).method.queue == queue


def test_exchanges_are_declared_and_deleted(channel, names):
    for kind in ("direct", "fanout", "topic", "headers"):
        exchange = names.exchange(kind)
        assert isinstance(channel.exchange_declare(exchange, kind).method, pika.spec.Exchange.DeclareOk)
        channel.exchange_declare(exchange, kind)
        channel.exchange_declare(exchange, passive=True)
        assert isinstance(channel.exchange_delete(exchange).method, pika.spec.Exchange.DeleteOk)
        assert isinstance(channel.exchange_delete(exchange).method, pika.spec.Exchange.DeleteOk)
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.exchange_declare(exchange, passive=True)
    assert (error.value.reply_code, error.value.reply_text) == (
        404,
        f"NOT_FOUND - no exchange '{exchange}' in vhost '/'",
    )


@pytest.mark.parametrize("name", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"])
def test_the_predeclared_exchanges_are_there_and_durable(channel, name):
    kind = "headers" if name == "amq.match" else name.removeprefix("amq.")
    channel.exchange_declare(name, passive=True)
    channel.exchange_declare(name, kind, durable=True)


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        (lambda c, x: c.exchange_declare(x, "no-such-type"), 406, "unknown exchange type 'no-such-type'"),
        (
            lambda c, x: c.exchange_declare("amq.mine", "fanout"),
            403,
            "exchange name 'amq.mine'",
        ),
        (
            lambda c, x: c.exchange_delete("amq.fanout"),
            403,
            "deletion of system exchange 'amq.fanout'",
        ),
        (lambda c, x: c.exchange_delete(""), 403, "operation not permitted on the default exchange"),
        (
            lambda c, x: c.queue_bind(c.queue_declare("", exclusive=True).method.queue, ""),
            403,
            "operation not permitted",
        ),
        (lambda c, x: c.queue_bind(c.queue_declare("", exclusive=True).method.queue, x), 404, "no exchange '"),
        (lambda c, x: c.queue_bind("no.such.queue", "amq.direct"), 404, "no queue 'no.such.queue' in vhost '/'"),
    ],
    ids=["type", "reserved", "system", "delete default", "bind default", "bind to unknown", "bind unknown"],
)
def test_a_wrong_exchange_operation_is_refused(peer, channel, names, call, code, text):
    if peer and "unknown exchange type" in text:
        code = 503  # [4.3] RabbitMQ before 4.0 closed the whole connection here
    with pytest.raises((ChannelClosedByBroker, ConnectionClosedByBroker)) as error:
        call(channel, names.exchange())
    assert error.value.reply_code == code
    assert text in error.value.reply_text


@pytest.mark.parametrize(
    ("again", "name"),
    [
        ({"exchange_type": "fanout"}, "type"),
        ({"durable": True}, "durable"),
        ({"auto_delete": True}, "auto_delete"),
        ({"internal": True}, "internal"),
        ({"arguments": {"alternate-exchange": "amq.fanout"}}, "alternate-exchange"),
    ],
    ids=["type", "durable", "auto_delete", "internal", "alternate-exchange"],
)
def test_redeclaring_an_exchange_differently_is_refused(channel, names, again, name):
    exchange = names.exchange()
    channel.exchange_declare(exchange, "direct")
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.exchange_declare(exchange, **again)
    assert error.value.reply_code == 406
    assert f"inequivalent arg '{name}' for exchange '{exchange}' in vhost '/'" in error.value.reply_text


def test_a_used_exchange_is_protected_by_if_unused(connection, channel, names):
    exchange = names.exchange()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.exchange_declare(exchange, "fanout")
    channel.queue_bind(queue, exchange)
    with pytest.raises(ChannelClosedByBroker, match=rf"406.*exchange '{exchange}' in vhost '/' in use"):
        connection.channel().exchange_delete(exchange, if_unused=True)
    channel.queue_unbind(queue, exchange)
    channel.exchange_delete(exchange, if_unused=True)


def test_an_auto_delete_exchange_goes_with_its_last_binding(channel, names):
    exchange = names.exchange()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    for key in ("a", "b"):
        channel.queue_bind(queue, exchange, key)
        channel.queue_bind(queue, exchange, key)
    channel.queue_unbind(queue, exchange, "a")
    channel.exchange_declare(exchange, passive=True)
    channel.queue_unbind(queue, exchange, "b")
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.exchange_declare(exchange, passive=True)
    assert error.value.reply_code == 404


def test_unbinding_what_is_not_bound_is_no_error(channel):
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_unbind(queue, "amq.direct", "never bound")
    channel.queue_unbind("no.such.queue", "amq.direct", "key")
    channel.queue_unbind(queue, "no.such.exchange", "key")


def test_publishing_to_an_unknown_exchange_closes_the_channel(connection, channel, names):
    exchange = names.exchange()
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.basic_publish(exchange, "key", b"lost")
    assert (error.value.reply_code, error.value.reply_text) == (
        404,
        f"NOT_FOUND - no exchange '{exchange}' in vhost '/'",
    )
    assert connection.channel().is_open
