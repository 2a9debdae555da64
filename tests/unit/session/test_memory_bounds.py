"""Bounds on the memory that a client can make the broker keep."""

from pamqp.commands import Basic

from tests.support import codec
from tests.support.in_process import InProcessPeer

PUBLISH = {"exchange": "", "routing_key": "queue"}


def test_contents_are_not_gathered_before_the_login() -> None:
    client = InProcessPeer().dial()
    client.start()
    client.raw(codec.method_frame(1, Basic.Publish, PUBLISH) + codec.header_frame(1, 1000))
    client.expect_close(505)


def test_a_publish_method_longer_than_any_can_be_is_refused_at_once() -> None:
    client = InProcessPeer().connect()
    client.channel(1)
    client.raw(codec.frame(1, 1, b"\0\x3c\0\x28" + bytes(100_000)))
    client.expect_close(502)


def test_a_client_that_does_not_read_is_not_served_without_end() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    ch = client.channel(1)
    ch.declare("queue")
    ch.publish("", "queue", bytes(1_000_000))
    ch.sync()
    broker.stall(client)
    for tag in range(1, 101):
        ch.send(Basic.Get, queue="queue")
        ch.reject(tag)
    broker.settle()
    assert broker.unsent_bytes(client) < 50_000_000
