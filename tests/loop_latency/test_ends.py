"""Connections that all end at once, and queues that are declared beside very many others, hold no turn of the loop."""

import time
from collections.abc import Callable, Iterator

import pytest
from pamqp import base
from pamqp.commands import Basic, Channel, Connection, Queue, Tx

from tests.support import codec
from tests.support.in_process import FakeSocket, InProcessPeer, socket_of

from .broker import MeasuredPeer, Prompter, StepMeter
from .meter import LIMIT_MS, MANY, attempts_within

CONNECTIONS = MANY // 50
QUEUES = MANY // 2
FEW = MANY // 10
CLOSE = codec.method_frame(0, Connection.Close, {"reply_code": 200})


def connect(peer: InProcessPeer) -> list[FakeSocket]:
    sockets = []
    for _ in range(CONNECTIONS):
        client = peer.connect()
        client.channel()
        sockets.append(socket_of(client))
        peer._sockets.clear()  # settling looks at all of them
    return sockets


def say_goodbye(socket: FakeSocket) -> None:
    socket.transport.data_received(CLOSE)


def vanish(socket: FakeSocket) -> None:
    if not socket.transport.eof_received():
        socket.close()


def turns(peer: InProcessPeer, sockets: list[FakeSocket], end: Callable[[FakeSocket], None]) -> Iterator[float]:
    """Yield the duration of the turn in which the ends of all sockets are read, and of each turn after it."""
    begun_s = time.thread_time()
    for socket in sockets:
        end(socket)
    yield time.thread_time() - begun_s
    busy = True
    while busy or len(peer.node.scheduler):
        begun_s = time.thread_time()
        busy = peer.loop.turn()
        peer.clock.advance(0)
        yield time.thread_time() - begun_s


@pytest.mark.parametrize("end", [say_goodbye, vanish])
def test_connections_that_end_at_once(end: Callable[[FakeSocket], None]) -> None:
    for took_ms in attempts_within(LIMIT_MS):
        peer = InProcessPeer()
        sockets = connect(peer)
        peer.clock.after_each = lambda: None
        took_ms.append(max(turns(peer, sockets, end)) * 1000)
        assert not peer.node.open_connections
        peer.close()


def test_queues_are_declared_and_deleted_beside_many(step_meter: StepMeter) -> None:
    peer = MeasuredPeer(step_meter)
    vhost = peer.node.vhosts["/"]
    for number in range(QUEUES):
        vhost.declare_queue(f"q{number}", durable=True)
    prompter = Prompter(peer)
    for _ in step_meter.attempts():
        step_meter.begin()
        declares = [codec.method_frame(1, Queue.Declare, {"queue": f"n{n}", "durable": True}) for n in range(FEW)]
        prompter.socket.incoming += b"".join(declares)
        peer.settle()
        assert len(vhost.queues) == QUEUES + FEW
        deletes = [codec.method_frame(1, Queue.Delete, {"queue": f"n{n}"}) for n in range(FEW)]
        prompter.socket.incoming += b"".join(deletes)
        peer.settle()
        assert len(vhost.queues) == QUEUES
    peer.close()


@pytest.mark.parametrize("why", ["closed", "error", "timeout"])
def test_channels_with_many_deliveries_that_end_at_once(step_meter: StepMeter, why: str) -> None:
    """Each takes a little less than a turn."""
    deliveries, channels = 1_900, 20
    for peer in step_meter.peers():
        client = peer.connect()
        first = client.channel()
        first.declare("q")
        first.fill("q", *[b""] * (deliveries * channels))
        ends = b""
        for _ in range(channels):
            channel = client.channel()
            channel.qos(deliveries)
            channel.consume("q", consumer_tag="c", arguments={"x-consumer-timeout": 60_000} if why == "timeout" else {})
            peer.wait(0)
            channel.deliveries(deliveries)
            channel.cancel("c")
            close = Channel.Close, {"reply_code": 200}
            kind, fields = (Queue.Declare, {"queue": "missing", "passive": True}) if why == "error" else close
            ends += codec.method_frame(channel.number, kind, fields)
        peer.settle()
        step_meter.begin()
        if why == "timeout":
            peer.wait(180_000)
        else:
            socket_of(client).incoming += ends
            peer.settle()
            peer.wait(0)
        assert peer.node.vhosts["/"].queues["q"].ready == deliveries * channels


def test_rights_of_very_many_consumers_that_are_checked_again(step_meter: StepMeter) -> None:
    consumers, updates = 3_000, 20
    for peer in step_meter.peers():
        client = peer.connect()
        client.channel().declare("q")
        consume = {"queue": "q", "nowait": True, "arguments": {}}
        for number in range(consumers):
            socket_of(client).incoming += codec.method_frame(1, Basic.Consume, consume | {"consumer_tag": f"{number}"})
        peer.settle()
        update = codec.method_frame(0, Connection.UpdateSecret, {"new_secret": "s", "reason": "r"})
        step_meter.begin()
        socket_of(client).incoming += update * updates
        peer.settle()
        peer.wait(0)
        assert [client.next().name for _ in range(updates)] == ["Connection.UpdateSecretOk"] * updates


@pytest.mark.parametrize("end", [Tx.Rollback, Tx.Commit, None])
def test_short_transactions_and_acknowledgements_of_a_channel_with_very_many_deliveries(
    step_meter: StepMeter, end: type[base.Frame] | None
) -> None:
    """Each rollback sorts all deliveries, and each commit or acknowledgement is as long as one that is no job."""
    deliveries, ends = 30_000, 20
    for peer in step_meter.peers():
        client = peer.connect()
        channel = client.channel()
        channel.declare("q")
        channel.fill("q", *[b""] * deliveries)
        channel.consume("q")
        channel.deliveries(deliveries)
        if end is not None:
            channel.call(Tx.Select)
        together = 1 if end is Tx.Rollback else deliveries // ends
        data = b""
        for number in range(1, ends + 1):
            fields = {"delivery_tag": number * together, "multiple": together > 1}
            data += codec.method_frame(1, Basic.Ack, fields) + (
                codec.method_frame(1, end, {}) if end is not None else b""
            )
        peer.settle()
        step_meter.begin()
        socket_of(client).incoming += data
        peer.settle()
        peer.wait(0)
        names = [channel.next().name for _ in range(ends if end is not None else 0)]
        assert set(names) <= {"Tx.RollbackOk", "Tx.CommitOk"} and peer.node.open_connections
