"""The sentences of the presence exchange's own description, tested over a socket. A docstring is the sentence."""

from collections.abc import Callable
from decimal import Decimal
from itertools import count

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess
from tests.support.pika_client import Connect, channel_at, queue, taken
from tests.support.polling import until

pytestmark = pytest.mark.sockets
numbers = count()


@pytest.fixture
def exchange(channel: BlockingChannel) -> str:
    """A presence exchange. Its name has spaces, as in the tests of the original."""
    name = f"Presence exchange for testing {next(numbers)}"
    channel.exchange_declare(name, "x-presence", auto_delete=False)
    return name


@pytest.fixture
def listener(channel: BlockingChannel, exchange: str) -> str:
    name = queue(channel)
    channel.queue_bind(name, exchange, "")
    return name


def notices(channel: BlockingChannel, listener: str) -> list[tuple[str, str, str]]:
    """Return the notices of a listener: action, queue and key."""
    headers = [properties.headers for _, properties, _ in taken(channel, listener)]
    return [(each["action"], each["queue"], each["key"]) for each in headers]


def test_messages_go_to_queues_bound_with_the_empty_key(channel, exchange, listener):
    """Messages are sent out from an x-presence exchange to queues attached with a binding key of the empty string when
    a new binding appears or an existing binding disappears."""
    second, someone = queue(channel), queue(channel)
    channel.queue_bind(second, exchange, "")
    channel.queue_bind(someone, exchange, "a")
    channel.queue_bind(someone, exchange, "a")  # is there already
    channel.queue_bind(someone, exchange, "b")
    channel.queue_delete(someone)
    expected = [("bind", someone, "a"), ("bind", someone, "b"), ("unbind", someone, "a"), ("unbind", someone, "b")]
    for name in (listener, second):
        assert notices(channel, name) == expected


def test_the_body_is_empty_and_the_headers_say_it_all(channel, exchange, listener):
    """The message sent out has an empty body, with all the interesting information in the headers property of the
    message headers: action, exchange, queue and key."""
    someone = queue(channel)
    channel.queue_bind(someone, exchange, "some key")
    channel.queue_unbind(someone, exchange, "some key")
    messages = taken(channel, listener)
    for (method, properties, body), action in zip(messages, ("bind", "unbind"), strict=True):
        wanted = {"action": action, "exchange": exchange, "queue": someone, "key": "some key"}
        assert list(properties.headers.items()) == list(wanted.items())
        assert (body, method.exchange, method.routing_key, method.redelivered) == (b"", exchange, "", False)
        assert [name for name, value in vars(properties).items() if value is not None] == ["headers"]


def test_listeners_do_not_produce_and_producers_do_not_receive(channel, exchange, listener):
    """No messages are published for bindings with a key of the empty string. Bindings made with any other binding key
    produce presence messages but do not receive them."""
    second, someone = queue(channel), queue(channel)
    channel.queue_bind(second, exchange, "")
    channel.queue_bind(second, exchange, "", arguments={"another": "binding"})
    channel.queue_unbind(second, exchange, "")
    channel.queue_delete(second)
    channel.queue_bind(someone, exchange, "k")
    channel.queue_bind(someone, exchange, "l")
    assert notices(channel, listener) == [("bind", someone, "k"), ("bind", someone, "l")]
    assert notices(channel, someone) == []


def test_published_messages_are_dropped(channel, exchange, listener):
    """Right now, messages published to x-presence exchanges are dropped, rather than sent through to bound queues."""
    someone = queue(channel)
    channel.queue_bind(someone, exchange, "k")
    taken(channel, listener)
    forged = pika.BasicProperties(headers={"action": "bind", "exchange": exchange, "queue": "nobody", "key": "k"})
    for key in ("", "k", "*"):
        channel.basic_publish(exchange, key, b"dropped", forged)
    assert taken(channel, listener) == taken(channel, someone) == []
    channel.confirm_delivery()
    channel.basic_publish(exchange, "k", b"confirmed")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(exchange, "k", b"returned", mandatory=True)


def test_a_new_listener_gets_a_summary(channel, exchange):
    """When a new presence listener is bound to a presence exchange (i.e. a new binding is created with binding_key
    being the empty string), an initial summary of the available bindings is sent to the newly-bound queue."""
    present, late = [queue(channel) for _ in range(3)], queue(channel)
    for name in present:
        channel.queue_bind(name, exchange, "here")
    channel.queue_bind(present[0], exchange, "twice")
    channel.queue_unbind(present[2], exchange, "here")
    channel.queue_bind(late, exchange, "")
    summary = [("bind", present[0], "here"), ("bind", present[0], "twice"), ("bind", present[1], "here")]
    assert sorted(notices(channel, late)) == sorted(summary)
    channel.queue_bind(late, exchange, "")  # no new binding
    assert notices(channel, late) == []


def test_the_summary_is_bind_messages(channel, exchange, listener):
    """The summary is sent as a sequence of messages, each formatted as a bind message as described above."""
    someone, late = queue(channel), queue(channel)
    channel.queue_bind(someone, exchange, "k")
    channel.queue_bind(late, exchange, "")
    ((_, live, _),), ((method, summed, body),) = taken(channel, listener), taken(channel, late)
    assert list(summed.headers.items()) == list(live.headers.items())
    assert (body, method.exchange, method.routing_key) == (b"", exchange, "")


@pytest.mark.parametrize(
    ("value", "wanted"), [(False, False), (0, False), (Decimal("0"), False), (None, True), (True, True), ("0", True)]
)
def test_an_argument_of_the_binding_disables_the_summary(channel, exchange, value, wanted):
    """Supplying an argument named x-presence-exchange-summary with a value of 0 or false will disable the initial
    summary transmission. If it has any other value, the initial summary transmission will be enabled."""
    someone, late = queue(channel), queue(channel)
    channel.queue_bind(someone, exchange, "before")
    channel.queue_bind(late, exchange, "", arguments={"x-presence-exchange-summary": value})
    assert notices(channel, late) == [("bind", someone, "before")] * wanted
    channel.queue_bind(someone, exchange, "after")
    assert notices(channel, late) == [("bind", someone, "after")]


@pytest.mark.parametrize("key", ["k", "#", " ", "käse", "x" * 255])
def test_how_to_generate_events(channel, exchange, listener, key):
    """Bind to a presence exchange with any binding_key other than the empty string. The chosen binding key will be
    propagated to all presence listeners in a message formatted as described above."""
    second, someone = queue(channel), queue(channel)
    channel.queue_bind(second, exchange, "")
    channel.queue_bind(someone, exchange, key)
    assert notices(channel, listener) == notices(channel, second) == [("bind", someone, key)]


def test_messages_can_be_forwarded_if_they_are_marked(channel, exchange):
    """Messages could be forwarded if they could be marked by the exchange in a way that made it clear that the
    passed-on messages didn't originate from within the exchange itself. One way to do that might be to have the
    exchange rewrite messages to be similar to presence messages, but with an action of message and a body containing
    the encapsulated properties and body of the relayed message."""
    relaying, listener = f"{exchange} that relays", queue(channel)
    channel.exchange_declare(relaying, "x-presence", arguments={"x-presence-relay": True})
    channel.queue_bind(listener, relaying, "")
    forged = {"action": "bind", "exchange": relaying, "queue": "nobody", "key": "k"}
    properties = pika.BasicProperties(headers=forged, content_type="text/plain", priority=3, delivery_mode=2)
    channel.confirm_delivery()
    channel.basic_publish(relaying, "some.key", b"body", properties, mandatory=True)
    ((method, relayed, body),) = taken(channel, listener)
    assert (method.exchange, method.routing_key, body) == (relaying, "some.key", b"body")
    inside = {"content_type": "text/plain", "headers": forged, "delivery_mode": 2, "priority": 3}
    wanted = {"action": "message", "exchange": relaying, "key": "some.key", "properties": inside}
    assert list(relayed.headers.items()) == list(wanted.items())
    assert {name for name, value in vars(relayed).items() if value is not None} == {"headers", "delivery_mode"}


# Every cause of an unbind


def test_an_expired_queue_is_unbound(channel, exchange, listener):
    """An existing binding disappears: the queue expires."""
    someone = queue(channel, x_expires=500)
    channel.queue_bind(someone, exchange, "k", arguments={"n": 1})
    seen: list[tuple[str, str, str]] = []

    def both() -> bool:
        seen.extend(notices(channel, listener))
        return len(seen) >= 2

    until(both)
    assert seen == [("bind", someone, "k"), ("unbind", someone, "k")]


def test_an_exclusive_queue_is_unbound_with_its_connection(channel, exchange, listener, connect: Connect):
    """An existing binding disappears: the connection that has the queue exclusively ends."""
    owner = connect()
    theirs = owner.channel()
    someone = queue(theirs)
    theirs.queue_bind(someone, exchange, "k")
    assert notices(channel, listener) == [("bind", someone, "k")]
    owner.close()
    assert until(lambda: notices(channel, listener)) == [("unbind", someone, "k")]


def test_an_auto_delete_queue_is_unbound_with_its_last_consumer(channel, exchange, listener):
    """An existing binding disappears: the last consumer of an auto-delete queue goes."""
    someone = channel.queue_declare("", auto_delete=True).method.queue
    channel.queue_bind(someone, exchange, "k")
    tag = channel.basic_consume(someone, lambda *_: None)
    channel.basic_cancel(tag)
    assert notices(channel, listener) == [("bind", someone, "k"), ("unbind", someone, "k")]


def test_an_exchange_that_is_bound_is_unbound_when_it_is_deleted(channel, exchange, listener):
    """An existing binding disappears: the exchange at its other end is deleted."""
    channel.exchange_declare(other := f"{exchange} other")
    channel.exchange_bind(other, exchange, "k")
    channel.exchange_delete(other)
    assert notices(channel, listener) == [("bind", other, "k"), ("unbind", other, "k")]


def test_the_end_of_the_presence_exchange_itself_is_not_told(channel, exchange, listener):
    """The source is gone, and with it all that listened."""
    channel.queue_bind(queue(channel), exchange, "k")
    notices(channel, listener)
    channel.exchange_delete(exchange)
    assert notices(channel, listener) == []


# A restart


def test_a_restart_replays_no_notices_and_forgets_no_presence(daemon: BrokerProcess, restart: Callable[..., None]):
    """A presence that a restart restores is no new presence."""
    with channel_at(daemon.address) as channel:
        channel.exchange_declare("p", "x-presence", durable=True)
        for name in ("listener", "present", "late"):
            channel.queue_declare(name, durable=True)
        channel.queue_bind("listener", "p", "")
        channel.queue_bind("present", "p", "k")
        assert notices(channel, "listener") == [("bind", "present", "k")]
    restart()
    with channel_at(daemon.address) as channel:
        channel.queue_bind("present", "p", "k")  # is there already
        assert notices(channel, "listener") == []
        channel.queue_bind("late", "p", "")
        assert notices(channel, "late") == [("bind", "present", "k")]
        channel.queue_delete("present")
        assert notices(channel, "listener") == notices(channel, "late") == [("unbind", "present", "k")]
