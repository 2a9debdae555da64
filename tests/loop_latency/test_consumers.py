"""Very many consumers of one queue that are added, served, cancelled and closed hold no step of the loop."""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.support import codec
from warren.broker.amqp.field_table import Table

from .broker import MeasuredPeer, Prompter, StepMeter, fill
from .meter import LIMIT_MS, MANY, SLICE_MS

FEW = MANY // 10
ACKS = 20
SINGLE = {"x-single-active-consumer": True}
LIMITS: dict[str, dict[str, Any]] = {
    "length limit": {"x-max-length": 0},
    "rejected publishes": {"x-max-length": 1, "x-overflow": "reject-publish"},
    "time to live": {"x-message-ttl": 0},
}
# The arguments of the queue, and how much higher the priority of each consumer is than that of the one before it
KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "equal": ({}, 0),
    "priorities": ({}, 1),
    "single active": (SINGLE, 0),
    "single active with priorities": (SINGLE, -1),
    "quorum": (SINGLE | {"x-queue-type": "quorum"}, 1),
}


def consume(prompter: Prompter, rise: int = 0, queues: int = 1, no_ack: bool = False) -> None:
    """Add consumers named c0, c1 and so on to the queues q0, q1 and so on, without replies."""
    prompter.socket.incoming += consume_frames(rise, queues, no_ack)


@cache
def consume_frames(rise: int, queues: int, no_ack: bool) -> bytes:
    fields = {"nowait": True, "no_ack": no_ack}
    own = [
        {"queue": f"q{n % queues}", "consumer_tag": f"c{n}", "arguments": {"x-priority": n * rise}} for n in range(MANY)
    ]
    return b"".join([codec.method_frame(1, Basic.Consume, fields | each) for each in own])


@cache
def cancel_frames() -> bytes:
    fields = [{"consumer_tag": f"c{number}", "nowait": True} for number in range(MANY)]
    return b"".join([codec.method_frame(1, Basic.Cancel, each) for each in fields])


def cancel_each(peer: MeasuredPeer, prompter: Prompter) -> None:
    prompter.socket.incoming += cancel_frames()


def close_channel(peer: MeasuredPeer, prompter: Prompter) -> None:
    prompter.socket.incoming += codec.method_frame(1, Channel.Close, {"reply_code": 200})


def lose_connection(peer: MeasuredPeer, prompter: Prompter) -> None:
    prompter.socket.close()
    successor = peer.connect().channel()
    successor.declare("q0", passive=True)
    successor.send(Basic.Consume, queue="q0", consumer_tag="successor")


def delete_queue(peer: MeasuredPeer, prompter: Prompter) -> None:
    prompter.socket.incoming += codec.method_frame(1, Queue.Delete, {"queue": "q0"})


ENDS = (cancel_each, close_channel, lose_connection, delete_queue)


def marks(kind: str, end: Callable[[MeasuredPeer, Prompter], None]) -> tuple[pytest.MarkDecorator, ...]:
    """The gate has all ends of one kind, and all kinds at one end, which looks at each consumer by itself."""
    return () if kind == "priorities" or end is cancel_each else (pytest.mark.rest,)


@pytest.mark.parametrize(
    ("kind", "end"), [pytest.param(kind, end, marks=marks(kind, end)) for kind, end in product(KINDS, ENDS)]
)
def test_consumers_that_end(step_meter: StepMeter, kind: str, end: Callable[[MeasuredPeer, Prompter], None]) -> None:
    arguments, rise = KINDS[kind]
    for peer in step_meter.peers():
        peer.connect().channel().declare("q0", durable=True, arguments=arguments)
        prompter = Prompter(peer)
        step_meter.begin()
        consume(prompter, rise)
        peer.settle()
        queue = peer.node.vhosts["/"].queues["q0"]
        assert len(queue.consumers) == MANY
        end(peer, prompter)
        peer.settle()
        peer.wait(0)
        assert len(queue.consumers) == (end is lose_connection) and not len(peer.node.scheduler)


@pytest.mark.parametrize("end", [close_channel, lose_connection, delete_queue])
def test_consumers_with_long_arguments_that_end(
    step_meter: StepMeter, end: Callable[[MeasuredPeer, Prompter], None]
) -> None:
    arguments = codec.pairs({"x-priority": 1, **{f"{number:03x}": [] for number in range(1_000)}})
    consume = {"queue": "q0", "arguments": arguments, "nowait": True}
    frames = [codec.method_frame(1, Basic.Consume, consume | {"consumer_tag": f"c{n}"}) for n in range(500)]
    for peer in step_meter.peers(LIMIT_MS):
        peer.connect().channel().declare("q0")
        prompter = Prompter(peer)
        for frame in frames:
            prompter.socket.incoming += frame
        peer.settle()
        step_meter.begin()
        end(peer, prompter)
        peer.settle()
        peer.wait(0)
        assert not len(peer.node.scheduler)


@pytest.mark.parametrize("end", [close_channel, lose_connection])
def test_deliveries_of_very_many_queues_that_are_requeued(
    step_meter: StepMeter, end: Callable[[MeasuredPeer, Prompter], None]
) -> None:
    count = MANY // 2
    # Slow memory takes longer to free very many deliveries than `slowness` knows.
    for peer in step_meter.peers(LIMIT_MS * 1.25):
        vhost = peer.node.vhosts["/"]
        prompter = Prompter(peer)
        queues = [vhost.declare_queue(f"q{number}") for number in range(count)]
        for queue in queues:
            vhost.bind("amq.fanout", queue, "", Table.EMPTY)
        fill(peer, "", 1, "amq.fanout")
        peer.wait(0)
        for queue in queues:
            prompter.socket.incoming += codec.method_frame(1, Basic.Get, {"queue": queue.name})
        peer.settle()
        assert prompter.unacked == count
        step_meter.begin()
        end(peer, prompter)
        peer.settle()
        peer.wait(0)
        assert {queue.ready for queue in queues[1:]} == {1} and not len(peer.node.scheduler)


@pytest.mark.parametrize("kind", KINDS)
def test_messages_for_consumers_of_one_connection_that_reads_nothing(step_meter: StepMeter, kind: str) -> None:
    """The output has room for few deliveries: all other consumers are put off, and woken when it is read."""
    arguments, rise = KINDS[kind]
    for peer in step_meter.peers():
        peer.connect().channel().declare("q0", durable=True, arguments=arguments)
        consume(Prompter(peer), rise, no_ack=True)
        peer.settle()
        step_meter.begin()
        for _ in range(3):
            fill(peer, "q0", MANY)
        peer.wait(0)
        assert not peer.node.vhosts["/"].queues["q0"].ready


@pytest.mark.parametrize("queues", [1, FEW])
def test_settlements_under_a_limit_that_consumers_share(step_meter: StepMeter, queues: int) -> None:
    for peer in step_meter.peers():
        channel, prompter = peer.connect().channel(), Prompter(peer)
        for number in range(queues):
            channel.declare(f"q{number}")
            for _ in range(1 + ACKS // queues):
                channel.publish("", f"q{number}", b"x")
        prompter.send(Basic.Qos, prefetch_count=1, global_=True)
        consume(prompter, queues=queues)
        peer.settle()
        step_meter.begin()
        for tag in range(ACKS):
            assert prompter.unacked == 1
            prompter.send(Basic.Ack, delivery_tag=tag + 1)
            peer.wait(0)


def test_consumers_of_many_queues_that_have_no_room(step_meter: StepMeter) -> None:
    """One publish asks all of them, whose shared limit is used up."""
    for peer in step_meter.peers():
        channel, prompter = peer.connect().channel(), Prompter(peer)
        vhost = peer.node.vhosts["/"]
        for number in range(20):
            vhost.bind("amq.fanout", vhost.declare_queue(f"q{number}"), "", Table.EMPTY)
        channel.declare("full")
        channel.publish("", "full", b"x")
        prompter.send(Basic.Qos, prefetch_count=1, global_=True)
        consume(prompter, queues=20)
        peer.settle()
        prompter.send(Basic.Consume, queue="full", consumer_tag="full", nowait=True)
        assert prompter.unacked == 1
        step_meter.begin()
        fill(peer, "", 1, "amq.fanout")
        peer.wait(0)
        assert all(queue.ready for name, queue in vhost.queues.items() if name != "full")


def test_consumers_that_wait_for_a_limit_that_they_share_and_are_cancelled(step_meter: StepMeter) -> None:
    """Neither the first one with a priority nor a cancelled one looks at all others."""
    for peer in step_meter.peers(SLICE_MS):
        prompter = Prompter(peer)
        peer.connect().channel().declare("q0")
        fill(peer, "q0", 5)
        prompter.send(Basic.Qos, prefetch_count=1, global_=True)
        consume(prompter)
        peer.settle()
        step_meter.begin()
        arguments = {"x-priority": 5}
        prompter.send(Basic.Consume, queue="q0", consumer_tag="first", arguments=arguments, nowait=True)
        for number in range(1, MANY):
            prompter.send(Basic.Cancel, consumer_tag=f"c{number}", nowait=True)
        peer.wait(0)
        assert len(peer.node.vhosts["/"].queues["q0"].consumers) == 2


@pytest.mark.parametrize("limit", LIMITS)
def test_messages_for_a_queue_with_a_limit_whose_consumers_are_woken_in_turns(
    step_meter: StepMeter, limit: str
) -> None:
    """Each acknowledgement leaves room for one delivery to any of them."""
    for peer in step_meter.peers():
        peer.connect().channel().declare("q0", arguments=LIMITS[limit])
        prompter = Prompter(peer)
        prompter.send(Basic.Qos, prefetch_count=1, global_=True)
        consume(prompter)
        peer.settle()
        fill(peer, "q0", 2)
        peer.wait(0)
        assert all(consumer.waiting for consumer in peer.node.vhosts["/"].queues["q0"].consumers.all)
        step_meter.begin()
        for tag in range(1, 1 + ACKS):
            assert prompter.unacked == 1
            prompter.socket.incoming += codec.method_frame(1, Basic.Ack, {"delivery_tag": tag})
            fill(peer, "q0", MANY // ACKS)
            peer.wait(0)
