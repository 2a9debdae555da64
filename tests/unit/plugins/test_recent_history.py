"""x-recent-history: what is kept, who gets it in which order, what a restart keeps."""

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support import pika_client, queues
from tests.support.broker_process import BrokerProcess
from tests.support.clock import FakeClock
from tests.support.pika_client import channel_at
from tests.support.queues import taken
from tests.support.session import SlowJournal, new_node
from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.node.node import Node
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.vhost import VHost
from warren.plugins.exchanges.recent_history import RecentHistoryExchange

TYPE = "x-recent-history"
LENGTH = "x-recent-history-length"
NO_STORE = "x-recent-history-no-store"


@pytest.fixture
def journal() -> SlowJournal:
    return SlowJournal()


@pytest.fixture
def node(journal: SlowJournal) -> Node:
    node = new_node(journal)
    node.registry.register(TYPE, RecentHistoryExchange)
    return node


@pytest.fixture
def vhost(node: Node) -> VHost:
    return node.vhosts["/"]


def declare(vhost: VHost, durable: bool = False, **arguments: object) -> None:
    vhost.declare_exchange("x", TYPE, durable=durable, arguments=Table.of(arguments))


def queue(vhost: VHost, name: str) -> Queue:
    return vhost.declare_queue(name)


def publish(vhost: VHost, body: bytes, key: str = "k", **properties: Any) -> int:
    return queues.publish(vhost, "x", key, body, **properties)


def bodies(queue: Queue) -> list[bytes]:
    return [message.body for message in taken(queue)]


def test_a_new_binding_gets_the_last_twenty_the_oldest_first(vhost: VHost) -> None:
    declare(vhost)
    for number in range(25):
        assert publish(vhost, b"%d" % number) == 0
    late = queue(vhost, "late")
    vhost.bind("x", late, "", Table.EMPTY)
    assert bodies(late) == [b"%d" % number for number in range(5, 25)]


def test_the_length_is_what_the_argument_says(vhost: VHost) -> None:
    declare(vhost, **{LENGTH: 2})
    for body in (b"1", b"2", b"3"):
        publish(vhost, body)
    late = queue(vhost, "late")
    vhost.bind("x", late, "", Table.EMPTY)
    assert bodies(late) == [b"2", b"3"]


@pytest.mark.parametrize("length", [0, -1, "5", True, 1.0])
def test_a_length_that_is_no_positive_integer_is_refused(vhost: VHost, length: object) -> None:
    with pytest.raises(PreconditionFailed, match=f"'{LENGTH}' must be a positive integer"):
        declare(vhost, **{LENGTH: length})


def test_the_text_shows_the_length_that_was_refused(vhost: VHost) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        declare(vhost, **{LENGTH: -1})
    assert refused.value.text == f"Invalid argument -1, '{LENGTH}' must be a positive integer"


def test_it_is_a_fanout_and_those_who_are_bound_get_each_message_once(vhost: VHost) -> None:
    declare(vhost)
    both = [queue(vhost, name) for name in ("a", "b")]
    for each in both:
        vhost.bind("x", each, "key", Table.EMPTY)
    assert publish(vhost, b"1", key="other") == 2
    assert [bodies(each) for each in both] == [[b"1"], [b"1"]]
    vhost.unbind("x", both[0], "key", Table.EMPTY)
    assert publish(vhost, b"2") == 1


def test_each_distinct_binding_gets_the_history_and_a_repeated_one_does_not(vhost: VHost) -> None:
    declare(vhost)
    publish(vhost, b"1")
    one, two = queue(vhost, "one"), queue(vhost, "two")
    vhost.bind("x", one, "", Table.EMPTY)
    vhost.bind("x", two, "", Table.EMPTY)
    vhost.bind("x", one, "", Table.EMPTY)
    assert (bodies(one), bodies(two)) == ([b"1"], [b"1"])
    vhost.bind("x", one, "again", Table.EMPTY)
    assert (bodies(one), bodies(two)) == ([b"1"], [])


@pytest.mark.parametrize(("value", "kept"), [(True, []), (False, [b"1"]), ("true", [b"1"]), (1, [b"1"])])
def test_a_header_keeps_a_message_out_of_the_history(vhost: VHost, value: object, kept: list[bytes]) -> None:
    declare(vhost)
    live = queue(vhost, "live")
    vhost.bind("x", live, "", Table.EMPTY)
    publish(vhost, b"1", headers=Table.of({NO_STORE: value}))
    late = queue(vhost, "late")
    vhost.bind("x", late, "", Table.EMPTY)
    assert (bodies(live), bodies(late)) == ([b"1"], kept)


def test_what_is_given_again_is_the_message_as_it_was_published(vhost: VHost) -> None:
    declare(vhost)
    publish(vhost, b"body", key="its key", headers=Table.of({"a": 1}), message_id="m")
    late = queue(vhost, "late")
    vhost.bind("x", late, "binding key", Table.EMPTY)
    (message,) = taken(late)
    assert (message.address.exchange, message.address.routing_key, message.body) == ("x", "its key", b"body")
    assert message.properties.message_id == "m" and message.headers == Table.of({"a": 1})


def test_the_time_to_live_begins_anew_for_each(node: Node, vhost: VHost) -> None:
    assert isinstance(node.clock, FakeClock)
    declare(vhost)
    publish(vhost, b"1", expiration="50")
    node.clock.advance(1000)
    late = queue(vhost, "late")
    vhost.bind("x", late, "", Table.EMPTY)
    node.clock.advance(49)
    assert late.ready == 1
    node.clock.advance(1)
    assert bodies(late) == []


def test_an_exchange_that_is_bound_routes_the_history(vhost: VHost) -> None:
    declare(vhost)
    publish(vhost, b"1", key="red")
    publish(vhost, b"2", key="blue")
    vhost.declare_exchange("y", "direct")
    red = queue(vhost, "red")
    vhost.bind("y", red, "red", Table.EMPTY)
    vhost.bind("x", vhost.exchanges["y"], "", Table.EMPTY)
    assert bodies(red) == [b"1"]


def test_a_durable_exchange_stores_what_it_keeps_and_forgets_what_it_does_not(
    vhost: VHost, journal: SlowJournal
) -> None:
    declare(vhost, durable=True, **{LENGTH: 3})
    for number in range(10):
        publish(vhost, b"%d" % number, delivery_mode=number % 2 + 1)
    number = vhost.exchanges["x"].number
    assert [(queue, message.body) for (queue, _), message in journal.live.items()] == [
        (number, b"7"), (number, b"8"), (number, b"9"),
    ]  # fmt: skip
    vhost.delete_exchange("x")
    assert not journal.live and not journal.left and not journal.loose


def test_an_exchange_that_is_not_durable_stores_nothing(vhost: VHost, journal: SlowJournal) -> None:
    declare(vhost)
    publish(vhost, b"1", delivery_mode=2)
    assert not journal.live and not journal.stored
    vhost.delete_exchange("x")


def declare_chain(vhost: VHost) -> tuple[Exchange, Exchange]:
    """Declare the durable exchange x, which keeps one message, and y, which is bound to it and keeps 20."""
    declare(vhost, durable=True, **{LENGTH: 1})
    x, y = vhost.exchanges["x"], vhost.declare_exchange("y", TYPE, durable=True)
    vhost.bind("x", y, "", Table.EMPTY)
    return x, y


def test_a_message_that_several_durable_exchanges_keep_is_stored_once_and_dropped_by_each(
    vhost: VHost, journal: SlowJournal
) -> None:
    x, y = declare_chain(vhost)
    publish(vhost, b"1")
    assert journal.stored == 1 and set(journal.live) == {(x.number, 1), (y.number, 1)}
    publish(vhost, b"2")
    assert journal.stored == 2 and set(journal.live) == {(y.number, 1), (x.number, 2), (y.number, 2)}
    vhost.delete_exchange("y")
    assert set(journal.live) == {(x.number, 2)}
    vhost.delete_exchange("x")
    assert not journal.live and not journal.left and not journal.loose


@pytest.mark.parametrize("end", ["another message", "deleted", "deleted before it keeps the message"])
def test_a_message_that_an_exchange_drops_before_its_route_is_complete_is_not_stored_for_it(
    vhost: VHost, journal: SlowJournal, end: str
) -> None:
    x, y = declare_chain(vhost)
    search = vhost.search(x, ("k",), framed(RoutingAddress("x", "k"), Properties(), b"1"))
    assert not search.run(1)
    while end != "deleted before it keeps the message" and not x.type._kept:
        assert not search.run(1)
    if end != "another message":
        vhost.delete_exchange("x")
    else:
        publish(vhost, b"2")
    assert search.run()
    assert [key for key, message in journal.live.items() if message.body == b"1"] == [(y.number, journal.stored)]


def test_an_exchange_that_is_deleted_before_a_message_reaches_it_keeps_nothing(
    vhost: VHost, journal: SlowJournal
) -> None:
    x, _ = declare_chain(vhost)
    search = vhost.search(x, ("k",), framed(RoutingAddress("x", "k"), Properties(), b"1"))
    while not search.run(1):
        vhost.delete_exchange("y")
    assert set(journal.live) == {(x.number, 1)} and not journal.left


# Over a socket


def send(channel: BlockingChannel, body: bytes, mode: int, **headers: Any) -> None:
    channel.basic_publish("x", "k", body, pika.BasicProperties(headers=headers, delivery_mode=mode))


@pytest.mark.sockets
def test_the_history_of_a_durable_exchange_survives_a_killed_broker(daemon: BrokerProcess) -> None:
    with channel_at(daemon.address) as channel:
        channel.exchange_declare("x", TYPE, durable=True, arguments={LENGTH: 3})
        channel.queue_declare("live", durable=True)
        channel.queue_bind("live", "x", "")
        channel.confirm_delivery()
        for number in range(6):
            send(channel, b"%d" % number, 1 + number % 2)
        send(channel, b"other", 2, **{NO_STORE: True})
    for end in (daemon.kill, daemon.stop):
        end()
        daemon.start()
        with channel_at(daemon.address) as channel:
            channel.queue_declare("late", exclusive=True)
            channel.queue_bind("late", "x", "")
            late = [(body, properties.delivery_mode) for _, properties, body in pika_client.taken(channel, "late")]
            assert late == [(b"3", 2), (b"4", 1), (b"5", 2)]
    with channel_at(daemon.address) as channel:
        came = [body for _, _, body in pika_client.taken(channel, "live")]
    assert came == [b"1", b"3", b"5", b"other"], "nothing was replayed"
