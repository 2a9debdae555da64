"""kill -9 while a long queue is purged, which is answered before all its messages are freed."""

import pytest
from pamqp.commands import Basic, Queue

from tests.support import codec
from tests.support.amqp_client import Client
from tests.support.broker_process import BrokerProcess
from tests.support.polling import until

from .conftest import check_sound, drain_queue
from .test_restarted import PERSISTENT, confirmed

MANY = 50_000  # ten slices: a kill right behind the answer comes while they are let go of
BLOCK = 2_000  # messages in one write to the socket
OTHERS = [b"%d" % number for number in range(500)]
LATE = [b"late %d" % number for number in range(100)]

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]


def fill_queue(client: Client, queue: str) -> None:
    """Declare a durable queue with very many messages, all on the disk."""
    channel = client.channel()
    channel.declare(queue, durable=True)
    channel.transact()
    publish = codec.method_frame(channel.number, Basic.Publish, {"exchange": "", "routing_key": queue})
    one = publish + codec.header_frame(channel.number, 3, PERSISTENT)
    one += codec.body_frames(channel.number, b"old", client.frame_max)
    for _ in range(MANY // BLOCK):
        client.raw(one * BLOCK)
        channel.commit()
    channel.close()


def test_what_is_published_behind_a_purge_is_not_lost_with_it(client: Client, daemon: BrokerProcess) -> None:
    other = daemon.connect()
    fill_queue(client, "long")
    other.channel().declare("other", durable=True)
    confirmed(other, "other", OTHERS)
    client.channel().send(Queue.Purge, queue="long")
    looking = other.channel()
    until(lambda: not looking.count("long"), "the queue is purged", every_s=0.0)
    confirmed(other, "long", LATE)
    daemon.kill()
    daemon.start()
    client = daemon.connect()
    there = drain_queue(client, "long")
    assert there[-len(LATE) :] == LATE
    assert set(there[: -len(LATE)]) <= {b"old"}, "what was published since is there twice"
    assert drain_queue(client, "other") == OTHERS
    check_sound(daemon)
