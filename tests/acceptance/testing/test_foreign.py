"""Tests with a broker that they have not started, in the place of which there is one of Warren."""

import socket
import threading
import time
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.utils.connection_workflow import AMQPConnectorStackTimeout

from tests.support.polling import until
from warren.testing import Broker, BrokerError, ForeignBroker, NotPossible
from warren.testing.http_api import HTTPAPI

from .clients import channel_of, connect, hears_nothing

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Broker]:
    with Broker({"default_user": "me@here", "default_pass": "p/w", "loopback_users": "none"}) as broker:
        yield broker


@pytest.fixture
def address(rabbit: Broker) -> str:
    return f"amqp://me%40here:p%2Fw@{rabbit.host}:{rabbit.port}"


@pytest.fixture
def foreign(rabbit: Broker, address: str) -> ForeignBroker:
    return ForeignBroker(address, rabbit.http_url)


def vhosts_of(foreign: ForeignBroker) -> set[str]:
    return {row["name"] for row in foreign.api.call("GET", "vhosts")}


def test_each_virtual_host_is_new_and_deleted_at_its_end(foreign: ForeignBroker) -> None:
    before = vhosts_of(foreign)
    with foreign.vhost("a/b") as first, foreign.vhost("a/b") as second:
        assert first.name != second.name and first.name.startswith("a/b-")
        assert vhosts_of(foreign) == before | {first.name, second.name}
        channel_of(first).queue_declare("q")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel_of(second).queue_declare("q", passive=True)
        second.delete()
        second.delete()
        foreign.api.call("DELETE", "vhosts", first.name)  # by the test itself
    foreign.delete_vhost("/")
    assert vhosts_of(foreign) == before


def test_without_an_http_api_all_share_the_virtual_host_of_the_address(rabbit: Broker, address: str) -> None:
    with rabbit.vhost("shared/one"):
        foreign = ForeignBroker(f"{address}/shared%2Fone", "http://127.0.0.1:1")
        with foreign.vhost("a") as first, foreign.vhost() as second:
            assert first.name == second.name == "shared/one"
            channel_of(first).queue_declare("q")
        channel_of(second).queue_declare("q", passive=True)
        with pytest.raises(NotPossible, match="drop_connections"):
            foreign.drop_connections(reason="maintenance")
        with pytest.raises(NotPossible, match=r"no answer from the HTTP API at http://127\.0\.0\.1:1"):
            first.federate_queue("q", second)


def test_a_user_that_the_http_api_refuses_is_reported(rabbit: Broker, address: str) -> None:
    foreign = ForeignBroker(address.replace("p%2Fw", "wrong"), rabbit.http_url)
    with pytest.raises(BrokerError, match="refuses user 'me@here'") as raised:
        foreign.vhost()
    assert not isinstance(raised.value, NotPossible)


USES: list[Callable[[ForeignBroker], object]] = [
    lambda broker: broker.kill(),
    lambda broker: broker.restart(keep=False),
    lambda broker: broker.partition("*"),
    lambda broker: broker.delay(10),
    lambda broker: broker.refuse(),
    lambda broker: broker.block(),
    lambda broker: broker.fill_disk(),
    lambda broker: broker.expire_now("q"),
    lambda broker: broker.advance(10),
    lambda broker: broker.drop_connections("*"),
    lambda broker: broker.heal(),
    lambda broker: broker.accept(),
    lambda broker: broker.pid,
    lambda broker: broker.log(),
]


@pytest.mark.parametrize("use", USES)
def test_what_needs_a_broker_of_the_tests_skips_the_test(
    foreign: ForeignBroker, use: Callable[[ForeignBroker], object]
) -> None:
    with pytest.raises(unittest.SkipTest, match=rf"that at 127\.0\.0\.1:{foreign.port} is another one") as raised:
        use(foreign)
    assert isinstance(raised.value, BrokerError)
    with pytest.raises(AttributeError):
        foreign.unknown  # noqa: B018


def test_an_operator_closes_connections_of_the_tests_alone(rabbit: Broker, foreign: ForeignBroker) -> None:
    with foreign.vhost() as ours, rabbit.vhost("theirs") as theirs:
        shop, stock, other = connect(ours, "shop-1"), connect(ours, "stock"), connect(theirs, "shop-2")
        closed: list[int] = []
        until(lambda: closed.append(foreign.drop_connections("shop*", reason="maintenance")) or sum(closed) == 1)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
            shop.process_data_events(10)
        stock.process_data_events(0)
        other.process_data_events(0)


def test_a_connection_is_found_that_the_broker_lists_later(
    proxied: ForeignBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RabbitMQ lists connections late, and some that have been closed meanwhile."""
    listed, late = HTTPAPI.call, [0, 2]

    def call(api: HTTPAPI, method: str, *path: str, **more: Any) -> Any:
        rows = listed(api, method, *path, **more)
        if path == ("connections",):
            late[0] += 1
            return rows[:1] if late[0] < late[1] else [*rows, {**rows[0], "name": "gone"}]
        return rows

    monkeypatch.setattr(HTTPAPI, "call", call)
    with proxied.vhost() as vhost:
        first, second = connect(vhost, "shop-1"), connect(vhost, "shop-2")
        assert proxied.drop_connections("shop-*", reason="maintenance") == 2
        for each in (first, second):
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
                each.process_data_events(10)


def test_sites_of_one_broker_federate(foreign: ForeignBroker) -> None:
    with foreign.vhost("north") as north, foreign.vhost("south") as south:
        for site in (north, south):
            channel = channel_of(site)
            channel.exchange_declare("e", "fanout", durable=True)
            channel.queue_declare("q", durable=True)
            channel.queue_bind("q", "e")
        south.federate_exchange("e", north)
        channel_of(north).basic_publish("e", "", b"x")
        until(lambda: channel.basic_get("q", auto_ack=True)[2] == b"x")
        with pytest.raises(BrokerError, match="400"):
            south.federate_exchange("e", north, max_hops="many")


# Faults of the network, by the proxy


@pytest.fixture
def proxied(foreign: ForeignBroker) -> Iterator[ForeignBroker]:
    with foreign:
        yield foreign
        foreign.reset()


def test_connections_are_refused_and_accepted_again(proxied: ForeignBroker) -> None:
    with proxied.vhost() as vhost:
        stays = connect(vhost)
        with proxied.refuse(), pytest.raises(pika.exceptions.AMQPConnectionError):
            connect(vhost)
        connect(vhost).close()
        proxied.refuse()
        proxied.reset()
        connect(vhost).close()
        stays.process_data_events(0)


def test_replies_are_late(proxied: ForeignBroker) -> None:
    with proxied.vhost() as vhost:
        channel = channel_of(vhost)
        with proxied.delay(100):
            begun_s = time.monotonic()
            channel.queue_declare("q")
            assert time.monotonic() - begun_s >= 0.1


def test_what_is_sent_in_a_partition_arrives_after_it(proxied: ForeignBroker) -> None:
    with proxied.vhost() as vhost:
        channel = connect(vhost).channel()
        channel.queue_declare("q")
        with proxied.partition():
            channel.basic_publish("", "q", b"x")
            channel.connection.process_data_events(0.1)
            assert proxied.api.call("GET", "queues", vhost.name, "q")["messages"] == 0
            with pytest.raises(AMQPConnectorStackTimeout):
                connect(vhost, stack_timeout=0.2)
        until(lambda: channel.basic_get("q", auto_ack=True)[2] == b"x")
        with pytest.raises(NotPossible, match="partition of some clients"):
            proxied.partition("shop-*")
        proxied.partition()
        assert hears_nothing(channel)
        proxied.reset()


def test_sockets_are_closed_by_name_or_all(proxied: ForeignBroker) -> None:
    with proxied.vhost() as vhost:
        shop, stock, late = connect(vhost, "shop-1"), connect(vhost, "stock"), connect(vhost, "late")
        assert proxied.drop_connections("shop-*") == 1
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            shop.process_data_events(10)
        stock.process_data_events(0)
        proxied.partition()
        assert proxied.drop_connections() == 2
        for connection in (stock, late):
            connection.process_data_events(0.05)
        proxied.heal()
        for connection in (stock, late):
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                connection.process_data_events(10)


def test_large_messages_pass_in_both_directions(proxied: ForeignBroker) -> None:
    """A consumer that reads slower than the broker sends holds the broker back, and not the proxy's memory."""
    body = bytes(range(256)) * 40_000
    with proxied.vhost() as vhost:
        channel = channel_of(vhost)
        channel.queue_declare("q")
        for _ in range(3):
            channel.basic_publish("", "q", body)
        assert [channel.basic_get("q", auto_ack=True)[2] == body for _ in range(3)] == [True] * 3


def test_a_client_notices_that_the_broker_is_not_there_and_leaves_nothing_behind(proxied: ForeignBroker) -> None:
    threads = set(threading.enumerate())
    with ForeignBroker("amqp://127.0.0.1:1", proxied.http_url) as absent:
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            pika.BlockingConnection(pika.URLParameters(absent.url))
        assert set(threading.enumerate()) > threads
    assert set(threading.enumerate()) == threads


def test_the_end_of_a_connection_reaches_the_other_side(rabbit: Broker, proxied: ForeignBroker) -> None:
    with proxied.vhost() as vhost:
        client, victim = connect(vhost), connect(vhost, "victim")
        client._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        assert rabbit.drop_connections("victim") == 1
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            victim.process_data_events(10)
        until(lambda: not proxied.api.call("GET", "vhosts", vhost.name, "connections"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://localhost", ("amqp://guest:guest@localhost:5672/%2F", "http://localhost:15672", "guest")),
        ("amqps://me:a%40b@[::1]/v", ("amqps://me:a%40b@[::1]:5671/v", "http://[::1]:15672", "a@b")),
        ("amqp://h:1/a%2Fb?heartbeat=5", ("amqp://guest:guest@h:1/a%2Fb?heartbeat=5", "http://h:15672", "guest")),
    ],
)
def test_an_address_has_defaults(url: str, expected: tuple[str, str, str]) -> None:
    foreign = ForeignBroker(url)
    assert (foreign.url, foreign.http_url, foreign.password) == expected


@pytest.mark.parametrize("url", ["localhost:5672", "http://me:secret@localhost", "amqp://"])
def test_an_address_that_is_none_is_reported_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="is not an address such as") as raised:
        ForeignBroker(url)
    assert "secret" not in str(raised.value)
