"""Counters of each kind of object under RabbitMQ's names, for lists and for samples."""

from collections.abc import Mapping

from warren.broker.core.counters.statistics import Churn, DeliveryCounters, PublishCounters
from warren.broker.plugin import Exchange, Queue, VHost
from warren.broker.session.channel import Channel
from warren.broker.session.channel_host import ChannelHost
from warren.broker.session.connection import Connection

from .history import BYTE_COUNTERS, GAUGES, LENGTHS, Key

PUBLISHING = PublishCounters.FIELDS
DELIVERING = (*DeliveryCounters.FIELDS, "deliver_get")
PUBLISHED = ("publish", "return_unroutable", "drop_unroutable")  # of a channel for one exchange
ROUTING = ("publish_in", "publish_out")
CHURN = Churn.FIELDS
KINDS: Mapping[str, tuple[str, ...]] = {
    "overview": (*PUBLISHING, *DELIVERING, *LENGTHS, *CHURN),
    "node": GAUGES,
    "vhost": (*PUBLISHING, *DELIVERING, *LENGTHS, *BYTE_COUNTERS),
    "queue": ("publish", *DELIVERING, *LENGTHS),
    "exchange": ROUTING,
    "connection": BYTE_COUNTERS,
    "channel": (*PUBLISHING, *DELIVERING),
    "link": ("publish", "confirm"),
    "channel_exchange": PUBLISHED,
    "channel_queue": DELIVERING,
    "exchange_queue": ("publish",),
}

Values = tuple[int, ...]
OVERVIEW: Key = ()


def object_key(one: Queue | Exchange) -> Key:
    return one.vhost, one.name


def vhost_key(vhost: VHost) -> Key:
    return (vhost.name,)


def connection_key(connection: Connection) -> Key:
    return (connection.name,)


def channel_key(connection: ChannelHost, channel: Channel) -> Key:
    return connection.name, str(channel.number)


# Values in the order of the names above.


def delivering(of: DeliveryCounters) -> Values:
    return *of.values(), of.deliver_get


def lengths(queue: Queue) -> tuple[int, int, int]:
    return queue.stored + queue.unacked, queue.stored, queue.unacked


def persistent(queue: Queue) -> tuple[int, int]:
    """Return the number of persistent messages and the bytes of their bodies."""
    messages, body_bytes = queue.stored + queue.unacked, queue.ready_bytes + queue.unacked_bytes
    return min(queue.journal.count, messages), min(queue.journal.body_bytes, body_bytes)


# The same by name, for lists.


def named(names: tuple[str, ...], values: Values) -> dict[str, int]:
    return dict(zip(names, values, strict=True))


def delivering_counters(of: DeliveryCounters) -> dict[str, int]:
    return named(DELIVERING, delivering(of))


def queue_counters(queue: Queue) -> dict[str, int]:
    """Return the `message_stats` of a queue."""
    return {"publish": queue.published, **delivering_counters(queue.delivering)}


def exchange_counters(exchange: Exchange) -> dict[str, int]:
    """Return the `message_stats` of an exchange."""
    return {"publish_in": exchange.publish_in, "publish_out": exchange.publish_out}


def channel_counters(channel: Channel) -> dict[str, int]:
    """Return the `message_stats` of a channel."""
    return {**named(PUBLISHING, channel.publishing.values()), **delivering_counters(channel.delivering)}


def message_counters(publishing: PublishCounters, delivering: DeliveryCounters) -> dict[str, int]:
    """Return the `message_stats` of a virtual host or the node; the disk counters are of RabbitMQ's message store."""
    counted = {**named(PUBLISHING, publishing.values()), **delivering_counters(delivering)}
    return counted | {"disk_reads": 0, "disk_writes": 0}
