"""A client that reads nothing for a while, whose requests are served nevertheless."""

from pamqp.commands import Basic, Queue

from tests.support import codec
from tests.support.amqp_client import Channel
from tests.support.in_process import FakeSocket, InProcessPeer, socket_of

BODY = b"x" * 1000


def stalled() -> tuple[InProcessPeer, Channel, FakeSocket, bytes]:
    """A consumer of 300 messages whose socket takes no output, and a request of which it may send many."""
    peer = InProcessPeer()
    publisher = peer.connect().channel()
    publisher.declare("q")
    channel = peer.connect().channel()
    socket = socket_of(channel.client)
    socket.stalled = True
    channel.send(Basic.Consume, queue="q", consumer_tag="c")
    for _ in range(300):
        publisher.publish("", "q", BODY)
    peer.settle()
    request = codec.method_frame(channel.number, Queue.Declare, {"queue": "q", "passive": True, "nowait": True})
    return peer, channel, socket, request


def test_acknowledgements_behind_many_requests_are_read_while_the_socket_takes_no_output() -> None:
    peer, channel, socket, request = stalled()
    session = peer.server.connections[socket.transport]
    unacked = session.channels[channel.number].unacked
    assert not session.output.writable and len(unacked) > 50
    last = max(unacked.tags())
    for _ in range(3):  # each takes several turns
        socket.incoming += request * 300
        peer.wait(0)
    assert socket.reading and not socket.incoming, "the connection is not read any more"
    socket.incoming += codec.method_frame(channel.number, Basic.Ack, {"delivery_tag": last, "multiple": True})
    peer.wait(0)
    assert len(unacked) == 0


def test_a_client_that_closes_its_socket_without_reading_releases_its_deliveries() -> None:
    peer, _, socket, request = stalled()
    socket.incoming += request * 300
    peer.wait(0)
    assert socket.reading
    socket.transport.eof_received()
    peer.wait(0)
    assert peer.node.vhosts["/"].queues["q"].ready == 300
