"""Several brokers for tests that federate, and partitions between them."""

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.polling import until
from warren.testing import Broker, BrokerError, VHost, federation

from .clients import channel_of

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def second() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def north(vhost: VHost) -> VHost:
    return vhost


@pytest.fixture
def south(second: Broker) -> Iterator[VHost]:
    with second.vhost() as vhost:
        yield vhost
    second.reset()


def declare(site: VHost) -> BlockingChannel:
    """A durable exchange e, and a queue q that is bound to it."""
    channel = channel_of(site)
    channel.exchange_declare("e", "topic", durable=True)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "e", "#")
    return channel


def expect(channel: BlockingChannel, body: bytes) -> None:
    """Wait until the next message of q is this one."""
    found: list[bytes] = []
    until(lambda: found.append(channel.basic_get("q", auto_ack=True)[2]) or found[-1] is not None)
    assert found[-1] == body


def test_an_exchange_is_federated_when_the_call_returns(north: VHost, south: VHost) -> None:
    publisher, consumer = declare(north), declare(south)
    south.federate_exchange("e", north)
    publisher.basic_publish("e", "key", b"x")
    expect(consumer, b"x")


def test_a_queue_gets_the_messages_of_the_other_site_for_its_consumers(north: VHost, south: VHost) -> None:
    publisher, consumer = declare(north), declare(south)
    south.federate_queue("q", north, prefetch_count=1)
    publisher.basic_publish("", "q", b"x")
    assert next(consumer.consume("q", auto_ack=True, inactivity_timeout=30))[2] == b"x"


def test_links_of_what_is_declared_later_are_waited_for(north: VHost, south: VHost) -> None:
    south.federate_exchange("e", north)
    publisher, consumer = declare(north), declare(south)
    south.wait_for_links()
    publisher.basic_publish("e", "key", b"x")
    expect(consumer, b"x")


def test_brokers_that_are_cut_off_from_each_other_serve_their_clients(north: VHost, south: VHost) -> None:
    """The links of both directions, one that runs and one that begins in the partition, are healed at its end."""
    publisher, consumer = declare(north), declare(south)
    south.federate_exchange("e", north)
    with north.broker.partition(south.broker):
        publisher.basic_publish("e", "key", b"to the south")
        consumer.basic_publish("e", "key", b"local")
        expect(consumer, b"local")
        expect(publisher, b"to the south")
        assert consumer.basic_get("q")[2] is None
    expect(consumer, b"to the south")
    south.broker.partition(north.broker)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(federation, "LINKS_S", 0.3)
        with pytest.raises(BrokerError, match=r"links do not run after 0 s: exchanges-e-1: starting"):
            north.federate_exchange("e", south)
    south.broker.reset()
    north.broker.reset()
    north.wait_for_links()


@pytest.mark.rest("starts brokers again and again")
def test_a_site_that_was_killed_is_federated_again(north: VHost, south: VHost) -> None:
    publisher, _ = declare(north), declare(south)
    south.federate_exchange("e", north)
    south.broker.kill()
    publisher.basic_publish("e", "key", b"x", pika.BasicProperties(delivery_mode=2))
    south.broker.start()
    south.wait_for_links()
    expect(channel_of(south), b"x")
    north.broker.restart()
    south.wait_for_links()
    channel_of(north).basic_publish("e", "key", b"y")
    expect(channel_of(south), b"y")


def test_several_upstreams_of_one_exchange(broker: Broker, north: VHost, south: VHost) -> None:
    """Also of the same broker, and added one after the other."""
    with broker.vhost() as west, broker.vhost() as east:
        publishers = [declare(site) for site in (north, west, east)]
        consumer = declare(south)
        south.federate_exchange("e", north, west)
        south.federate_exchange("e", east, max_hops=2)
        for publisher in publishers:
            publisher.basic_publish("e", "key", b"x")
            expect(consumer, b"x")


def test_a_wrong_parameter_is_reported(north: VHost, south: VHost) -> None:
    with pytest.raises(BrokerError, match="prefetch-count"):
        south.federate_exchange("e", north, prefetch_count="many")
