"""Metrics of the node that no table of families has: histograms, what scrapes cost, and what the disk refuses."""

from __future__ import annotations

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
from .scrape_stats import Scrapes


def bounded(bounds: Sequence[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    """Cumulative, with the bounds as Go writes them, which is how queries name them."""
    texts = [*map(floatToGoString, bounds), "+Inf"]
    return list(zip(texts, accumulate(counts), strict=True))


def message_sizes(scope: Scope) -> Metric:
    sizes = scope.node.statistics().sizes
    metric = HistogramMetricFamily(
        "rabbitmq_message_size_bytes", "Octets of the bodies that were published", labels=["protocol"]
    )
    metric.add_metric([PROTOCOL], bounded(SIZES, sizes.counts()), sizes.total_bytes)
    return metric


def latencies(name: str, help: str, of: LatencyHistogram) -> Metric:
    return HistogramMetricFamily(name, help, bounded(BOUNDS_S, of.counts), of.total_s)


def longest_turn(turns: Turns) -> Metric:
    metric = GaugeMetricFamily(
        "warren_event_loop_longest_turn_seconds", "How long one turn of the loop held all others", labels=["since"]
    )
    metric.add_metric(["interval"], turns.longest_lately_s)
    metric.add_metric(["start"], turns.longest_s)
    return metric


def tasks(supervisor: Supervisor) -> Iterator[Metric]:
    """Tasks that outlive a call, by name: the names are those of the program, so there are few."""
    running = GaugeMetricFamily("warren_tasks", "Tasks of the broker that run", labels=["task"])
    failures = CounterMetricFamily("warren_task_failures", "Tasks of the broker that failed", labels=["task"])
    restarts = CounterMetricFamily("warren_task_restarts", "Tasks that were started again", labels=["task"])
    for name, counts in sorted(supervisor.by_name.items()):
        running.add_metric([name], counts.running)
        failures.add_metric([name], counts.failures)
        restarts.add_metric([name], counts.restarts)
    yield from (running, failures, restarts)


def unreadable(scope: Scope) -> Iterator[Metric]:
    """What the disk does not give, counted at each attempt: any increase is a reason to look at it."""
    journal = scope.node.journal
    yield CounterMetricFamily(
        "warren_journal_read_errors", "Reads of the journal that the disk refused", journal.read_errors
    )
    yield CounterMetricFamily(
        "warren_journal_damaged_records",
        "Records of the journal that were read and are not what was written",
        journal.damaged_records,
    )


def distributions(scope: Scope) -> Iterator[Metric]:
    yield message_sizes(scope)
    turns = scope.state.host.turns
    yield latencies("warren_event_loop_lag_seconds", "How late the event loop comes to what is due", turns.lag)
    yield longest_turn(turns)
    yield from tasks(scope.state.host.supervisor)
    yield latencies(
        "warren_journal_sync_seconds", "How long a batch of the journal takes to write and sync", scope.node.commits
    )
    yield from unreadable(scope)


def telemetry(scrapes: Scrapes) -> Iterator[Metric]:
    labels = ["registry", "content_type"]
    durations = SummaryMetricFamily("telemetry_scrape_duration_seconds", "How long scrapes took", labels=labels)
    sizes = SummaryMetricFamily("telemetry_scrape_size_bytes", "How long scrapes were, not compressed", labels=labels)
    for key, own in scrapes.sums.items():
        durations.add_metric(key, own.count, own.seconds)
        sizes.add_metric(key, own.count, own.size_bytes)
    yield durations
    yield sizes
