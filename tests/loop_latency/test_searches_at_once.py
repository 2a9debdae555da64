"""Requests that come at once, each of which looks at very many objects, share the time of a turn."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.http import Api
from tests.support.speed import within
from warren.broker.amqp.field_table import Table

from .crowd import Reader
from .meter import TURN_MS, Meter

AT_ONCE = 60
CHANNELS = 2_000  # of one connection
CONNECTIONS = 3
QUEUES = 5_000


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    api = Api()
    vhost = api.peer.node.vhosts["/"]
    for number in range(QUEUES):
        vhost.bind("amq.fanout", vhost.declare_queue(f"q{number}"), "", Table.EMPTY)
    for _ in range(CONNECTIONS):
        client = api.peer.connect()
        for _ in range(CHANNELS):
            client.channel()
    yield api
    api.close()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/channels/nope", 404),
        ("/connections/nope", 404),
        ("/channels/127.0.0.1%3A50000%20-%3E%20127.0.0.1%3A5672%20(2000)", 200),
        ("/queues?page=1&page_size=1&disable_stats=true", 200),
        ("/exchanges/%2F/amq.fanout/bindings/source?page=1&page_size=1", 200),
    ],
)
def test_requests_that_look_at_very_many_objects_share_a_turn(api: Api, meter: Meter, path: str, status: int) -> None:
    reader = Reader(api.application)

    async def read_all() -> None:
        await asyncio.gather(*[reader.read(path) for _ in range(AT_ONCE)])

    assert within(meter.longest_ms(read_all), TURN_MS) and set(reader.statuses) == {status}
