"""basic.return, and the order of the checks of a publish."""

import pytest
from pamqp.commands import Basic

from tests.support import codec
from tests.support.amqp_client import Content
from tests.support.in_process import InProcessPeer


def test_a_return_is_cut_to_the_frame_size_even_where_the_publish_was_not() -> None:
    client = InProcessPeer().connect(frame_max=4096)
    ch = client.channel(1)
    method = codec.method_frame(1, Basic.Publish, {"routing_key": "nowhere", "mandatory": True})
    client.raw(method + codec.header_frame(1, 4096) + codec.frame(codec.BODY, 1, bytes(4096)))  # 8 over: tolerated
    returned = ch.next()
    assert isinstance(returned, Content) and returned.body == bytes(4096)
    assert client.largest_frame <= 4096


@pytest.mark.parametrize("exchange", ["", "no such exchange"])
def test_the_size_of_a_message_is_looked_at_before_its_exchange(exchange: str) -> None:
    broker = InProcessPeer()
    broker.settings(max_message_size=100)
    ch = broker.connect().channel(1)
    ch.publish(exchange, "key", bytes(101))
    assert "larger than configured max size" in ch.expect_close(406).reply_text


def test_but_after_the_flag_that_is_not_implemented() -> None:
    broker = InProcessPeer()
    broker.settings(max_message_size=100)
    client = broker.connect()
    client.channel(1).publish("no such exchange", "key", bytes(101), immediate=True)
    client.expect_close(540)


def publish_frames(exchange: str, mandatory: bool) -> bytes:
    method = codec.method_frame(1, Basic.Publish, {"exchange": exchange, "routing_key": "k", "mandatory": mandatory})
    return method + codec.header_frame(1, 1) + codec.frame(codec.BODY, 1, b"x")


@pytest.mark.parametrize("first", ["", "amq.fanout"], ids=["to a queue", "unroutable"])
@pytest.mark.parametrize("reads", [1, 2])
def test_a_publish_is_confirmed_before_the_return_of_a_later_one(first: str, reads: int) -> None:
    client = InProcessPeer().connect()
    ch = client.channel(1)
    ch.declare("k")
    ch.confirm()
    publishes = [publish_frames(first, False), publish_frames("amq.fanout", True)]
    for data in publishes if reads == 2 else [b"".join(publishes)]:
        client.raw(data)
    one, returned, two = ch.next(), ch.next(), ch.next()
    assert isinstance(returned, Content) and isinstance(returned.method, Basic.Return)
    assert [(each.name, each.delivery_tag, each.multiple) for each in (one, two)] == [
        ("Basic.Ack", 1, False),
        ("Basic.Ack", 2, False),
    ]
