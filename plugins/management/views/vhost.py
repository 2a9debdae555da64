"""The view of a virtual host."""

from __future__ import annotations

from warren.broker.plugin import VHost

from ..framework.pagination import Item
from ..stats.counters import length_counters, message_counters, vhost_key
from ..stats.history import BYTE_COUNTERS
from ..stats.vhost_totals import Totals
from .stats import StatsView


def vhost_view(node: str, stats: StatsView, totals: Totals, vhost: VHost) -> Item:
    """The fields of a virtual host; `node` is the name of the node."""
    kept = vhost.metadata
    default_queue_type = kept.default_queue_type or "classic"
    item: Item = {
        "name": vhost.name,
        "description": kept.description,
        "tags": list(kept.tags),
        "default_queue_type": default_queue_type,
        "metadata": {
            "description": kept.description,
            "tags": list(kept.tags),
            "default_queue_type": default_queue_type,
        },
        "protected_from_deletion": kept.protected,
        "tracing": vhost.firehose is not None,
        "cluster_state": {node: "running"},
    }
    key = vhost_key(vhost)
    if stats.totals:
        item |= stats.details("vhost", key, length_counters(totals.lengths[vhost.name]))
    if stats.enabled:
        item |= stats.details("vhost", key, dict(zip(BYTE_COUNTERS, totals.bytes[vhost.name], strict=True)))
        counted = vhost.statistics
        item |= stats.message_stats("vhost", key, message_counters(counted.publishing, counted.delivered()))
    return item
