"""Samples of counters over time: the source of rates and charts.

All objects are sampled at the same ticks, so times are stored once and an object has rings of bare numbers. Most
counters never change: a ring is made at the first change and dropped when its object has been unchanged for longer
than the ring covers. All rings together take at most LIMIT_BYTES; beyond that there are rates without history.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .rates import MOST_SAMPLES, NO_RANGES, Counted, Point, Range, Ranges, Rate, range_fields, rate, steps

Key = tuple[str, ...]
Sample = tuple[str, Key, object, tuple[int, ...]]
"""The kind and the key of an object, the object, and its counters."""
Levels = Sequence[tuple[int, int]]
"""Age and interval of samples in seconds, the shortest interval first."""

RETENTION: Mapping[str, Levels] = {  # RabbitMQ's
    "global": ((605, 5), (3660, 60), (29_400, 600), (86_400, 1800)),
    "basic": ((605, 5), (3600, 60)),
    "detailed": ((605, 5),),
}
POLICIES = {  # by kind; the others have the policy basic
    **dict.fromkeys(("overview", "node", "vhost"), "global"),
    **dict.fromkeys(("channel_exchange", "channel_queue", "exchange_queue"), "detailed"),
}
AGES_S = {"minute": 60, "hour": 3600, "day": 86_400}  # by the names in configuration keys
AGE_DIGITS = 10
SAMPLES_LIMIT = 100_000  # of one level: a number of 8 bytes for each counter of each object
LIMIT_BYTES = 64 << 20
NUMBER_BYTES = 8
MANY = 2 * MOST_SAMPLES  # samples of one level; if there are more, only the samples of the range are read
LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")
BYTE_COUNTERS = ("recv_oct", "send_oct")
GAUGES = ("mem_used", "fd_used", "sockets_used", "proc_used", "disk_free")  # of the node


def retention_of(configured: Mapping[str, int]) -> Mapping[str, Levels]:
    """Return RETENTION with configured steps in seconds, by `global.minute` or `basic.600`. Raises ValueError."""
    configured_levels: dict[str, list[tuple[int, int]]] = {}
    for key, step_s in configured.items():
        policy, _, age = key.partition(".")
        age_s = AGES_S.get(age) or (int(age) if age.isdecimal() and len(age) <= AGE_DIGITS else 0)
        if policy not in RETENTION or not 0 < step_s <= age_s <= step_s * SAMPLES_LIMIT:
            raise ValueError(
                f"management.sample_retention_policies.{key} = {step_s}: name it global, basic or detailed, then "
                "minute, hour, day or a number of seconds, and give at most that many seconds, for at most "
                f"{SAMPLES_LIMIT} samples"
            )
        configured_levels.setdefault(policy, []).append((age_s, step_s))
    return {policy: sorted(configured_levels.get(policy, levels)) for policy, levels in RETENTION.items()}


class Timeline:
    """The times of one level: `count` samples so far, of which the last `size` are stored."""

    __slots__ = ("size", "step_ms", "age_s", "count", "due", "_times")

    def __init__(self, age_s: int, step_s: int) -> None:
        self.size = age_s // step_s + 1
        self.step_ms = step_s * 1000
        self.age_s = age_s
        self.count = 0
        self.due = False  # true if the current tick is stored at this level
        self._times = array("q", [0]) * self.size

    def tick(self, now_ms: int, interval_ms: int) -> None:
        last_ms = self._times[(self.count - 1) % self.size]
        self.due = not self.count or now_ms - last_ms >= self.step_ms - interval_ms // 2
        if self.due:
            self._times[self.count % self.size] = now_ms
            self.count += 1

    @property
    def slot(self) -> int:
        """The index of the latest sample in a ring."""
        return (self.count - 1) % self.size

    def slots(self, since: int, asked: Range, now_ms: int) -> list[int]:
        """Return the slots from sample number `since` on, oldest first; of very many the last of each step."""
        numbers: Sequence[int] = range(max(since, self.count - self.size), self.count)
        if len(numbers) > MANY:
            ends_ms = [at_ms + asked.step_s * 1000 for at_ms in reversed(steps(now_ms, asked))]
            before = [bisect_left(numbers, end_ms, key=self._time) for end_ms in ends_ms]
            numbers = [numbers[count - 1] for count in dict.fromkeys(before) if count]
        return [number % self.size for number in numbers]

    def _time(self, number: int) -> int:
        return self._times[number % self.size]

    def points(self, slots: list[int], ring: array[int] | None, constant: int) -> list[Point]:
        """Return the points in these slots. Without a ring the value was `constant`."""
        return [(self._times[slot], ring[slot] if ring is not None else constant) for slot in slots]


@dataclass(slots=True, eq=False)
class Series:
    """The samples of one object. `since` is the number of its first sample in each level."""

    of: object
    last: tuple[int, ...]
    since: list[int]
    moved_ms: int
    tick: int = 0
    previous: tuple[int, ...] | None = None
    rings: dict[int, list[array[int]]] = field(default_factory=dict)  # by index of the counter


class Kind:
    """The objects of one kind and the names of their counters."""

    __slots__ = ("places", "timelines", "records", "ring_bytes")

    def __init__(self, names: Sequence[str], levels: Levels) -> None:
        self.places = {name: place for place, name in enumerate(names)}
        self.timelines = [Timeline(age_s, step_s) for age_s, step_s in levels]
        self.records: dict[Key, Series] = {}
        self.ring_bytes = sum(timeline.size for timeline in self.timelines) * NUMBER_BYTES


class Samples:
    """The samples of all objects. `kinds` has the names of the counters of each kind; mode `none` stores nothing."""

    def __init__(
        self,
        kinds: Mapping[str, Sequence[str]],
        interval_ms: int = 5000,
        retention: Mapping[str, Levels] = RETENTION,
        mode: str = "basic",
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self.interval_ms = interval_ms
        self.retention = retention
        self.mode = mode
        self.used_bytes = 0
        self._limit_bytes = limit_bytes
        self._kinds = {kind: Kind(names, retention[POLICIES.get(kind, "basic")]) for kind, names in kinds.items()}
        self._tick = 0
        self._now_ms = 0
        self._before_ms = 0

    def retention_ages(self) -> dict[str, list[int]]:
        """Return the retention as `/overview` shows it: ages in seconds, in whole hours or minutes."""
        return {name: [round_age(age_s) for age_s, _ in levels] for name, levels in self.retention.items()}

    # Sampling

    def begin(self, now_ms: int) -> None:
        """Begin a tick: `add_sample` is then called for each object, and `end` once."""
        self._tick += 1
        self._before_ms, self._now_ms = self._now_ms, now_ms
        for kind in self._kinds.values():
            for timeline in kind.timelines:
                timeline.tick(now_ms, self.interval_ms)

    def add_sample(self, kind: str, key: Key, of: object, values: tuple[int, ...]) -> None:
        """Store the counters of an object in the order of their names. Another object with the same key starts anew."""
        group = self._kinds[kind]
        record = group.records.get(key)
        if record is None or record.of is not of:
            if record is not None:
                self._forget(group, record)
            since = [timeline.count - timeline.due for timeline in group.timelines]
            record = group.records[key] = Series(of, values, since, self._now_ms)
        else:
            record.previous = record.last
            if values != record.last:
                self._move(group, record, values)
            elif record.rings and self._now_ms - record.moved_ms > group.timelines[-1].age_s * 1000:
                self._forget(group, record)
        record.tick = self._tick
        for place, rings in record.rings.items():
            for ring, timeline in zip(rings, group.timelines, strict=True):
                if timeline.due:
                    ring[timeline.slot] = values[place]

    def _move(self, group: Kind, record: Series, values: tuple[int, ...]) -> None:
        for place, (before, value) in enumerate(zip(record.last, values, strict=True)):
            if value != before and place not in record.rings:
                if self.used_bytes + group.ring_bytes > self._limit_bytes:
                    record.since = [timeline.count - timeline.due for timeline in group.timelines]
                    break
                self.used_bytes += group.ring_bytes
                record.rings[place] = [array("q", [before]) * timeline.size for timeline in group.timelines]
        record.last = values
        record.moved_ms = self._now_ms

    def end(self) -> Iterator[None]:
        """End the tick: drop objects not sampled in it, and yield after each object."""
        for group in self._kinds.values():
            for key in list(group.records):
                record = group.records.get(key)  # None after a reset
                if record is not None and record.tick != self._tick:
                    self._forget(group, group.records.pop(key))
                yield

    def _forget(self, group: Kind, record: Series) -> None:
        self.used_bytes -= len(record.rings) * group.ring_bytes
        record.rings = {}

    def reset(self) -> None:
        """Drop all samples."""
        for group in self._kinds.values():
            for record in group.records.values():
                self._forget(group, record)
            group.records.clear()

    # Queries

    def details(
        self, kind: str, key: Key, counters: Mapping[str, int], asked: Ranges = NO_RANGES, now_ms: int | None = None
    ) -> Counted:
        """Return the counters with their `_details`. With `now_ms`, rates are 0 if the last tick is long ago."""
        fields: Counted = {}
        group = self._kinds[kind]
        record = group.records.get(key)
        slots: dict[Range, list[int]] = {}  # the same for all counters
        for name, value in counters.items():
            fields[name] = value
            if self.mode == "none":
                continue
            place = group.places.get(name)
            details: Rate = {"rate": self._rate(record, place, now_ms)}
            range_ = asked.get(family(name)) if asked else None
            if range_ is not None:
                details |= range_fields(self._points(group, record, place, range_, slots), range_)
            fields[f"{name}_details"] = details
        return fields

    def message_stats(
        self, kind: str, key: Key, counters: Mapping[str, int], asked: Ranges = NO_RANGES, now_ms: int | None = None
    ) -> dict[str, object]:
        """Return `{"message_stats": ...}`, or {} for an object without messages and in mode `none`."""
        if self.mode == "none" or not any(counters.values()):
            return {}
        return {"message_stats": self.details(kind, key, counters, asked, now_ms)}

    def last_change_ms(self, kind: str, key: Key) -> int | None:
        """Return the time of the last change or the first sample; None if the object was not sampled yet."""
        record = self._kinds[kind].records.get(key)
        return record.moved_ms if record is not None else None

    def _rate(self, record: Series | None, place: int | None, now_ms: int | None) -> float:
        """Return the rate between the last two ticks; 0 if the object was not sampled for two intervals."""
        if record is None or place is None or record.previous is None or record.tick < self._tick - 1:
            return 0.0
        if now_ms is not None and now_ms - self._now_ms > 2 * self.interval_ms:
            return 0.0
        return rate((self._before_ms, record.previous[place]), (self._now_ms, record.last[place]))

    def _points(
        self, group: Kind, record: Series | None, place: int | None, asked: Range, slots: dict[Range, list[int]]
    ) -> list[Point]:
        """Return the points of the finest level that covers the range, then the latest values."""
        if record is None or place is None:
            return []
        index = 0
        while index < len(group.timelines) - 1 and group.timelines[index].age_s < asked.age_s:
            index += 1
        timeline, rings = group.timelines[index], record.rings.get(place)
        ring = rings[index] if rings is not None else None
        if asked not in slots:
            slots[asked] = timeline.slots(record.since[index], asked, self._now_ms)
        points = timeline.points(slots[asked], ring, record.last[place])
        if not points or points[-1][0] != self._now_ms:
            points.append((self._now_ms, record.last[place]))
        return points


def round_age(age_s: int) -> int:
    """Round an age down to whole hours or minutes; the rest keeps a chart of that age complete."""
    for unit_s in (3600, 60):
        if age_s >= unit_s:
            return age_s // unit_s * unit_s
    return age_s


def family(name: str) -> str:
    """Return the family of ranges that a counter belongs to."""
    if name in LENGTHS:
        return "lengths"
    if name in BYTE_COUNTERS:
        return "data_rates"
    return "node_stats" if name in GAUGES else "msg_rates"
