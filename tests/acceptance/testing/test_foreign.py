"""Tests with a broker that they have not started, in the place of which there is one of Warren."""

import unittest
from collections.abc import Callable, Iterator

import pika
import pytest

from tests.support.polling import until
from warren.testing import Broker, BrokerError, ForeignBroker, NotPossible

from .clients import channel_of, connect

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
