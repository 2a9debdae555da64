"""The view of a virtual host, with sums over its objects."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict, cast

from warren.broker.plugin import Queue, VHost
from warren.broker.session.connection import Connection

from ...http.time_slices import in_slices
from ..stats.counters import Values, lengths, message_counters, named, vhost_key
from ..stats.history import BYTE_COUNTERS, LENGTHS
from ..stats.rates import Counted
from .stats import RequestStats, with_counters


@dataclass(slots=True)
class Totals:
    """Queue lengths and bytes of connections, closed ones included, by virtual host, and the number of consumers."""

    consumers: int = 0
    lengths: dict[str, Values] = field(default_factory=dict)
    bytes: dict[str, Values] = field(default_factory=dict)


async def totals_of(vhosts: Iterable[VHost], connections: Iterable[Connection]) -> Totals:
    """Return the sums, computed in slices, because there may be many queues."""
    totals = Totals()
    queues: list[Queue] = []
    for vhost in vhosts:
        totals.lengths[vhost.name] = (0, 0, 0)
        totals.bytes[vhost.name] = (vhost.statistics.received_bytes, vhost.statistics.sent_bytes)
        queues += vhost.queues.values()

    async for queue in in_slices(queues):
        totals.lengths[queue.vhost] = plus(totals.lengths[queue.vhost], lengths(queue))
        totals.consumers += len(queue.consumers)
    async for connection in in_slices(connections):
        vhost_of = connection.vhost
        if vhost_of is not None and vhost_of.name in totals.bytes:
            own = (connection.received_bytes, connection.sent_bytes)
            totals.bytes[vhost_of.name] = plus(totals.bytes[vhost_of.name], own)
    return totals


def plus(one: Values, other: Values) -> Values:
    return tuple(left + right for left, right in zip(one, other, strict=True))


class VHostMetadata(TypedDict):
    description: str
    tags: list[str]
    default_queue_type: str


@with_counters(*LENGTHS, *BYTE_COUNTERS)
class VHostView(VHostMetadata):
    """A virtual host."""

    name: str
    metadata: VHostMetadata
    protected_from_deletion: bool
    tracing: bool
    cluster_state: dict[str, str]
    message_stats: NotRequired[Counted]


def vhost_view(node: str, stats: RequestStats, totals: Totals, vhost: VHost) -> VHostView:
    stored = vhost.metadata
    metadata = {
        "description": stored.description,
        "tags": list(stored.tags),
        "default_queue_type": stored.default_queue_type or "classic",
    }
    item: Any = {
        "name": vhost.name,
        **metadata,
        "metadata": metadata,
        "protected_from_deletion": stored.protected,
        "tracing": vhost.firehose is not None,
        "cluster_state": {node: "running"},
    }
    key = vhost_key(vhost)
    if stats.totals:
        item |= stats.details("vhost", key, named(LENGTHS, totals.lengths[vhost.name]))
    if stats.enabled:
        item |= stats.details("vhost", key, named(BYTE_COUNTERS, totals.bytes[vhost.name]))
        statistics = vhost.statistics
        item |= stats.message_stats("vhost", key, message_counters(statistics.publishing, statistics.delivered()))
    return cast(VHostView, item)
