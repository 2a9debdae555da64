"""Routes for queues."""

from collections.abc import Callable, Collection
from functools import partial

import msgspec

from warren.broker.amqp.names import strip_line_ends
from warren.broker.plugin import Queue

from ...http.auth import ADMIN, VHOST
from ...http.responses import Response, bad, done, existing, put
from ...http.time_slices import when
from ..framework.bodies import Arguments, table_of
from ..framework.pagination import Listing, with_lists
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import object_key
from ..views.queue import PARTS, QueueView, lists_of_queue, parts_with, queue_view_with_unset, view_of_parts
from ..views.stats import RequestStats
from .bindings import unbound


class Declaration(msgspec.Struct):
    durable: bool = False  # the default of queue.declare
    auto_delete: bool = False
    arguments: Arguments = None


class Action(msgspec.Struct):
    action: str


@route("GET", VHOST, "/queues", "/queues/{vhost}")
def list_queues(request: Request) -> Listing[QueueView]:
    """List the queues in the virtual hosts that the user sees."""
    stats = RequestStats(request)
    queues = [queue for vhost in request.vhosts() for queue in vhost.queues.values()]

    def describe_some(names: Collection[str]) -> Callable[[Queue], QueueView]:
        return partial(view_of_parts, parts_with(names), request, stats)

    describe = partial(view_of_parts, PARTS, request, stats)
    return Listing(queues, describe, lambda queue: queue.name, object_key, describe_some)


@route("GET", VHOST, "/queues/detailed")
def list_detailed(request: Request) -> Listing[QueueView]:
    """List queues with unset fields as null; consumers and detailed rates are only in a single queue."""
    stats = RequestStats(request)
    queues = [queue for vhost in request.vhosts() for queue in vhost.queues.values()]
    return Listing(queues, partial(queue_view_with_unset, request, stats), lambda queue: queue.name, object_key)


@route("GET", VHOST, "/queues/{vhost}/{queue}")
async def get_queue(request: Request) -> Response[QueueView]:
    """Return one queue, with its consumers."""
    stats, queue = RequestStats(request), request.queue()
    item = queue_view_with_unset(request, stats, queue)
    return await with_lists(request, item, lists_of_queue(request.host, stats, queue))


@route("PUT", VHOST, "/queues/{vhost}/{queue}")
async def put_queue(request: Request, body: Declaration) -> Response[None]:
    """Declare a queue."""
    name = strip_line_ends(request.path["queue"])
    await request.wait(unbound(request.path_vhost(), Queue.kind, name))
    with request.acting():
        existed = name in request.path_vhost().queues
        request.channel().declare_queue(
            name, durable=body.durable, auto_delete=body.auto_delete, arguments=table_of(body.arguments)
        )
    return put(existed)


@route("DELETE", VHOST, "/queues/{vhost}/{queue}")
async def delete_queue(request: Request) -> Response[None]:
    """Delete a queue; with `if-unused` or `if-empty` only if it is unused or empty."""
    queue, vhost = await resumed(request), request.path_vhost()
    with request.acting():
        if_unused, if_empty = request.flag("if-unused"), request.flag("if-empty")
        request.channel().delete_queue(queue.name, if_unused=if_unused, if_empty=if_empty)
    await request.complete(unbound(vhost, Queue.kind, queue.name))
    return done()


@route("DELETE", VHOST, "/queues/{vhost}/{queue}/contents")
async def purge_queue(request: Request) -> Response[None]:
    """Drop the ready messages of a queue."""
    queue = await resumed(request)
    with request.acting():
        request.channel().purge(queue.name)
    return done()


async def resumed(request: Request) -> Queue:
    """Return the queue in the path once no messages are being requeued in it. Raises HTTPError (404)."""
    while (queue := request.queue()).paused:
        await until_resumed(request, queue)
    return queue


async def until_resumed(request: Request, queue: Queue) -> None:
    """Return once all requeued messages are in the queue. Raises HTTPError (401, 404) as `Request.wait`."""
    while queue.paused:
        await request.wait(when(queue.when_resumed))


@route("POST", ADMIN, "/queues/{vhost}/{queue}/actions")
def act(request: Request, body: Action) -> Response[None]:
    """Return 400: RabbitMQ's former actions were for mirrored queues."""
    existing(request.path_vhost().queues.get(request.path["queue"]), "queue_not_found")
    raise bad(["unknown", body.action])
