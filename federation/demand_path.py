"""Demand paths: the demand of a federated queue's consumers, and how it is passed on over several hops; pure.

A link's own consumer has a negative priority, which does not count as demand: with brokers A - B - C and a consumer at
C only, messages at A stay there. If the policy of the queue at B has `federation-multi-hop`, B also consumes from A
what C demands. To prevent cycles, a link names the queues for which it consumes in the argument x-federation-demand: an
array of tables (cluster-name, vhost, queue), the link's own queue first, the queue of the real consumers last.

    consumer at C            C consumes at B with [C]        B consumes at A with [B, C]

A link takes the shortest of the paths that its queue's active consumers name, and puts its own queue in front. It skips
paths that contain this queue or the upstream one, which would ask a queue for messages that this queue itself demands.
So each path is simple and ends at a real consumer; when that consumer is cancelled, the links along the path cancel one
after the other. A link's priority is minus the length of its path, so links nearer to a real consumer are served first,
and messages do not go back and forth between brokers that both have demand. Since each link names one path only, some
possible paths stay unused, but every queue that has a path to a real consumer uses one.

A queue does not drop messages that it had before: its only consumer may demand them later. Messages move along paths
only, with each hop nearer to a real consumer.

Limits: a consumer of RabbitMQ's federation names no path and, as in RabbitMQ, is no demand. A path has PATH_LIMIT
queues at most. Brokers are identified by their cluster names. Messages that were fetched for a consumer which is then
cancelled stay in the local queue.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from warren.broker.core.queues.consumers import Consumer, SingleActiveConsumers
from warren.broker.plugin import Queue, Table, Value
from warren.broker.session.consumer import ChannelConsumer

from .hop_headers import as_array, as_table

DEMAND = "x-federation-demand"
PATH_LIMIT = 16
NAMES = ("cluster-name", "vhost", "queue")
UNLIMITED = 1 << 30
LOOKED = 500  # consumers that one step checks, in up to a millisecond
BODY_BYTES = 0  # the message size in `Consumer.room`: a message of any size

Identity = tuple[str, str, str]
"""Cluster name, virtual host, queue."""

Path = tuple[Identity, ...]


class ConsumerDemand(NamedTuple):
    """The demand of consumers.

    `priority` is the highest of active consumers, or None without any; `room` is the number of messages that all
    consumers can take at most; `path` lists the queues for which the link is to consume, and may be empty.
    """

    priority: int | None
    room: int
    path: Path = ()


def consumer_demand(
    queue: Queue, own: Identity, upstream: Identity, multi_hop: bool, current: Path = ()
) -> Generator[None, None, ConsumerDemand]:
    """Return the demand of this queue's consumers for a link to `upstream`; `own` identifies this queue.

    `current` is the link's present path, which is kept unless another one is shorter. Consumers without room are put
    off: the queue's followers are notified when they have room. Yields after every LOOKED consumers, of which some may
    be added and removed meanwhile.
    """
    priority: int | None = None
    here = elsewhere = 0
    paths: list[Path] = []
    for count, consumer in enumerate(active_consumers(queue), 1):
        if not count % LOOKED:
            yield
        if count >= LOOKED and consumer not in queue.consumers.all:
            continue  # removed meanwhile
        if not consumer.waiting and consumer.room(BODY_BYTES) <= 0:
            queue.consumers.put_off(consumer)
        active = not consumer.waiting
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
    """Return the consumers that receive messages: one at most if the queue has a single active consumer."""
    consumers = queue.consumers
    if isinstance(consumers, SingleActiveConsumers):
        return [consumers.active] if consumers.active is not None else []
    return list(consumers.all)


def capacity(consumer: Consumer) -> int:
    """Return how many unacknowledged messages a consumer may have; unlike its room this does not change."""
    if not isinstance(consumer, ChannelConsumer) or consumer.no_ack:
        return UNLIMITED
    if consumer.prefetch:
        return consumer.prefetch
    return consumer.channel.shared_prefetch.limit if consumer.shares else UNLIMITED


def is_usable(path: Path, own: Identity, upstream: Identity) -> bool:
    """Whether a link to `upstream` may consume for this path."""
    return 0 < len(path) < PATH_LIMIT and own not in path and upstream not in path


def choose_path(paths: Iterable[Path], current: Path) -> Path:
    """Return the shortest path; among equally short ones the current one, else the first in order. May be empty."""
    return min(paths, key=lambda path: (len(path), path != current, path), default=())


def consume_arguments(path: Path, multi_hop: bool) -> Table:
    """Return the arguments of basic.consume upstream: priority -1, or lower for consumers farther away."""
    arguments: dict[str, object] = {"x-priority": ("l", -max(len(path), 1))}
    if multi_hop:
        arguments[DEMAND] = [dict(zip(NAMES, identity, strict=True)) for identity in path]
    return Table.of(arguments)


def decode_path(arguments: Table) -> Path:
    """Return the path in a consumer's arguments; empty if it is missing or malformed."""
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
