"""The view of a consumer."""

from collections.abc import Iterable

from msgspec import UNSET, Struct, UnsetType

from warren.broker.amqp.table_json import json_of_table
from warren.broker.core.queues.consumers import WAITING
from warren.broker.plugin import Queue
from warren.broker.session.consumer import ChannelConsumer

from ...http.auth import Caller
from ..framework.pagination import Lists
from .detailed_rates import ChannelDetails, Place, channel_details, place_of


class ConsumerView(Struct):
    """A consumer."""

    consumer_tag: str
    exclusive: bool
    ack_required: bool
    prefetch_count: int
    active: bool
    activity_status: str
    arguments: dict[str, object]
    consumer_timeout: int | UnsetType | None
    queue: Place
    channel_details: ChannelDetails
    channel_pid: str | UnsetType = UNSET


def consumer_lists(caller: Caller, consumers: Iterable[ChannelConsumer]) -> Lists:
    """Return the field of a queue or a channel that lists its consumers."""
    return {"consumer_details": (consumer_view(caller, consumer) for consumer in consumers)}


def consumers_of(queue: Queue) -> list[ChannelConsumer]:
    """Return the consumers of a queue."""
    return [consumer for consumer in queue.consumers.all if isinstance(consumer, ChannelConsumer)]


def local_consumer_view(caller: Caller, consumer: ChannelConsumer) -> ConsumerView:
    """Return the view of a consumer with the process id of its channel."""
    view = consumer_view(caller, consumer)
    view.channel_pid = consumer.channel.pid
    return view


def consumer_view(caller: Caller, consumer: ChannelConsumer) -> ConsumerView:
    queue, channel = consumer.queue, consumer.channel
    status = queue.consumers.activity_status(consumer)
    return ConsumerView(
        consumer_tag=consumer.tag,
        exclusive=consumer.exclusive,
        ack_required=not consumer.no_ack,
        prefetch_count=consumer.prefetch,
        active=status != WAITING,
        activity_status=status,
        arguments=json_of_table(consumer.arguments),
        consumer_timeout=channel.connection.settings.consumer_timeout_ms,
        queue=place_of(queue),
        channel_details=channel_details(caller, channel),
    )
