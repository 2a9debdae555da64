"""The AMQP server: what it does for all connections together."""

import pytest

from tests.support.in_process import InProcessPeer, socket_of
from warren.broker.net import fair_turns
from warren.broker.net.transport import FIRST_PIECE, Transport
from warren.broker.session.connection import Connection
from warren.broker.session.handshake import OUR_HEADER
from warren.broker.wire.method_encoder import HEARTBEAT, close


def test_output_that_fails_ends_its_own_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = InProcessPeer()
    publisher, broken, sound = broker.connect(), broker.connect(), broker.connect()
    first, second = broken.channel(), sound.channel()
    first.exchange("both", "fanout")
    for ch in (first, second):
        queue = ch.declare().queue
        ch.bind(queue, "both")
        ch.consume(queue, no_ack=True)
    culprit = broker.server.connections[socket_of(broken).transport]
    flushed = Connection.flushed

    def fail(self: Connection) -> None:
        if self is culprit:
            raise KeyError("a bug")
        flushed(self)

    monkeypatch.setattr(Connection, "flushed", fail)
    publisher.channel().publish("both", "", b"body")
    assert second.delivery().body == b"body"
    broken.read_to_end()
    assert broken.ended
    assert [event for event, level, _ in broker.log if level == "error"] == ["internal_error"]
    assert culprit not in broker.server.connections.values()


def test_a_transport_that_asks_to_be_flushed_more_than_once_has_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = InProcessPeer()
    transport = socket_of(broker.connect()).transport
    flushed: list[Transport] = []
    monkeypatch.setattr(Transport, "flush", lambda self: flushed.append(self))
    for _ in range(8):
        broker.server.flush_soon(transport)
    while broker.loop.turn():
        pass
    assert flushed == [transport]


def test_connections_with_much_input_are_served_one_piece_each_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_turns, "TURN_S", 0.0)
    broker = InProcessPeer()
    clients = [broker.connect() for _ in range(3)]
    transports = [socket_of(client).transport for client in clients]
    served: list[Transport] = []
    serve_piece = Transport._serve_piece

    def recorded(self: Transport) -> None:
        served.append(self)
        serve_piece(self)

    monkeypatch.setattr(Transport, "_serve_piece", recorded)
    for transport in transports:
        transport.data_received(HEARTBEAT * (4 * FIRST_PIECE // len(HEARTBEAT)))
    assert served == transports[:1], "the first read uses up the time of the turn"
    turns = []
    while broker.loop.turn():
        turns.append(len(served))
    first, second, third = transports
    assert served[:5] == [first, first, second, third, first]
    assert all(after - before <= 1 for before, after in zip(turns, turns[1:], strict=False))
    for client in clients:
        assert client.channel().declare().queue


COMING_AND_GOING = {
    "logins": lambda transport: transport.data_received(OUR_HEADER),
    "closes": lambda transport: transport.data_received(close(0, 200, "", 0, 0)),
    "ends": lambda transport: transport.eof_received(),
    "losses": lambda transport: transport.connection_lost(None),
    "departures": lambda transport: transport._departed(),
}


@pytest.mark.parametrize("kind", COMING_AND_GOING)
def test_an_open_connection_does_not_wait_for_all_that_come_or_go(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    broker = InProcessPeer()
    client = broker.connect()
    ch = client.channel()
    queue = ch.declare("queue").queue
    many = [socket_of(broker.dial() if kind == "logins" else broker.connect()).transport for _ in range(50)]
    broker.settle()
    monkeypatch.setattr(fair_turns, "TURN_S", 0.0)
    for transport in many:
        COMING_AND_GOING[kind](transport)
    ch.publish("", queue, b"body")
    socket = socket_of(client)
    socket.transport.data_received(bytes(socket.incoming))
    socket.incoming.clear()
    broker.loop.turn()
    assert broker.node.vhosts["/"].queues[queue].ready == 1
    turns = 1
    while broker.loop.turn():
        turns += 1
    assert turns >= len(many) - 1, "one that comes or goes took the turn of another"
    connections = broker.server.connections
    if kind == "logins":
        assert len(connections) == 51 and {each.state_text for each in connections.values()} == {"running", "starting"}
    else:
        assert [each.state_text for each in connections.values() if each.state_text != "closing"] == ["running"]


def test_input_that_was_read_before_the_socket_was_lost_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_turns, "TURN_S", 0.0)
    broker = InProcessPeer()
    client = broker.connect()
    ch = client.channel()
    queue = ch.declare("queue").queue
    ch.publish("", queue, b"x" * 100)
    socket = socket_of(client)
    publish = bytes(socket.incoming)
    socket.incoming.clear()
    count = 4 * FIRST_PIECE // len(publish)
    socket.transport.data_received(publish * count)
    socket.transport.connection_lost(None)
    while broker.loop.turn():
        pass
    assert broker.node.vhosts["/"].queues[queue].ready == count
    assert not broker.server.connections


def test_output_for_which_a_turn_has_no_time_is_flushed_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_turns, "FLUSH_S", -1.0)
    broker = InProcessPeer()
    transports = [socket_of(broker.connect()).transport for _ in range(5)]
    flushed: list[Transport] = []
    monkeypatch.setattr(Transport, "flush", lambda self: flushed.append(self))
    for transport in transports:
        broker.server.flush_soon(transport)
    broker.loop.turn()
    assert flushed == transports[:2]
    broker.server.flush_soon(transports[0])
    broker.loop.turn()
    assert flushed == transports[:4]
    broker.loop.turn()
    assert flushed == [*transports, transports[0]]
