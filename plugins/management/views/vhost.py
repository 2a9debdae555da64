"""The view of a virtual host."""

from typing import NotRequired, TypedDict

from warren.broker.plugin import VHost

from ..stats.counters import length_counters, message_counters, vhost_key
from ..stats.history import BYTE_COUNTERS, LENGTHS
from ..stats.rates import Counted
from ..stats.vhost_totals import Totals
from .stats import RequestStats, with_counters


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
    metadata: VHostMetadata = {
        "description": stored.description,
        "tags": list(stored.tags),
        "default_queue_type": stored.default_queue_type or "classic",
    }
    item: VHostView = {
        "name": vhost.name,
        "description": metadata["description"],
        "tags": metadata["tags"],
        "default_queue_type": metadata["default_queue_type"],
        "metadata": metadata,
        "protected_from_deletion": stored.protected,
        "tracing": vhost.firehose is not None,
        "cluster_state": {node: "running"},
    }
    key = vhost_key(vhost)
    if stats.totals:
        item |= stats.details("vhost", key, length_counters(totals.lengths[vhost.name]))
    if stats.enabled:
        item |= stats.details("vhost", key, dict(zip(BYTE_COUNTERS, totals.bytes[vhost.name], strict=True)))
        statistics = vhost.statistics
        item |= stats.message_stats("vhost", key, message_counters(statistics.publishing, statistics.delivered()))
    return item
