"""Consumers."""

from __future__ import annotations

from warren.broker.plugin import ChannelConsumer, Queue, is_active, json_of_table

from ..auth import ANY
from ..pagination import Item, Listing, chosen_in_slices
from ..request import Request
from ..router import Route
from ..stats.counters import queue_key
from ..views.detailed_rates import channel_details


async def list_consumers(request: Request) -> Listing[ChannelConsumer]:
    """Those of the queues that the user sees; none of a virtual host that is hidden from the user."""
    queues = [queue for vhost in request.visible_vhosts() for queue in vhost.queues.values()]
    consumed = await chosen_in_slices(queues, lambda queue: len(queue.consumers) > 0)
    consumers = (consumer for queue in consumed for consumer in consumers_of(queue))
    return Listing(consumers, described, order=lambda consumer: queue_key(consumer.queue))


def consumers_of(queue: Queue) -> list[ChannelConsumer]:
    """Of clients; federation's have no channel that could be named."""
    return [consumer for consumer in queue.consumers.all() if isinstance(consumer, ChannelConsumer)]


def described(consumer: ChannelConsumer) -> Item:
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
        "channel_details": channel_details(channel),
    }


ROUTES = (
    Route("GET", "/consumers", ANY, list_consumers),
    Route("GET", "/consumers/{vhost}", ANY, list_consumers),
)
