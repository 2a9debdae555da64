"""Blocking connections of pika: how to open one, declare a queue of its own, and get all messages of a queue."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

Connect = Callable[[], pika.BlockingConnection]
Got = tuple[Any, pika.BasicProperties, bytes]


def dial(address: tuple[str, int]) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(*address))


@contextmanager
def channel_at(address: tuple[str, int]) -> Iterator[BlockingChannel]:
    """A channel of a connection of its own, which is closed at the end."""
    with dial(address) as connection:
        yield connection.channel()


def queue(channel: BlockingChannel, name: str = "", exclusive: bool = True, **arguments: object) -> str:
    """Declare a queue, by default exclusive; return its name. Arguments are written x_expires for x-expires."""
    declared = {key.replace("_", "-"): value for key, value in arguments.items()}
    return str(channel.queue_declare(name, exclusive=exclusive, arguments=declared).method.queue)


def taken(channel: BlockingChannel, queue: str) -> list[Got]:
    """Get all messages of a queue: method, properties and body of each."""
    messages = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        messages.append(got)
    return messages
