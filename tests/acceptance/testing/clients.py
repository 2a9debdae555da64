"""Connections of pika to a broker for tests, which the fixture `connections` closes."""

import threading
from contextlib import suppress

import pika
from pika.adapters.blocking_connection import BlockingChannel

from warren.testing import VHost

OPENED: list[pika.BlockingConnection] = []


def connect(vhost: VHost, name: str = "", **parameters: object) -> pika.BlockingConnection:
    """Connect with this client-provided name; the parameters are those of pika."""
    chosen = pika.URLParameters(vhost.url)
    chosen.client_properties = {"connection_name": name}
    for key, value in parameters.items():
        setattr(chosen, key, value)
    OPENED.append(pika.BlockingConnection(chosen))
    return OPENED[-1]


def channel_of(vhost: VHost, name: str = "", **parameters: object) -> BlockingChannel:
    """Return a channel with confirms, of a connection of its own."""
    channel = connect(vhost, name, **parameters).channel()
    channel.confirm_delivery()
    return channel


def close_all() -> None:
    """Close all connections, also those whose broker does not answer."""
    while OPENED:
        with suppress(pika.exceptions.AMQPError):
            OPENED.pop().close()


def hears_nothing(channel: BlockingChannel) -> bool:
    """Whether a call is not answered within a moment. Its thread ends with the connection."""

    def declare() -> None:
        with suppress(pika.exceptions.AMQPError):
            channel.queue_declare("q", passive=True)

    call = threading.Thread(target=declare, daemon=True)
    call.start()
    call.join(0.1)
    return call.is_alive()
