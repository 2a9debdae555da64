"""pika's BlockingConnection: routing by each type of exchange."""

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, UnroutableError


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


def test_a_fanout_exchange_gives_each_queue_one_copy(channel, names):
    exchange = names.exchange()
    channel.exchange_declare(exchange, "fanout")
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    for queue in queues:
        channel.queue_bind(queue, exchange, "ignored")
        channel.queue_bind(queue, exchange, "also ignored")
    channel.basic_publish(exchange, "anything", b"copy")
    assert [bodies(channel, queue) for queue in queues] == [[b"copy"]] * 3


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("#", ["", "a", "a.b.c"], []),
        ("*", ["a"], ["", "a.b"]),
        ("a.#", ["a", "a.b", "a.b.c"], ["", "b.a"]),
        ("#.a", ["a", "b.a"], ["a.b"]),
        ("*.#", ["a", "a.b"], [""]),
        ("a.*.b", ["a.x.b", "a..b"], ["a.b", "a.x.y.b"]),
        ("a.#.b", ["a.b", "a.x.y.b"], ["a", "b"]),
        ("", [""], ["a"]),
        ("a*", ["a*"], ["ab"]),
    ],
)
def test_topic_patterns(channel, queue, names, pattern, matching, others):
    exchange = names.exchange()
    channel.exchange_declare(exchange, "topic")
    channel.queue_bind(queue, exchange, pattern)
    for key in matching + others:
        channel.basic_publish(exchange, key, key.encode())
    assert bodies(channel, queue) == [key.encode() for key in matching]


@pytest.mark.parametrize(
    ("arguments", "matching", "others"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, [{"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 0}], [{"a": 1}, {}]),
        ({"x-match": "any", "a": 1, "b": "x"}, [{"a": 1}, {"b": "x", "a": 2}], [{"a": 2}, {}]),
        ({"a": None}, [{"a": 5}, {"a": "five"}], [{"b": 5}]),
        ({"x-match": "all", "a": 1, "x-b": 2}, [{"a": 1}], [{"x-b": 2}]),
        ({"x-match": "all"}, [{}, {"a": 1}], []),
        ({"x-match": "any"}, [], [{}, {"a": 1}]),
    ],
)
def test_headers_matches(channel, queue, arguments, matching, others):
    channel.queue_bind(queue, "amq.headers", arguments=arguments)
    for number, headers in enumerate(matching + others):
        channel.basic_publish("amq.headers", "", b"%d" % number, pika.BasicProperties(headers=headers))
    assert bodies(channel, queue) == [b"%d" % number for number in range(len(matching))]


def test_a_bad_x_match_is_refused(channel, queue):
    with pytest.raises(ChannelClosedByBroker, match="Invalid x-match field value") as error:
        channel.queue_bind(queue, "amq.headers", arguments={"x-match": "some"})
    assert error.value.reply_code == 406


def test_exchanges_bound_to_exchanges_pass_one_copy_even_in_a_loop(channel, queue, names):
    first, second = names.exchange("first"), names.exchange("second")
    for exchange in (first, second):
        channel.exchange_declare(exchange, "topic", internal=exchange == second)
    channel.exchange_bind(second, first, "a.#")
    channel.exchange_bind(second, first, "a.#")
    channel.exchange_bind(first, second, "#")
    channel.queue_bind(queue, second, "*.b")
    channel.queue_bind(queue, first, "a.b")
    channel.basic_publish(first, "a.b", b"once")
    channel.basic_publish(first, "b.b", b"no")
    assert bodies(channel, queue) == [b"once"]
    channel.exchange_unbind(second, first, "a.#")
    channel.queue_unbind(queue, first, "a.b")
    channel.basic_publish(first, "a.b", b"unbound")
    assert bodies(channel, queue) == []
    with pytest.raises(ChannelClosedByBroker, match=r"403.*cannot publish to internal exchange"):
        channel.basic_publish(second, "a.b", b"not for clients")


def test_an_alternate_exchange_takes_what_is_not_routed(channel, queue, names):
    exchange, alternate = names.exchange(), names.exchange("alternate")
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": alternate})
    with pytest.raises(UnroutableError):
        channel.basic_publish(exchange, "nobody", b"returned", mandatory=True)
    channel.queue_bind(queue, alternate)
    channel.basic_publish(exchange, "nobody", b"caught", mandatory=True)
    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == (exchange, "nobody", b"caught")


def test_cc_and_bcc_are_routed_and_bcc_is_hidden(channel, names):
    queues = [names.queue() for _ in range(4)]
    for queue in queues:
        channel.queue_declare(queue)
    headers = {"CC": [queues[1], queues[0]], "BCC": [queues[2]], "kept": 1}
    channel.basic_publish("", queues[0], b"copies", pika.BasicProperties(headers=headers))
    for queue in queues[:3]:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        assert (method.routing_key, body) == (queues[0], b"copies")
        assert properties.headers == {"CC": [queues[1], queues[0]], "kept": 1}
        assert bodies(channel, queue) == []
    assert bodies(channel, queues[3]) == []


def test_a_cc_header_that_is_no_array_is_refused(channel, queue):
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.basic_publish("", queue, b"", pika.BasicProperties(headers={"CC": "text"}))
    assert error.value.reply_code == 406
