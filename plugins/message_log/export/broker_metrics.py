"""Metrics of the broker, as rows of `schema.METRICS`."""

import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from warren.broker.core.counters.histogram import LatencyHistogram
from warren.broker.core.queues.traffic_log import Origin
from warren.broker.net.connection_limits import open_descriptors
from warren.broker.plugin import Host, Service

from ..file_format import schema
from .record_buffer import escape_text

EMPTY_BUCKETS = [0] * 6  # the first bucket of LatencyHistogram ends at 64 microseconds: 2**6
FEDERATION = "federation"  # the service whose links have metrics
LINKS = 100  # links whose rows are made in one turn of the loop


@runtime_checkable
class Links(Protocol):
    """The federation service."""

    def each_status(self) -> Iterator[Mapping[str, object]]: ...


def rows(host: Host) -> list[dict[str, object]]:
    """Return the present metrics, except for those of links."""
    node, resources, churn = host.node, host.resources, host.node.churn
    counters: dict[str, float] = {
        schema.CPU_S: time.process_time(),
        schema.CONNECTIONS_CREATED: churn.connection_created,
        schema.CONNECTIONS_CLOSED: churn.connection_closed,
        schema.CHANNELS_CREATED: churn.channel_created,
        schema.CHANNELS_CLOSED: churn.channel_closed,
        schema.QUEUES_CREATED: churn.queue_created,
        schema.QUEUES_DELETED: churn.queue_deleted,
    }
    descriptor_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    gauges: dict[str, float | None] = {
        schema.RESIDENT_BYTES: resources.used_bytes(),
        schema.MEMORY_LIMIT_BYTES: resources.memory_limit_bytes,
        schema.DISK_FREE_BYTES: resources.shown_free_bytes(),
        schema.DISK_LIMIT_BYTES: resources.disk_free_limit_bytes,
        schema.OPEN_DESCRIPTORS: open_descriptors(),
        schema.DESCRIPTOR_LIMIT: descriptor_limit if descriptor_limit != resource.RLIM_INFINITY else None,
        schema.CONNECTIONS: node.open_connections,
        schema.CHANNELS: churn.channel_created - churn.channel_closed,
    }
    metrics = [row(name, schema.COUNTER, value) for name, value in counters.items()]
    metrics += [row(name, schema.GAUGE, value) for name, value in gauges.items() if value is not None]
    metrics += [histogram(schema.LOOP_LAG_US, host.turns.lag), histogram(schema.SYNC_US, node.commits)]
    return timed(metrics)


def link_rows(federation: Service | None, links: Iterable[Origin]) -> Iterator[list[dict[str, object]]]:
    """Yield the numbers of starts and failures of each running link, some links at a time.

    `links` are the origins of federation links.
    """
    queues = {origin.connection: origin.link for origin in links}
    metrics: list[dict[str, object]] = []
    statuses: Iterator[Mapping[str, object]] = federation.each_status() if isinstance(federation, Links) else iter(())
    for count, link in enumerate(statuses, 1):
        name, reconnects = queues.get(str(link["local_connection"])), link["reconnects"]
        if name is not None and isinstance(reconnects, int):
            labels = [
                ("vhost", escape_text(str(link["vhost"]))),
                ("upstream", escape_text(str(link["upstream"]))),
                ("link", escape_text(name)),
            ]
            metrics.append(row(schema.LINK_STARTS, schema.COUNTER, reconnects + 1, labels))
            metrics.append(row(schema.LINK_FAILURES, schema.COUNTER, reconnects, labels))
        if count % LINKS == 0:
            yield timed(metrics)
            metrics = []
    yield timed(metrics)


def timed(metrics: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the metrics with the present time."""
    moment = {"ts_us": time.time_ns() // 1000, "mono_ns": time.monotonic_ns()}
    return [moment | one for one in metrics]


def row(name: str, kind: str, value: float, labels: Sequence[tuple[str, str]] = ()) -> dict[str, object]:
    return {"name": name, "labels": labels, "kind": kind, "value": float(value)}


def histogram(name: str, taken: LatencyHistogram) -> dict[str, object]:
    """Return a histogram since the start, in microseconds."""
    return row(name, schema.HISTOGRAM, taken.total_s * 1_000_000) | {"buckets": EMPTY_BUCKETS + taken.counts}
