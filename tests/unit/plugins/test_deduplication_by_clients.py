"""Duplicates as a client sees them drop, over a socket."""

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.pika_client import queue, taken
from tests.support.polling import until

pytestmark = pytest.mark.sockets

ON = {"x-message-deduplication": True}


def send(channel: BlockingChannel, exchange: str, key: str, *values: str, **headers: int) -> None:
    """Each is confirmed, and none returned, or pika raises."""
    for number, value in enumerate(values):
        properties = pika.BasicProperties(headers={"x-deduplication-header": value, **headers})
        channel.basic_publish(exchange, key, b"%d" % number, properties, mandatory=True)


def bodies(channel: BlockingChannel, name: str) -> list[bytes]:
    return [body for _, _, body in taken(channel, name)]


def test_a_queue_drops_duplicates_for_as_long_as_it_remembers(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    name = queue(channel, x_message_deduplication=True, x_cache_size=2)
    send(channel, "", name, "a", "a", "b", "a", "c", "a")
    assert bodies(channel, name) == [b"0", b"2", b"4", b"5"]


def test_an_exchange_drops_duplicates_before_any_queue(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    channel.exchange_declare("once", "topic", arguments=ON)
    names = [queue(channel) for _ in range(2)]
    for name in names:
        channel.queue_bind(name, "once", "#")
    send(channel, "once", "k", "a", "b", "a")
    send(channel, "once", "other", "b", "c")
    assert [bodies(channel, name) for name in names] == [[b"0", b"1", b"1"]] * 2
    channel.exchange_delete("once")


def test_what_was_seen_is_forgotten_after_its_time(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    name = queue(channel, **ON, x_cache_ttl=60_000)
    send(channel, "", name, "a", **{"x-cache-ttl": 30})
    send(channel, "", name, "b", "b")
    assert bodies(channel, name) == [b"0", b"0"]
    until(lambda: send(channel, "", name, "a") or bodies(channel, name), "a is forgotten")
    send(channel, "", name, "b")
    assert bodies(channel, name) == []
