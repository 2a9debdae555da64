"""Routes for channels and their consumers."""

from collections.abc import Iterable
from functools import partial
from typing import Any, NotRequired, cast

from warren.broker.session.channel import Channel
from warren.broker.session.connection import Connection

from ...http.auth import ANY, OWN, VHOST
from ...http.responses import Response, missing
from ..framework.pagination import Listing, Lists, with_lists
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import channel_counters, channel_key, object_key
from ..stats.rates import Counted
from ..views.consumer import ConsumerView, consumer_lists, consumer_view, consumers_of, local_consumer_view
from ..views.detailed_rates import RatesView, channel_name, of_channel
from ..views.stats import NO_PROCESS, Process, RequestStats, optional, required
from .connections import PeerView, connection_of, open_connections


@required(str, "name", "node", "vhost", "user", "user_who_performed_action", "state")
@required(bool, "transactional", "confirm")
@required(int, "number", "consumer_count", "messages_unacknowledged", "messages_unconfirmed", "messages_uncommitted")
@required(int, "pending_raft_commands", "acks_uncommitted", "prefetch_count", "global_prefetch_count")
@optional(str, "pid", "connection_pid", "idle_since")
@optional(list[RatesView], "publishes", "deliveries")
class ChannelView(Process):
    """A channel; a single one has consumers and detailed rates. Process ids are for callers at the unix socket."""

    connection_details: PeerView
    message_stats: NotRequired[Counted]
    consumer_details: NotRequired[list[ConsumerView]]


def channel_view(stats: RequestStats, channel: Channel) -> ChannelView:
    connection, confirms, transaction = channel.connection, channel.confirms, channel.transaction
    peer = connection.peer
    item: Any = {
        "name": channel_name(channel),
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
        "messages_unconfirmed": confirms.unconfirmed if confirms is not None else 0,
        "messages_uncommitted": len(transaction.publishes) if transaction is not None else 0,
        "pending_raft_commands": 0,  # RabbitMQ counts quorum queue commands here
        "acks_uncommitted": len(transaction.settlements) if transaction is not None else 0,
        "prefetch_count": channel.prefetch,
        "global_prefetch_count": channel.shared_prefetch.limit,
        "connection_details": {"name": connection.name, "peer_host": peer.host, "peer_port": peer.port},
    }
    if stats.pids:
        item["pid"] = channel.pid
        item["connection_pid"] = str(connection)
    if stats.enabled:
        key = channel_key(connection, channel)
        item |= stats.message_stats("channel", key, channel_counters(channel)) | stats.idle_since("channel", key)
        item |= NO_PROCESS
    return cast(ChannelView, item)


@route("GET", ANY, "/channels")
@route("GET", VHOST, "/vhosts/{vhost}/channels")
def list_channels(request: Request) -> Listing[ChannelView]:
    """List the channels that the user may see, or those of them in one virtual host."""
    return listing(request, open_connections(request))


@route("GET", OWN, "/connections/{name}/channels")
async def list_of_connection(request: Request) -> Listing[ChannelView]:
    """List the channels of one connection."""
    return listing(request, [await connection_of(request)])


@route("GET", OWN, "/channels/{channel}")
async def get_channel(request: Request) -> Response[ChannelView]:
    """Return one channel, with its consumers."""
    name = request.path["channel"]
    stats, (of_connection, _, number) = RequestStats(request), name.rpartition(" (")
    async for connection in request.in_slices(request.host.connections()):
        if connection.name != of_connection:
            continue
        channel = connection.channels.get(channel_number(number.removesuffix(")")))
        if channel is not None and channel_name(channel) == name:
            request.check_owner(connection.user)
            item = channel_view(stats, channel)
            lists: Lists = {}
            if stats.enabled:
                lists = {**of_channel(stats, channel), **consumer_lists(stats.caller, list(channel.consumers.values()))}
            return await with_lists(request, item, lists)
    raise missing()


def channel_number(text: str) -> int:
    """Return the number of a channel, or 0, which no channel has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0


def listing(request: Request, connections: Iterable[Connection]) -> Listing[ChannelView]:
    stats = RequestStats(request)
    channels = [one.channels[number] for one in connections for number in sorted(one.channels)]
    return Listing(channels, lambda channel: channel_view(stats, channel), channel_name)


@route("GET", ANY, "/consumers", "/consumers/{vhost}")
async def list_consumers(request: Request) -> Listing[ConsumerView]:
    """List the consumers of the user's connections, or of all connections for users with the tag monitoring."""
    queues = [queue for vhost in request.visible_vhosts() for queue in vhost.queues.values()]
    caller = request.caller
    consumed = [queue async for queue in request.in_slices(queues) if len(queue.consumers) > 0]
    every = (consumer for queue in consumed for consumer in consumers_of(queue))
    if caller.is_local:
        return Listing(every, partial(local_consumer_view, caller), order=lambda one: object_key(one.queue))
    consumers = [one async for one in request.in_slices(every) if caller.sees_connection(one.channel.connection)]
    describe = partial(consumer_view, caller)
    return Listing(consumers, describe, lambda one: f"{one.queue.name} {one.tag}", lambda one: object_key(one.queue))
