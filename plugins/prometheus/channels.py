"""Metrics of channels. Deliveries are counted by channel, not by channel and queue."""

from collections.abc import Iterable

from warren.broker.session.channel import Channel

from . import exchanges, queues
from .families import Family, PerObjectGroup, Texts, Values, text
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


GROUPS = (
    PerObjectGroup(
        "channel_metrics",
        (
            Family("channel_consumers", "gauge", "Consumers of a channel"),
            Family("channel_messages_unacked", "gauge", "Messages delivered and not acknowledged yet"),
            Family("channel_messages_unconfirmed", "gauge", "Messages published and not confirmed yet"),
            Family("channel_messages_uncommitted", "gauge", "Messages published in an open transaction"),
            Family("channel_acks_uncommitted", "gauge", "Acknowledgements in an open transaction"),
            Family("consumer_prefetch", "gauge", "Most unacknowledged messages of each consumer; 0 is no limit"),
            Family("channel_prefetch", "gauge", "Most unacknowledged messages of a channel; 0 is no limit"),
        ),
        all_channels,
        state,
        OWN,
        own,
    ),
    PerObjectGroup(
        "channel_exchange_metrics",
        (
            Family("channel_messages_published_total", "counter", "Messages published on a channel"),
            Family("channel_messages_confirmed_total", "counter", "Messages confirmed on a channel"),
            Family("channel_messages_unroutable_returned_total", "counter", "Unroutable mandatory messages"),
            Family(
                "channel_messages_unroutable_dropped_total", "counter", "Unroutable messages that were not mandatory"
            ),
        ),
        all_channels,
        publishing,
        IN_VHOST,
        in_vhost,
        total=exchanges.published,
    ),
    PerObjectGroup(
        "channel_process_metrics",
        (Family("channel_process_reductions_total", "counter", "0: there are no Erlang processes here"),),
        all_channels,
        lambda channel: (0,),
        OWN,
        own,
    ),
    PerObjectGroup(
        "channel_queue_metrics",
        (
            Family("channel_get_ack_total", "counter", "Messages got by basic.get, to be acknowledged"),
            Family("channel_get_total", "counter", "Messages got by basic.get, not to be acknowledged"),
            Family("channel_messages_delivered_ack_total", "counter", "Messages delivered, to be acknowledged"),
            Family("channel_messages_delivered_total", "counter", "Messages delivered, not to be acknowledged"),
            Family("channel_messages_redelivered_total", "counter", "Messages delivered again"),
            Family("channel_messages_acked_total", "counter", "Messages that were acknowledged"),
            Family("channel_get_empty_total", "counter", "basic.get requests to an empty queue"),
        ),
        all_channels,
        delivering,
        IN_VHOST,
        in_vhost,
        total=queues.delivered,
    ),
    PerObjectGroup(
        "channel_queue_exchange_metrics",
        (Family("queue_messages_published_total", "counter", "Messages published to queues"),),
        queues.all_queues,
        lambda queue: (queue.published,),
        ("queue_vhost", "queue"),
        queues.texts,
        total=lambda scope: (scope.statistics.routed,),
    ),
)
