"""Channels."""

from __future__ import annotations

from collections.abc import Iterable

from warren.broker.plugin import Channel, ChannelConsumer, Connection

from ..auth import ANY, OWN, VHOST
from ..pagination import Item, Listing
from ..request import Request
from ..responses import Response, found, missing
from ..router import Route
from ..stats.counters import channel_counters, channel_key
from ..views.detailed_rates import of_channel
from ..views.stats import NO_PROCESS, StatsView
from .connections import open_connections, the_connection
from .consumers import described as described_consumer


def list_channels(request: Request) -> Listing[Channel]:
    """Those that the user may see."""
    return listed(request, open_connections(request))


def list_of_vhost(request: Request) -> Listing[Channel]:
    """Those in one virtual host."""
    vhost = request.here()
    return listed(request, [one for one in open_connections(request) if one.vhost is vhost])


def list_of_connection(request: Request) -> Listing[Channel]:
    """Those of one connection."""
    return listed(request, [the_connection(request)])


def get_channel(request: Request) -> Response:
    """One channel."""
    for connection in request.host.connections():
        for channel in connection.channels.values():
            if name_of(channel) == request.path["channel"]:
                request.check_own(connection.user)
                figures = StatsView(request)
                item = described(figures, channel)
                if figures.told:
                    item["consumer_details"] = [described_consumer(one) for one in consumers_of(channel)]
                    item |= of_channel(figures, channel)
                return found(item)
    raise missing()


def listed(request: Request, connections: Iterable[Connection]) -> Listing[Channel]:
    figures = StatsView(request)
    channels = [one.channels[number] for one in connections for number in sorted(one.channels)]
    return Listing(channels, lambda channel: described(figures, channel), name_of)


def name_of(channel: Channel) -> str:
    return f"{channel.connection.name} ({channel.number})"


def consumers_of(channel: Channel) -> list[ChannelConsumer]:
    return list(channel.consumers.values())


def described(figures: StatsView, channel: Channel) -> Item:
    connection, confirms, transaction = channel.connection, channel.confirms, channel.transaction
    peer = connection.peer
    item: Item = {
        "name": name_of(channel),
        "number": channel.number,
        "node": connection.node.name,
        "vhost": channel.vhost.name,
        "user": channel.user.name,
        "user_who_performed_action": channel.user.name,
        "state": "closing" if channel.closing else "running",
        "transactional": transaction is not None,
        "confirm": confirms is not None,
        "consumer_count": len(channel.consumers),
        "messages_unacknowledged": len(channel.unacked),
        "messages_unconfirmed": confirms.next - 1 - confirms.told if confirms is not None else 0,
        "messages_uncommitted": len(transaction.publishes) if transaction is not None else 0,
        "pending_raft_commands": 0,  # queues of one node wait for no other
        "acks_uncommitted": len(transaction.settlements) if transaction is not None else 0,
        "prefetch_count": channel.prefetch,
        "connection_details": {"name": connection.name, "peer_host": peer.host, "peer_port": peer.port},
    }
    if figures.told:
        key = channel_key(connection, channel)
        item |= figures.message_stats("channel", key, channel_counters(channel)) | figures.idle_since("channel", key)
        item |= NO_PROCESS
    return item


ROUTES = (
    Route("GET", "/channels", ANY, list_channels),
    Route("GET", "/channels/{channel}", OWN, get_channel),
    Route("GET", "/connections/{name}/channels", OWN, list_of_connection),
    Route("GET", "/vhosts/{vhost}/channels", VHOST, list_of_vhost),
)
