"""Metrics of the node outside the groups: histograms, costs of scrapes, and read errors of the disk."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.utils import floatToGoString

from warren.broker.core.counters.histogram import BOUNDS_S, LatencyHistogram
from warren.broker.core.counters.statistics import SIZES
from warren.broker.runtime.loop_watchdog import Turns
from warren.broker.runtime.supervisor import Supervisor

from .global_metrics import PROTOCOL
from .scope import Scope
from .state import Scrapes


def cumulative_buckets(bounds: Sequence[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    """Return cumulative counts with the bounds as Go formats them, as queries expect."""
    texts = [*map(floatToGoString, bounds), "+Inf"]
    return list(zip(texts, accumulate(counts), strict=True))


def message_sizes(scope: Scope) -> Metric:
    sizes = scope.statistics.sizes
    help = "Sizes of the bodies of published messages in bytes"
    metric = HistogramMetricFamily("rabbitmq_message_size_bytes", help, labels=["protocol"])
    metric.add_metric([PROTOCOL], cumulative_buckets(SIZES, sizes.counts()), sizes.total_bytes)
    return metric


def latencies(name: str, help: str, of: LatencyHistogram) -> Metric:
    return HistogramMetricFamily(name, help, cumulative_buckets(BOUNDS_S, of.counts), of.total_s)


def longest_turn(turns: Turns) -> Metric:
    name = "warren_event_loop_longest_turn_seconds"
    metric = GaugeMetricFamily(name, "Longest turn of the event loop", labels=["since"])
    metric.add_metric(["interval"], turns.longest_lately_s)
    metric.add_metric(["start"], turns.longest_s)
    return metric


def tasks(supervisor: Supervisor) -> Iterator[Metric]:
    """Tasks that outlive a call, by name: the names are fixed in the program, so there are few."""
    running = GaugeMetricFamily("warren_tasks", "Tasks of the broker that run", labels=["task"])
    failures = CounterMetricFamily("warren_task_failures", "Tasks of the broker that failed", labels=["task"])
    restarts = CounterMetricFamily("warren_task_restarts", "Tasks that were started again", labels=["task"])
    for name, counts in sorted(supervisor.by_name.items()):
        running.add_metric([name], counts.running)
        failures.add_metric([name], counts.failures)
        restarts.add_metric([name], counts.restarts)
    yield from (running, failures, restarts)


def unreadable(scope: Scope) -> Iterator[Metric]:
    """Failed reads of the journal, counted at each attempt: any increase should be investigated."""
    journal = scope.node.journal
    yield CounterMetricFamily("warren_journal_read_errors", "Failed reads of the journal", journal.read_errors)
    help = "Records of the journal that failed their checksum"
    yield CounterMetricFamily("warren_journal_damaged_records", help, journal.damaged_records)


def distributions(scope: Scope) -> Iterator[Metric]:
    yield message_sizes(scope)
    turns = scope.state.host.turns
    yield latencies("warren_event_loop_lag_seconds", "Delay between a timer and its call", turns.lag)
    yield longest_turn(turns)
    yield from tasks(scope.state.host.supervisor)
    yield latencies("warren_journal_sync_seconds", "Time to write and sync a batch of the journal", scope.node.commits)
    yield from unreadable(scope)


def telemetry(scrapes: Scrapes) -> Iterator[Metric]:
    labels = ["registry", "content_type"]
    durations = SummaryMetricFamily("telemetry_scrape_duration_seconds", "Durations of scrapes", labels=labels)
    sizes = SummaryMetricFamily("telemetry_scrape_size_bytes", "Uncompressed sizes of scrapes", labels=labels)
    for key, own in scrapes.sums.items():
        durations.add_metric(key, own.count, own.seconds)
        sizes.add_metric(key, own.count, own.size_bytes)
    yield durations
    yield sizes
