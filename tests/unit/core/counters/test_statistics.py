"""Sums of counters, and histograms of latencies."""

import pytest

from warren.broker.core.counters.histogram import BOUNDS_S, CLASSES, LatencyHistogram
from warren.broker.core.counters.statistics import (
    SIZES,
    Churn,
    DeliveryCounters,
    PublishCounters,
    SizeHistogram,
    Statistics,
)
from warren.broker.core.metadata.queue_types import CLASSIC, QUORUM


def test_a_size_counts_up_to_and_with_its_bound() -> None:
    sizes = SizeHistogram()
    for body_bytes in (0, 100, 101, 1_000, 1_000_000, 100_000_000, 100_000_001, 5, 100):
        if not sizes.low < body_bytes <= sizes.high:
            sizes.turn(body_bytes)
        sizes.run += 1
    assert sizes.counts() == [4, 2, 0, 0, 1, 0, 0, 1, 1]
    assert len(sizes.counts()) == len(SIZES) + 1


def test_sums_are_of_all_parts() -> None:
    total = Statistics()
    for _ in range(2):
        part = Statistics()
        part.publishing.publish = 5
        part.delivering[QUORUM].acked(3)
        part.delivering[CLASSIC].acked(4)
        part.count_dead_letters(CLASSIC, "disabled", "expired", 2)
        part.sizes.turn(500)
        part.sizes.run = 5
        part.sizes.total_bytes = 2500
        total.add(part)
    assert total.publishing.publish == 10
    assert (total.delivering[QUORUM].ack, total.delivered().ack) == (6, 14)
    assert total.dead_lettered == {(CLASSIC, "disabled", "expired"): 4}
    assert total.sizes.counts()[1] == 10 and total.sizes.total_bytes == 5000


def test_values_of_counters_follow_their_fields() -> None:
    for counters in (PublishCounters(), DeliveryCounters(), Churn()):
        for number, name in enumerate(counters.FIELDS, 1):
            setattr(counters, name, number)
        assert counters.values() == tuple(range(1, len(counters.FIELDS) + 1))


@pytest.mark.parametrize("index", range(CLASSES))
def test_a_duration_counts_below_the_first_bound_that_it_does_not_reach(index: int) -> None:
    latencies = LatencyHistogram()
    latencies.count(BOUNDS_S[index] * 0.99)
    assert latencies.counts[index] == 1 and sum(latencies.counts) == 1
    latencies.count(BOUNDS_S[index] * 1.01)
    assert latencies.counts[index + 1] == 1


def test_durations_beyond_all_bounds_and_negative_ones_are_counted() -> None:
    latencies = LatencyHistogram()
    latencies.count(3600.0)
    latencies.count(0.0)
    latencies.count(-0.001)
    assert (latencies.counts[-1], latencies.counts[0], latencies.total_s) == (1, 2, 3600.0)
