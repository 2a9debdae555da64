"""Ages from the marks of the sampler."""

from warren.plugins.management.stats.watermarks import MARKS, SHARE, Marks, Watermarks

INTERVAL_MS = 5_000


def test_marks_merge_and_ages_stay_exact_to_a_share() -> None:
    marks = Marks()
    ticks = 20_000  # more than a day
    for tick in range(ticks):
        marks.add(tick + 1, tick * INTERVAL_MS)
    now_ms = (ticks - 1) * INTERVAL_MS
    assert len(marks.numbers) <= 3 * MARKS
    for number in range(0, ticks, 7):
        seen_ms = marks.seen_ms(number)
        assert seen_ms is not None
        late_ms = seen_ms - number * INTERVAL_MS
        assert 0 <= late_ms <= max(INTERVAL_MS, 2 * (now_ms - number * INTERVAL_MS) / SHARE)


def test_a_number_that_does_not_grow_adds_no_mark() -> None:
    marks = Marks()
    for tick in range(1000):
        marks.add(7, tick)
    assert (marks.numbers, marks.times_ms) == ([7], [0])


def test_an_object_without_messages_or_with_the_key_of_another_starts_anew() -> None:
    watermarks, one, other = Watermarks(), object(), object()
    for now_ms in (1_000, 2_000):
        watermarks.begin(now_ms)
        list(watermarks.add("queue", ("k",), one, [(0, 5)]))
        list(watermarks.end())
    assert watermarks.age_s("queue", ("k",), one, 0, 4, 9_000) == 8
    assert watermarks.age_s("queue", ("k",), one, 0, 5, 9_000) == 0
    assert watermarks.age_s("queue", ("k",), other, 0, 4, 9_000) is None
    watermarks.begin(3_000)
    list(watermarks.end())
    assert watermarks.age_s("queue", ("k",), one, 0, 4, 9_000) is None
