"""The families of each endpoint, as RabbitMQ's plugin has them."""

from collections.abc import AsyncIterator, Iterable

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UntypedMetricFamily

from . import channels, connections, exchanges, federation, global_metrics, node, queues
from .exposition import Table
from .families import DETAILED as DETAILED_PREFIX
from .families import RABBITMQ, Group
from .histograms import distributions, telemetry
from .scope import Scope

AGGREGATED, PER_OBJECT, DETAILED, MEMORY = "aggregated", "per-object", "detailed", "memory-breakdown"
REGISTRIES = {AGGREGATED: "default"}  # RabbitMQ's name of an endpoint's registry, if it differs

OF_OBJECTS: tuple[Group, ...] = (
    *node.GROUPS,
    *queues.GROUPS,
    *channels.GROUPS,
    *connections.GROUPS,
    exchanges.EXCHANGES,
)
# If two groups have the same family, one is left out.
WHOLE: tuple[Group, ...] = (
    *(group for group in OF_OBJECTS if group.name != "queue_consumer_count"),
    *global_metrics.TOTALS,
    *global_metrics.GLOBAL,
    node.ALARMS,
    node.PEERS,
    *federation.GROUPS,
)
BY_FAMILY = {group.name: group for group in (*OF_OBJECTS, *exchanges.ASKED_FOR, queues.COUNTERS_BY_QUEUE)}
OF_QUEUES = {"queue_coarse_metrics", "queue_consumer_count", "queue_metrics"}  # queue_info is added to these
KINDS: dict[str, type[CounterMetricFamily] | type[GaugeMetricFamily] | type[UntypedMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "untyped": UntypedMetricFamily,
}

PROCESS = CollectorRegistry()
ProcessCollector(registry=PROCESS)
PlatformCollector(registry=PROCESS)
GCCollector(registry=PROCESS)


async def collect(scope: Scope, endpoint: str, families: Iterable[str] = ()) -> AsyncIterator[Metric | Table]:
    """Yield the metrics of an endpoint, one group after the other, so that the writer holds one group at a time.

    `families` are the groups selected in `detailed`.
    """
    each = endpoint in (PER_OBJECT, DETAILED)
    await scope.sum_statistics()
    for group in chosen(endpoint, families):
        yield await measure_group(group, scope, each, endpoint == DETAILED)
    if endpoint in (AGGREGATED, PER_OBJECT):
        for metric in (*distributions(scope), *PROCESS.collect()):
            yield metric
    for metric in telemetry(scope.state.scrapes):
        yield metric
    for group in node.once(endpoint):
        yield await measure_group(group, scope, each, False)


def chosen(endpoint: str, families: Iterable[str]) -> list[Group]:
    if endpoint == MEMORY:
        return [node.BREAKDOWN]
    if endpoint == DETAILED:
        names = dict.fromkeys(families)
        groups = [group for name, group in BY_FAMILY.items() if name in names]
        if "queue_metrics" in names:
            groups = [group for group in groups if group.name != "queue_consumer_count"]
        return [*groups, *([queues.INFO] if OF_QUEUES & names.keys() else [])]
    if endpoint == PER_OBJECT:
        return [*WHOLE, queues.COUNTERS_BY_QUEUE, queues.INFO]
    return [*WHOLE, exchanges.OUTCOMES]


async def measure_group(group: Group, scope: Scope, each: bool, detailed: bool) -> Table:
    labels = group.labels(each)
    prefix = DETAILED_PREFIX if detailed and group.prefix == RABBITMQ else group.prefix
    metrics = [KINDS[one.kind](prefix + one.name, one.help, labels=labels) for one in group.families]
    return Table(labels, metrics, await group.rows(scope, each))
