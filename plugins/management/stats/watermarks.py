"""The age of messages that have no time of entry: what the sampler saw at its ticks.

Ready messages and deliveries are numbered in order: by their positions in a queue, and by delivery tags. A mark is the
next number at a tick, so whatever has a lower number existed then. Marks close to each other are merged as they age:
an age is exact to an interval of the sampler, or to a sixteenth of the age.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from warren.broker.plugin import Queue

from .history import Key

MARKS = 128  # of one numbering before they are merged; after that about 16 for each doubling of the age
SHARE = 16  # of the age, to which it is exact

Numbers = Iterable[tuple[int, int]]
"""Numberings of one object, each with its name (a priority level) and the next number."""


@dataclass(slots=True)
class Marks:
    """The marks of one numbering: `numbers` ascending, with the times at which they were next."""

    numbers: list[int] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)

    def add(self, number: int, now_ms: int) -> None:
        if self.numbers and self.numbers[-1] == number:
            return
        self.numbers.append(number)
        self.times_ms.append(now_ms)
        if len(self.numbers) > MARKS:
            self._merge(now_ms)

    def _merge(self, now_ms: int) -> None:
        """Drop marks whose neighbours are close to each other, compared with their age."""
        numbers, times_ms = self.numbers[:1], self.times_ms[:1]
        for number, at_ms, next_ms in zip(self.numbers[1:-1], self.times_ms[1:-1], self.times_ms[2:], strict=True):
            if (next_ms - times_ms[-1]) * SHARE > now_ms - at_ms:
                numbers.append(number)
                times_ms.append(at_ms)
        self.numbers = [*numbers, self.numbers[-1]]
        self.times_ms = [*times_ms, self.times_ms[-1]]

    def seen_ms(self, number: int) -> int | None:
        """Return the time of the first tick at which this number existed; None if it does not exist yet."""
        index = bisect_right(self.numbers, number)
        return self.times_ms[index] if index < len(self.times_ms) else None


@dataclass(slots=True)
class Watched:
    """The marks of one object, by the names of its numberings."""

    of: object
    marks: dict[int, Marks] = field(default_factory=dict)
    tick: int = 0


class Watermarks:
    """The marks of all objects that have messages. Another object with the same key starts anew."""

    def __init__(self) -> None:
        self._watched: dict[tuple[str, Key], Watched] = {}
        self._tick = 0
        self._now_ms = 0

    def begin(self, now_ms: int) -> None:
        """Begin a tick: `add` is then run for each object with messages, and `end` once."""
        self._tick += 1
        self._now_ms = now_ms

    def add(self, kind: str, key: Key, of: object, numbers: Numbers) -> Iterator[None]:
        """Mark the next numbers of an object, and yield after each numbering."""
        watched = self._watched.get((kind, key))
        if watched is None or watched.of is not of:
            yield from self._drop(kind, key)
            watched = self._watched[kind, key] = Watched(of)
        watched.tick = self._tick
        for name, number in numbers:
            marks = watched.marks.get(name)
            if marks is None:
                marks = watched.marks[name] = Marks()
            marks.add(number, self._now_ms)
            yield

    def end(self) -> Iterator[None]:
        """End the tick: drop objects without messages, and yield after each object and each numbering dropped."""
        for kind, key in list(self._watched):
            if self._watched[kind, key].tick != self._tick:
                yield from self._drop(kind, key)
            yield

    def _drop(self, kind: str, key: Key) -> Iterator[None]:
        """Forget an object, and yield after each of its numberings: freeing all marks in one step would take long."""
        watched = self._watched.pop((kind, key), None)
        while watched is not None and watched.marks:
            watched.marks.popitem()
            yield

    def age_s(self, kind: str, key: Key, of: object, name: int, number: int, now_ms: int) -> int | None:
        """Return for how many seconds at least this number has existed; None if the object was never seen."""
        watched = self._watched.get((kind, key))
        if watched is None or watched.of is not of:
            return None
        marks = watched.marks.get(name)
        seen_ms = marks.seen_ms(number) if marks is not None else None
        return (now_ms - seen_ms) // 1000 if seen_ms is not None else 0


def tails(queue: Queue) -> Numbers:
    """Return the position of the next message of each priority level of a queue."""
    return [(fifo.level, fifo.tail) for fifo in queue.ready_messages.all]


def oldest_age_s(watermarks: Watermarks, key: Key, queue: Queue, now_ms: int) -> int | None:
    """Return the age of the oldest ready message; None if there is none or the sampler has not seen the queue."""
    ages_s = []
    for fifo in queue.ready_messages.all:
        if len(fifo):
            ages_s.append(watermarks.age_s("queue", key, queue, fifo.level, fifo.first_position, now_ms))
    return max((age_s for age_s in ages_s if age_s is not None), default=None)
