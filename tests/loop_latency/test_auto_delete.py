"""Very many auto-delete exchanges and queues that are deleted together hold no step of the loop."""

from collections.abc import Callable
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Exchange, Queue

from tests.support import codec
from warren.broker.amqp.field_table import Table
from warren.broker.core.vhost.vhost import VHost

from .broker import StepMeter

COUNT = 5_000

Headers = dict[str, object]


def exchanges(vhost: VHost, count: int = COUNT) -> list[Any]:
    return [vhost.declare_exchange(f"x{number}", "fanout", auto_delete=True) for number in range(count)]


def chain(vhost: VHost) -> None:
    """Bind the queue to the last of the exchanges, each of which is bound to the one before."""
    made = exchanges(vhost)
    for source, destination in zip(made[1:], made, strict=False):
        vhost.bind(source.name, destination, "", Table.EMPTY)
    vhost.bind("x0", vhost.queues["q"], "", Table.EMPTY)


def fan(vhost: VHost) -> None:
    """Bind the queue to each of the exchanges."""
    for exchange in exchanges(vhost):
        vhost.bind(exchange.name, vhost.queues["q"], "", Table.EMPTY)


def tree(vhost: VHost) -> None:
    """Bind the queue to an exchange that is bound to each of the others."""
    first, *others = exchanges(vhost)
    for exchange in others:
        vhost.bind(exchange.name, first, "", Table.EMPTY)
    vhost.bind("x0", vhost.queues["q"], "", Table.EMPTY)


ENDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "delete the queue": (Queue.Delete, {"queue": "q"}),
    "unbind the queue": (Queue.Unbind, {"queue": "q", "exchange": "x0", "routing_key": ""}),
    "delete the exchange": (Exchange.Delete, {"exchange": "x0"}),
    "cancel the consumer": (Basic.Cancel, {"consumer_tag": "c"}),
}


@pytest.mark.parametrize(
    ("make", "end"),
    [(make, end) for make in (chain, tree) for end in ENDS] + [(fan, end) for end in ("delete the queue",)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_exchanges_that_lose_their_last_binding_are_deleted_in_steps_before_the_reply(
    step_meter: StepMeter, make: Callable[[VHost], None], end: str
) -> None:
    for peer in step_meter.peers():
        vhost = peer.node.vhosts["/"]
        predeclared = set(vhost.exchanges)
        channel = peer.connect().channel()
        channel.declare("q", auto_delete=True)
        channel.consume("q", consumer_tag="c")
        make(vhost)
        step_meter.begin()
        method, fields = ENDS[end]
        channel.call(method, **fields)
        assert set(vhost.exchanges) == predeclared and not vhost.unbinding_jobs


def test_auto_delete_queues_that_are_deleted_with_their_channel(step_meter: StepMeter) -> None:
    for peer in step_meter.peers():
        vhost = peer.node.vhosts["/"]
        client = peer.connect()
        channel = client.channel()
        for number, exchange in enumerate(exchanges(vhost, COUNT // 2)):
            queue = vhost.declare_queue(f"q{number}", auto_delete=True)
            vhost.bind(exchange.name, queue, "", Table.EMPTY)
            fields = {"queue": queue.name, "nowait": True}
            client.raw(codec.method_frame(1, Basic.Consume, fields | {"consumer_tag": queue.name}))
        peer.settle()
        step_meter.begin()
        channel.call(Channel.Close, reply_code=200)
        assert not vhost.queues and "x0" not in vhost.exchanges


@pytest.mark.parametrize("end", ["delete the queue", "delete the exchange"])
def test_bindings_with_long_arguments_that_an_event_tells_of(step_meter: StepMeter, end: str) -> None:
    """An observer reads the arguments of each."""
    arguments = Table.of({f"key{number}": number for number in range(1000)})
    for peer in step_meter.peers():
        vhost = peer.node.vhosts["/"]
        vhost.bind("amq.rabbitmq.event", vhost.declare_queue("events"), "#", Table.EMPTY)
        vhost.declare_exchange("x0", "direct")
        queue = vhost.declare_queue("q")
        for number in range(100):
            vhost.bind("x0", queue, f"k{number}", arguments)
        channel = peer.connect().channel()
        step_meter.begin()
        method, fields = ENDS[end]
        channel.call(method, **fields)
        assert vhost.queues["events"].published >= 200


def strings(number: int) -> Headers:
    return {f"key{at}": f"{number}.{at}" for at in range(1_000)}


def arrays(number: int) -> Headers:
    return {"key": [number, *[[[]]] * 500]}


@pytest.mark.parametrize(
    ("mode", "conditions", "count"),
    [("all", strings, 300), ("any", strings, 300), ("all", arrays, 700)],
    ids=["all strings", "any string", "arrays"],
)
def test_a_headers_exchange_whose_bindings_have_very_many_conditions(
    step_meter: StepMeter, mode: str, conditions: Callable[[int], Headers], count: int
) -> None:
    for peer in step_meter.peers():
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange("x0", "headers")
        queue = vhost.declare_queue("q")
        for number in range(count):
            vhost.bind("x0", queue, "", Table.of({"x-match": mode, **conditions(number)}))
        channel = peer.connect().channel()
        step_meter.begin()
        channel.delete_exchange("x0")
        peer.settle()
        assert not vhost.unbinding_jobs
