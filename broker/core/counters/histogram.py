"""A histogram of latencies by powers of two, in which a rare delay shows beside a million short ones."""

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

    def status(self) -> dict[str, object]:
        """Return the number of latencies, their mean and their 99th percentile in milliseconds; 0 if there are none.

        The percentile is the bound of its class, so it is at most twice the true one.
        """
        number = sum(self.counts)
        rest, place = number // 100, CLASSES
        while place > 0 and rest >= self.counts[place]:
            rest -= self.counts[place]
            place -= 1
        p99_s = BOUNDS_S[min(place, CLASSES - 1)] if number else 0.0
        mean_s = self.total_s / number if number else 0.0
        return {"count": number, "mean_ms": round(mean_s * 1000, 2), "p99_ms": round(p99_s * 1000, 2)}
