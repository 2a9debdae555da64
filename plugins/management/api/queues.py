"""Routes for queues."""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, NamedTuple, Required, cast

import msgspec

from warren.broker.amqp.names import strip_line_ends
from warren.broker.amqp.properties import timestamp
from warren.broker.core.definitions.exporter import arguments_with_type
from warren.broker.core.metadata.queue_types import QUORUM
from warren.broker.core.queues.consumers import SingleActiveConsumers
from warren.broker.core.queues.queue import queue_sizes
from warren.broker.plugin import Queue
from warren.broker.session.connection import Connection
from warren.broker.session.consumer import ChannelConsumer

from ...http.auth import ADMIN, VHOST
from ...http.responses import Response, bad, done, existing, put
from ...http.time_slices import when
from ..framework.bodies import Arguments, table_of
from ..framework.pagination import Item, Listing, with_lists
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import lengths, named, object_key, queue_counters
from ..stats.history import LENGTHS
from ..stats.rates import Counted
from ..stats.watermarks import oldest_age_s
from ..views.consumer import ConsumerView, consumer_lists, consumers_of
from ..views.detailed_rates import RatesView, of_queue
from ..views.stats import NO_GARBAGE, NO_REDUCTIONS, Process, RequestStats, optional, required, with_counters
from .bindings import unbound
from .connections import PeerView

STORAGE_VERSION = 2  # of RabbitMQ's newest classic queues
NAMES = ("name", "vhost", "type", "node", "state")
FLAGS = ("durable", "auto_delete", "exclusive")
ORIGINS = ("policy", "operator_policy", "owner_pid", "exclusive_consumer_pid")
SETTINGS = frozenset((*NAMES, *FLAGS, *ORIGINS, "arguments", "leader", "members", "online", "replicated", "guarantee"))
SIZES = (
    *("messages_ram", "messages_ready_ram", "messages_unacknowledged_ram", "messages_paged_out", "messages_persistent"),
    *("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged", "message_bytes_ram"),
    *("message_bytes_paged_out", "message_bytes_persistent", "memory"),
)
UNSET = ("policy", "operator_policy", "exclusive_consumer_tag", "single_active_consumer_tag")


@with_counters(*LENGTHS)
@required(str, *NAMES)
@required(bool, *FLAGS)
@optional(str, "leader", "guarantee")
@optional(str | None, *ORIGINS, "exclusive_consumer_tag", "single_active_consumer_tag")
@optional(int, *SIZES, "consumers", "storage_version", "delivery_limit", "messages_dlx", "message_bytes_dlx")
@optional(int, "messages_ready_high", "messages_ready_normal", "messages_ready_returned", "publishers")
@optional(float, "consumer_utilisation", "consumer_capacity")
class QueueView(Process, total=False):
    """A queue; a single one has consumers and detailed rates, and null for fields that are not set.

    Quorum queues have replicas, and callers at the unix socket get process ids.
    """

    arguments: Required[dict[str, object]]
    members: list[str]
    online: list[str]
    replicated: bool
    effective_policy_definition: dict[str, object]
    owner_pid_details: PeerView
    head_message_timestamp: int | None
    open_files: dict[str, int]
    message_stats: Counted
    idle_since: str
    oldest_ready_message_age: float
    incoming: list[RatesView]
    deliveries: list[RatesView]
    consumer_details: list[ConsumerView]


class Part(NamedTuple):
    """A group of fields, and the function that returns the ones that a queue has."""

    names: frozenset[str]
    make: Callable[[Request, RequestStats, Queue], Any]


def view_of_parts(parts: Iterable[Part], request: Request, stats: RequestStats, queue: Queue) -> QueueView:
    """The fields of a queue that these parts make."""
    item: Any = {}
    for part in parts:
        item |= part.make(request, stats, queue)
    return cast(QueueView, item)


def properties(request: Request, stats: RequestStats, queue: Queue) -> Item:
    """The declared properties of a queue, and its policies."""
    item: Item = {
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.settings.type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": arguments_with_type(queue),
        "node": request.node.name,
        "state": "running",
    }
    if queue.settings.type == QUORUM:
        node, status = request.node.name, request.host.storage()  # fields that RabbitMQ does not have
        item |= {"leader": node, "members": [node], "online": [node]}
        item |= {"replicated": status.replicated, "guarantee": status.guarantee}
    if queue.policy is not None:
        item["policy"] = queue.policy.name
    if queue.operator_policy is not None:
        item["operator_policy"] = queue.operator_policy.name
    if stats.pids:
        exclusive = queue.consumers.first() if queue.consumers.exclusive else None
        item["owner_pid"] = str(queue.owner) if queue.owner is not None else None
        item["exclusive_consumer_pid"] = exclusive.channel.pid if isinstance(exclusive, ChannelConsumer) else None
    return item


def state_fields(request: Request, stats: RequestStats, queue: Queue) -> Item:
    """The fields of the statistics that no other part makes."""
    if not stats.enabled:
        return {}
    item: Item = {"effective_policy_definition": dict(queue.effective), **queue_sizes(queue)}
    add_consumers(item, queue)
    if isinstance(queue.owner, Connection) and request.caller.sees_connection(queue.owner):
        peer = queue.owner.peer
        item["owner_pid_details"] = {"name": queue.owner.name, "peer_host": peer.host, "peer_port": peer.port}
    item |= NO_REDUCTIONS
    if queue.settings.type == QUORUM:
        add_quorum_fields(item, request.node.name, queue)
    else:
        if (first := first_timestamp(queue)) is not None:
            item["head_message_timestamp"] = first
        item["storage_version"] = STORAGE_VERSION
    return item


def first_timestamp(queue: Queue) -> int | None:
    """The timestamp property of the first ready message, or None if it has none or is not in memory."""
    fifo = queue.ready_messages.first_nonempty()
    message = fifo.first_resident if fifo is not None else None
    return timestamp(message.property_bytes) if message is not None else None


def length_fields(request: Request, stats: RequestStats, queue: Queue) -> Any:
    return stats.details("queue", object_key(queue), named(LENGTHS, lengths(queue))) if stats.totals else {}


def counter_fields(request: Request, stats: RequestStats, queue: Queue) -> Any:
    if not stats.enabled:
        return {}
    key = object_key(queue)
    return stats.message_stats("queue", key, queue_counters(queue)) | stats.idle_since("queue", key)


def age_fields(request: Request, stats: RequestStats, queue: Queue) -> Any:
    """The age of the oldest ready message in seconds, or no field if there is none or it is not known yet."""
    if not stats.enabled or not queue.ready:
        return {}
    now_ms = request.node.clock.now_ms()
    age_s = oldest_age_s(request.state.watermarks, object_key(queue), queue, now_ms)
    return {} if age_s is None else {"oldest_ready_message_age": age_s}


def queue_view_with_unset(request: Request, stats: RequestStats, queue: Queue) -> QueueView:
    """The fields of a queue, including unset ones as null."""
    item: Any = dict.fromkeys(UNSET) | view_of_parts(PARTS, request, stats, queue)
    if stats.enabled:
        item["garbage_collection"] = NO_GARBAGE
        if queue.settings.type != QUORUM:
            item.setdefault("head_message_timestamp", None)
    return cast(QueueView, item)


def add_consumers(item: Item, queue: Queue) -> None:
    """Add the fields about the consumers of a queue."""
    consumers = queue.consumers
    capacity: float = 1.0 if consumers.any_ready() else 0  # true if a message would be delivered at once
    item |= {"consumers": len(consumers), "consumer_utilisation": capacity, "consumer_capacity": capacity}
    if consumers.exclusive:
        item["exclusive_consumer_tag"] = consumers.first().tag
    if isinstance(consumers, SingleActiveConsumers) and consumers.active is not None:
        item["single_active_consumer_tag"] = consumers.active.tag


def add_quorum_fields(item: Item, node: str, queue: Queue) -> None:
    """Add the fields of quorum queues; counters of RabbitMQ's implementation are 0."""
    outbox = queue.outbox if queue.settings.dead_letters_at_least_once else None
    item |= {
        "delivery_limit": queue.settings.delivery_limit,
        "messages_dlx": len(outbox) if outbox is not None else 0,
        "message_bytes_dlx": outbox.persistent_bytes if outbox is not None else 0,
        "messages_ready_high": 0,
        "messages_ready_normal": queue.ready,
        "messages_ready_returned": 0,
        "open_files": {node: 0},
        "publishers": 0,
    }


PARTS = [
    Part(SETTINGS, properties),
    Part(frozenset((*LENGTHS, *(f"{name}_details" for name in LENGTHS))), length_fields),
    Part(frozenset({"message_stats", "idle_since"}), counter_fields),
    Part(frozenset({"oldest_ready_message_age"}), age_fields),
]
PARTS.insert(2, Part(frozenset(QueueView.__annotations__).difference(*(part.names for part in PARTS)), state_fields))


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
        # Only those that make these fields: sorting by one field of very many queues is fast.
        parts = [part for part in PARTS if not part.names.isdisjoint(names)]
        return partial(view_of_parts, parts, request, stats)

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
    lists = {**of_queue(request.host, stats, queue), **consumer_lists(stats.caller, consumers_of(queue))}
    return await with_lists(request, item, lists if stats.enabled else {})


@route("PUT", VHOST, "/queues/{vhost}/{queue}")
async def put_queue(request: Request, body: Declaration) -> Response[None]:
    """Declare a queue."""
    name = strip_line_ends(request.path["queue"])
    await request.wait(unbound(request.path_vhost(), Queue.kind, name))
    with request.acting():
        existed = name in request.path_vhost().queues
        channel, arguments = request.channel(), table_of(body.arguments)
        channel.declare_queue(name, durable=body.durable, auto_delete=body.auto_delete, arguments=arguments)
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
