"""Counters between a channel, an exchange and a queue: the lists are empty unless detailed rates are on."""

from typing import Any, NotRequired, TypedDict, cast

import msgspec

from warren.broker.core.counters.statistics import DeliveryCounters, PublishCounters
from warren.broker.plugin import Exchange, Host, Queue
from warren.broker.session.channel import Channel
from warren.broker.session.channel_host import ChannelState

from ...http.auth import Caller
from ..framework.pagination import Item, Lists
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
        routed(stats, exchange, queue, counted[queue], exchange=place_of(exchange)) if queue in counted else None
        for exchange, counted in list(routes(host).items())
    )
    deliveries = (
        delivered(stats, channel, queue, rates.queues[queue], channel_details=channel_details(stats.caller, channel))
        if queue in rates.queues
        else None
        for channel, rates in channels(host)
    )
    return {"incoming": incoming, "deliveries": deliveries}


def of_exchange(host: Host, stats: RequestStats, exchange: Exchange) -> Lists:
    incoming = (
        published(
            stats, channel, exchange, rates.exchanges[exchange], channel_details=channel_details(stats.caller, channel)
        )
        if exchange in rates.exchanges
        else None
        for channel, rates in channels(host)
    )
    queues = list(routes(host).get(exchange, {}).items())
    outgoing = (routed(stats, exchange, queue, count, queue=place_of(queue)) for queue, count in queues)
    return {"incoming": incoming, "outgoing": outgoing}


def of_channel(stats: RequestStats, channel: Channel) -> Lists:
    if channel.rates is None:
        return {"publishes": (), "deliveries": ()}
    exchanges, queues = list(channel.rates.exchanges.items()), list(channel.rates.queues.items())
    return {
        "publishes": (published(stats, channel, to, count, exchange=place_of(to)) for to, count in exchanges),
        "deliveries": (delivered(stats, channel, of, count, queue=place_of(of)) for of, count in queues),
    }


def published(stats: RequestStats, channel: Channel, to: Exchange, count: PublishCounters, **other: object) -> Item:
    return {"stats": stats.details("channel_exchange", pair(channel, to), published_counters(count)), **other}


def delivered(stats: RequestStats, channel: Channel, of: Queue, count: DeliveryCounters, **other: object) -> Item:
    return {"stats": stats.details("channel_queue", pair(channel, of), delivering_counters(count)), **other}


def routed(stats: RequestStats, source: Exchange, to: Queue, count: int, **other: object) -> Item:
    return {"stats": stats.details("exchange_queue", route(source, to), {"publish": count}), **other}


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
    return cast(ChannelDetails, details)
