"""Deliveries of federation links, notices of links, and messages of the broker itself hold no turn of the loop."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.support.forwarding import Forwarding, delivery
from tests.support.in_process import socket_of
from tests.support.speed import within
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.framing import header_frame
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.exchange_type import UpstreamExchange
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.vhost.vhost import VHost
from warren.federation.upstream.delivery_parser import Delivery
from warren.plugins.exchanges.presence import PresenceExchange

from .broker import MeasuredPeer, StepMeter
from .meter import TURN_MS, Meter
from .test_one_publish import FULL, PLAIN, TTL, Headers, Topology, chain, copies, star, tree
from .test_publishes import frames

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
    clock = house.node.clock
    later = clock.call_at

    def call_at(when_ms: int, fn: Callable[[], None]) -> Any:
        return meter.loop.call_soon(fn) if when_ms <= clock.now_ms() else later(when_ms, fn)

    clock.call_at = call_at  # type: ignore[method-assign]


def forwarded(
    meter: Meter, prepare: Callable[[Forwarding], object], deliveries: Callable[[int], list[Delivery]]
) -> Forwarding:
    """Measure a link that takes deliveries from a tag on until all are acknowledged; return it, closed."""
    houses: list[Forwarding] = []

    async def make() -> None:
        house = Forwarding("on-confirm")
        on_the_loop(house, meter)
        prepare(house)
        houses.append(house)

    async def forward() -> None:
        [house] = houses
        house.vhost.clear_route_cache()
        taken = deliveries(house.forwarder._acked + 1)
        await asyncio.sleep(0)
        meter.longest_s = 0.0
        house.forwarder.take(taken)
        while house.forwarder._acked < taken[-1].tag:  # noqa: ASYNC110 - each turn is measured
            await asyncio.sleep(0)

    meter.run(make())
    assert within(meter.longest_ms(forward), TURN_MS)
    [house] = houses
    house.forwarder.close()
    return house


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("topology, headers, reached", TOPOLOGIES)
def test_deliveries_of_a_link(meter: Meter, topology: Topology, headers: Headers, reached: int, count: int) -> None:
    """Deliveries behind the first one wait for it; each is acknowledged once it is in all queues."""

    def prepare(house: Forwarding) -> None:
        house.vhost.delete_exchange("x")
        topology(house.vhost)

    table = Table.of(headers)
    house = forwarded(meter, prepare, lambda tag: [delivery(tag + number, headers=table) for number in range(count)])
    queues = [queue for name, queue in house.vhost.queues.items() if name != "q"]
    assert len(queues) == reached and {queue.published for queue in queues} == {house.forwarder._acked}


TRACE = "amq.rabbitmq.trace", "#"
EVENT = "amq.rabbitmq.event", "event.#"
UPSTREAM = UpstreamExchange("site", "/", "up")


def notice(action: str, **headers: object) -> bytes:
    path = [Table.of({"cluster-name": "site", "vhost": "/"})]
    return Properties(headers=Table.of({"action": action, "x-received-from": path, **headers})).encode()


@pytest.mark.parametrize("listeners", [3_000, pytest.param(25_000, marks=FULL)])
def test_a_message_that_a_link_relays_to_very_many_listeners(meter: Meter, listeners: int) -> None:
    def prepare(house: Forwarding) -> None:
        house.node.registry.register("x-presence", PresenceExchange)
        house.vhost.delete_exchange("x")
        house.vhost.declare_exchange("x", "x-presence", arguments=Table.of({"x-presence-relay": True}))
        for number in range(listeners):
            house.vhost.bind("x", house.vhost.declare_queue(f"q{number}"), "", Table.EMPTY)
        house.inflow.brings_from = UPSTREAM

    def relayed(first: int) -> list[Delivery]:
        return [delivery(tag)._replace(properties=notice("message", key="k")) for tag in (first, first + 1)]

    house = forwarded(meter, prepare, relayed)
    published = {house.vhost.queues[f"q{number}"].published for number in range(listeners)}
    assert published == {house.forwarder._acked}


@pytest.mark.parametrize("end", ["summary", "detach", "detach during a summary"])
@pytest.mark.parametrize("presences", [3_000, pytest.param(50_000, marks=FULL)])
def test_very_many_presences_that_a_link_announces_no_longer(
    peer: MeasuredPeer, step_meter: StepMeter, presences: int, end: str, vhost: VHost
) -> None:
    vhost.declare_exchange("p", "x-presence")
    type_ = vhost.exchanges["p"].type
    vhost.bind("p", vhost.declare_queue("q"), "", Table.EMPTY)

    def bring(action: str, **headers: object) -> None:
        raw = notice(action, queue="up", **headers)
        type_.on_federated(Message(RoutingAddress("p", ""), header_frame(0, raw, 0), 0, 0, 0, False), UPSTREAM)

    for _ in step_meter.attempts():
        before = vhost.queues["q"].published
        for number in range(presences):
            bring("bind", key=f"k{number}")
        peer.wait(0)
        step_meter.begin()
        if end != "detach":
            step_meter.measured(partial(bring, "summary", complete=False))()
            bring("bind", key="k0")
        if end == "summary":
            step_meter.measured(partial(bring, "summary", complete=True))()
        else:
            step_meter.measured(type_.on_upstream_detached)(UPSTREAM)
        peer.wait(0)
        kept = 1 if end == "summary" else 0
        assert vhost.queues["q"].published - before == 2 * presences - kept
        type_.on_upstream_detached(UPSTREAM)
        peer.wait(0)


@pytest.mark.parametrize("queues", [3_000, pytest.param(25_000, marks=FULL)])
@pytest.mark.parametrize("source", ["firehose", "event"])
def test_messages_of_the_broker_itself_for_very_many_queues(
    peer: MeasuredPeer, step_meter: StepMeter, source: str, queues: int, vhost: VHost
) -> None:
    exchange, key = TRACE if source == "firehose" else EVENT
    for number in range(queues):
        vhost.bind(exchange, vhost.declare_queue(f"q{number}"), key, Table.EMPTY)
    peer.settle()
    if source == "firehose":
        peer.node.set_tracing("/", True)
    channel = peer.connect().channel()
    peer.settle()
    last = vhost.queues[f"q{queues - 1}"]
    for _ in step_meter.attempts():
        before = last.published
        step_meter.begin()
        for number in range(3):
            if source == "firehose":
                channel.publish("", "nowhere", b"%d" % number)
            else:
                step_meter.measured(peer.node.events.emit)(f"event.{number}", {})
        peer.settle()
        assert last.published == before + 3
    keys = [message.address.routing_key for message in last.ready_messages.default.fresh]
    assert source == "firehose" or keys[-3:] == ["event.0", "event.1", "event.2"]


def test_the_permission_for_very_many_keys_that_take_long_to_search(peer: MeasuredPeer, step_meter: StepMeter) -> None:
    """The message is refused, and its channel closed: the user's pattern is too slow for its keys."""
    peer.node.users.set_topic_permission("guest", "/", "amq.topic", "^(a|aa)+$", "")
    data = frames("amq.topic", "a", {"headers": copies(key="a" * 22 + "{}")})
    for _ in step_meter.attempts():
        client = peer.connect()
        client.channel()
        step_meter.begin()
        socket_of(client).incoming += data
        peer.settle()
        client.close()
