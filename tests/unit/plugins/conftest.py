"""A broker with the plugins of this checkout, and pika connections to it."""

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.faults.crash.daemon import Daemon
from tests.support.blocking import Connect, dial


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A broker that has not been started, for tests that stop it."""
    daemon = Daemon(tmp_path)
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A broker for all tests of a module."""
    daemon = Daemon(tmp_path_factory.mktemp("broker"))
    daemon.start()
    yield daemon
    daemon.close()


@pytest.fixture
def connect(running: Daemon) -> Iterator[Connect]:
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
