"""A real RabbitMQ for `make interop`; elsewhere each test says why it is skipped.

WARREN_INTEROP=HTTP,AMQP names one that runs already, by its URLs, for the tests that need no more than these; they
delete all its objects.
"""

import os
from collections.abc import Iterator

import pytest

from .rabbit import Rabbit, missing

RUN = "WARREN_INTEROP"
Urls = tuple[str, str]
"""The HTTP API and AMQP of a broker, with user and password."""


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


@pytest.fixture(scope="session")
def rabbitmq(request: pytest.FixtureRequest) -> Urls:
    """The URLs of a RabbitMQ."""
    http, _, amqp = os.environ.get(RUN, "").partition(",")
    if amqp:
        return http, amqp
    started: Rabbit = request.getfixturevalue("started")
    return started.urls


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
