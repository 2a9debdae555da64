from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.in_process import InProcessPeer
from warren.plugins.management.stats import counters, history
from warren.plugins.management.stats.history import LENGTHS, LIMIT_BYTES, RETENTION, Samples, Timeline, retention_of
from warren.plugins.management.stats.rates import BadRange, Point, Range, range_fields, ranges, rate, sampled
from warren.plugins.management.stats.sampler import Sampler
from warren.plugins.management.stats.watermarks import MARKS, SHARE, Marks, Watermarks

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
    ages = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}
    assert Samples(KINDS).retention_ages() == ages
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


ALIGNED = [(1_030_000, 1033), (1_025_000, 1028), (1_020_000, 1023), (1_015_000, 1018), (1_010_000, 1013)]


def test_a_rate_is_the_change_between_two_points_per_second() -> None:
    assert rate((1000, 10), (6000, 60)) == 10.0
    assert rate((1000, 10), (6000, 0)) == -2.0
    assert rate((1000, 10), (1000, 60)) == 0.0


def test_a_range_is_asked_for_with_both_of_its_numbers() -> None:
    found = ranges({"lengths_age": "500", "lengths_incr": "1", "msg_rates_age": "60", "data_rates_age": "x"})
    assert list(found) == ["lengths"]
    assert (found["lengths"].age_s, found["lengths"].step_s) == (500, 1)


@pytest.mark.parametrize(("age", "step"), [("0", "5"), ("60", "0"), ("-60", "5"), ("600", "1")])
def test_a_range_that_cannot_be_is_refused(age: str, step: str) -> None:
    with pytest.raises(BadRange, match=f"^Invalid range parameters: age {age}, incr {step}$"):
        ranges({"node_stats_age": age, "node_stats_incr": step})


@pytest.mark.parametrize(("points", "range_", "samples"), [
    ([(at_ms, at_ms // 1000) for at_ms in range(1_003_000, 1_034_000, 5000)], Range(20, 5), ALIGNED),
    ([(12_000, 1), (17_000, 2)], Range(60, 5), [(15_000, 2), (10_000, 1)]),  # none is before the first point
    ([], Range(60, 5), []),
    ([(10_000, 1), (30_000, 2)], Range(20, 10), [(30_000, 2), (20_000, 1), (10_000, 1)]),
])  # fmt: skip
def test_samples_are_aligned_and_newest_first(points: list[Point], range_: Range, samples: list[Point]) -> None:
    assert sampled(points, range_) == samples


def test_averages_are_of_the_samples() -> None:
    fields = range_fields([(10_000, 0), (15_000, 10), (20_000, 50)], Range(10, 5))
    assert fields["avg_rate"] == 5.0
    assert fields["avg"] == 20.0
    samples = [(one["sample"], one["timestamp"]) for one in fields["samples"]]
    assert samples == [(50, 20_000), (10, 15_000), (0, 10_000)]


class Looked:
    """A broker that is sampled every five seconds."""

    def __init__(self, mode: str = "basic") -> None:
        self.broker = InProcessPeer()
        self.samples = Samples(counters.KINDS, mode=mode)
        connections = self.broker.server.connections.values
        self.sampler = Sampler(self.broker.node, self.samples, connections, lambda: (1, 2, 3, 4, 5))

    def tick(self) -> None:
        self.broker.wait(5000)
        for _ in self.sampler.sample_all(self.broker.clock.now_ms()):
            pass

    def rate(self, kind: str, key: tuple[str, ...], name: str) -> object:
        details = self.samples.details(kind, key, {name: 0})[f"{name}_details"]
        assert isinstance(details, dict)
        return details["rate"]


def test_every_kind_of_object_is_sampled() -> None:
    looked = Looked()
    client = looked.broker.connect()
    channel = client.channel()
    channel.declare("q")
    looked.tick()
    for _ in range(50):
        channel.publish("", "q", b"body")
    looked.tick()
    (connection,) = looked.broker.server.connections.values()
    channel_key = counters.channel_key(connection, connection.channels[1])
    assert looked.rate("queue", ("/", "q"), "publish") == 10.0
    assert looked.rate("queue", ("/", "q"), "messages_ready") == 10.0
    assert looked.rate("exchange", ("/", ""), "publish_in") == 10.0
    assert looked.rate("exchange", ("/", ""), "publish_out") == 10.0
    assert looked.rate("vhost", ("/",), "publish") == 10.0
    assert looked.rate("vhost", ("/",), "messages") == 10.0
    assert looked.rate("channel", channel_key, "publish") == 10.0
    assert looked.rate("overview", counters.OVERVIEW, "publish") == 10.0
    assert looked.rate("overview", counters.OVERVIEW, "messages") == 10.0
    received = looked.rate("connection", counters.connection_key(connection), "recv_oct")
    assert isinstance(received, float) and received > 500
    assert looked.rate("vhost", ("/",), "recv_oct") == received
    assert looked.rate("node", counters.OVERVIEW, "mem_used") == 0.0
    looked.tick()
    assert looked.rate("queue", ("/", "q"), "publish") == 0.0


def test_byte_counts_of_a_virtual_host_outlast_its_connections() -> None:
    looked = Looked()
    client = looked.broker.connect()
    client.channel().declare("q")
    looked.tick()
    (connection,) = looked.broker.server.connections.values()
    looked.broker.close_connection(client, "enough")
    looked.tick()
    assert looked.broker.node.vhosts["/"].statistics.received_bytes == connection.received_bytes > 100
    assert looked.rate("vhost", ("/",), "recv_oct") == 0.0


def test_churn_is_part_of_the_overview() -> None:
    looked = Looked()
    looked.tick()
    looked.broker.connect().channel().declare("q")
    looked.tick()
    for name in ("connection_created", "channel_created", "queue_declared", "queue_created"):
        assert looked.rate("overview", counters.OVERVIEW, name) == 0.2


def test_nothing_is_sampled_without_rates() -> None:
    looked = Looked("none")
    looked.tick()
    assert list(looked.sampler.sample_all(looked.broker.clock.now_ms())) == []


def test_names_and_values_are_of_one_length() -> None:
    looked = Looked()
    client = looked.broker.connect()
    client.channel().declare("q")
    node = looked.broker.node
    (connection,) = looked.broker.server.connections.values()
    queue, exchange = node.vhosts["/"].queues["q"], node.vhosts["/"].exchanges[""]
    assert counters.queue_counters(queue).keys() | set(LENGTHS) == set(counters.KINDS["queue"])
    assert tuple(counters.exchange_counters(exchange)) == counters.KINDS["exchange"]
    assert tuple(counters.channel_counters(connection.channels[1])) == counters.KINDS["channel"]
    assert len(node.churn.values()) == len(counters.CHURN)
    assert counters.named(LENGTHS, counters.lengths(queue)) == dict.fromkeys(LENGTHS, 0)
