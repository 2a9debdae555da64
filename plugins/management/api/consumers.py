"""The route for consumers."""

from functools import partial

from warren.broker.session.consumer import ChannelConsumer

from ...http.auth import ANY
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import queue_key
from ..views.consumer import ConsumerView, consumer_view, consumers_of, local_consumer_view


def name_of(consumer: ChannelConsumer) -> str:
    """The text that the filter of a page compares."""
    return f"{consumer.queue.name} {consumer.tag}"


@route("GET", ANY, "/consumers", "/consumers/{vhost}")
async def list_consumers(request: Request) -> Listing[ConsumerView]:
    """List the consumers of the user's connections, or of all connections for users with the tag monitoring."""
    queues = [queue for vhost in request.visible_vhosts() for queue in vhost.queues.values()]
    caller = request.caller
    consumed = [queue async for queue in request.in_slices(queues) if len(queue.consumers) > 0]
    every = (consumer for queue in consumed for consumer in consumers_of(queue))
    if caller.is_local:
        return Listing(every, partial(local_consumer_view, caller), order=lambda consumer: queue_key(consumer.queue))
    consumers = [one async for one in request.in_slices(every) if caller.sees_connection(one.channel.connection)]
    return Listing(consumers, partial(consumer_view, caller), name_of, lambda consumer: queue_key(consumer.queue))
