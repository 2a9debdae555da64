"""Deliveries of federation links, notices of links, and messages of the broker itself hold no turn of the loop."""

import asyncio

import pytest

from tests.support.forwarding import Forwarding, delivery
from warren.broker.amqp.field_table import Table

from .meter import TURN_MS, Meter
from .test_one_publish import FULL, PLAIN, TTL, Headers, Topology, chain, copies, star, tree

TOPOLOGIES = [
    pytest.param(star("topic", 3_000), copies(), 3_000, id="keys to a topic exchange"),
    pytest.param(chain(100, "topic", "direct", "fanout", "headers"), copies(), 1, id="keys through exchanges"),
    pytest.param(star("fanout", 4_000, PLAIN), {}, 4_000, id="plain queues"),
    pytest.param(star("fanout", 2_000, TTL), {}, 2_000, id="queues that look at each message"),
    pytest.param(tree(1_500, "topic"), copies(), 1, id="a wide tree", marks=FULL),
    pytest.param(star("fanout", 25_000, PLAIN), {}, 25_000, id="25,000 queues", marks=FULL),
]


def on_the_loop(house: Forwarding, meter: Meter) -> None:
    """Run timers of the node that are due at once in the next turn of the loop."""
    house.node.clock.call_at = lambda when_ms, fn: meter.loop.call_soon(fn)  # type: ignore[method-assign,assignment,return-value]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("topology, headers, reached", TOPOLOGIES)
def test_deliveries_of_a_link(meter: Meter, topology: Topology, headers: Headers, reached: int, count: int) -> None:
    """Those behind the first one wait for it; each is acknowledged once it is in all queues."""
    houses: list[Forwarding] = []

    async def make() -> None:
        house = Forwarding("on-confirm")
        house.vhost.delete_exchange("x")
        topology(house.vhost)
        on_the_loop(house, meter)
        houses.append(house)

    async def forward() -> None:
        house = houses[-1]
        house.vhost.clear_route_cache()
        last = house.forwarder._acked + count
        table = Table.of(headers)
        house.forwarder.take([delivery(tag, headers=table) for tag in range(last - count + 1, last + 1)])
        while house.forwarder._acked < last:  # noqa: ASYNC110 - each turn is measured
            await asyncio.sleep(0)

    meter.run(make())
    assert meter.longest_ms(forward) <= TURN_MS
    [house] = houses
    queues = [queue for name, queue in house.vhost.queues.items() if name != "q"]
    assert len(queues) == reached and {queue.published for queue in queues} == {house.forwarder._acked}
    house.forwarder.close()
