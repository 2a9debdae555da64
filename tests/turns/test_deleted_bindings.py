"""Very many bindings that are deleted together hold no step of the loop."""

from typing import Any

import pytest
from pamqp.commands import Exchange, Queue

from warren.broker.amqp.field_table import Table

from .broker import MeasuredPeer, StepMeter

ENDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "delete the queue": (Queue.Delete, {"queue": "q"}),
    "delete the exchange": (Exchange.Delete, {"exchange": "x0"}),
}


@pytest.mark.parametrize("end", ["delete the queue", "delete the exchange"])
def test_bindings_with_long_arguments_that_an_event_tells_of(step_meter: StepMeter, end: str) -> None:
    """An observer reads the arguments of each."""
    arguments = Table.of({f"key{number}": number for number in range(1000)})

    def attempt() -> None:
        peer = MeasuredPeer(step_meter)
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
        peer.close()

    step_meter.check_one_of(attempt)
