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
