"""The view of a channel."""

from typing import Any, NotRequired, cast

from warren.broker.session.channel import Channel

from ..framework.pagination import Lists
from ..stats.counters import channel_counters, channel_key
from ..stats.rates import Counted
from .connection import PeerView
from .consumer import ConsumerView, consumer_lists
from .detailed_rates import RatesView, channel_name, of_channel
from .stats import NO_PROCESS, Process, RequestStats, optional, required


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


def lists_of_channel(stats: RequestStats, channel: Channel) -> Lists:
    """The lists of a single channel: detailed rates and consumers."""
    if not stats.enabled:
        return {}
    return {**of_channel(stats, channel), **consumer_lists(stats.caller, list(channel.consumers.values()))}
