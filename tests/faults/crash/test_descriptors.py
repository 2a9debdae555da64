"""A broker whose file descriptors strangers try to use up: it runs, stores, and serves logged-in clients."""

import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.sockets

DESCRIPTORS = 128
STRANGERS = 300


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that may open few files."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nulimit -n {DESCRIPTORS}\nexec {sys.executable} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    made = BrokerProcess(tmp_path, python=str(python))
    yield made
    made.close()


def test_idle_connections_up_to_the_limit_of_descriptors_end_neither_the_broker_nor_its_service(
    daemon: BrokerProcess,
) -> None:
    daemon.start()
    channel = daemon.connect().channel()
    with ExitStack() as strangers:
        for number in range(STRANGERS):
            strangers.enter_context(socket.create_connection(daemon.address))
            if number % 50 == 0:
                channel.declare(f"q{number}", durable=True)
        channel.declare("last", durable=True)
        daemon.connect().channel().declare("newcomer", durable=True)
        assert daemon.process.poll() is None, daemon.tail()
        assert daemon.events("connection_limit"), daemon.tail()
        assert not daemon.events("cannot_accept"), daemon.tail()
    daemon.stop()
    assert not daemon.events("storage_failed")
