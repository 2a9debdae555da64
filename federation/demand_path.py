"""What the consumers of a federated queue want, and how that is told over several hops (`federation-multi-hop`); pure.

A consumer that is a link's own has a negative priority, which asks for nothing: with A - B - C and a consumer at C
alone, what is at A stays there. Where the policy of the queue at B says `federation-multi-hop`, B takes from A what C
wants, too. So that demand goes round no circle, a link tells its upstream for whom it consumes, in the argument
x-federation-demand: an array of tables (cluster-name, vhost, queue), the link's own queue first, that of the real
consumers last.

    consumer at C            C consumes at B with [C]        B consumes at A with [B, C]

A link takes up the shortest path among those of the active consumers here, and puts its own queue in front; never one
that goes through this queue or through its upstream, which would ask somebody for what he wants himself. So each path
is simple and ends at a real consumer; when that goes, those on the way go one after the other. The priority of a link
is minus the length of its path: who is nearer to a real consumer comes first, so messages do not go back and forth
between brokers that both want them. As each tells one path alone, not every way there is may be used at once, but from
each queue from which there is one, one is.

Messages are not stopped by where they have been: a message that has left a queue may be wanted there later, and would
be kept from its only consumer. They move along paths alone, each one hop nearer to a real consumer.

Limits: a consumer of RabbitMQ's federation tells no path and wants nothing, as always. A path has PATH_LIMIT queues at
most. Brokers are told apart by their cluster names. What was taken for somebody who then goes away stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warren.broker.plugin import ChannelConsumer, Consumer, Queue, SingleActiveConsumers, Table, Value

from .hop_headers import array, table

DEMAND = "x-federation-demand"
PATH_LIMIT = 16
NAMES = ("cluster-name", "vhost", "queue")
UNLIMITED = 1 << 30
BODY_BYTES = 0  # of the message that a consumer is asked to have room for: any

Identity = tuple[str, str, str]
"""Cluster name, virtual host, queue."""

Path = tuple[Identity, ...]


class Wants(NamedTuple):
    """What consumers want: the highest priority among those that are active, None without any; how many messages all
    who may ever want some have room for, 0 where there is nobody; for whom the link is to consume, empty for nobody.
    """

    priority: int | None
    room: int
    path: Path = ()


def wants(queue: Queue, own: Identity, upstream: Identity, multi_hop: bool, current: Path = ()) -> Wants:
    """Of the consumers of this queue, who is `own`, as a link to that upstream queue is to see it. `current` is the
    path that it consumes with, which is kept where another one is no better."""
    priority: int | None = None
    here = elsewhere = 0
    paths: list[Path] = []
    for consumer in served(queue):
        active = not consumer.waiting and consumer.room(BODY_BYTES) > 0
        if active and (priority is None or consumer.priority > priority):
            priority = consumer.priority
        if consumer.priority >= 0:
            here += capacity(consumer)
        elif multi_hop and active and isinstance(consumer, ChannelConsumer):
            path = path_of(consumer.arguments)
            if is_open(path, own, upstream):
                paths.append(path)
                elsewhere += capacity(consumer)
    if priority is not None and priority >= 0:
        return Wants(priority, here, (own,))
    path = shortest(paths, current[1:])
    return Wants(0, elsewhere, (own, *path)) if path else Wants(priority, here)


def served(queue: Queue) -> Sequence[Consumer]:
    """Those who get messages."""
    consumers = queue.consumers
    if isinstance(consumers, SingleActiveConsumers):
        return [consumers.active] if consumers.active is not None else []
    return consumers.all()


def capacity(consumer: Consumer) -> int:
    """How many messages it may have at a time. Unlike its room at the moment it stays the same while it works."""
    if not isinstance(consumer, ChannelConsumer) or consumer.no_ack:
        return UNLIMITED
    if consumer.prefetch:
        return consumer.prefetch
    return consumer.channel.shared_prefetch.limit if consumer.shares else UNLIMITED


def is_open(path: Path, own: Identity, upstream: Identity) -> bool:
    """Whether what it asks for may be taken from that upstream for it."""
    return 0 < len(path) < PATH_LIMIT and own not in path and upstream not in path


def shortest(paths: Iterable[Path], current: Path) -> Path:
    """Of equally short ones the current one, else always the same; empty where there is none."""
    return min(paths, key=lambda path: (len(path), path != current, path), default=())


def consume_arguments(path: Path, multi_hop: bool) -> Table:
    """Those of basic.consume upstream: priority -1, or less where the consumers are farther away."""
    arguments: dict[str, object] = {"x-priority": ("l", -max(len(path), 1))}
    if multi_hop:
        arguments[DEMAND] = [dict(zip(NAMES, identity, strict=True)) for identity in path]
    return Table.of(arguments)


def path_of(arguments: Table) -> Path:
    """That of a consumer with these arguments; empty where it tells none, or none that can be read."""
    entries = array(arguments.get(DEMAND))
    if entries is None or len(entries) > PATH_LIMIT:
        return ()
    path = tuple(identity for identity in map(identity_of, entries) if identity is not None)
    return path if len(path) == len(entries) else ()


def identity_of(entry: Value) -> Identity | None:
    fields = table(entry)
    if fields is None:
        return None
    cluster_name, vhost, queue = (fields.text(name) for name in NAMES)
    return None if cluster_name is None or vhost is None or queue is None else (cluster_name, vhost, queue)
