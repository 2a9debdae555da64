"""Queues."""

from __future__ import annotations

import msgspec

from warren.broker.plugin import Connection, Queue, SingleActiveConsumers, arguments_with_type, queue_sizes

from ..arguments import Arguments, table_of
from ..auth import ADMIN, VHOST
from ..pagination import Item, Listing
from ..request import Request
from ..responses import Response, bad, done, found, not_found, put
from ..router import Route
from ..stats.counters import length_counters, lengths, queue_counters, queue_key
from ..views.detailed_rates import of_queue
from ..views.stats import NO_GARBAGE, NO_REDUCTIONS, StatsView
from .consumers import consumers_of
from .consumers import described as described_consumer

QUORUM = "quorum"
STORAGE_VERSION = 2  # of RabbitMQ's classic queues, the newest
UNSET = ("policy", "operator_policy", "exclusive_consumer_tag", "single_active_consumer_tag")


class Declaration(msgspec.Struct):
    durable: bool = False  # as the method has it
    auto_delete: bool = False
    arguments: Arguments = None


class Action(msgspec.Struct):
    action: str


def list_queues(request: Request) -> Listing[Queue]:
    """Those in the virtual hosts that the user sees."""
    figures = StatsView(request)
    queues = [queue for vhost in request.vhosts() for queue in vhost.queues.values()]
    return Listing(queues, lambda queue: described(request, figures, queue), lambda queue: queue.name, queue_key)


def list_detailed(request: Request) -> Listing[Queue]:
    """The same, with what a single queue has and is unset; consumers and breakdowns are left to that."""
    figures = StatsView(request)
    queues = [queue for vhost in request.vhosts() for queue in vhost.queues.values()]
    return Listing(queues, lambda queue: with_unset(request, figures, queue), lambda queue: queue.name, queue_key)


def get_queue(request: Request) -> Response:
    """One queue."""
    return found(detailed(request, StatsView(request), request.queue()))


def put_queue(request: Request) -> Response:
    """Declare it, or find it the same."""
    body: Declaration = request.body
    name = request.path["queue"]
    existed = name in request.here().queues
    request.channel().declare_queue(name, body.durable, body.auto_delete, table_of(body.arguments))
    return put(existed)


def delete_queue(request: Request) -> Response:
    """Delete it, if it is unused or empty where that is asked for."""
    request.channel().delete_queue(request.queue().name, request.flag("if-unused"), request.flag("if-empty"))
    return done()


def purge_queue(request: Request) -> Response:
    """Drop what is ready."""
    request.channel().purge(request.queue().name)
    return done()


def act(request: Request) -> Response:
    """Refused: RabbitMQ once had actions on mirrored queues, and has none any more."""
    if request.path["queue"] not in request.here().queues:
        raise not_found("queue_not_found")
    body: Action = request.body
    raise bad(["unknown", body.action])


# Descriptions


def described(request: Request, figures: StatsView, queue: Queue) -> Item:
    """As in lists."""
    item: Item = {
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.rules.type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": arguments_with_type(queue),
        "node": request.node.name,
        "state": "running",
    }
    if queue.rules.type == QUORUM:
        item |= replicas(request.node.name)
    if queue.policy is not None:
        item["policy"] = queue.policy.name
    if queue.operator_policy is not None:
        item["operator_policy"] = queue.operator_policy.name
    if figures.totals:
        item |= figures.details("queue", queue_key(queue), length_counters(lengths(queue)))
    if figures.told:
        item["effective_policy_definition"] = dict(queue.effective)
        item |= queue_sizes(queue) | consuming(queue) | owner(queue) | {**NO_REDUCTIONS}
        item |= quorum(request.node.name, queue) if queue.rules.type == QUORUM else {"storage_version": STORAGE_VERSION}
        item |= figures.message_stats("queue", queue_key(queue), queue_counters(queue))
        item |= figures.idle_since("queue", queue_key(queue))
    return item


def detailed(request: Request, figures: StatsView, queue: Queue) -> Item:
    """As a single one."""
    item = with_unset(request, figures, queue)
    if figures.told:
        item["consumer_details"] = [described_consumer(consumer) for consumer in consumers_of(queue)]
        item |= of_queue(request.host, figures, queue)
    return item


def with_unset(request: Request, figures: StatsView, queue: Queue) -> Item:
    unset: Item = dict.fromkeys(UNSET)
    item = unset | described(request, figures, queue)
    if figures.told:
        item["garbage_collection"] = NO_GARBAGE
    return item


def consuming(queue: Queue) -> Item:
    consumers = queue.consumers
    capacity: float = 1.0 if consumers.any_ready() else 0  # whether one would get a message at once
    item: Item = {"consumers": len(consumers), "consumer_utilisation": capacity, "consumer_capacity": capacity}
    if consumers.exclusive:
        item["exclusive_consumer_tag"] = consumers.all()[0].tag
    if isinstance(consumers, SingleActiveConsumers) and consumers.active is not None:
        item["single_active_consumer_tag"] = consumers.active.tag
    return item


def replicas(node: str) -> Item:
    """List the nodes with replicas of a quorum queue: this one, which is the only one."""
    return {"leader": node, "members": [node], "online": [node]}


def quorum(node: str, queue: Queue) -> Item:
    """The fields of quorum queues alone; of what only RabbitMQ's have, nothing is counted here."""
    return {
        "delivery_limit": queue.rules.delivery_limit,
        "messages_dlx": 0,
        "message_bytes_dlx": 0,
        "messages_ready_high": 0,
        "messages_ready_normal": queue.ready,
        "messages_ready_returned": 0,
        "open_files": {node: 0},
        "publishers": 0,
    }


def owner(queue: Queue) -> Item:
    """Whose it is exclusively."""
    if not isinstance(queue.owner, Connection):
        return {}
    peer = queue.owner.peer
    return {"owner_pid_details": {"name": queue.owner.name, "peer_host": peer.host, "peer_port": peer.port}}


ROUTES = (
    Route("GET", "/queues", VHOST, list_queues),
    Route("GET", "/queues/detailed", VHOST, list_detailed),
    Route("GET", "/queues/{vhost}", VHOST, list_queues),
    Route("GET", "/queues/{vhost}/{queue}", VHOST, get_queue),
    Route("PUT", "/queues/{vhost}/{queue}", VHOST, put_queue, Declaration),
    Route("DELETE", "/queues/{vhost}/{queue}", VHOST, delete_queue),
    Route("DELETE", "/queues/{vhost}/{queue}/contents", VHOST, purge_queue),
    Route("POST", "/queues/{vhost}/{queue}/actions", ADMIN, act, Action),
)
