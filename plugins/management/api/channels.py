"""Routes for channels."""

from collections.abc import Iterable

from warren.broker.session.connection import Connection

from ...http.auth import ANY, OWN, VHOST
from ...http.responses import Response, missing
from ..framework.pagination import Listing, with_lists
from ..framework.request import Request
from ..framework.router import route
from ..views.channel import ChannelView, channel_view, lists_of_channel
from ..views.detailed_rates import channel_name
from ..views.stats import RequestStats
from .connections import connection_of, open_connections


@route("GET", ANY, "/channels")
def list_channels(request: Request) -> Listing[ChannelView]:
    """List the channels that the user may see."""
    return listing(request, open_connections(request))


@route("GET", VHOST, "/vhosts/{vhost}/channels")
def list_of_vhost(request: Request) -> Listing[ChannelView]:
    """List the channels in one virtual host."""
    vhost = request.path_vhost()
    return listing(request, [one for one in open_connections(request) if one.vhost is vhost])


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
