"""The broker of the conformance tests: one that they start, or a peer.

By default one broker serves the whole run: `warren serve` on a free port, in a temporary folder, stopped
with SIGTERM at the end, when it must exit with status 0. With `WARREN_PEER=HOST:PORT` the same tests use any
other broker for AMQP 0-9-1 (user guest), and so are checked against RabbitMQ itself.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess

from .api import API, api_of, broker_with_api


@pytest.fixture(scope="session")
def broker_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    peer = os.environ.get("WARREN_PEER")
    if peer:
        host, _, port = peer.rpartition(":")
        yield host, int(port)
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker"), memory=True) as broker:
        yield broker.address
        broker.stop()


@pytest.fixture(scope="session")
def peer() -> bool:
    """True if the tests use another broker: an older RabbitMQ answers differently where a test says so."""
    return "WARREN_PEER" in os.environ


@pytest.fixture(scope="session")
def broker_host(broker_address: tuple[str, int]) -> str:
    return broker_address[0]


@pytest.fixture(scope="session")
def broker_port(broker_address: tuple[str, int]) -> int:
    return broker_address[1]


@pytest.fixture(scope="session")
def broker_url(broker_address: tuple[str, int]) -> str:
    host, port = broker_address
    return f"amqp://guest:guest@{host}:{port}/%2F"


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[API]:
    """The HTTP API of a new broker, or of the one that WARREN_API names."""
    named = os.environ.get("WARREN_API")
    if named:
        host, _, port = named.rpartition(":")
        yield API(host, int(port), os.environ.get("WARREN_PEER", "127.0.0.1:5672"))
        return
    with broker_with_api(tmp_path_factory.mktemp("api")) as broker:
        yield api_of(broker)
        broker.stop()


@pytest.fixture
def vhost(api: API) -> Iterator[str]:
    """A new virtual host, with a name that must be quoted in paths."""
    name = f"con/formance.{uuid.uuid4().hex[:8]}"
    api.put(f"/vhosts/{quote(name, '')}")
    api.put(f"/permissions/{quote(name, '')}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    yield name
    api.delete(f"/vhosts/{quote(name, '')}")


@pytest.fixture
def path(vhost: str) -> str:
    """The virtual host in a path of the HTTP API."""
    return quote(vhost, "")


@pytest.fixture
def channel(api: API, vhost: str) -> Iterator[BlockingChannel]:
    """A channel of AMQP in the virtual host."""
    host, _, port = api.amqp.rpartition(":")
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port), vhost)) as connection:
        yield connection.channel()


class Names:
    """Unique names for objects, which are deleted after the test."""

    def __init__(self) -> None:
        self.queues: list[str] = []
        self.exchanges: list[str] = []

    def queue(self, hint: str = "q") -> str:
        self.queues.append(f"conformance.{hint}.{uuid.uuid4().hex}")
        return self.queues[-1]

    def exchange(self, hint: str = "x") -> str:
        self.exchanges.append(f"conformance.{hint}.{uuid.uuid4().hex}")
        return self.exchanges[-1]


@pytest.fixture
def names(broker_host: str, broker_port: int) -> Iterator[Names]:
    made = Names()
    yield made
    if not made.queues and not made.exchanges:
        return
    with pika.BlockingConnection(pika.ConnectionParameters(broker_host, broker_port)) as connection:
        channel = connection.channel()
        for queue in made.queues:
            channel.queue_delete(queue)
        for exchange in made.exchanges:
            channel.exchange_delete(exchange)


@pytest.fixture
def pika_connect(names: Names, broker_host: str, broker_port: int) -> Iterator[Callable[..., pika.BlockingConnection]]:
    """Open pika connections (the parameters of `pika.ConnectionParameters`); close those that the test leaves open."""
    opened: list[pika.BlockingConnection] = []

    def connect(**parameters: Any) -> pika.BlockingConnection:
        opened.append(pika.BlockingConnection(pika.ConnectionParameters(broker_host, broker_port, **parameters)))
        return opened[-1]

    yield connect
    for connection in opened:
        if connection.is_open:
            connection.close()
