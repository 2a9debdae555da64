"""The shared prefetch limit of a channel's consumers while many messages wait."""

import pytest

from tests.support.in_process import InProcessPeer


@pytest.mark.parametrize("limit", [1, 3])
def test_consumers_of_one_queue_do_not_overdraw_their_shared_limit(limit: int) -> None:
    client = InProcessPeer().connect()
    ch, publisher = client.channel(), client.channel()
    ch.declare("queue")
    ch.qos(limit, globally=True)
    for tag in ("one", "two"):
        ch.consume("queue", consumer_tag=tag)
    for number in range(10):
        publisher.publish("", "queue", b"%d" % number)
    publisher.sync()
    for tag in range(1, 8):
        assert [ch.delivery() for _ in range(limit if tag == 1 else 1)][-1].tag == tag + limit - 1
        ch.sync()
        assert not ch.client.inbox(ch.number)
        ch.ack(tag)


def test_consumers_of_one_queue_wait_by_priority() -> None:
    """Consumer Priorities: also where one was served longer ago than another of a higher priority."""
    client = InProcessPeer().connect()
    ch, publisher = client.channel(), client.channel()
    ch.declare("queue")
    ch.qos(1, globally=True)
    for tag, priority in (("low", -1), ("one", 0), ("two", 0)):
        ch.consume("queue", consumer_tag=tag, arguments={"x-priority": priority})
    for number in range(4):
        publisher.publish("", "queue", b"%d" % number)
    publisher.sync()
    tags = []
    for number in range(4):
        tags.append(ch.delivery().method.consumer_tag)
        ch.ack(number + 1)
    assert tags == ["one", "two", "one", "two"]
