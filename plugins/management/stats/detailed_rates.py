"""Counters between pairs of a channel, an exchange and a queue, where detailed rates are on."""

from collections.abc import Iterator

from warren.broker.core.counters.statistics import PublishCounters
from warren.broker.core.telemetry.detailed_rates import ChannelRates
from warren.broker.plugin import Exchange, Host, Queue
from warren.broker.session.channel import Channel

from .counters import PUBLISHED, channel_key, delivering
from .history import Key, Sample


def samples(host: Host) -> Iterator[Sample]:
    """Yield the samples of all pairs."""
    for channel, rates in channels(host):
        for exchange, published in list(rates.exchanges.items()):
            values = tuple(published_counters(published).values())
            yield "channel_exchange", pair(channel, exchange), published, values
        for queue, got in list(rates.queues.items()):
            yield "channel_queue", pair(channel, queue), got, delivering(got)
    for exchange, routed in list(routes(host).items()):
        for queue, count in list(routed.items()):
            yield "exchange_queue", route(exchange, queue), queue, (count,)


def channels(host: Host) -> Iterator[tuple[Channel, ChannelRates]]:
    """Yield the channels with detailed counters, and these."""
    for connection in host.connections():
        for channel in list(connection.channels.values()):
            if channel.rates is not None:
                yield channel, channel.rates


def routes(host: Host) -> dict[Exchange, dict[Queue, int]]:
    return host.node.detailed_rates.routed if host.node.detailed_rates is not None else {}


# Keys of samples.


def pair(channel: Channel, other: Exchange | Queue) -> Key:
    return *channel_key(channel.connection, channel), other.name


def route(exchange: Exchange, queue: Queue) -> Key:
    return exchange.vhost, exchange.name, queue.name


def published_counters(published: PublishCounters) -> dict[str, int]:
    return {name: getattr(published, name) for name in PUBLISHED}
