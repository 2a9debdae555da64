"""Unsettled deliveries of a channel, and the four ways to settle a delivery."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, ItemsView, Iterable, Iterator, Sequence
from enum import Enum
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING

from ..amqp.errors import PreconditionFailed
from ..core.jobs.scheduler import SLICE, Job
from ..core.messages.message import Message
from ..core.queues.queue import Queue

if TYPE_CHECKING:
    from .consumer import ChannelConsumer

SPAN = 5_000  # so many tags are looked up one by one however few of them are outstanding
SPARSE = 4  # and beyond them as many times the number of outstanding ones
LOOKUP_SHIFT = 4  # to look up 16 tags costs 1, in the scheduler's units
MERGE_COST = 2  # of one delivery that a rollback makes outstanding again


class Settlement(Enum):
    """The way in which a delivery is settled.

    ACK     acknowledged
    REJECT  dropped, or dead-lettered
    NACK    requeued by basic.nack, which does not count as a failed attempt
    RETURN  requeued by basic.reject, basic.recover or the end of the channel
    """

    ACK = 0
    REJECT = 1
    NACK = 2
    RETURN = 3

    @property
    def requeues(self) -> bool:
        """Whether the message goes back to its queue."""
        return self in (Settlement.NACK, Settlement.RETURN)


Unacked = tuple[Queue, "ChannelConsumer | None", int, Message]
"""A delivery that is not settled: queue, consumer (None for basic.get), position in the queue, message."""


class UnackedDeliveries:
    """Unsettled deliveries of one channel by delivery tag, in ascending order of tags.

    `entries` is public for hot functions only (`ChannelConsumer.deliver`, `acknowledge.ack`) and for jobs; all others
    use the methods. An end of it is not looked at: that takes as long as very many entries were removed there.
    """

    __slots__ = ("entries", "_lowest_tag")

    def __init__(self) -> None:
        self.entries: dict[int, Unacked] = {}
        self._lowest_tag = 1  # no lower tag is outstanding

    def __len__(self) -> int:
        return len(self.entries)

    def tags(self) -> list[int]:
        """Return all outstanding tags."""
        return list(self.entries)

    def values(self) -> Iterable[Unacked]:
        """Return all deliveries, oldest first."""
        return self.entries.values()

    def items(self) -> ItemsView[int, Unacked]:
        """Return all tags with their deliveries, oldest first."""
        return self.entries.items()

    def add(self, tag: int, delivery: Unacked) -> None:
        """Add a delivery. Its tag must be the highest so far."""
        self.entries[tag] = delivery

    def check(self, tag: int) -> None:
        """Raise PreconditionFailed (406) for a tag that is not outstanding."""
        if tag not in self.entries:
            raise unknown_tag(tag)

    def candidates(self, first: int, last: int) -> Sequence[int]:
        """Return tags in ascending order, among them all outstanding ones from `first` to `last`.

        Most of a dense range are outstanding. Where few are, the outstanding ones are listed, which takes as long as
        all that are, so the caller counts the cost of the range, as `cost_of_lookup` returns it.
        """
        if last - first < max(SPAN, SPARSE * len(self.entries)):
            return range(first, last + 1)
        tags = list(self.entries)
        return tags[bisect_left(tags, first) : bisect_right(tags, last)]

    def candidates_up_to(self, tag: int) -> tuple[Sequence[int], int]:
        """Return tags up to and including this one, among them all outstanding ones, and the cost to look them up.

        The caller removes them: no tag is returned twice, unless a transaction is rolled back.
        """
        first, self._lowest_tag = self._lowest_tag, tag + 1
        return self.candidates(first, tag), cost_of_lookup(first, tag)

    def slices(self, last: int) -> Iterator[list[Unacked]]:
        """Return the deliveries up to a tag in slices of at most SLICE, oldest first. Others may come and go."""
        candidates = self.candidates(self._lowest_tag, last)
        for at in range(0, len(candidates), SLICE):
            found = [self.entries.get(tag) for tag in candidates[at : at + SLICE]]
            yield [delivery for delivery in found if delivery is not None]

    def pop(self, tag: int) -> Unacked:
        """Remove and return a delivery; raises PreconditionFailed (406) for a tag that is not outstanding."""
        delivery = self.entries.pop(tag, None)
        if delivery is None:
            raise unknown_tag(tag)
        return delivery

    def pop_many(self, tags: Iterable[int]) -> list[Unacked]:
        """Remove and return those of several deliveries that are outstanding."""
        entries = self.entries
        found = [entries.pop(tag, None) for tag in tags]
        return [delivery for delivery in found if delivery is not None]

    def take_all(self) -> dict[int, Unacked]:
        """Remove and return all deliveries."""
        entries, self.entries = self.entries, {}
        return entries

    def put_back(self, deliveries: list[tuple[int, Unacked]], newest: Callable[[], int]) -> Job:
        """Make removed deliveries outstanding again, in steps; the list is emptied.

        No delivery may be removed before the job is done. Those made meanwhile have higher tags; `newest` returns the
        last one.
        """
        runs: list[list[tuple[int, Unacked]]] = []
        while deliveries:
            runs.append(sorted(deliveries[-SLICE:], key=itemgetter(0)))
            self._lowest_tag = min(self._lowest_tag, runs[-1][0][0])
            del deliveries[-SLICE:]
            yield SLICE
        last = newest()
        merged: dict[int, Unacked] = {}
        for count, (tag, delivery) in enumerate(merge(*runs, self._look_up(last), key=itemgetter(0)), 1):
            if delivery is not None:
                merged[tag] = delivery
            if not count % SLICE:
                yield MERGE_COST * SLICE
        while newest() > last:  # in one step the last time, so that none is made after it
            for tag in range(last + 1, min(last + SLICE, newest()) + 1):
                delivery = self.entries.get(tag)
                if delivery is not None:
                    merged[tag] = delivery
            last += SLICE
            if newest() > last:
                yield SLICE >> LOOKUP_SHIFT
        self.entries = merged

    def _look_up(self, last: int) -> Iterator[tuple[int, Unacked | None]]:
        """Return tags up to this one with their deliveries, or with None where they are settled."""
        for tag in self.candidates(self._lowest_tag, last):
            yield tag, self.entries.get(tag)


def cost_of_lookup(first: int, last: int) -> int:
    """Return what it costs to return the candidates from `first` to `last`, in the scheduler's units."""
    return max(0, min(last - first, SPAN)) >> LOOKUP_SHIFT


def unknown_tag(tag: int) -> PreconditionFailed:
    """Return the error for a tag that is not outstanding."""
    return PreconditionFailed(f"unknown delivery tag {tag}")
