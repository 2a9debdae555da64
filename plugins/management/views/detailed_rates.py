"""Counters between a channel, an exchange and a queue: the lists are empty unless detailed rates are on."""

from typing import Any, NotRequired, TypedDict

import msgspec

from warren.broker.core.counters.statistics import DeliveryCounters, PublishCounters
from warren.broker.plugin import Exchange, Host, Queue
from warren.broker.session.channel import Channel
from warren.broker.session.channel_host import ChannelState

from ...http.auth import Caller
from ..framework.pagination import Lists
from ..stats.counters import delivering_counters
from ..stats.detailed_rates import channels, pair, published_counters, route, routes
from ..stats.rates import Counted
from .stats import RequestStats, optional


class Place(msgspec.Struct):
    """The name of a queue or an exchange, as a part of another object."""

    name: str
    vhost: str


@optional(str, "name", "user", "connection_name", "peer_host", "node")
@optional(int, "number", "peer_port")
class ChannelDetails(TypedDict):
    """The identity of a channel as a part of another object; empty unless the caller sees the connection."""


class RatesView(TypedDict):
    """Counters between an object and another one: an exchange, a queue or a channel."""

    stats: Counted
    exchange: NotRequired[Place]
    queue: NotRequired[Place]
    channel_details: NotRequired[ChannelDetails]


def of_queue(host: Host, stats: RequestStats, queue: Queue) -> Lists:
    incoming = (
        {"stats": routed_stats(stats, exchange, queue, counted[queue]), "exchange": place_of(exchange)}
        if queue in counted
        else None
        for exchange, counted in list(routes(host).items())
    )
    return {"incoming": incoming, "deliveries": (delivered_view(stats, channel, queue) for channel in channels(host))}


def of_exchange(host: Host, stats: RequestStats, exchange: Exchange) -> Lists:
    outgoing = (
        {"stats": routed_stats(stats, exchange, queue, count), "queue": place_of(queue)}
        for queue, count in list(routes(host).get(exchange, {}).items())
    )
    return {"incoming": (published_view(stats, channel, exchange) for channel in channels(host)), "outgoing": outgoing}


def of_channel(stats: RequestStats, channel: Channel) -> Lists:
    if channel.rates is None:
        return {"publishes": (), "deliveries": ()}
    publishes = (
        {"stats": published_stats(stats, channel, exchange, published), "exchange": place_of(exchange)}
        for exchange, published in list(channel.rates.exchanges.items())
    )
    deliveries = (
        {"stats": delivered_stats(stats, channel, queue, got), "queue": place_of(queue)}
        for queue, got in list(channel.rates.queues.items())
    )
    return {"publishes": publishes, "deliveries": deliveries}


def delivered_view(stats: RequestStats, channel: Channel, queue: Queue) -> RatesView | None:
    got = channel.rates.queues.get(queue) if channel.rates is not None else None
    if got is None:
        return None
    details = channel_details(stats.caller, channel)
    return {"stats": delivered_stats(stats, channel, queue, got), "channel_details": details}


def published_view(stats: RequestStats, channel: Channel, exchange: Exchange) -> RatesView | None:
    published = channel.rates.exchanges.get(exchange) if channel.rates is not None else None
    if published is None:
        return None
    details = channel_details(stats.caller, channel)
    return {"stats": published_stats(stats, channel, exchange, published), "channel_details": details}


def published_stats(stats: RequestStats, channel: Channel, exchange: Exchange, published: PublishCounters) -> Any:
    return stats.details("channel_exchange", pair(channel, exchange), published_counters(published))


def delivered_stats(stats: RequestStats, channel: Channel, queue: Queue, got: DeliveryCounters) -> Any:
    return stats.details("channel_queue", pair(channel, queue), delivering_counters(got))


def routed_stats(stats: RequestStats, exchange: Exchange, queue: Queue, count: int) -> Any:
    return stats.details("exchange_queue", route(exchange, queue), {"publish": count})


def place_of(one: Exchange | Queue) -> Place:
    return Place(one.name, one.vhost)


def channel_name(channel: ChannelState) -> str:
    """Return the name of a channel: the connection's name and the channel number."""
    return f"{channel.connection.name} ({channel.number})"


def channel_details(caller: Caller, channel: ChannelState) -> ChannelDetails:
    connection = channel.connection
    if not caller.sees_connection(connection):
        return {}
    details: Any = {
        "name": channel_name(channel),
        "number": channel.number,
        "user": channel.user.name,
        "connection_name": connection.name,
        "peer_host": connection.peer.host,
        "peer_port": connection.peer.port,
        "node": connection.node.name,
    }
    view: ChannelDetails = details
    return view
