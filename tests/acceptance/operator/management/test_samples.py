from collections.abc import Iterable
from typing import Any

import pytest

from warren.plugins.management.stats import history
from warren.plugins.management.stats.history import LIMIT_BYTES, RETENTION, Samples, Timeline, retention_of
from warren.plugins.management.stats.rates import Point, Range

KINDS = {"queue": ("publish", "messages"), "vhost": ("publish",)}
MINUTE = {"msg_rates": Range(60, 5), "lengths": Range(60, 5)}
START_MS = 1_000_000_000


class Watched:
    """Samples of one queue, and of further queues if a test adds them."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES, mode: str = "basic") -> None:
        self.samples = Samples(KINDS, limit_bytes=limit_bytes, mode=mode)
        self.now_ms = START_MS
        self.queue = object()

    def ticks(self, values: Iterable[int]) -> None:
        for value in values:
            self.now_ms += 5000
            self.samples.begin(self.now_ms)
            self.samples.add_sample("queue", ("/", "q"), self.queue, (value, 0))
            list(self.samples.end())

    def publish(self, asked: dict[str, Range] | None = None, now_ms: int = 0) -> dict[str, object]:
        fields = self.samples.details("queue", ("/", "q"), {"publish": 7}, asked or {}, now_ms or self.now_ms)
        assert fields["publish"] == 7, "what is listed is what there is now"
        details = fields["publish_details"]
        assert isinstance(details, dict)
        return details

    def values(self, age_s: int = 60, step_s: int = 5) -> list[int]:
        samples = self.publish({"msg_rates": Range(age_s, step_s)})["samples"]
        assert isinstance(samples, list)
        return [sample["sample"] for sample in samples]


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.mark.parametrize(
    ("ticks", "rate"), [([100], 0.0), ([0, 50, 150], 20.0), ([0, 50, 50], 0.0), ([50, 0], -10.0)], ids=str
)
def test_a_rate_is_that_of_the_last_two_ticks(watched: Watched, ticks: list[int], rate: float) -> None:
    watched.ticks(ticks)
    assert watched.publish() == {"rate": rate}
    assert watched.values() == ticks[::-1]


def test_a_message_after_the_last_tick_has_no_age(watched: Watched) -> None:
    assert watched.publish(MINUTE) == {"rate": 0.0, "samples": [], "avg_rate": 0.0, "avg": 0.0}


def test_rates_are_zero_without_further_ticks(watched: Watched) -> None:
    watched.ticks([0, 50])
    assert watched.publish(now_ms=watched.now_ms + 5000) == {"rate": 10.0}
    assert watched.publish(now_ms=watched.now_ms + 10_001) == {"rate": 0.0}


@pytest.mark.parametrize("step_s", [1, 7, 60])
def test_only_the_samples_of_a_range_are_read(watched: Watched, monkeypatch: pytest.MonkeyPatch, step_s: int) -> None:
    watched.samples = Samples(KINDS, 5000, dict.fromkeys(RETENTION, ((4000, 1),)))
    looks: list[int] = []
    points = Timeline.points

    def counted(timeline: Timeline, slots: list[int], *of: Any) -> list[Point]:
        looks.append(len(slots))
        return points(timeline, slots, *of)

    monkeypatch.setattr(Timeline, "points", counted)
    watched.ticks(range(5000))
    shown = watched.values(500 * step_s, step_s)
    monkeypatch.setattr(history, "MANY", 5000)
    assert shown == watched.values(500 * step_s, step_s) and shown[0] == 4999
    assert looks[0] <= 501 and looks[1] == 4001


def test_history_reaches_back_to_before_the_counter_moved(watched: Watched) -> None:
    watched.ticks([3, 3, 3, 8, 9])
    assert watched.values() == [9, 8, 3, 3, 3]


def test_a_long_range_has_the_steps_of_a_coarser_level(watched: Watched) -> None:
    watched.ticks(range(1440))  # two hours
    assert len(watched.values(600, 5)) == 121
    hour = watched.values(3600, 60)
    assert 59 <= len(hour) <= 61 and hour[0] == 1439
    assert {one - other for one, other in zip(hour[1:], hour[2:], strict=False)} == {12}


def test_a_range_asks_only_for_its_own_family(watched: Watched) -> None:
    watched.ticks([0, 5])
    assert "samples" not in watched.publish({"lengths": Range(60, 5)})


def test_another_queue_of_the_same_name_starts_anew(watched: Watched) -> None:
    watched.ticks([0, 500, 900])
    watched.queue = object()
    watched.ticks([0])
    assert watched.publish() == {"rate": 0.0}
    assert watched.values() == [0]
    assert not watched.samples.used_bytes


def test_samples_of_deleted_objects_are_dropped(watched: Watched) -> None:
    watched.ticks([0, 500])
    assert watched.samples.used_bytes
    watched.samples.begin(watched.now_ms + 5000)
    list(watched.samples.end())
    assert not watched.samples.used_bytes
    assert watched.publish(MINUTE)["samples"] == []


def test_counters_that_never_move_take_no_rings(watched: Watched) -> None:
    watched.ticks([7] * 100)
    assert not watched.samples.used_bytes
    assert watched.values() == [7] * 13


def test_rings_of_quiet_objects_are_dropped(watched: Watched) -> None:
    watched.ticks([1, 2])
    assert watched.samples.used_bytes
    watched.ticks([2] * (3600 // 5 + 2))
    assert not watched.samples.used_bytes
    assert watched.values() == [2] * 13


def test_ten_thousand_busy_queues_stay_within_the_limit() -> None:
    samples = Samples(KINDS, limit_bytes=1 << 20)
    queues = [object() for _ in range(10_000)]
    for tick in range(3):
        samples.begin(START_MS + tick * 5000)
        for number, queue in enumerate(queues):
            samples.add_sample("queue", (str(number),), queue, (tick * 5, tick))
        list(samples.end())
    assert 0 < samples.used_bytes <= 1 << 20
    for number in (0, 9999):
        fields = samples.details("queue", (str(number),), {"publish": 10}, MINUTE, START_MS + 10_000)
        details = fields["publish_details"]
        assert isinstance(details, dict) and details["rate"] == 1.0, "there are rates without history"
        assert details["samples"][0]["sample"] == 10
        assert len(details["samples"]) == (3 if number == 0 else 1)


def test_without_rates_there_are_only_counters() -> None:
    watched = Watched(mode="none")
    counters = {"publish": 7}
    assert watched.samples.details("queue", ("/", "q"), counters, MINUTE) == counters
    assert watched.samples.message_stats("queue", ("/", "q"), counters) == {}


def test_an_object_that_never_saw_a_message_has_no_statistics(watched: Watched) -> None:
    watched.ticks([0, 0])
    assert watched.samples.message_stats("queue", ("/", "q"), {"publish": 0}) == {}
    assert watched.samples.message_stats("queue", ("/", "q"), {"publish": 1}) == {
        "message_stats": {"publish": 1, "publish_details": {"rate": 0.0}}
    }


def test_after_a_reset_nothing_is_known(watched: Watched) -> None:
    watched.ticks([0, 500])
    watched.samples.reset()
    assert not watched.samples.used_bytes
    assert watched.publish() == {"rate": 0.0}


def test_the_policies_are_shown_with_rounded_ages() -> None:
    assert Samples(KINDS).retention_ages() == {
        "global": [600, 3600, 28800, 86400],
        "basic": [600, 3600],
        "detailed": [600],
    }
    assert RETENTION["basic"] == ((605, 5), (3600, 60))


def test_configured_retention_policies_replace_the_defaults() -> None:
    found = retention_of({"basic.hour": 60, "basic.minute": 1, "detailed.10": 5})
    assert found == {"global": sorted(RETENTION["global"]), "basic": [(60, 1), (3600, 60)], "detailed": [(10, 5)]}


@pytest.mark.parametrize("key", ["basic.week", "some.minute", "basic", "basic.0"])
def test_an_invalid_retention_policy_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=f"^management.sample_retention_policies.{key} = 5: name it global, basic"):
        retention_of({key: 5})


def test_a_step_longer_than_the_age_is_refused() -> None:
    with pytest.raises(ValueError, match="at most that many seconds"):
        retention_of({"global.minute": 61})
    for too_many in ("global.100001", f"global.{10**200}", "global.9999999999"):
        with pytest.raises(ValueError, match="for at most 100000 samples"):
            retention_of({too_many: 1})
