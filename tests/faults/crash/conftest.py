"""Fixtures of the crash tests. With WARREN_CRASH_STORE=postgresql the brokers store on PostgreSQL."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.amqp_client import Client
from tests.support.broker_process import BrokerProcess

FILES_ONLY = "changes files of the data folder"
ON_POSTGRESQL = os.environ.get("WARREN_CRASH_STORE") == "postgresql"


@pytest.fixture
def daemon(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    """A broker that has not been started."""
    on_postgresql = getattr(request, "param", "") == "postgresql" or ON_POSTGRESQL
    daemon = BrokerProcess(tmp_path, store=request.getfixturevalue("store_url") if on_postgresql else None)
    yield daemon
    daemon.close()


@pytest.fixture
def client(daemon: BrokerProcess) -> Client:
    """A connection to the broker, which it starts."""
    daemon.start()
    return daemon.connect()


def drain_queue(client: Client, queue: str) -> list[bytes]:
    """Consume all messages of a queue; return their bodies in order."""
    channel = client.channel()
    count = channel.count(queue)
    channel.consume(queue, no_ack=True)
    return [content.body for content in channel.deliveries(count)]


def check_sound(daemon: BrokerProcess) -> None:
    """Stop the broker; the doctor finds no damage."""
    daemon.stop()
    checked = daemon.doctor()
    assert checked.returncode == 0, checked.stdout + checked.stderr
