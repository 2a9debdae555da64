"""One publish holds no step of the loop, whatever its keys, the exchanges it passes and the queues it reaches."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import Api, Response, request
from tests.support.in_process import socket_of
from tests.support.speed import within
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.framing import header_frame
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.router import Route
from warren.broker.core.messages.journal_port import Commit
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.queues import ready_messages
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.vhost import VHost
from warren.broker.session.methods.tx import commit_in_steps

from .broker import MeasuredPeer, StepMeter
from .meter import TURN_MS, Meter
from .test_publishes import NO_LIMIT, frames

FULL = pytest.mark.rest("as many exchanges, queues and bindings as the limits of a virtual host allow")
Headers = dict[str, object]
Topology = Callable[[VHost], object]
KEYS: dict[str, str] = {"topic": "#", "direct": "k", "fanout": "", "headers": ""}
PLAIN: Headers = {}
TTL: Headers = {"x-message-ttl": 60_000}
ARRAYS: Headers = {"h": [[[]]] * 500}
MILLION = 1_000_000
WORDS = ".".join(["a"] * 127)


def copies(count: int = 1_000, key: str = "{:x}") -> Headers:
    """The headers of a message with as many more keys; a table has 1,024 entries at most."""
    return {"CC": [key.format(number) for number in range(count)]}


def declare(vhost: VHost, count: int, arguments: Headers) -> list[Queue]:
    return [vhost.declare_queue(f"q{number}", arguments=Table.of(arguments)) for number in range(count)]


def star(type_: str, count: int, arguments: Headers = NO_LIMIT) -> Topology:
    """Queues bound to one exchange."""

    def make(vhost: VHost) -> None:
        vhost.declare_exchange("x", type_)
        for queue in declare(vhost, count, arguments):
            vhost.bind("x", queue, KEYS[type_], Table.EMPTY)

    return make


def chain(count: int, *types: str) -> Topology:
    """Exchanges of these types in turn, each bound to the one before."""

    def make(vhost: VHost) -> None:
        names = ["x", *[f"x{number}" for number in range(1, count)]]
        kinds = [types[number % len(types)] for number in range(count)]
        for name, type_ in zip(names, kinds, strict=True):
            vhost.declare_exchange(name, type_)
        ends = [*[vhost.exchanges[name] for name in names[1:]], vhost.declare_queue("q0")]
        for name, type_, end in zip(names, kinds, ends, strict=True):
            vhost.bind(name, end, KEYS[type_], Table.EMPTY)

    return make


def tree(count: int, type_: str) -> Topology:
    """Exchanges bound to one."""

    def make(vhost: VHost) -> None:
        vhost.declare_exchange("x", "fanout")
        queue = vhost.declare_queue("q0")
        for number in range(count):
            exchange = vhost.declare_exchange(f"x{number}", type_)
            vhost.bind("x", exchange, "", Table.EMPTY)
            vhost.bind(exchange.name, queue, KEYS[type_], Table.EMPTY)

    return make


def headers_of(match: str, bindings: int, arguments: int) -> Topology:
    """Bindings of a headers exchange that all match."""

    def make(vhost: VHost) -> None:
        vhost.declare_exchange("x", "headers")
        wanted = Table.of({"x-match": match, **sent(arguments)})
        for queue in declare(vhost, bindings, NO_LIMIT):
            vhost.bind("x", queue, "", wanted)

    return make


def arrays_of(bindings: int) -> Topology:
    """Bindings of a headers exchange and one queue that all match an array of arrays."""

    def make(vhost: VHost) -> None:
        vhost.declare_exchange("x", "headers")
        [queue] = declare(vhost, 1, NO_LIMIT)
        wanted = Table.of(ARRAYS)
        for number in range(bindings):
            vhost.bind("x", queue, f"k{number}", Table(wanted.raw))

    return make


def sent(count: int, first: int = 0) -> Headers:
    return {f"h{number}": 1 for number in range(first, first + count)}


def bombs(count: int) -> Topology:
    """Patterns of which nearly all parts match a key of many equal words in very many ways."""

    def make(vhost: VHost) -> None:
        vhost.declare_exchange("x", "topic")
        queue = vhost.declare_queue("q0")
        chosen = random.Random(1)
        for number in range(count):
            words = [chosen.choice(["a", "a", "a", "b", "*", "#", "#", "#"]) for _ in range(40)]
            vhost.bind("x", queue, ".".join([*words, f"e{number}"]), Table.EMPTY)
        vhost.bind("x", queue, "a.#", Table.EMPTY)

    return make


CASES = [
    ("keys to a topic exchange", star("topic", 3_000), copies(), "k", 3_000),
    ("equal keys to a direct exchange", star("direct", 3_000), copies(key="k"), "k", 3_000),
    ("keys through exchanges of all types", chain(150, "topic", "direct", "fanout", "headers"), copies(), "k", 1),
    ("headers of which any match", headers_of("any", 50, 400), sent(1_000, 200), "k", 50),
    ("headers of which all match", headers_of("all", 500, 200), sent(1_000), "k", 500),
    ("a header that is a long array", arrays_of(800), ARRAYS, "k", 1),
    ("topic bombs", bombs(3_000), {}, WORDS, 1),
    ("plain queues", star("fanout", 10_000, PLAIN), {}, "k", 10_000),
    ("queues that look at each message", star("fanout", 4_000, TTL), {}, "k", 4_000),
]
FULL_CASES = [
    ("keys to a topic exchange", star("topic", 10_000), copies(), "k", 10_000),
    ("equal keys to a direct exchange", star("direct", 5_000), copies(key="k"), "k", 5_000),
    ("a long chain", chain(1_500, "topic", "direct", "fanout", "headers"), copies(), "k", 1),
    ("a wide tree", tree(1_500, "topic"), copies(), "k", 1),
    ("headers of which any match", headers_of("any", 5_000, 50), sent(1_000, 25), "k", 5_000),
    ("headers of which all match", headers_of("all", 2_000, 200), sent(1_000), "k", 2_000),
    ("topic bombs", bombs(20_000), {}, WORDS, 1),
    ("plain queues", star("fanout", 25_000, PLAIN), {}, "k", 25_000),
    ("queues that look at each message", star("fanout", 6_000, TTL), {}, "k", 6_000),
]
PARAMETERS: list[Any] = [
    *[pytest.param(*case[1:], id=case[0]) for case in CASES],
    *[pytest.param(*case[1:], id=f"{case[0]}, many", marks=FULL) for case in FULL_CASES],
]


@pytest.mark.parametrize("topology, headers, key, reached", PARAMETERS)
def test_one_publish(
    peer: MeasuredPeer, step_meter: StepMeter, topology: Topology, headers: Headers, key: str, reached: int
) -> None:
    vhost = peer.node.vhosts["/"]
    topology(vhost)
    data = frames("x", key, {"headers": headers})
    published = 0
    for _ in step_meter.attempts():
        vhost.clear_route_cache()
        client = peer.connect()
        channel = client.channel()
        channel.confirm()
        step_meter.begin()
        socket_of(client).incoming += data
        peer.wait(0)
        published += 1
        assert channel.confirms([1]) == ({1}, set())
        client.close()
    assert sum(queue.published for queue in vhost.queues.values()) == reached * published


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
@pytest.mark.parametrize("queues", [2_000, pytest.param(10_000, marks=FULL)])
def test_a_dead_letter_with_very_many_keys_and_queues(
    peer: MeasuredPeer, step_meter: StepMeter, queues: int, strategy: str, vhost: VHost
) -> None:
    """Each queue has a name that the properties contain, as that of a queue which the message has passed."""
    star("topic", queues)(vhost)
    arguments: Headers = {"x-dead-letter-exchange": "x"}
    if strategy == "at-least-once":
        arguments |= {"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-dead-letter-strategy": strategy}
    source = vhost.declare_queue("source", durable=True, arguments=Table.of(arguments))
    vhost.bind("amq.fanout", source, "", Table.EMPTY)
    data = frames("amq.fanout", "k", {"headers": copies(key="q{}")})
    for _ in step_meter.attempts():
        before = [queue.published for queue in vhost.queues.values()]
        client = peer.connect()
        channel = client.channel()
        socket_of(client).incoming += data
        peer.settle()
        channel.consume("source")
        delivery = channel.delivery()
        step_meter.begin()
        channel.reject(delivery.tag, requeue=False)
        peer.wait(0)
        assert [queue.published for queue in vhost.queues.values()] == [count + 1 for count in before]
        assert not len(vhost.queues["source"].outbox)
        client.close()


@pytest.mark.parametrize("shape", ["alike", "mixed", "transaction"])
@pytest.mark.parametrize("queues", [600, pytest.param(2_500, marks=FULL)])
@pytest.mark.pure("it lowers a constant of the core, so that few messages are needed")
def test_one_publish_to_many_queues_that_page_it_out(
    step_meter: StepMeter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queues: int, shape: str
) -> None:
    monkeypatch.setattr(ready_messages, "PAGE_ABOVE", 0)
    for peer in step_meter.stored_peers(tmp_path, message_memory_bytes=1):
        vhost = peer.node.vhosts["/"]
        star("fanout", queues, PLAIN)(vhost)
        client = peer.connect()
        channel = client.channel()
        socket_of(client).incoming += frames("x", "") * 2
        peer.settle()
        if shape == "transaction":
            channel.transact()
        step_meter.begin()
        one, other = frames("x", ""), frames("x", "k" if shape == "mixed" else "")
        socket_of(client).incoming += one + other
        peer.settle()
        if shape == "transaction":
            channel.commit()
        peer.settle()
        assert vhost.queues["q0"].paged and {queue.ready for queue in vhost.queues.values()} == {4}


@pytest.mark.parametrize("limited", [False, True])
def test_one_publish_by_http(meter: Meter, limited: bool) -> None:
    """The response follows once the message is in all queues; the last one of these may refuse it."""
    api = Api()
    vhost = api.peer.node.vhosts["/"]
    star("topic", 3_500)(vhost)
    if limited:
        arguments: Headers = {"x-max-length": 0, "x-overflow": "reject-publish"}
        vhost.bind("x", vhost.declare_queue("last", arguments=Table.of(arguments)), "#", Table.EMPTY)
    body = {"routing_key": "k", "payload": "x", "payload_encoding": "string", "properties": {"headers": copies()}}
    responses: list[Response] = []
    api.peer.clock.call_at = lambda when_ms, fn: meter.loop.call_soon(fn)  # type: ignore[assignment,method-assign,return-value]

    async def publish() -> None:
        responses.append(await request(api.application, "POST", "/exchanges/%2F/x/publish", body))

    assert within(meter.longest_ms(publish), TURN_MS)
    assert {response.status for response in responses} == {400 if limited else 200}
    assert limited or responses[0].json == {"routed": True}
    queues = [queue for queue in vhost.queues.values() if queue.name != "last"]
    assert {queue.published for queue in queues} == {len(responses)}
    api.close()


def test_a_commit_looks_at_very_many_queues_in_steps(peer: MeasuredPeer, step_meter: StepMeter, vhost: VHost) -> None:
    """The steps before the first queues have the message take no longer with more queues."""
    queue = vhost.declare_queue("q", arguments=Table.of({"x-message-deduplication": True}))
    peer.connect().channel().transact()
    session = next(iter(peer.server.connections.values())).channels[1]
    transaction = session.transaction
    address, targets = RoutingAddress("x", "k"), (queue,) * MILLION
    route = Route(address, vhost.exchanges["amq.fanout"], targets, False, frozenset())
    for _ in step_meter.attempts():
        message = Message(address, header_frame(1, Properties().encode(), 0), 1, 0, 0, False)
        transaction.publish(route, message, targets, ())
        before, steps = queue.published, commit_in_steps(session, transaction, Commit())
        step = step_meter.measured(next)
        step_meter.begin()
        while queue.published == before:
            step(steps)
