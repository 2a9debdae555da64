"""The AMQP server: what it does for all connections together."""

import pytest

from tests.support.in_process import InProcessPeer, socket_of
from warren.broker.session.connection import Connection


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


def test_a_transport_that_asks_to_be_flushed_more_than_once_has_one_turn() -> None:
    broker = InProcessPeer()
    transport = socket_of(broker.connect()).transport
    flushes = 0

    def flush() -> None:
        nonlocal flushes
        flushes += 1

    transport.flush = flush  # type: ignore[method-assign]
    for _ in range(8):
        broker.server.flush_soon(transport)
    while broker.loop.turn():
        pass
    assert flushes == 1
