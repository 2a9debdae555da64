"""A real RabbitMQ for `make interop`; elsewhere each test says why it is skipped."""

import os
from collections.abc import Iterator

import pytest

from .rabbit import Rabbit, missing

RUN = "WARREN_INTEROP"


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rabbit]:
    if os.environ.get(RUN) != "1":
        pytest.skip("with a real RabbitMQ: make interop")
    if why := missing():
        pytest.skip(why)
    rabbit = Rabbit(tmp_path_factory.mktemp("rabbit"))
    try:
        rabbit.start()
        yield rabbit
    finally:
        rabbit.close()


@pytest.fixture
def rabbit(started: Rabbit) -> Iterator[Rabbit]:
    yield started
    started.unfederate()
    channel = started.channel()
    for exchange in started.ask("GET", "/exchanges/%2f"):
        if exchange["name"] and not exchange["name"].startswith("amq."):
            channel.delete_exchange(exchange["name"])
    for queue in started.ask("GET", "/queues/%2f"):
        channel.delete(queue["name"])
    channel.client.close()
