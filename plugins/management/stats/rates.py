"""The fields of `X_details`, computed from points: rates, averages, and samples for charts.

A point is a time in milliseconds and the counter's value at that time.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

Point = tuple[int, int]

FAMILIES = ("lengths", "msg_rates", "data_rates", "node_stats")
MOST_SAMPLES = 500


class RateSample(TypedDict):
    sample: int
    timestamp: int


class Rate(TypedDict):
    """The change of a counter per second; with its samples, newest first, if a range is asked for."""

    rate: float
    samples: NotRequired[list[RateSample]]
    avg_rate: NotRequired[float]
    avg: NotRequired[float]


Counted = dict[str, int | Rate]
"""Counters by name, each with its rate as `NAME_details`."""


class BadRange(ValueError):
    """An invalid range; the text is for the response, with status 400."""


class Range:
    """The last `age_s` seconds in steps of `step_s`."""

    __slots__ = ("age_s", "step_s")

    def __init__(self, age_s: int, step_s: int) -> None:
        """Raises BadRange."""
        if age_s <= 0 or step_s <= 0 or age_s // step_s > MOST_SAMPLES:
            raise BadRange(f"Invalid range parameters: age {age_s}, incr {step_s}")
        self.age_s = age_s
        self.step_s = step_s


Ranges = Mapping[str, Range]
"""The ranges of a query, by family."""
NO_RANGES: Ranges = {}


def ranges(query: Mapping[str, str]) -> Ranges:
    """Return the ranges of a query; a family needs both parameters. Raises BadRange."""
    by_family: dict[str, Range] = {}
    for family in FAMILIES:
        age_s, step_s = number(query.get(f"{family}_age")), number(query.get(f"{family}_incr"))
        if age_s is not None and step_s is not None:
            by_family[family] = Range(age_s, step_s)
    return by_family


def number(text: str | None) -> int | None:
    """Return the integer, or None."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def rate(before: Point, after: Point) -> float:
    """Return the change per second; 0.0 if no time has passed."""
    span_ms = after[0] - before[0]
    return (after[1] - before[1]) * 1000 / span_ms if span_ms > 0 else 0.0


def steps(now_ms: int, asked: Range) -> range:
    """Return when the steps of a range begin, in milliseconds, newest first: multiples of the step."""
    step_ms = asked.step_s * 1000
    newest_ms = now_ms // step_ms * step_ms
    return range(newest_ms, newest_ms - asked.age_s * 1000 - 1, -step_ms)


def sampled(points: Sequence[Point], asked: Range) -> list[Point]:
    """Return one point for each step, newest first, at the beginning of the step, with the last value within it.

    `points` are oldest first. A step without a point has the value of the one before it; there are no steps before the
    first point.
    """
    if not points:
        return []
    samples: list[Point] = []
    for at_ms in steps(points[-1][0], asked):
        index = bisect_left(points, (at_ms + asked.step_s * 1000,))
        if not index:
            break
        samples.append((at_ms, points[index - 1][1]))
    return samples


def range_fields(points: Sequence[Point], asked: Range) -> Rate:
    """Return the fields that a range adds to a rate."""
    samples = sampled(points, asked)
    return {  # type: ignore[typeddict-item]  # the rate itself is in the other
        "samples": [{"sample": value, "timestamp": at_ms} for at_ms, value in samples],
        "avg_rate": rate(samples[-1], samples[0]) if samples else 0.0,
        "avg": sum(value for _, value in samples) / len(samples) if samples else 0.0,
    }
