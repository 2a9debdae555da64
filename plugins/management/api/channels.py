"""Routes for channels and their consumers."""

from collections.abc import Iterable
from functools import partial

from warren.broker.session.connection import Connection

from ...http.auth import ANY, OWN, VHOST
from ...http.responses import Response, missing
from ..framework.pagination import Listing, with_lists
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import object_key
from ..views.channel import ChannelView, channel_view, lists_of_channel
from ..views.consumer import ConsumerView, consumer_view, consumers_of, local_consumer_view
from ..views.detailed_rates import channel_name
from ..views.stats import RequestStats
from .connections import connection_of, open_connections


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
            return await with_lists(request, item, lists_of_channel(stats, channel))
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
