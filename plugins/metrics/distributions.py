"""Metrics of several samples each: histograms, and the sums of what scrapes cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.utils import floatToGoString

from broker.plugin import BOUNDS_S, SIZES, Latencies

from .overall import PROTOCOL
from .scope import Scope
from .scrapes import Scrapes


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


def latencies(name: str, help: str, of: Latencies) -> Metric:
    return HistogramMetricFamily(name, help, bounded(BOUNDS_S, of.counts), of.total_s)


def distributions(scope: Scope) -> Iterator[Metric]:
    yield message_sizes(scope)
    yield latencies("warren_event_loop_lag_seconds", "How late the event loop comes to what is due", scope.state.lag)
    yield latencies(
        "warren_journal_sync_seconds", "How long a batch of the journal takes to write and sync", scope.node.commits
    )


def telemetry(scrapes: Scrapes) -> Iterator[Metric]:
    labels = ["registry", "content_type"]
    durations = SummaryMetricFamily("telemetry_scrape_duration_seconds", "How long scrapes took", labels=labels)
    sizes = SummaryMetricFamily("telemetry_scrape_size_bytes", "How long scrapes were, not compressed", labels=labels)
    for key, own in scrapes.sums.items():
        durations.add_metric(key, own.count, own.seconds)
        sizes.add_metric(key, own.count, own.octets)
    yield durations
    yield sizes
