"""A channel, an exchange or a queue with detailed rates of very many others is answered in short turns."""

import dataclasses
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.support.http import Api
from tests.support.in_process import InProcessPeer
from tests.support.speed import within

from .crowd import Reader
from .meter import LIMIT_MS, Meter

OTHERS = 4_000
NAME = quote("127.0.0.1:50000 -> 127.0.0.1:5672 (1)", safe="")
RANGES = "?msg_rates_age=600&msg_rates_incr=5&lengths_age=600&lengths_incr=5"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    peer = InProcessPeer()
    peer.settings(management=dataclasses.replace(peer.config.management, rates_mode="detailed"))
    api = Api(peer)
    vhost = peer.node.vhosts["/"]
    peer.connect().channel()
    (connection,) = api.host.connections()
    rates = connection.channels[1].rates
    fanout, queue = vhost.exchanges["amq.fanout"], vhost.declare_queue("q")
    for number in range(OTHERS):
        vhost.declare_queue(f"q{number}")
        vhost.declare_exchange(f"x{number}", "fanout")
    for _ in range(3):  # so that each counter has a history
        rates.routed(fanout, tuple(vhost.queues.values()), 1)
        for exchange in vhost.exchanges.values():
            rates.routed(exchange, (queue,), 1)
            rates.published(exchange, (), 1, False)
        api.sample()
        peer.wait(5_000)
    yield api
    api.close()


@pytest.mark.parametrize("path", ["/exchanges/%2F/amq.fanout", "/queues/%2F/q", f"/channels/{NAME}"])
def test_detailed_rates_of_very_many_others_are_made_in_short_turns(api: Api, meter: Meter, path: str) -> None:
    reader = Reader(api.application)
    assert within(meter.longest_ms(lambda: reader.read(path + RANGES)), LIMIT_MS)
    assert reader.body.count(b'"samples"') >= OTHERS
