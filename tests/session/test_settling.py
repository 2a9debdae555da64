"""Many settlements at once."""

import time

import pytest
from pamqp.commands import Basic, Channel, Connection, Tx

from tests.support import codec
from tests.support.channel import Channel as ClientChannel
from tests.support.session import dial, new_node, pipe_of

COUNT = 5_000
PUBLISH = codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}) + codec.header_frame(1, 0)


def laden(consumers: int, transaction: bool = False) -> ClientChannel:
    """A channel with so many consumers that share a limit, and COUNT deliveries to them."""
    client = dial(new_node())
    client.start()
    client.login("PLAIN", "\0guest\0guest")
    client.tune()
    client.call(Connection.Open, virtual_host="/")
    ch = client.channel(1)
    ch.declare("queue")
    ch.qos(COUNT, globally=True)
    connection = pipe_of(client).connection
    for number in range(consumers):
        ch.send(Basic.Consume, queue="queue", consumer_tag=str(number))
    for _ in range(COUNT // 100):
        client.raw(PUBLISH * 100)
        while connection.take_output():
            connection.flushed()
    if transaction:
        ch.transact()
    assert len(connection.channels[1].unacked) == connection.channels[1].prefetched == COUNT
    return ch


def seconds(ch: ClientChannel, how: str) -> float:
    start = time.perf_counter()
    if how == "ack":
        ch.ack(0, multiple=True)
    elif how == "commit":
        ch.ack(0, multiple=True)
        ch.send(Tx.Commit)
    elif how == "close":
        ch.send(Channel.Close, reply_code=200)
    else:
        ch.nack(0, multiple=True, requeue=how == "requeue")
    return time.perf_counter() - start


@pytest.mark.parametrize("how", ["ack", "drop", "requeue", "close", "commit"])
def test_settling_all_at_once_costs_no_more_where_many_consumers_share_a_limit(how: str) -> None:
    one, many = (min(seconds(laden(count, how == "commit"), how) for _ in range(2)) for count in (1, 500))
    assert many < 8 * one + 0.02


@pytest.mark.parametrize("how", ["ack", "drop", "commit"])
def test_the_shared_limit_is_free_again_afterwards(how: str) -> None:
    ch = laden(3, how == "commit")
    seconds(ch, how)
    channel = pipe_of(ch.client).connection.channels[1]
    assert channel.prefetched == 0 and not channel.unacked
    assert all(consumer.unacked == 0 for consumer in channel.consumers.values())
