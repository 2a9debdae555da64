"""The end of an alarm, for which very many connections wait with costly declarations, holds no turn of the loop."""

from pamqp.commands import Queue

from tests.support import codec
from tests.support.in_process import socket_of
from warren.broker.core.telemetry.resource_alarms import DISK, MEMORY

from .broker import MeasuredPeer, StepMeter

CONNECTIONS = 200
BIND = {"queue": "q", "exchange": "amq.headers", "arguments": {f"{number:x}": True for number in range(1_000)}}


def test_very_many_connections_that_wait_with_long_bindings(step_meter: StepMeter) -> None:
    peer = MeasuredPeer(step_meter)
    alarms = peer.node.alarms
    clients = [peer.connect() for _ in range(CONNECTIONS)]
    for client in clients:
        client.channel()
    vhost = peer.node.vhosts["/"]
    queue = vhost.declare_queue("q")
    bind = codec.method_frame(1, Queue.Bind, BIND)
    for _ in step_meter.attempts():
        alarms.set(DISK)
        for client in clients:
            socket_of(client).incoming += bind
        peer.settle()
        waiting = list(peer.server.connections.values())
        assert all(connection.blocked for connection in waiting) and not queue.incoming
        alarms.set(MEMORY)
        step_meter.begin()
        step_meter.measured(alarms.clear)(MEMORY)
        peer.settle()
        assert all(connection.blocked for connection in waiting)
        step_meter.measured(alarms.clear)(DISK)
        peer.settle()
        assert not any(connection.blocked for connection in waiting) and len(queue.incoming) == 1
        [binding] = queue.incoming.values()
        vhost.unbind("amq.headers", queue, "", binding.arguments)
    peer.close()
