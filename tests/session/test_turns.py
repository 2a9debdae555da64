"""How much is done for one connection before the others have their turn."""

from pamqp.commands import Basic, Connection, Queue

from broker.session.connection import METHODS
from tests.support import codec
from tests.support.in_process import InProcessPeer
from tests.support.session import SessionPipe, dial, new_node, pipe_of

DECLARE = codec.method_frame(1, Queue.Declare, {"queue": "queue"})
QUIET = codec.method_frame(1, Queue.Declare, {"queue": "queue", "nowait": True})


def opened() -> SessionPipe:
    client = dial(new_node())
    client.start()
    client.login("PLAIN", "\0guest\0guest")
    client.tune()
    client.call(Connection.Open, virtual_host="/")
    client.channel(1)
    return pipe_of(client)


def replies(pipe: SessionPipe) -> int:
    return b"".join(pipe.connection.take_output()).count(codec.FRAME_END)


def test_a_flood_of_methods_is_worked_off_turn_by_turn() -> None:
    pipe = opened()
    pipe.send(DECLARE * (2 * METHODS + 5))
    for expected in (METHODS, METHODS, 5):
        assert pipe.connection.interrupted == (expected == METHODS)
        assert replies(pipe) == expected
        pipe.connection.flushed()
    assert replies(pipe) == 0


def test_also_one_that_is_not_answered() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    client.channel(1)
    client.raw(QUIET * (10 * METHODS) + DECLARE)
    assert isinstance(client.next(1), Queue.DeclareOk)


def test_what_comes_meanwhile_waits_in_line() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    ch = client.channel(1)
    client.raw(QUIET * (3 * METHODS))
    for number in range(5):
        ch.publish("", "queue", b"%d" % number)
        client.raw(QUIET * METHODS)
    assert ch.drain("queue") == [b"0", b"1", b"2", b"3", b"4"]


def test_publishes_and_acknowledgements_are_not_counted() -> None:
    pipe = opened()
    pipe.send(DECLARE)
    publish = codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}) + codec.header_frame(1, 0)
    other = codec.method_frame(1, Basic.Publish, {"routing_key": "other"}) + codec.header_frame(1, 0)
    pipe.send((publish + other) * (2 * METHODS))
    assert not pipe.connection.interrupted
    assert pipe.connection.node.vhosts["/"].queues["queue"].ready == 2 * METHODS


def test_a_connection_that_fails_within_a_flood_still_ends() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    client.channel(1)
    wrong = codec.method_frame(1, Basic.Qos, {"prefetch_size": 1})
    client.raw(QUIET * (METHODS + 1) + wrong + QUIET * (5 * METHODS))
    client.expect_close(540)
    client.expect_eof()
