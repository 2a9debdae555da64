"""What each path shows, as RabbitMQ's plugin has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UntypedMetricFamily

from . import channels, connections, exchanges, federation, identity, node, overall, queues
from .distributions import distributions, telemetry
from .group import Family, Group
from .memory import BREAKDOWN
from .scope import Scope

AGGREGATED, PER_OBJECT, DETAILED, MEMORY = "aggregated", "per-object", "detailed", "memory-breakdown"
REGISTRIES = {AGGREGATED: "default"}  # how RabbitMQ calls what an endpoint shows, where that differs

OF_OBJECTS: tuple[Group, ...] = (
    *node.GROUPS,
    *queues.GROUPS,
    *channels.GROUPS,
    *connections.GROUPS,
    exchanges.EXCHANGES,
)
# Of two that have the same family one is shown
WHOLE: tuple[Group, ...] = (
    *(group for group in OF_OBJECTS if group.name != "queue_consumer_count"),
    *overall.TOTALS,
    *overall.GLOBAL,
    node.ALARMS,
    node.PEERS,
    *federation.GROUPS,
)
BY_FAMILY = {group.name: group for group in (*OF_OBJECTS, *exchanges.ASKED_FOR, queues.MOVED)}
OF_QUEUES = {"queue_coarse_metrics", "queue_consumer_count", "queue_metrics"}  # with these comes queue_info
KINDS: dict[str, type[CounterMetricFamily] | type[GaugeMetricFamily] | type[UntypedMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "untyped": UntypedMetricFamily,
}

PROCESS = CollectorRegistry()
ProcessCollector(registry=PROCESS)
PlatformCollector(registry=PROCESS)
GCCollector(registry=PROCESS)


async def collected(scope: Scope, endpoint: str, families: Iterable[str] = ()) -> list[Metric]:
    """All that the endpoint shows. `families` are the groups asked for where that is `detailed`."""
    metrics: list[Metric] = []
    each = endpoint in (PER_OBJECT, DETAILED)
    detailed = endpoint == DETAILED
    for group in chosen(endpoint, families):
        # Ours are shown by queue everywhere
        metrics += await measured(group, scope, each or group is queues.MOVED, detailed)
    if not each and endpoint != MEMORY:
        metrics += await measured(exchanges.OUTCOMES, scope, False, False)
    if endpoint in (AGGREGATED, PER_OBJECT):
        metrics += [*distributions(scope), *PROCESS.collect()]
    metrics += telemetry(scope.state.scrapes)
    for group in identity.groups(endpoint):
        metrics += await measured(group, scope, each, False)
    return metrics


def chosen(endpoint: str, families: Iterable[str]) -> list[Group]:
    if endpoint == MEMORY:
        return [BREAKDOWN]
    if endpoint == DETAILED:
        names = dict.fromkeys(families)
        groups = [group for name, group in BY_FAMILY.items() if name in names]
        if "queue_metrics" in names:
            groups = [group for group in groups if group.name != "queue_consumer_count"]
        return [*groups, *([queues.INFO] if OF_QUEUES & names.keys() else [])]
    return [*WHOLE, queues.MOVED, *([queues.INFO] if endpoint == PER_OBJECT else [])]


async def measured(group: Group, scope: Scope, each: bool, detailed: bool) -> list[Metric]:
    labels, prefix = group.labels(each), group.prefix(detailed)
    metrics = [family_of(family, prefix, labels) for family in group.families]
    for texts, values in await group.rows(scope, each):
        for metric, value in zip(metrics, values, strict=True):
            metric.add_metric(texts, value)
    return list(metrics)


def family_of(
    family: Family, prefix: str, labels: Sequence[str]
) -> CounterMetricFamily | GaugeMetricFamily | UntypedMetricFamily:
    return KINDS[family.kind](prefix + family.name, family.help, labels=labels)
