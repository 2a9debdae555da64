"""A new client gets its share of each turn of the loop, and no turn is long, whatever publishers do."""

import heapq
import time
from collections.abc import Iterator

import pytest
from pamqp.commands import Basic, Channel, Connection

from tests.support import codec
from tests.support.in_process import FakeSocket, InProcessPeer, socket_of
from tests.support.speed import within
from warren.broker.amqp.field_table import Table

from .meter import ATTEMPTS, TURN_MS

QUEUES = 1_500
PUBLISHERS = 20
PUBLISHES = 500  # of each, so that none of them comes to its end
TURNS = 60
STEPS = 12  # turns in which a client has logged in and opened a channel, a step of its dialogue in each but for some


def publishers(peer: InProcessPeer) -> list[FakeSocket]:
    vhost = peer.node.vhosts["/"]
    for number in range(QUEUES):
        queue = vhost.declare_queue(f"q{number}", arguments=Table.of({"x-max-length": 0}))
        vhost.bind("amq.fanout", queue, "", Table.EMPTY)
    publish = codec.method_frame(1, Basic.Publish, {"exchange": "amq.fanout"}) + codec.header_frame(1, 0, {})
    sockets = []
    for _ in range(PUBLISHERS):
        client = peer.connect()
        client.channel()
        sockets.append(socket_of(client))
    for socket in sockets:  # now, as connecting serves all input
        socket.incoming += publish * PUBLISHES
    return sockets


def turns(peer: InProcessPeer, sockets: list[FakeSocket]) -> Iterator[float]:
    """Yield the processor time of each turn of the loop: its callbacks, all that is read, and timers that are due."""
    clock = peer.clock
    while True:
        begun_s = time.thread_time()
        peer.loop.turn()
        for socket in sockets:
            socket.feed()
        now_ms = clock.now_ms()
        due = sorted(timer for timer in clock._timers if timer.when_ms <= now_ms)  # those that they set wait
        clock._timers = [timer for timer in clock._timers if timer.when_ms > now_ms]
        heapq.heapify(clock._timers)
        for timer in due:
            if not timer.cancelled:
                timer.function()
        yield (time.thread_time() - begun_s) * 1000


DIALOGUE = [
    b"AMQP\0\0\x09\x01",
    codec.method_frame(0, Connection.StartOk, {"mechanism": "PLAIN", "response": "\0guest\0guest", "locale": "en_US"}),
    codec.method_frame(0, Connection.TuneOk, {"channel_max": 10, "frame_max": 131072, "heartbeat": 0})
    + codec.method_frame(0, Connection.Open, {"virtual_host": "/"}),
    codec.method_frame(1, Channel.Open, {}),
]


def test_a_new_client_beside_publishers_to_very_many_queues() -> None:
    longest_ms, needed = [], []
    for _ in range(ATTEMPTS):
        peer = InProcessPeer()
        sockets = publishers(peer)
        lengths_ms = turns(peer, sockets)
        spent_ms = [next(lengths_ms) for _ in range(TURNS // 3)]
        newcomer = FakeSocket(peer, "127.0.0.1")
        sockets.append(newcomer)
        dialogue = list(DIALOGUE)
        steps = 0
        newcomer.incoming += dialogue.pop(0)
        while dialogue or not newcomer.outgoing:
            spent_ms.append(next(lengths_ms))
            steps += 1
            assert steps < TURNS
            if newcomer.outgoing and dialogue:
                newcomer.outgoing.clear()
                newcomer.incoming += dialogue.pop(0)
        assert peer.node.vhosts["/"].exchanges["amq.fanout"].publish_in < PUBLISHERS * PUBLISHES
        longest_ms.append(max(spent_ms))
        needed.append(steps)
        if within(longest_ms[-1], TURN_MS) and steps <= STEPS:
            return
    pytest.fail(f"longest turns of the attempts: {longest_ms} ms; turns that the client needed: {needed}")
