"""Unsettled deliveries of a channel, and the four ways to settle a delivery.

While memory is used up, deliveries are shed (`core.queues.shedding`): what is left of them is in rows, until they are
settled, when each is a delivery again whose message has no content.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from ..amqp.errors import PreconditionFailed
from ..core.jobs.scheduler import SLICE, STORE_SHIFT, Job
from ..core.messages.message import VALUES, Message, ShedMessage, shed_message
from ..core.queues.message_log import MessageLog
from ..core.queues.queue import Queue
from ..core.queues.sorted_rows import Row, SortedRows

if TYPE_CHECKING:
    from .consumer import ChannelConsumer

SPAN = 5_000  # so many tags are looked up one by one however few of them are outstanding
SPARSE = 4  # and beyond them as many times the number of outstanding ones
LOOKUP_SHIFT = 4  # to look up 16 tags costs 1, in the scheduler's units
MERGE_COST = 2  # of one delivery that a rollback makes outstanding again
SHED_LOOKS = 200  # tags that are looked at in one step,
SHED_COST = 500  # which ends earlier if messages that are stored for that cost more
ROW_COST = 4  # to shed a delivery, or to make one of a row


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

    shed         the other deliveries, by tag (`delivery_of`); None without any
    passed_over  the lowest tag of those that could not be shed for lack of room, or 0
    """

    __slots__ = ("entries", "shed", "_lowest_tag", "_shed_from", "_to_shed", "passed_over", "_merging")

    def __init__(self) -> None:
        self.entries: dict[int, Unacked] = {}
        self.shed: SortedRows | None = None
        self._lowest_tag = 1  # no lower tag is outstanding
        self._shed_from = 1  # no lower tag is to be looked at for shedding, but for
        self._to_shed: Iterator[int] | None = None  # the rest of those before
        self.passed_over = 0
        self._merging = False  # by `put_back`

    def __len__(self) -> int:
        return len(self.entries) + self.shed_count

    @property
    def shed_count(self) -> int:
        """The number of deliveries that were shed."""
        return len(self.shed) if self.shed is not None else 0

    def __contains__(self, tag: int) -> bool:
        return tag in self.entries or self.shed is not None and self.shed.get(tag) is not None

    def tags(self) -> list[int]:
        """Return all outstanding tags."""
        return list(self.entries) if self.shed is None else sorted([*self.shed.keys(), *self.entries])

    def values(self) -> list[Unacked]:
        """Return all deliveries, oldest first."""
        found = [self.get(tag) for tag in self.tags()]
        return [delivery for delivery in found if delivery is not None]

    def get(self, tag: int) -> Unacked | None:
        """Return a delivery, or None if the tag is not outstanding."""
        delivery = self.entries.get(tag)
        if delivery is None and self.shed is not None and (row := self.shed.get(tag)) is not None:
            return delivery_of(row)
        return delivery

    def of_queue(self, queue: Queue, examined: int, limit: int) -> list[tuple[int, Unacked]]:
        """Return the tags and deliveries of a queue among so many of the oldest ones, and at most `limit` shed ones."""
        found: list[tuple[int, Unacked]] = []
        if self.shed is not None:
            rows = islice(self.shed.matching(lambda of: queue_of(of) is queue, examined), limit)
            found = [(row[0], delivery_of(row)) for row in rows]
            examined = max(examined - len(self.shed), 0)
        return found + [item for item in islice(self.entries.items(), examined) if item[1][0] is queue]

    def add(self, tag: int, delivery: Unacked) -> None:
        """Add a delivery. Its tag must be the highest so far."""
        self.entries[tag] = delivery

    def check(self, tag: int) -> None:
        """Raise PreconditionFailed (406) for a tag that is not outstanding."""
        if tag not in self:
            raise unknown_tag(tag)

    def candidates(self, first: int, last: int) -> Sequence[int]:
        """Return tags in ascending order, among them all outstanding ones from `first` to `last`.

        Most of a dense range are outstanding. Where few are, the outstanding ones are listed, which takes as long as
        all that are, so the caller counts the cost of the range, as `cost_of_lookup` returns it.
        """
        if last - first < max(SPAN, SPARSE * len(self)):
            return range(first, last + 1)
        tags = self.tags()
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
            found = [self.get(tag) for tag in candidates[at : at + SLICE]]
            yield [delivery for delivery in found if delivery is not None]

    def pop(self, tag: int) -> Unacked:
        """Remove and return a delivery; raises PreconditionFailed (406) for a tag that is not outstanding."""
        delivery = self.entries.pop(tag, None) or self.pop_shed(tag)
        if delivery is None:
            raise unknown_tag(tag)
        return delivery

    def pop_shed(self, tag: int) -> Unacked | None:
        """Remove and return a delivery that was shed, or None."""
        row = self.shed.pop(tag) if self.shed is not None else None
        if row is None:
            return None
        if self.shed is not None and not len(self.shed):
            self.shed = None
        return delivery_of(row)

    def pop_many(self, tags: Iterable[int]) -> list[Unacked]:
        """Remove and return those of several deliveries that are outstanding."""
        if self.shed is None:
            entries = self.entries
            found = [entries.pop(tag, None) for tag in tags]
            return [delivery for delivery in found if delivery is not None]
        return [delivery for _, delivery in self.pop_items(tags)]

    def pop_items(self, tags: Iterable[int]) -> list[tuple[int, Unacked]]:
        """Remove those of several deliveries that are outstanding, and return them with their tags."""
        found = [(tag, self.entries.pop(tag, None) or self.pop_shed(tag)) for tag in tags]
        return [(tag, delivery) for tag, delivery in found if delivery is not None]

    def cut_shed(self, tag: int) -> SortedRows:
        """Remove and return the deliveries up to this one that were shed."""
        if self.shed is None:
            return SortedRows(VALUES)
        cut = self.shed.cut(tag)
        if not len(self.shed):
            self.shed = None
        return cut

    def take_all(self) -> dict[int, Unacked]:
        """Remove and return all deliveries that were not shed."""
        entries, self.entries = self.entries, {}
        return entries

    def shed_some(self, last: int, log: MessageLog | None, has_room: bool) -> int:
        """Shed some deliveries up to this tag, the last one; return the cost, 0 if all were looked at.

        Without room, those that have to be stored for that are passed over for now.
        """
        if self._merging:
            return 0
        if self._to_shed is None:
            if self.passed_over and has_room:
                self._shed_from, self.passed_over = self.passed_over, 0
            if self._shed_from > last:
                return 0
            self._to_shed, self._shed_from = iter(self.candidates(self._shed_from, last)), last + 1
        cost = looked = 0
        for tag in islice(self._to_shed, SHED_LOOKS):
            looked += 1
            delivery = self.entries.get(tag)
            if delivery is None:
                continue
            queue, consumer, position, message = delivery
            ledger = queue.host.ledger
            if log is not None and log.needs_content(consumer.tag if consumer is not None else "", queue):
                continue
            cost += ROW_COST
            before = len(message.frames)
            shed = message if isinstance(message, ShedMessage) else queue.shed_content(position, message)
            if shed is None:
                if not queue.host.scheduler.has_room():
                    self.passed_over = self.passed_over or tag
                continue
            if not shed.persistent or not queue.number:
                cost += before >> STORE_SHIFT
            del self.entries[tag]
            if self.shed is None:
                self.shed = SortedRows(VALUES)
            self.shed.add(tag, shed.values(), consumer if consumer is not None else queue)
            if cost > SHED_COST or not ledger.exceeded:
                break
        else:
            if looked < SHED_LOOKS:
                self._to_shed = None
        return cost + (looked >> LOOKUP_SHIFT) + 1

    def put_back(self, deliveries: list[tuple[int, Unacked]], newest: Callable[[], int]) -> Job:
        """Make removed deliveries outstanding again, in steps; the list is emptied.

        No delivery may be removed before the job is done. Those made meanwhile have higher tags; `newest` returns the
        last one.
        """
        self._merging = True
        self.passed_over = 0  # all are looked at again
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
        self._merging = False
        self._shed_from, self._to_shed = self._lowest_tag, None

    def _look_up(self, last: int) -> Iterator[tuple[int, Unacked | None]]:
        """Return tags up to this one with their deliveries, or with None where they are settled."""
        for tag in self.candidates(self._lowest_tag, last):
            yield tag, self.entries.get(tag)


def delivery_of(row: Row) -> Unacked:
    """Return the delivery of a row of `UnackedDeliveries.shed`, whose message has no content."""
    _, values, of = row
    message = shed_message(*values)
    return queue_of(of), None if isinstance(of, Queue) else cast("ChannelConsumer", of), message.position, message


def queue_of(of: object) -> Queue:
    """Return the queue of such a row's object: that or its consumer."""
    return of if isinstance(of, Queue) else cast("ChannelConsumer", of).queue


def cost_of_lookup(first: int, last: int) -> int:
    """Return what it costs to return the candidates from `first` to `last`, in the scheduler's units."""
    return max(0, min(last - first, SPAN)) >> LOOKUP_SHIFT


def unknown_tag(tag: int) -> PreconditionFailed:
    """Return the error for a tag that is not outstanding."""
    return PreconditionFailed(f"unknown delivery tag {tag}")
