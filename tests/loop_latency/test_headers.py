"""Messages whose headers are as long as a frame, and that have no body, hold no step of the loop."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pamqp.commands import Basic, Channel, Connection, Queue

from tests.support import codec
from tests.support.in_process import FakeSocket, InProcessPeer, socket_of
from tests.support.session import operator_channel
from warren.broker.core.queues.ready_messages import BATCH_BYTES
from warren.broker.net import transport

from .broker import Prompter, StepMeter, StoredPeer
from .meter import LIMIT_MS
from .test_emissions import method, one_read

MESSAGES, CONSUMERS = 450, 20
FRAME_MAX = 1 << 17
QUORUM = {"x-queue-type": "quorum", "x-delivery-limit": -1}
LONG = {"headers": {"h": "v" * (FRAME_MAX - 100)}}


def publish(peer: InProcessPeer, exchange: str, key: str, count: int, **properties: object) -> None:
    """Publish messages without a body on channel 1."""
    client = peer.connect()
    client.channel()
    fields = {"exchange": exchange, "routing_key": key, "mandatory": False, "immediate": False}
    content = codec.method_frame(1, Basic.Publish, fields) + codec.header_frame(1, 0, properties)
    for _ in range(count):
        client.raw(content)
        peer.settle()


def consume(peer: InProcessPeer, queue: str, **fields: object) -> FakeSocket:
    """Consume on channel 2, whose frames are made anew, as a client that does not read."""
    client = peer.connect()
    client.channel()
    channel = client.channel()
    socket = socket_of(client)
    socket.outgoing.clear()
    socket.stalled = True
    socket.incoming += codec.method_frame(channel.number, Basic.Consume, {"queue": queue} | fields)
    return socket


def test_deliveries_to_a_consumer_that_does_not_read(step_meter: StepMeter) -> None:
    for peer in step_meter.peers(LIMIT_MS):
        peer.connect().channel().declare("q")
        publish(peer, "", "q", MESSAGES, **LONG)
        step_meter.begin()
        socket = consume(peer, "q", no_ack=True)
        peer.settle()
        assert len(socket.outgoing) < BATCH_BYTES + 2 * FRAME_MAX


def test_deliveries_to_many_consumers_that_do_not_read(step_meter: StepMeter) -> None:
    """The output of each is bounded, whether they share one queue or have queues of their own."""
    for peer in step_meter.peers(LIMIT_MS):
        channel = peer.connect().channel()
        channel.exchange("all", "fanout")
        for number in range(CONSUMERS):
            channel.declare(f"q{number}")
            channel.bind(f"q{number}", "all", "")
        publish(peer, "all", "", MESSAGES, **LONG)
        step_meter.begin()
        sockets = [consume(peer, f"q{number}") for number in range(CONSUMERS)]
        sockets += [consume(peer, "q0") for _ in range(CONSUMERS)]
        peer.settle()
        for _ in range(3):
            peer.wait(0)
        assert all(0 < len(socket.outgoing) < BATCH_BYTES + 2 * FRAME_MAX for socket in sockets)


# What is requeued by a quorum queue, which writes the count of its deliveries into a copy of each message


def recover_all(consumer: Prompter) -> None:
    consumer.send(Basic.Recover, requeue=True)


def reject_each(consumer: Prompter) -> None:
    for tag in range(1, MESSAGES + 1):
        fields = {"delivery_tag": tag, "requeue": True}
        consumer.socket.incoming += codec.method_frame(consumer.channel.number, Basic.Reject, fields)


def close_channel(consumer: Prompter) -> None:
    consumer.send(Channel.Close, reply_code=200)


def close_connection(consumer: Prompter) -> None:
    consumer.socket.incoming += codec.method_frame(0, Connection.Close, {"reply_code": 200})


def fail(consumer: Prompter) -> None:
    consumer.send(Basic.Ack, delivery_tag=MESSAGES + 1)


def vanish(consumer: Prompter) -> None:
    consumer.socket.close()


def close_transactional_channel(consumer: Prompter) -> None:
    consumer.send(Basic.Ack, delivery_tag=0, multiple=True)
    close_channel(consumer)


LONGEST = {"one long field": LONG, "many fields": {"headers": {f"h{n}": "v" * 110 for n in range(1000)}}}
ENDINGS = (recover_all, reject_each, close_channel, close_connection, fail, vanish, close_transactional_channel)


@pytest.mark.parametrize("properties", LONGEST.values(), ids=LONGEST)
@pytest.mark.parametrize("action", ENDINGS, ids=lambda action: action.__name__)
def test_deliveries_that_are_requeued(
    step_meter: StepMeter, action: Callable[[Prompter], None], properties: dict[str, object]
) -> None:
    for peer in step_meter.peers(LIMIT_MS):
        peer.connect().channel().declare("q", durable=True, arguments=QUORUM)
        publish(peer, "", "q", MESSAGES, **properties)
        consumer = Prompter(peer, transactional=action is close_transactional_channel)
        consumer.send(Basic.Consume, queue="q", consumer_tag="c")
        for _ in range(MESSAGES):
            peer.settle()
            consumer.socket.outgoing.clear()
        assert consumer.unacked == MESSAGES
        consumer.socket.stalled = True
        step_meter.begin()
        action(consumer)
        peer.wait(0)
        queue = peer.node.vhosts["/"].queues["q"]
        assert queue.ready + queue.unacked == MESSAGES


# What is read from the journal or moved once its deliveries are counted, which takes as long as there are fields to
# look at

COUNTED_MESSAGES = 200
SHORT_FIELDS = {f"{number:x}": None for number in range(1_020)}
FORGED = {"x-delivery-count": "mine"}
COUNTED = {
    "many fields": SHORT_FIELDS,
    "a count of the publisher": SHORT_FIELDS | FORGED,
    "the name within a string": SHORT_FIELDS | {"h": "\x10x-delivery-count"},
}


def stored_and_counted(step_meter: StepMeter, folder: Path, headers: dict[str, object]) -> StoredPeer:
    """Return a broker that has restarted with messages of which one delivery each is counted."""
    peer = StoredPeer(step_meter, folder / "killed")
    peer.connect().channel().declare("q", durable=True, arguments=QUORUM)
    publish(peer, "", "q", COUNTED_MESSAGES, headers=headers, delivery_mode=2)
    consumer = Prompter(peer)
    consumer.send(Basic.Consume, queue="q", consumer_tag="c")
    close_channel(consumer)
    peer.wait(0)
    shutil.copytree(folder / "killed", folder / "restarted")
    peer.close()
    peer = StoredPeer(step_meter, folder / "restarted")
    assert peer.node.vhosts["/"].queues["q"].ready == COUNTED_MESSAGES
    return peer


@pytest.mark.parametrize("headers", COUNTED.values(), ids=COUNTED)
@pytest.mark.parametrize("moved", [False, True])
def test_messages_with_counted_deliveries(
    step_meter: StepMeter, tmp_path: Path, headers: dict[str, object], moved: bool
) -> None:
    for number in step_meter.attempts(LIMIT_MS):
        peer = stored_and_counted(step_meter, tmp_path / str(number), headers)
        channel = peer.connect().channel()
        channel.declare("to")
        work = operator_channel(peer.node).move("q", "", "to")
        step_meter.begin()
        while moved and channel.count("q"):
            assert not step_meter.measured(work.step)(COUNTED_MESSAGES).problem
            peer.settle()
        got = [channel.get("to" if moved else "q", no_ack=True) for _ in range(COUNTED_MESSAGES)]
        counts = {message.headers.get("x-delivery-count") for message in got if message is not None}
        assert counts == ({None} if moved else {1}) and None not in got
        peer.close()


@pytest.mark.parametrize("event", [False, True])
def test_bindings_to_a_headers_exchange_with_very_many_conditions(
    step_meter: StepMeter, monkeypatch: pytest.MonkeyPatch, event: bool
) -> None:
    """They come in one piece on a connection whose earlier input took little time, as long bodies."""
    monkeypatch.setattr(transport, "FIRST_PIECE", transport.MAX_PIECE)
    for peer in step_meter.peers():
        channel = peer.connect().channel()
        channel.declare("q")
        if event:
            channel.declare("events")
            channel.bind("events", "amq.rabbitmq.event", "#")
        peer.settle()
        conditions = {f"{number:03}": None for number in range(1_000)}
        arguments = [{"x-match": "any", f"n{number}": None} | conditions for number in range(40)]
        bindings = [method(Queue.Bind, queue="q", exchange="amq.headers", arguments=one) for one in arguments]
        work = one_read(peer, b"".join(bindings))
        step_meter.begin()
        work()
        assert len(peer.node.vhosts["/"].exchanges["amq.headers"].outgoing) == 40
