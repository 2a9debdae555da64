"""Connections that are lost while the node is busy: what they held counts as released at once."""

from typing import Any

import pytest
from pamqp.commands import Basic, Queue
from pamqp.commands import Connection as Methods

from tests.support import codec
from tests.support.amqp_client import Channel as ClientChannel
from tests.support.clock import fake_clock
from tests.support.in_process import InProcessPeer, socket_of
from tests.support.session import connected, new_node, pipe_of
from warren.broker.core.node.node import Node
from warren.broker.session.connection import Connection

from .test_multiple_settlements import LARGE, Large

LOST = 100
MANY_PUBLISHES = (codec.method_frame(1, Basic.Publish, {"routing_key": "many"}) + codec.header_frame(1, 0)) * 100


@pytest.fixture
def node() -> Node:
    return new_node()


def busy(node: Node) -> None:
    """Let jobs use up their share of this turn."""
    node.scheduler._left = 0


def session(ch: ClientChannel) -> Connection:
    return pipe_of(ch.client).connection


def lose(node: Node, ch: ClientChannel) -> None:
    """Lose a connection while the node is busy."""
    busy(node)
    session(ch).lost("reset")


def later(node: Node) -> None:
    fake_clock(node.clock).advance(0)


def deliveries(ch: ClientChannel) -> list[int]:
    """Return the positions of the unsettled deliveries of a channel, in the order of their delivery."""
    connection = session(ch)
    while connection.take_output():
        connection.flushed()
    return [position for _, _, position, _ in connection.channels[1].unacked.values()]


def test_a_hundred_lost_connections_have_a_hundred_successors_at_once(node: Node) -> None:
    clients = [connected(node).channel(1) for _ in range(LOST)]
    for number, ch in enumerate(clients):
        ch.declare(f"mine{number}", exclusive=True)
        ch.consume(f"mine{number}", consumer_tag="c")
        ch.publish("", f"mine{number}", b"of the first")
    for ch in clients:
        session(ch).lost("reset")
    assert len(node.scheduler), "their ends are not complete"
    successors = [connected(node).channel(1) for _ in range(LOST)]
    for number, ch in enumerate(successors):
        assert ch.declare(f"mine{number}", exclusive=True).message_count == 0
        ch.consume(f"mine{number}", consumer_tag="c", exclusive=True)
    later(node)
    assert len(node.vhosts["/"].queues) == LOST and not len(node.scheduler)
    for number, ch in enumerate(successors):
        ch.publish("", f"mine{number}", b"of the second")
        assert ch.delivery().body == b"of the second"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Queue.Declare, {"passive": True}),
        (Basic.Get, {}),
        (Basic.Consume, {}),
        (Queue.Purge, {}),
        (Queue.Bind, {"exchange": "amq.direct"}),
    ],
)
def test_an_exclusive_queue_of_a_lost_connection_is_not_found(node: Node, kind: Any, fields: dict[str, Any]) -> None:
    owner, other = connected(node).channel(1), connected(node).channel(1)
    owner.declare("mine", exclusive=True)
    lose(node, owner)
    other.refused(404, kind, queue="mine", **fields)


def test_deleting_or_unbinding_it_is_fine(node: Node) -> None:
    owner, other = connected(node).channel(1), connected(node).channel(1)
    for name in ("one", "two"):
        owner.declare(name, exclusive=True)
    lose(node, owner)
    other.delete("one")
    other.unbind("two", "amq.direct", "k")
    assert not node.vhosts["/"].queues
    later(node)


def test_an_exclusive_consumer_gives_way_to_its_successor_which_gets_first_what_was_out() -> None:
    large = Large()
    large.ch.cancel("c")
    large.connection.lost("reset")
    large.turns()
    first, second = connected(large.node).channel(1), connected(large.node).channel(1)
    first.send(Basic.Consume, queue="queue", consumer_tag="c", exclusive=True)
    deliveries(first)
    busy(large.node)
    session(first).lost("reset")
    second.send(Basic.Consume, queue="queue", consumer_tag="c", exclusive=True)
    second.publish("", "queue", b"fresh")
    assert deliveries(second) == [], "not before what was out is back"
    later(large.node)
    positions = deliveries(second)
    assert positions == list(range(1, LARGE + 2))


def test_basic_get_waits_for_what_comes_back_to_the_queue(node: Node) -> None:
    lost, other = connected(node).channel(1), connected(node).channel(1)
    for name in ("many", "few"):
        lost.declare(name)
    for _ in range(LARGE // 100):
        other.client.raw(MANY_PUBLISHES)
    other.publish("", "few", b"first")
    lost.send(Basic.Consume, queue="many", consumer_tag="many")
    lost.send(Basic.Consume, queue="few", consumer_tag="few")
    deliveries(lost)
    other.publish("", "few", b"second")
    deliveries(lost)
    lost.cancel("few")
    session(lost).lost("reset")
    other.publish("", "few", b"third")
    other.send(Basic.Get, queue="few", no_ack=True)
    other.send(Basic.Get, queue="few", no_ack=True)
    assert not session(other).output.waits(), "what was out is not back yet, and the queue is not empty"
    later(node)
    assert [other.next().body, other.next().body] == [b"first", b"second"]
    assert [content.body for content in [other.get("few")] if content] == [b"third"]


def test_basic_get_that_waits_sees_the_queue_go() -> None:
    large = Large()
    other = connected(large.node).channel(1)
    large.connection.lost("reset")
    other.send(Basic.Get, queue="queue", no_ack=True)
    large.node.vhosts["/"].delete_queue(large.queue)  # as x-expires does, which does not wait
    later(large.node)
    other.expect_close(404)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", [Queue.Declare, Queue.Purge, Queue.Delete])
def test_a_count_has_none_or_all_of_what_comes_back_from_all_channels(node: Node, kind: Any, channels: int) -> None:
    client = connected(node)
    for number in range(1, channels + 1):
        ch = client.channel(number)
        ch.declare("many")
        client.raw(MANY_PUBLISHES * (LARGE // 100 if number == 1 else 0))
        ch.qos(LARGE // channels)
        ch.send(Basic.Consume, queue="many", consumer_tag="c")
        deliveries(ch)
    assert node.vhosts["/"].queues["many"].unacked == LARGE
    session(ch).lost("reset")
    clock, others = fake_clock(node.clock), []
    while clock.run_next(clock.now_ms()):
        others.append(connected(node).channel(1))
        others[-1].send(kind, queue="many", **({"passive": True} if kind is Queue.Declare else {}))
    replies: list[Any] = [other.next() for other in others]
    counts = sorted(reply.message_count for reply in replies)
    assert len(counts) > 3
    assert counts == ([LARGE] * len(counts) if kind is Queue.Declare else [0] * (len(counts) - 1) + [LARGE])


def test_a_single_active_consumer_gives_way_and_order_is_kept(node: Node) -> None:
    active, waiting, late = (connected(node).channel(1) for _ in range(3))
    active.declare("queue", arguments={"x-single-active-consumer": True})
    for ch in (active, waiting):
        ch.consume("queue")
    for number in range(3):
        active.publish("", "queue", b"%d" % number)
    assert len(deliveries(active)) == 3
    lose(node, active)
    late.consume("queue")
    consumers: Any = node.vhosts["/"].queues["queue"].consumers
    assert consumers.active.channel is session(waiting).channels[1], "it has been there longer"
    late.publish("", "queue", b"3")
    assert deliveries(waiting) == []
    later(node)
    assert [waiting.delivery().body for _ in range(4)] == [b"0", b"1", b"2", b"3"]


def test_a_queue_that_goes_with_its_last_consumer_goes_before_it_is_declared_again(node: Node) -> None:
    first, second = connected(node).channel(1), connected(node).channel(1)
    first.declare("queue", auto_delete=True)
    first.consume("queue")
    lose(node, first)
    second.declare("queue", auto_delete=True, arguments={"x-max-length": 1})
    later(node)
    second.consume("queue")


def test_a_queue_whose_consumers_are_lost_is_unused(node: Node) -> None:
    first, second = connected(node).channel(1), connected(node).channel(1)
    first.declare("queue")
    first.consume("queue")
    lose(node, first)
    second.call(Queue.Delete, queue="queue", if_unused=True)
    later(node)


def test_channels_of_a_lost_connection_count_no_more(node: Node) -> None:
    client = connected(node)
    for number in range(10):
        client.channel(number + 1)
    busy(node)
    pipe_of(client).connection.lost("reset")
    assert node.connection_counts.channels == 0
    later(node)
    assert node.connection_counts.channels == 0


def test_a_client_that_says_goodbye_gets_no_cancel_for_what_its_successor_has_ended(node: Node) -> None:
    first, second = connected(node).channel(1), connected(node).channel(1)
    first.declare("mine", exclusive=True)
    first.consume("mine")
    busy(node)
    first.client.send(Methods.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    second.declare("mine", exclusive=True)
    later(node)
    assert not first.client.inbox(1)


@pytest.mark.parametrize("end", ["eof", "lost"])
def test_what_a_client_sent_before_it_left_is_served_although_it_takes_several_turns(end: str) -> None:
    peer = InProcessPeer()
    client = peer.connect()
    client.channel()
    peer.settle()
    transport = socket_of(client).transport
    frames = [codec.method_frame(1, Queue.Declare, {"queue": f"q{at}", "nowait": True}) for at in range(300)]
    transport.data_received(b"".join(frames))
    if end == "eof":
        transport.eof_received()
    transport.connection_lost(None)
    peer.settle()
    assert len(peer.node.vhosts["/"].queues) == 300
