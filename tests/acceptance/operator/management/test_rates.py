import pytest

from warren.plugins.management.stats.rates import BadRange, Point, Range, range_fields, ranges, rate, sampled

ALIGNED = [(1_030_000, 1033), (1_025_000, 1028), (1_020_000, 1023), (1_015_000, 1018), (1_010_000, 1013)]


def test_a_rate_is_the_change_between_two_points_per_second() -> None:
    assert rate((1000, 10), (6000, 60)) == 10.0
    assert rate((1000, 10), (6000, 0)) == -2.0
    assert rate((1000, 10), (1000, 60)) == 0.0


def test_a_range_is_asked_for_with_both_of_its_numbers() -> None:
    found = ranges({"lengths_age": "60", "lengths_incr": "5", "msg_rates_age": "60", "data_rates_age": "x"})
    assert list(found) == ["lengths"]
    assert (found["lengths"].age_s, found["lengths"].step_s) == (60, 5)


@pytest.mark.parametrize(("age", "step"), [("0", "5"), ("60", "0"), ("-60", "5"), ("600", "1")])
def test_a_range_that_cannot_be_is_refused(age: str, step: str) -> None:
    with pytest.raises(BadRange, match=f"^Invalid range parameters: age {age}, incr {step}$"):
        ranges({"node_stats_age": age, "node_stats_incr": step})


def test_five_hundred_samples_are_not_too_many() -> None:
    assert ranges({"lengths_age": "500", "lengths_incr": "1"})


@pytest.mark.parametrize(
    ("points", "range_", "samples"),
    [
        ([(at_ms, at_ms // 1000) for at_ms in range(1_003_000, 1_034_000, 5000)], Range(20, 5), ALIGNED),
        ([(12_000, 1), (17_000, 2)], Range(60, 5), [(15_000, 2), (10_000, 1)]),  # none is before the first point
        ([], Range(60, 5), []),
        ([(10_000, 1), (30_000, 2)], Range(20, 10), [(30_000, 2), (20_000, 1), (10_000, 1)]),
    ],
)
def test_samples_are_aligned_and_the_newest_comes_first(
    points: list[Point], range_: Range, samples: list[Point]
) -> None:
    assert sampled(points, range_) == samples


def test_averages_are_of_the_samples() -> None:
    fields = range_fields([(10_000, 0), (15_000, 10), (20_000, 50)], Range(10, 5))
    assert fields["avg_rate"] == 5.0
    assert fields["avg"] == 20.0
    assert fields["samples"] == [
        {"sample": 50, "timestamp": 20_000},
        {"sample": 10, "timestamp": 15_000},
        {"sample": 0, "timestamp": 10_000},
    ]


def test_without_samples_there_are_no_averages() -> None:
    assert range_fields([], Range(10, 5)) == {"samples": [], "avg_rate": 0.0, "avg": 0.0}
