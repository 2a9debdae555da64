"""Headers of very many fields, of which something reads one, hold no turn of the loop."""

from collections.abc import Callable

import pytest
from pamqp.commands import Queue, Tx

from tests.support.forwarding import delivery
from tests.support.session import operator_channel
from warren.broker.amqp.field_table import Table
from warren.broker.core.vhost.vhost import VHost
from warren.federation.upstream.delivery_parser import Delivery
from warren.plugins.exchanges.presence import RELAY
from warren.plugins.exchanges.recent_history import LENGTH

from .broker import MeasuredPeer, Prompter, StepMeter
from .meter import Meter
from .test_links import forwarded
from .test_publishes import frames

FIELDS = {f"{number:02x}": None for number in range(1_000)}
DEDUPLICATES = {"x-message-deduplication": True}
DELAYED, HISTORY, PRESENCE = "x-delayed-message", "x-recent-history", "x-presence"
DELAY_MS = 60_000

Make = Callable[[VHost], object]


def contents(exchange: str, key: str, count: int, first: int = 0, **headers: object) -> bytes:
    """Return publishes with different headers, of which those that are read are the last."""
    made = []
    for number in range(first, first + count):
        own = {"x-delay": DELAY_MS, "x-deduplication-header": number, **headers}
        made.append(frames(exchange, key, {"headers": {**FIELDS, **own}}))
    return b"".join(made)


def publish(peer: MeasuredPeer, data: bytes, transactional: bool = False) -> Prompter:
    client = Prompter(peer, transactional)
    client.socket.incoming += data
    peer.settle()
    return client


def delayed(vhost: VHost) -> None:
    vhost.declare_exchange("x", DELAYED, arguments=Table.of({"x-delayed-type": "fanout"}))
    vhost.bind("x", vhost.declare_queue("q0"), "", Table.EMPTY)


def deduplicating(count: int, source: str = "x") -> Make:
    """Return a function that binds so many queues with deduplication to an exchange."""

    def make(vhost: VHost) -> None:
        vhost.declare_exchange(source, "fanout")
        for number in range(count):
            vhost.bind(source, vhost.declare_queue(f"q{number}", arguments=Table.of(DEDUPLICATES)), "", Table.EMPTY)

    return make


def listened(vhost: VHost) -> None:
    """Bind very many queues to a presence exchange, which relays messages to them."""
    vhost.declare_exchange("x", PRESENCE, arguments=Table.of({RELAY: True}))
    for number in range(5_000):
        vhost.bind("x", vhost.declare_queue(f"q{number}"), "", Table.EMPTY)


def published(vhost: VHost) -> set[int]:
    return {queue.published for name, queue in vhost.queues.items() if name.startswith("q")}


def test_publishes_to_many_queues_with_deduplication(peer: MeasuredPeer, step_meter: StepMeter, vhost: VHost) -> None:
    deduplicating(100)(vhost)
    count = 0
    for _ in step_meter.attempts():
        data = contents("x", "", 16, count)
        count += 16
        client = Prompter(peer)
        client.socket.incoming += data
        step_meter.begin()
        peer.settle()
    assert published(vhost) == {count}


@pytest.mark.parametrize(
    "make, count", [(delayed, 250), (deduplicating(1), 250), (deduplicating(100), 60), (listened, 10)]
)
def test_commits(peer: MeasuredPeer, step_meter: StepMeter, make: Make, count: int, vhost: VHost) -> None:
    make(vhost)
    attempts = 0
    for _ in step_meter.attempts():
        client = publish(peer, contents("x", "", count, attempts * count), transactional=True)
        attempts += 1
        step_meter.begin()
        client.send(Tx.Commit)
    peer.wait(DELAY_MS)
    assert published(vhost) == {attempts * count}


def test_the_release_of_delayed_messages_to_many_queues_with_deduplication(
    peer: MeasuredPeer, step_meter: StepMeter, vhost: VHost
) -> None:
    vhost.declare_exchange("x", DELAYED, arguments=Table.of({"x-delayed-type": "fanout"}))
    deduplicating(40, "y")(vhost)
    vhost.bind("x", vhost.exchanges["y"], "", Table.EMPTY)
    count = 0
    for _ in step_meter.attempts():
        publish(peer, contents("x", "", 30, count))
        count += 30
        step_meter.begin()
        peer.wait(DELAY_MS)
    assert published(vhost) == {count}


def test_dead_letters_for_many_queues_with_deduplication(peer: MeasuredPeer, step_meter: StepMeter) -> None:
    vhost = peer.node.vhosts["/"]
    deduplicating(40)(vhost)
    dead = {"x-message-ttl": DELAY_MS, "x-dead-letter-exchange": "x"}
    vhost.declare_queue("source", arguments=Table.of(dead))
    count = 0
    for _ in step_meter.attempts():
        publish(peer, contents("", "source", 30, count))
        count += 30
        step_meter.begin()
        peer.wait(DELAY_MS)
    assert published(vhost) == {count}


@pytest.mark.parametrize("queues", [1, 50])
def test_moves_to_queues_with_deduplication(peer: MeasuredPeer, step_meter: StepMeter, queues: int) -> None:
    vhost = peer.node.vhosts["/"]
    deduplicating(queues)(vhost)
    source = vhost.declare_queue("source")
    move = operator_channel(peer.node).move("source", "x", None)
    count = 0
    for _ in step_meter.attempts():
        publish(peer, contents("", "source", 100 // queues, count))
        count += 100 // queues
        step_meter.begin()
        unfinished = False
        while unfinished or source.ready:
            unfinished = step_meter.measured(move.step)(100).unfinished
            peer.settle()
    assert published(vhost) == {count}


def test_a_history_that_a_queue_with_deduplication_gets(peer: MeasuredPeer, step_meter: StepMeter) -> None:
    vhost = peer.node.vhosts["/"]
    vhost.declare_exchange("x", HISTORY, arguments=Table.of({LENGTH: 1_000}))
    publish(peer, contents("x", "", 250))
    for attempt in step_meter.attempts():
        vhost.declare_queue(f"q{attempt}", arguments=Table.of(DEDUPLICATES))
        client = Prompter(peer)
        step_meter.begin()
        client.send(Queue.Bind, queue=f"q{attempt}", exchange="x", routing_key="")
    assert published(vhost) == {250}


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_publishes_with_more_keys_that_have_waited(peer: MeasuredPeer, step_meter: StepMeter, name: str) -> None:
    """They are handled together once the connection has waited, up to the length of a read."""
    vhost = peer.node.vhosts["/"]
    vhost.declare_queue("q0")
    attempts = 0
    for _ in step_meter.attempts():
        attempts += 1
        client = Prompter(peer)
        connection = peer.server.connections[client.socket.transport]
        connection.suspend()
        client.socket.incoming += contents("", "q0", 100, **{name: ["none"]})
        peer.settle()
        step_meter.begin()
        step_meter.measured(connection.resume)()
        peer.settle()
    assert published(vhost) == {attempts * 100}


def test_waiting_deliveries_of_a_link(meter: Meter) -> None:
    def deliveries(first: int) -> list[Delivery]:
        return [delivery(tag, headers=Table.of({**FIELDS, "": tag})) for tag in range(first, first + 500)]

    house = forwarded(meter, lambda house: None, deliveries)
    assert house.vhost.queues["q"].published == house.forwarder._acked
