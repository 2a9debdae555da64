"""A message that is moved to very many queues, and dead letters for very many as the node stops, hold no turn."""

import pytest

from tests.support.queues import limit_dead_letters
from tests.support.session import operator_channel
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.jobs.scheduler import TURN_COST
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.vhost.vhost import VHost

from .broker import MeasuredPeer, StepMeter

QUEUES = 10_000


def fan(vhost: VHost, count: int, **arguments: object) -> None:
    for number in range(count):
        vhost.bind("amq.fanout", vhost.declare_queue(f"q{number}", arguments=Table.of(arguments)), "", Table.EMPTY)


def published(vhost: VHost) -> set[int]:
    return {queue.published for name, queue in vhost.queues.items() if name.startswith("q")}


def test_a_message_that_is_moved_to_very_many_queues(peer: MeasuredPeer, step_meter: StepMeter, vhost: VHost) -> None:
    fan(vhost, QUEUES)
    channel = peer.connect().channel()
    channel.declare("source")
    work = operator_channel(peer.node).move("source", "amq.fanout", None)
    moved = 0
    for _ in step_meter.attempts():
        channel.fill("source", b"x")
        step_meter.begin()
        assert step_meter.measured(work.step)(1).unfinished
        peer.settle()
        result = work.step(1)
        moved += result.moved
        assert not result.unfinished and not result.problem and not channel.count("source")
    assert published(vhost) == {moved}


def test_a_long_message_that_is_moved_to_queues_with_records_of_their_own(peer: MeasuredPeer, vhost: VHost) -> None:
    for number in range(300):
        queue = vhost.declare_queue(
            f"q{number}", durable=True, arguments=Table.of({"x-message-ttl": 1_000_000 + number})
        )
        vhost.bind("amq.fanout", queue, "", Table.EMPTY)
    channel = peer.connect().channel()
    channel.declare("source")
    channel.fill("source", b"x" * 100_000, delivery_mode=2)
    work = operator_channel(peer.node).move("source", "amq.fanout", None)
    assert work.step(1).unfinished and 0 in published(vhost), "30 MB are stored in one step"
    peer.settle()
    assert work.step(1).moved == 1 and published(vhost) == {1}


@pytest.mark.parametrize("problem", ["it is full", "leads back to the queue", "still being dead-lettered"])
def test_a_long_move_that_ends_puts_its_message_back(
    peer: MeasuredPeer, problem: str, monkeypatch: pytest.MonkeyPatch, vhost: VHost
) -> None:
    fan(vhost, 4_000, **({"x-max-length": 0, "x-overflow": "reject-publish"} if problem == "it is full" else {}))
    channel = peer.connect().channel()
    channel.declare("source")
    channel.fill("source", b"1", b"2")
    if problem == "leads back to the queue":
        channel.bind("source", "amq.fanout")
    if problem == "still being dead-lettered":
        limit_dead_letters(monkeypatch, MANY=5)
        arguments = {"x-max-length": 10, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "amq.topic"}
        channel.declare("q with room", arguments=arguments)
        channel.bind("q with room", "amq.fanout")
        outbox = vhost.queues["q with room"].outbox
        outbox.awaits_journal = True
        outbox.add([framed(RoutingAddress("", "q"), Properties(), b"")] * 7, "maxlen", queued=False)
    work = operator_channel(peer.node).move("source", "amq.fanout", None)
    result = work.step(2)
    peer.settle()
    assert problem in (result if not result.unfinished else work.step(2)).problem
    assert channel.drain("source") == [b"1", b"2"] and published(vhost) == {0}


def test_dead_letters_for_very_many_queues_as_the_node_stops(peer: MeasuredPeer, step_meter: StepMeter) -> None:
    vhost = peer.node.vhosts["/"]
    fan(vhost, QUEUES)
    channel = peer.connect().channel()
    channel.declare("source", arguments={"x-dead-letter-exchange": "amq.fanout"})
    for _ in step_meter.attempts():
        source = vhost.queues["source"]
        channel.fill("source", *[b"x"] * 100)
        source.dead_letter_or_drop(source.ready_messages.drop_excess(0, -1, 100)[0], "maxlen")
        before = min(published(vhost))
        step_meter.begin()
        turns = [step_meter.measured(peer.node.finish)(TURN_COST) for _ in range(10)]
        assert not any(turns) and before < min(published(vhost)) < before + 100
        source.outbox.waiting.clear()
