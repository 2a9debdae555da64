"""Demand paths: the demand of a federated queue's consumers, and how it is passed on over several hops; pure.

A link's own consumer has a negative priority, which is no demand: with A - B - C and a consumer at C alone, messages of
A stay there. If the policy of the queue at B has `federation-multi-hop`, B also takes from A what C demands. So that
demand goes round no circle, a link names the queues for which it consumes, in the argument x-federation-demand: an
array of tables (cluster-name, vhost, queue), the link's own queue first, that of the real consumers last.

    consumer at C            C consumes at B with [C]        B consumes at A with [B, C]

A link takes the shortest path among those of the active consumers here, and puts its own queue in front; never one that
has this queue or its upstream in it, which would ask a queue for what that queue asks for itself. So each path is
simple and ends at a real consumer; when that is cancelled, those on the way are, one after the other. The priority of a
link is minus the length of its path, so links nearer to a real consumer are served first, and messages do not go back
and forth between brokers that both have demand. As each link names one path alone, not every possible way may be used
at once, but from each queue that has one, one is.

Messages are not stopped by where they have been: a message that has left a queue may be demanded there later, and would
be kept from its only consumer. They move along paths alone, each one hop nearer to a real consumer.

Limits: a consumer of RabbitMQ's federation names no path and is no demand, as always. A path has PATH_LIMIT queues at
most. Brokers are told apart by their cluster names. Messages taken for a consumer that is then cancelled stay here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warren.broker.core.queues.consumers import Consumer, SingleActiveConsumers
from warren.broker.plugin import Queue, Table, Value
from warren.broker.session.consumer import ChannelConsumer

from .hop_headers import as_array, as_table

DEMAND = "x-federation-demand"
PATH_LIMIT = 16
NAMES = ("cluster-name", "vhost", "queue")
UNLIMITED = 1 << 30
BODY_BYTES = 0  # the size of message for which room is asked: any

Identity = tuple[str, str, str]
"""Cluster name, virtual host, queue."""

Path = tuple[Identity, ...]


class ConsumerDemand(NamedTuple):
    """The demand of consumers.

    `priority` is the highest one of active consumers, or None without any; `room` the number of messages that all
    consumers can take at most; `path` the queues for which the link is to consume, or empty.
    """

    priority: int | None
    room: int
    path: Path = ()


def consumer_demand(
    queue: Queue, own: Identity, upstream: Identity, multi_hop: bool, current: Path = ()
) -> ConsumerDemand:
    """Return the demand of this queue's consumers, for a link to `upstream`; `own` identifies this queue.

    `current` is the path that the link consumes with, which is kept if no other one is shorter.
    """
    priority: int | None = None
    here = elsewhere = 0
    paths: list[Path] = []
    for consumer in active_consumers(queue):
        active = not consumer.waiting and consumer.room(BODY_BYTES) > 0
        if active and (priority is None or consumer.priority > priority):
            priority = consumer.priority
        if consumer.priority >= 0:
            here += capacity(consumer)
        elif multi_hop and active and isinstance(consumer, ChannelConsumer):
            path = decode_path(consumer.arguments)
            if is_usable(path, own, upstream):
                paths.append(path)
                elsewhere += capacity(consumer)
    if priority is not None and priority >= 0:
        return ConsumerDemand(priority, here, (own,))
    path = choose_path(paths, current[1:])
    return ConsumerDemand(0, elsewhere, (own, *path)) if path else ConsumerDemand(priority, here)


def active_consumers(queue: Queue) -> Sequence[Consumer]:
    """Return the consumers that get messages."""
    consumers = queue.consumers
    if isinstance(consumers, SingleActiveConsumers):
        return [consumers.active] if consumers.active is not None else []
    return consumers.all()


def capacity(consumer: Consumer) -> int:
    """Return how many unacknowledged messages a consumer may have, which unlike its room does not change."""
    if not isinstance(consumer, ChannelConsumer) or consumer.no_ack:
        return UNLIMITED
    if consumer.prefetch:
        return consumer.prefetch
    return consumer.channel.shared_prefetch.limit if consumer.shares else UNLIMITED


def is_usable(path: Path, own: Identity, upstream: Identity) -> bool:
    """Whether a link to that upstream may consume for that path."""
    return 0 < len(path) < PATH_LIMIT and own not in path and upstream not in path


def choose_path(paths: Iterable[Path], current: Path) -> Path:
    """Return the shortest path, of equally short ones the current one or the first in order; empty without any."""
    return min(paths, key=lambda path: (len(path), path != current, path), default=())


def consume_arguments(path: Path, multi_hop: bool) -> Table:
    """Return the arguments of basic.consume upstream: priority -1, or lower for consumers farther away."""
    arguments: dict[str, object] = {"x-priority": ("l", -max(len(path), 1))}
    if multi_hop:
        arguments[DEMAND] = [dict(zip(NAMES, identity, strict=True)) for identity in path]
    return Table.of(arguments)


def decode_path(arguments: Table) -> Path:
    """Return the path in a consumer's arguments; empty if there is none, or a malformed one."""
    entries = as_array(arguments.get(DEMAND))
    if entries is None or len(entries) > PATH_LIMIT:
        return ()
    path = tuple(identity for identity in map(decode_identity, entries) if identity is not None)
    return path if len(path) == len(entries) else ()


def decode_identity(entry: Value) -> Identity | None:
    fields = as_table(entry)
    if fields is None:
        return None
    cluster_name, vhost, queue = (fields.text(name) for name in NAMES)
    return None if cluster_name is None or vhost is None or queue is None else (cluster_name, vhost, queue)
