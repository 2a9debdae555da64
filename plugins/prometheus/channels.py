"""Metrics of channels. Deliveries are counted by channel, not by channel and queue."""

from collections.abc import Iterable

from warren.broker.session.channel import Channel

from . import exchanges, queues
from .families import PerObjectGroup, Texts, Values, counters, gauges, text
from .scope import Scope

OWN = ("channel",)
IN_VHOST = ("channel", "vhost")


def all_channels(scope: Scope) -> Iterable[Channel]:
    return scope.channels


def own(channel: Channel) -> Texts:
    return (text(channel.pid),)


def in_vhost(channel: Channel) -> Texts:
    return text(channel.pid), text(channel.vhost.name)


def state(channel: Channel) -> Values:
    confirms, transaction = channel.confirms, channel.transaction
    return (
        len(channel.consumers),
        len(channel.unacked),
        confirms.unconfirmed if confirms is not None else 0,
        len(transaction.publishes) if transaction is not None else 0,
        len(transaction.settlements) if transaction is not None else 0,
        channel.prefetch,
        channel.shared_prefetch.limit,
    )


def publishing(channel: Channel) -> Values:
    return channel.publishing.values()


def delivering(channel: Channel) -> Values:
    return channel.delivering.values()


STATE = gauges(
    channel_consumers="Consumers of a channel",
    channel_messages_unacked="Messages delivered and not acknowledged yet",
    channel_messages_unconfirmed="Messages published and not confirmed yet",
    channel_messages_uncommitted="Messages published in an open transaction",
    channel_acks_uncommitted="Acknowledgements in an open transaction",
    consumer_prefetch="Most unacknowledged messages of each consumer; 0 is no limit",
    channel_prefetch="Most unacknowledged messages of a channel; 0 is no limit",
)
PUBLISHES = counters(
    channel_messages_published="Messages published on a channel",
    channel_messages_confirmed="Messages confirmed on a channel",
    channel_messages_unroutable_returned="Unroutable mandatory messages",
    channel_messages_unroutable_dropped="Unroutable messages that were not mandatory",
)
REDUCTIONS = counters(channel_process_reductions="0: there are no Erlang processes here")
DELIVERIES = counters(
    channel_get_ack="Messages got by basic.get, to be acknowledged",
    channel_get="Messages got by basic.get, not to be acknowledged",
    channel_messages_delivered_ack="Messages delivered, to be acknowledged",
    channel_messages_delivered="Messages delivered, not to be acknowledged",
    channel_messages_redelivered="Messages delivered again",
    channel_messages_acked="Messages that were acknowledged",
    channel_get_empty="basic.get requests to an empty queue",
)
GROUPS = (
    PerObjectGroup("channel_metrics", STATE, all_channels, state, OWN, own),
    PerObjectGroup(
        "channel_exchange_metrics", PUBLISHES, all_channels, publishing, IN_VHOST, in_vhost, total=exchanges.published
    ),
    PerObjectGroup("channel_process_metrics", REDUCTIONS, all_channels, lambda channel: (0,), OWN, own),
    PerObjectGroup(
        "channel_queue_metrics", DELIVERIES, all_channels, delivering, IN_VHOST, in_vhost, total=queues.delivered
    ),
    PerObjectGroup(
        "channel_queue_exchange_metrics",
        counters(queue_messages_published="Messages published to queues"),
        queues.all_queues,
        lambda queue: (queue.published,),
        ("queue_vhost", "queue"),
        queues.texts,
        total=lambda scope: (scope.statistics.routed,),
    ),
)
