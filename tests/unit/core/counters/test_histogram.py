"""Histograms of latencies: the class of a duration."""

import pytest

from warren.broker.core.counters.histogram import BOUNDS_S, CLASSES, LatencyHistogram


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
