"""The view of a consumer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NotRequired, TypedDict

from warren.broker.amqp.table_json import json_of_table
from warren.broker.core.queues.consumers import Consumer, is_active
from warren.broker.plugin import Queue
from warren.broker.session.consumer import ChannelConsumer
from warren.broker.session.events import pid

from ...http.auth import Caller
from ..framework.pagination import Lists
from .detailed_rates import ChannelDetails, Place, channel_details


class ConsumerView(TypedDict):
    """A consumer."""

    consumer_tag: str
    exclusive: bool
    ack_required: bool
    prefetch_count: int
    active: bool
    activity_status: str
    arguments: dict[str, object]
    consumer_timeout: NotRequired[int | None]
    queue: Place
    channel_details: ChannelDetails
    channel_pid: NotRequired[str]


def consumer_lists(caller: Caller, consumers: Iterable[ChannelConsumer]) -> Lists:
    """Return the field of a queue or a channel that lists its consumers."""
    return {"consumer_details": (consumer_view(caller, consumer) for consumer in consumers)}


def consumers_of(queue: Queue) -> list[ChannelConsumer]:
    """Return the consumers of clients; those of federation have no channel to name."""
    return [consumer for consumer in queue.consumers.all() if isinstance(consumer, ChannelConsumer)]


def local_consumer_view(caller: Caller, consumer: Consumer) -> ConsumerView:
    """The fields of a consumer with the process id of its channel, which a federation link does not have."""
    if isinstance(consumer, ChannelConsumer):
        return {**consumer_view(caller, consumer), "channel_pid": pid(consumer.channel)}
    return {
        "consumer_tag": consumer.tag,
        "exclusive": consumer.exclusive,
        "ack_required": not consumer.no_ack,
        "prefetch_count": 0,
        "active": is_active(consumer),
        "activity_status": consumer.queue.consumers.activity_status(consumer),
        "arguments": {},
        "queue": {"name": consumer.queue.name, "vhost": consumer.queue.vhost},
        "channel_details": {},
        "channel_pid": "",
    }


def consumer_view(caller: Caller, consumer: ChannelConsumer) -> ConsumerView:
    queue, channel = consumer.queue, consumer.channel
    return {
        "consumer_tag": consumer.tag,
        "exclusive": consumer.exclusive,
        "ack_required": not consumer.no_ack,
        "prefetch_count": consumer.prefetch,
        "active": is_active(consumer),
        "activity_status": queue.consumers.activity_status(consumer),
        "arguments": json_of_table(consumer.arguments),
        "consumer_timeout": channel.connection.settings.consumer_timeout_ms,
        "queue": {"name": queue.name, "vhost": queue.vhost},
        "channel_details": channel_details(caller, channel),
    }
