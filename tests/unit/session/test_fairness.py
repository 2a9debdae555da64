"""Fairness: how much is done for one connection before the others have their turn."""

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.support import codec
from tests.support.clock import fake_clock
from tests.support.in_process import InProcessPeer
from tests.support.session import SessionPipe, connected, new_node, pipe_of
from warren.broker.core.jobs.scheduler import TURN_COST
from warren.broker.core.node.node import Node
from warren.broker.session.connection import AT_ONCE_COST, CHANGE_COST, METHOD_COST, RUN_COST, STEP_COST

AT_ONCE, IN_A_TURN, IN_A_STEP = (cost // METHOD_COST for cost in (AT_ONCE_COST, TURN_COST, STEP_COST))
CHANGES_AT_ONCE = (AT_ONCE_COST + TURN_COST + STEP_COST) // CHANGE_COST
MANY = 20 * IN_A_TURN
DECLARE = codec.method_frame(1, Queue.Declare, {"queue": "queue"})
QUIET = codec.method_frame(1, Queue.Declare, {"queue": "queue", "nowait": True})
GET = codec.method_frame(1, Basic.Get, {"queue": "queue"})
REOPEN = codec.method_frame(2, Channel.Open, {}) + codec.method_frame(2, Channel.Close, {})


def opened(node: Node) -> SessionPipe:
    client = connected(node)
    client.channel(1).declare("queue")
    return pipe_of(client)


def replies(pipe: SessionPipe) -> int:
    return b"".join(pipe.connection.take_output()).count(codec.FRAME_END)


def served_by_turns(node: Node, pipes: list[SessionPipe]) -> list[int]:
    """Run until all requests are served, and return the number of replies in each turn of the loop."""
    clock = fake_clock(node.clock)
    served: list[int] = []

    def turned() -> None:
        served.append(sum(map(replies, pipes)))

    clock.after_each = turned
    clock.advance(0)
    return served


@pytest.mark.parametrize("methods", [DECLARE, GET, REOPEN], ids=["declare", "get", "open and close"])
def test_a_flood_of_methods_is_served_turn_by_turn(methods: bytes) -> None:
    node = new_node()
    pipe = opened(node)
    pipe.send(methods * MANY)
    assert pipe.connection.interrupted, "nothing more is read"
    at_once = replies(pipe)
    assert at_once <= AT_ONCE + IN_A_TURN + IN_A_STEP
    assert at_once <= CHANGES_AT_ONCE + 2 or methods is not DECLARE, "what makes something costs more"
    for _ in range(100):  # to write does not get it further
        pipe.connection.flushed()
    assert not pipe.connection.output.waits()
    served = served_by_turns(node, [pipe])
    assert max(served) <= IN_A_TURN + IN_A_STEP and at_once + sum(served) == MANY * methods.count(codec.FRAME_END)
    assert not pipe.connection.interrupted and pipe.link.asked


def test_connections_that_flood_share_each_turn() -> None:
    node = new_node()
    pipes = [opened(node) for _ in range(10)]
    for pipe in pipes:
        pipe.send(DECLARE * MANY)
    at_once = [replies(pipe) for pipe in pipes]
    assert sum(at_once) <= 10 * (AT_ONCE_COST // CHANGE_COST + 1) + CHANGES_AT_ONCE
    last = opened(node)
    last.send(DECLARE)
    assert replies(last) == 1, "a client with few requests is served at once"
    served = served_by_turns(node, pipes)
    assert max(served) <= IN_A_TURN + IN_A_STEP and sum(at_once) + sum(served) == 10 * MANY


def test_publishes_that_are_all_different_count_as_well() -> None:
    node = new_node()
    pipe = opened(node)
    other = codec.method_frame(1, Basic.Publish, {"routing_key": "other"}) + codec.header_frame(1, 0)
    publish = codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}) + codec.header_frame(1, 0)
    pipe.send(publish * 10_000)
    assert not pipe.connection.interrupted, "one run of publishes costs little"
    queue = node.vhosts["/"].queues["queue"]
    assert queue.ready == 10_000
    pipe.send((publish + other) * 5_000)
    assert pipe.connection.interrupted
    assert queue.ready - 10_000 <= (AT_ONCE_COST + TURN_COST + STEP_COST) // RUN_COST
    served_by_turns(node, [pipe])
    assert queue.ready == 15_000 and not pipe.connection.interrupted


def test_what_waits_for_the_reader_of_the_replies_goes_on_when_it_has_read() -> None:
    node = new_node()
    client = connected(node)
    ch = client.channel(1)
    ch.declare("queue")
    for _ in range(40):
        ch.publish("", "queue", b"x" * 100_000)
    pipe = pipe_of(client)
    pipe.send(GET * 200)
    assert pipe.connection.output.full() and pipe.connection.interrupted
    got = 0
    while pipe.link.asked or pipe.connection.interrupted:
        pipe.link.asked = False
        got += b"".join(pipe.connection.take_output()).count(codec.FRAME_END)
        pipe.connection.flushed()
        fake_clock(node.clock).advance(0)
    assert got == 40 * 3 + 160


def test_also_one_that_is_not_answered() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    client.channel(1)
    client.raw(QUIET * MANY + DECLARE)
    assert isinstance(client.next(1), Queue.DeclareOk)


def test_what_comes_meanwhile_waits_in_line() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    ch = client.channel(1)
    client.raw(QUIET * MANY)
    for number in range(5):
        ch.publish("", "queue", b"%d" % number)
        client.raw(QUIET * AT_ONCE)
    assert ch.drain("queue") == [b"0", b"1", b"2", b"3", b"4"]


def test_a_connection_that_fails_within_a_flood_still_ends() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    client.channel(1)
    wrong = codec.method_frame(1, Basic.Qos, {"prefetch_size": 1})
    client.raw(QUIET * (AT_ONCE + IN_A_TURN + 1) + wrong + QUIET * MANY)
    client.expect_close(540)
    client.expect_eof()


def test_a_connection_that_is_lost_within_a_flood_is_served_no_further() -> None:
    node = new_node()
    pipe = opened(node)
    pipe.send(DECLARE * MANY)
    pipe.connection.lost("reset")
    replies(pipe)
    assert not sum(served_by_turns(node, [pipe])) and not len(node.scheduler)
