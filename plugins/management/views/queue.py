"""The view of a queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from warren.broker.amqp.properties import timestamp
from warren.broker.core.definitions.exporter import arguments_with_type
from warren.broker.core.metadata.queue_types import QUORUM
from warren.broker.core.queues.consumers import SingleActiveConsumers
from warren.broker.core.queues.queue_sizes import queue_sizes
from warren.broker.plugin import Host, Queue
from warren.broker.session.connection import Connection
from warren.broker.session.consumer import ChannelConsumer

from ...http.auth import Caller
from ..framework.pagination import Item
from ..framework.request import Request
from ..stats.counters import length_counters, lengths, queue_counters, queue_key
from ..stats.history import LENGTHS
from ..stats.watermarks import oldest_age_s
from .consumer import consumer_lists, consumers_of
from .detailed_rates import of_queue
from .lists import Lists
from .stats import NO_GARBAGE, NO_REDUCTIONS, StatsView

STORAGE_VERSION = 2  # of RabbitMQ's newest classic queues
HEAD_TIMESTAMP = "head_message_timestamp"  # of classic queues
UNSET = ("policy", "operator_policy", "exclusive_consumer_tag", "single_active_consumer_tag")


class Part(NamedTuple):
    """A group of fields of a queue, and the function that makes those that the queue has.

    `names` are those of all fields of the group; the group without names has all fields that no other names.
    """

    names: frozenset[str]
    make: Callable[[Request, StatsView, Queue], Item]


def queue_view(request: Request, stats: StatsView, queue: Queue) -> Item:
    """The fields of a queue, as in lists."""
    return view_of_parts(PARTS, request, stats, queue)


def view_of_parts(parts: Iterable[Part], request: Request, stats: StatsView, queue: Queue) -> Item:
    """The fields of a queue that these parts make."""
    item: Item = {}
    for part in parts:
        item |= part.make(request, stats, queue)
    return item


def parts_with(names: Collection[str]) -> list[Part]:
    """Return the parts that make these fields, so that sorting by one field of very many queues is fast."""
    rest = frozenset(names).difference(*(part.names for part in PARTS))
    return [part for part in PARTS if not part.names.isdisjoint(names) or (rest and not part.names)]


def properties(request: Request, stats: StatsView, queue: Queue) -> Item:
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
        item |= replica_fields(request)
    if queue.policy is not None:
        item["policy"] = queue.policy.name
    if queue.operator_policy is not None:
        item["operator_policy"] = queue.operator_policy.name
    return item | process_ids(queue) if stats.pids else item


def state_fields(request: Request, stats: StatsView, queue: Queue) -> Item:
    """The fields of the statistics that no other part makes."""
    if not stats.enabled:
        return {}
    item: Item = {"effective_policy_definition": dict(queue.effective)}
    item |= queue_sizes(queue) | consumer_fields(queue) | owner_fields(request.caller, queue) | {**NO_REDUCTIONS}
    if queue.settings.type == QUORUM:
        return item | quorum_fields(request.node.name, queue)
    if (first := first_timestamp(queue)) is not None:
        item[HEAD_TIMESTAMP] = first
    return item | {"storage_version": STORAGE_VERSION}


def first_timestamp(queue: Queue) -> int | None:
    """The timestamp property of the first ready message, or None if it has none or is not in memory."""
    fifo = queue.ready_messages.first_nonempty()
    message = fifo.first_resident if fifo is not None else None
    return timestamp(message.property_bytes) if message is not None else None


def length_fields(request: Request, stats: StatsView, queue: Queue) -> Item:
    return stats.details("queue", queue_key(queue), length_counters(lengths(queue))) if stats.totals else {}


def counter_fields(request: Request, stats: StatsView, queue: Queue) -> Item:
    return stats.message_stats("queue", queue_key(queue), queue_counters(queue)) if stats.enabled else {}


def idle_fields(request: Request, stats: StatsView, queue: Queue) -> Item:
    return stats.idle_since("queue", queue_key(queue)) if stats.enabled else {}


def age_fields(request: Request, stats: StatsView, queue: Queue) -> Item:
    """The age of the oldest ready message in seconds, or no field if there is none or it is not known yet."""
    if not stats.enabled or not queue.ready:
        return {}
    now_ms = request.node.clock.now_ms()
    age_s = oldest_age_s(request.state.watermarks, queue_key(queue), queue, now_ms)
    return {} if age_s is None else {"oldest_ready_message_age": age_s}


def lists_of_queue(host: Host, stats: StatsView, queue: Queue) -> Lists:
    """The lists of a single queue: detailed rates and consumers."""
    if not stats.enabled:
        return {}
    return {**of_queue(host, stats, queue), **consumer_lists(stats.caller, consumers_of(queue))}


def queue_view_with_unset(request: Request, stats: StatsView, queue: Queue) -> Item:
    """The fields of a queue, including unset ones as null."""
    unset: Item = dict.fromkeys(UNSET)
    item = unset | queue_view(request, stats, queue)
    if stats.enabled:
        item["garbage_collection"] = NO_GARBAGE
        if queue.settings.type != QUORUM:
            item.setdefault(HEAD_TIMESTAMP, None)
    return item


def consumer_fields(queue: Queue) -> Item:
    """The fields about the consumers of a queue."""
    consumers = queue.consumers
    capacity: float = 1.0 if consumers.any_ready() else 0  # true if a message would be delivered at once
    item: Item = {"consumers": len(consumers), "consumer_utilisation": capacity, "consumer_capacity": capacity}
    if consumers.exclusive:
        item["exclusive_consumer_tag"] = consumers.first().tag
    if isinstance(consumers, SingleActiveConsumers) and consumers.active is not None:
        item["single_active_consumer_tag"] = consumers.active.tag
    return item


def process_ids(queue: Queue) -> Item:
    """The process ids of the exclusive owner connection and of the exclusive consumer."""
    exclusive = queue.consumers.first() if queue.consumers.exclusive else None
    return {
        "owner_pid": str(queue.owner) if queue.owner is not None else None,
        "exclusive_consumer_pid": exclusive.channel.pid if isinstance(exclusive, ChannelConsumer) else None,
    }


def replica_fields(request: Request) -> Item:
    """The nodes with replicas of a quorum queue: only this one; and, beyond RabbitMQ's fields, what its store does."""
    node, status = request.node.name, request.host.storage()
    replicas = {"leader": node, "members": [node], "online": [node]}
    return replicas | {"replicated": status.replicated, "guarantee": status.guarantee}


def quorum_fields(node: str, queue: Queue) -> Item:
    """The fields of quorum queues; counters of RabbitMQ's implementation are 0."""
    outbox = queue.outbox if queue.settings.dead_letters_at_least_once else None
    return {
        "delivery_limit": queue.settings.delivery_limit,
        "messages_dlx": len(outbox) if outbox is not None else 0,
        "message_bytes_dlx": outbox.persistent_bytes if outbox is not None else 0,
        "messages_ready_high": 0,
        "messages_ready_normal": queue.ready,
        "messages_ready_returned": 0,
        "open_files": {node: 0},
        "publishers": 0,
    }


def owner_fields(caller: Caller, queue: Queue) -> Item:
    """The connection that owns an exclusive queue, or no field if there is none or the caller does not see it."""
    if not isinstance(queue.owner, Connection) or not caller.sees_connection(queue.owner):
        return {}
    peer = queue.owner.peer
    return {"owner_pid_details": {"name": queue.owner.name, "peer_host": peer.host, "peer_port": peer.port}}


PROPERTIES = ("name", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments", "node", "state")
REPLICAS, POLICIES, PIDS = (
    ("leader", "members", "online", "replicated", "guarantee"),
    ("policy", "operator_policy"),
    ("owner_pid", "exclusive_consumer_pid"),
)
PARTS = (
    Part(frozenset((*PROPERTIES, *REPLICAS, *POLICIES, *PIDS)), properties),
    Part(frozenset((*LENGTHS, *(f"{name}_details" for name in LENGTHS))), length_fields),
    Part(frozenset(), state_fields),  # makes all that the others do not name
    Part(frozenset({"message_stats"}), counter_fields),
    Part(frozenset({"idle_since"}), idle_fields),
    Part(frozenset({"oldest_ready_message_age"}), age_fields),
)
