"""A histogram of latencies by powers of two, in which a rare delay shows beside a million short ones."""

from __future__ import annotations

UNIT_SHIFT = 6  # the first bound is 64 microseconds, each later one twice the one before
CLASSES = 19  # the last bound is 16.8 seconds
BOUNDS_S = tuple((1 << (UNIT_SHIFT + index)) / 1_000_000 for index in range(CLASSES))


class LatencyHistogram:
    """The latencies of one kind of operation.

    `counts` has a count for each of BOUNDS_S, of the latencies below it and not below the bound before, and one for all
    others.
    """

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (CLASSES + 1)
        self.total_s = 0.0

    def count(self, seconds: float) -> None:
        """Count one latency."""
        units = int(seconds * 1_000_000) >> UNIT_SHIFT
        self.counts[min(units.bit_length(), CLASSES) if units > 0 else 0] += 1
        self.total_s += max(seconds, 0.0)
