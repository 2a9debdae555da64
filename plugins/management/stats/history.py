"""What was counted, looked at every few seconds and kept for some time: the source of rates and charts.

All objects are looked at in the same ticks, so the times are kept once, and an object has rings of bare numbers. Most
counters of most objects never move: a ring is made when one does, and let go of when its object has been quiet for
longer than it reaches back. Rings of all objects together take no more than LIMIT_BYTES; beyond that there are rates,
and no history.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from .rates import NO_RANGES, Point, Range, Ranges, ranged, rate

Key = tuple[str, ...]
Sample = tuple[str, Key, object, tuple[int, ...]]
"""Of an object: its kind and key, itself, and what was counted of it."""
Levels = Sequence[tuple[int, int]]
"""How long numbers are kept and how far apart, both in seconds; the finest comes first."""

RETENTION: Mapping[str, Levels] = {  # RabbitMQ's
    "global": ((605, 5), (3660, 60), (29_400, 600), (86_400, 1800)),
    "basic": ((605, 5), (3600, 60)),
    "detailed": ((605, 5),),
}
POLICIES = {  # by kind; all others are basic
    **dict.fromkeys(("overview", "node", "vhost"), "global"),
    **dict.fromkeys(("channel_exchange", "channel_queue", "exchange_queue"), "detailed"),
}
AGES_S = {"minute": 60, "hour": 3600, "day": 86_400}  # by the names that a configuration may use
LIMIT_BYTES = 64 << 20
NUMBER_BYTES = 8
LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")
OCTETS = ("recv_oct", "send_oct")
GAUGES = ("mem_used", "fd_used", "sockets_used", "proc_used", "disk_free")  # of the node


def retention_of(configured: Mapping[str, int]) -> Mapping[str, Levels]:
    """RETENTION, but for policies that are configured, as seconds between samples by `global.minute` or `basic.600`.

    Raises ValueError.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for key, step_s in configured.items():
        policy, _, age = key.partition(".")
        age_s = AGES_S.get(age) or (int(age) if age.isdecimal() else 0)
        if policy not in RETENTION or not 0 < step_s <= age_s:
            raise ValueError(f"sample_retention_policies.{key} = {step_s} cannot be")
        found.setdefault(policy, []).append((age_s, step_s))
    return {policy: sorted(found.get(policy, levels)) for policy, levels in RETENTION.items()}


class Timeline:
    """The times of one level: `count` were noted so far, and the last `size` of them are known."""

    __slots__ = ("size", "step_ms", "age_s", "count", "due", "_times")

    def __init__(self, age_s: int, step_s: int) -> None:
        self.size = age_s // step_s + 1
        self.step_ms = step_s * 1000
        self.age_s = age_s
        self.count = 0
        self.due = False  # whether the current tick is noted here
        self._times = array("q", [0]) * self.size

    def tick(self, now_ms: int, interval_ms: int) -> None:
        last_ms = self._times[(self.count - 1) % self.size]
        self.due = not self.count or now_ms - last_ms >= self.step_ms - interval_ms // 2
        if self.due:
            self._times[self.count % self.size] = now_ms
            self.count += 1

    @property
    def slot(self) -> int:
        """Where a ring keeps what was noted last."""
        return (self.count - 1) % self.size

    def points(self, ring: array[int] | None, constant: int, since: int) -> list[Point]:
        """The oldest first, from the one numbered `since` on. Without a ring it was `constant` all the time."""
        first = max(since, self.count - self.size)
        slots = [number % self.size for number in range(first, self.count)]
        return [(self._times[slot], ring[slot] if ring is not None else constant) for slot in slots]


class Series:
    """What is kept of one object. `since` is, by level, the number of the first time at which it was there."""

    __slots__ = ("of", "tick", "previous", "last", "rings", "since", "moved_ms")

    def __init__(self, of: object, values: tuple[int, ...], since: list[int], now_ms: int) -> None:
        self.of = of
        self.tick = 0
        self.previous: tuple[int, ...] | None = None
        self.last = values
        self.rings: dict[int, list[array[int]]] = {}  # by place of the counter
        self.since = since
        self.moved_ms = now_ms


class Kind:
    """Objects of one kind, with the names of what is counted of each."""

    __slots__ = ("names", "places", "timelines", "records", "ring_bytes")

    def __init__(self, names: Sequence[str], levels: Levels) -> None:
        self.names = tuple(names)
        self.places = {name: place for place, name in enumerate(names)}
        self.timelines = [Timeline(age_s, step_s) for age_s, step_s in levels]
        self.records: dict[Key, Series] = {}
        self.ring_bytes = sum(timeline.size for timeline in self.timelines) * NUMBER_BYTES


class Samples:
    """`kinds` says what is counted of which kind of object. `mode` is `none` where nothing is to be kept."""

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

    def policies(self) -> dict[str, list[int]]:
        """As `/overview` tells them: ages in seconds, in whole hours or minutes."""
        return {name: [whole(age_s) for age_s, _ in levels] for name, levels in self.retention.items()}

    # Looking

    def begin(self, now_ms: int) -> None:
        """A tick: all objects are looked at, and then it ends."""
        self._tick += 1
        self._before_ms, self._now_ms = self._now_ms, now_ms
        for kind in self._kinds.values():
            for timeline in kind.timelines:
                timeline.tick(now_ms, self.interval_ms)

    def look(self, kind: str, key: Key, of: object, values: tuple[int, ...]) -> None:
        """What is counted of this object, in the order of the names. Another object of the same key starts anew."""
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

    def end(self) -> None:
        """What was not looked at in this tick is gone."""
        for group in self._kinds.values():
            for key in [key for key, record in group.records.items() if record.tick != self._tick]:
                self._forget(group, group.records.pop(key))

    def _forget(self, group: Kind, record: Series) -> None:
        self.used_bytes -= len(record.rings) * group.ring_bytes
        record.rings = {}

    def reset(self) -> None:
        """Forget all that was kept."""
        for group in self._kinds.values():
            for record in group.records.values():
                self._forget(group, record)
            group.records.clear()

    # Answering

    def details(
        self, kind: str, key: Key, counters: Mapping[str, int], asked: Ranges = NO_RANGES, now_ms: int | None = None
    ) -> dict[str, object]:
        """These counters, each with its `_details`; `now_ms` is to find out that nobody has looked for long."""
        fields: dict[str, object] = {}
        group = self._kinds[kind]
        record = group.records.get(key)
        for name, value in counters.items():
            fields[name] = value
            if self.mode == "none":
                continue
            place = group.places.get(name)
            details: dict[str, object] = {"rate": self._rate(record, place, now_ms)}
            range_ = asked.get(family(name))
            if range_ is not None:
                details |= ranged(self._points(group, record, place, range_), range_)
            fields[f"{name}_details"] = details
        return fields

    def message_stats(
        self, kind: str, key: Key, counters: Mapping[str, int], asked: Ranges = NO_RANGES, now_ms: int | None = None
    ) -> dict[str, object]:
        """`{"message_stats": ...}`, or nothing for an object that never saw a message, and where none are kept."""
        if self.mode == "none" or not any(counters.values()):
            return {}
        return {"message_stats": self.details(kind, key, counters, asked, now_ms)}

    def quiet_since_ms(self, kind: str, key: Key) -> int | None:
        """When a number of this object moved last, or it came; None where it was not looked at yet."""
        record = self._kinds[kind].records.get(key)
        return record.moved_ms if record is not None else None

    def _rate(self, record: Series | None, place: int | None, now_ms: int | None) -> float:
        """Between the last two ticks; what has not been looked at for two intervals rests."""
        if record is None or place is None or record.previous is None or record.tick < self._tick - 1:
            return 0.0
        if now_ms is not None and now_ms - self._now_ms > 2 * self.interval_ms:
            return 0.0
        return rate((self._before_ms, record.previous[place]), (self._now_ms, record.last[place]))

    def _points(self, group: Kind, record: Series | None, place: int | None, asked: Range) -> list[Point]:
        """From the finest level that reaches far enough back, and then what was seen last."""
        if record is None or place is None:
            return []
        index = 0
        while index < len(group.timelines) - 1 and group.timelines[index].age_s < asked.age_s:
            index += 1
        rings = record.rings.get(place)
        ring = rings[index] if rings is not None else None
        points = group.timelines[index].points(ring, record.last[place], record.since[index])
        if not points or points[-1][0] != self._now_ms:
            points.append((self._now_ms, record.last[place]))
        return points


def whole(age_s: int) -> int:
    """What is kept beyond the last whole hour, or minute, is there so that a chart of that age is full."""
    for unit_s in (3600, 60):
        if age_s >= unit_s:
            return age_s // unit_s * unit_s
    return age_s


def family(name: str) -> str:
    """Of ranges."""
    if name in LENGTHS:
        return "lengths"
    if name in OCTETS:
        return "data_rates"
    return "node_stats" if name in GAUGES else "msg_rates"
