"""Clients that do not wait for replies."""

from pathlib import Path

import pytest
from pamqp.commands import Queue

from tests.support.broker_process import BrokerProcess

COUNT = 200


@pytest.mark.sockets
def test_requests_that_each_wait_for_the_disk_are_all_answered(tmp_path: Path) -> None:
    """Only the first arrives with a read; each other one is served after the reply to the one before it."""
    daemon = BrokerProcess(tmp_path)
    try:
        daemon.start()
        client = daemon.connect()
        ch = client.channel()
        for number in range(COUNT):
            client.send(Queue.Declare, ch.number, queue=f"q{number}", durable=True)
        answered = [client.next(ch.number).queue for _ in range(COUNT)]
        assert answered == [f"q{number}" for number in range(COUNT)]
    finally:
        daemon.close()
