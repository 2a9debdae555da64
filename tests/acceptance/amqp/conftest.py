"""Fixtures of the acceptance tests.

They run in process, with sockets, loop and clock replaced (tests/support/in_process.py). Three variables:

WARREN_PEER=HOST:PORT  test this broker over TCP. Tests that need the clock or the broker itself are skipped;
                       on RabbitMQ a test marked `differs` is expected to fail.
WARREN_CTL=COMMAND     the rabbitmqctl of that broker (with its -n NODE), for the tests that set policies there.
WARREN_READ=BYTES      the broker reads this little at once: with 1 no frame is ever complete in one read.
"""

import os
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.support.amqp_client import Channel, Client
from tests.support.in_process import InProcessPeer
from tests.support.peer import CTL, Peer, SocketPeer

PEER = os.environ.get("WARREN_PEER", "")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "in_process(reason): needs the fake clock, or the broker itself")
    config.addinivalue_line("markers", "policies: sets policies, as an operator does")
    config.addinivalue_line("markers", "missing(reason): what ours does not do yet")
    config.addinivalue_line("markers", "differs(reason): RabbitMQ answers otherwise, and why ours is meant")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        needs = item.get_closest_marker("in_process")
        if PEER and needs is not None:
            item.add_marker(pytest.mark.skip(reason=f"in process only: {needs.args[0]}"))
        if PEER and not CTL and item.get_closest_marker("policies") is not None:
            item.add_marker(pytest.mark.skip(reason="WARREN_CTL does not name the peer's rabbitmqctl"))
        missing = item.get_closest_marker("missing")
        if missing is not None and not (PEER and _is_rabbitmq()):
            item.add_marker(pytest.mark.xfail(reason=missing.args[0], strict=True))
        differs = item.get_closest_marker("differs")
        if PEER and differs is not None and _is_rabbitmq():
            item.add_marker(pytest.mark.xfail(reason=differs.args[0], strict=False))


@cache
def _is_rabbitmq() -> bool:
    """Whether the peer is RabbitMQ itself, which runs on Erlang."""
    peer = SocketPeer(PEER)
    client = peer.dial()
    client.start()
    peer.close()
    return "Erlang" in client.server_properties["platform"]


@pytest.fixture
def broker() -> Iterator[Peer]:
    peer: Peer = SocketPeer(PEER) if PEER else InProcessPeer()
    yield peer
    peer.close()


@pytest.fixture
def client(broker: Peer) -> Client:
    return broker.connect()


@pytest.fixture
def ch(client: Client) -> Channel:
    return client.channel()


@pytest.fixture
def name(broker: Peer) -> Callable[[str], str]:
    """Return names for queues and exchanges of this test alone."""
    return broker.name


@pytest.fixture
def queue(ch: Channel, name: Callable[[str], str]) -> str:
    """An empty transient queue."""
    declared = name("queue")
    ch.declare(declared)
    return declared


@pytest.fixture
def dlx(ch: Channel, name: Callable[[str], str]) -> str:
    """A fanout exchange for dead letters, which arrive at `dead`."""
    ch.exchange(exchange := name("dlx"), "fanout")
    ch.declare(letters := name("letters"))
    ch.bind(letters, exchange)
    return exchange


@pytest.fixture
def dead(client: Client, dlx: str, name: Callable[[str], str]) -> Channel:
    """A channel that consumes the dead letters of `dlx`."""
    channel = client.consumer(name("letters"), no_ack=True)
    return channel


@pytest.fixture
def source(ch: Channel, name: Callable[[str], str], dlx: str) -> str:
    """A queue whose dead letters go to `dlx`."""
    ch.declare(queue := name("source"), arguments={"x-dead-letter-exchange": dlx})
    return queue
