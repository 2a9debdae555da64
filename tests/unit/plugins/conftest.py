"""A broker with the plugins of this checkout, and pika connections to it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess
from tests.support.http import Api
from tests.support.pika_client import Connect, dial


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of its own, for tests that stop it."""
    daemon = BrokerProcess(tmp_path)
    daemon.start()
    yield daemon
    daemon.close()


@pytest.fixture(params=["killed", "stopped"])
def restart(request: pytest.FixtureRequest, daemon: BrokerProcess) -> Callable[..., None]:
    """Ends that broker in one way or the other, and starts it again, with a clock that is so far ahead."""

    def ended_and_started(clock_ahead_s: float = 0.0) -> None:
        daemon.kill() if request.param == "killed" else daemon.stop()
        daemon.clock_ahead_s = clock_ahead_s
        daemon.start()

    return ended_and_started


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for all tests of a module."""
    daemon = BrokerProcess(tmp_path_factory.mktemp("broker"))
    daemon.start()
    yield daemon
    daemon.close()


@pytest.fixture
def api() -> Iterator[Api]:
    """The HTTP API of a broker in this process."""
    made = Api()
    yield made
    made.close()


@pytest.fixture
def connect(running: BrokerProcess) -> Iterator[Connect]:
    """Opens connections, and closes those that the test left open."""
    opened: list[pika.BlockingConnection] = []

    def connected() -> pika.BlockingConnection:
        opened.append(dial(running.address))
        return opened[-1]

    yield connected
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def channel(connect: Connect) -> BlockingChannel:
    return connect().channel()
