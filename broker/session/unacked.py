"""Unsettled deliveries of a channel, and the four ways to settle a delivery.

While memory is used up, deliveries are shed (`core.queues.paging`): the rest of each is in a row, until they are
settled, when each is a delivery again whose message has no content.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import Enum
from heapq import merge
from itertools import chain, islice
from sys import getsizeof
from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from ..amqp.errors import PreconditionFailed
from ..amqp.field_table import Table
from ..core.jobs.scheduler import SLICE, STORE_SHIFT, Job
from ..core.messages.journal_port import ROOM
from ..core.messages.message import VALUES, Message, ShedMessage, shed_message
from ..core.queues.consumers import Consumer
from ..core.queues.queue import Queue
from ..core.queues.sorted_rows import Row, SortedRows
from ..core.queues.traffic_log import TrafficLog

PART: Final = 16_384  # deliveries of one dict, about: a million of them would grow in 20 ms
FEW: Final = PART >> 3  # deliveries of an older part, with which it is joined with the one before,
FEW_BYTES: Final = 1 << 18  # and without the space that it has beyond so much:
JOINED: Final = 8  # parts at once
NEVER_ENDS: Final = 1 << 64  # above all tags
SPAN = 5_000  # tags that are looked up one by one however few of them are outstanding
SPARSE = 4  # and beyond them as many times the number of outstanding ones
LOOKUP_SHIFT = 4  # to look up 16 tags costs 1, in the scheduler's units
PUT_BACK_COST = 1  # of one delivery that a rollback makes outstanding again
SPLIT_COST = PART >> 2  # of a part that has grown by that, and is divided
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


Unacked = tuple[Queue, Any, int, Message]
"""A delivery that is not settled: queue, consumer (None for basic.get), position in the queue, message.

The consumer is a CreditConsumer: as its type, compiled code would check it at each look, and more slowly than a class.
"""


@mypyc_attr(allow_interpreted_subclasses=True)
class CreditConsumer(Consumer):
    """A consumer that gets more deliveries as those that it has are settled.

    prefetch      its own limit of unsettled deliveries, 0 for none; the channel may have another for all its consumers
    stalled       waits for room in the output
    awaits_limit  `shared_prefetch` will wake it; the latter also sets `served`, the number of its last delivery there,
                  and `turn`, the number by which it waits
    """

    __slots__ = ("queue", "prefetch", "arguments", "stalled", "awaits_limit", "served", "turn")

    def __init__(
        self,
        tag: str,
        queue: Queue,
        output: object,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: int,
        arguments: Table,
        served: int,
    ) -> None:
        super().__init__(tag, output, no_ack, exclusive, priority)
        self.queue = queue
        self.prefetch = prefetch
        self.arguments = arguments
        self.stalled = self.awaits_limit = False
        self.served = self.turn = served

    def settled(self) -> None:
        """Count a delivery that was settled. HOT: bench I, L."""
        self.unacked -= 1
        if self.waiting and not self.awaits_limit:
            self.queue.wake(self)


class UnackedDeliveries:
    """Unsettled deliveries of one channel by delivery tag.

    Very many are in parts, each of a range of tags, in which they are in any order once a transaction was rolled back.
    `_older` has the parts before `entries`, and `_ends` the last tag of each.

    `entries` is public for hot functions only (`ChannelConsumer.deliver`, `acknowledge.ack`); all others use the
    methods. Its first entry is not looked at: that takes as long as very many entries were removed there.
    """

    __slots__ = ("entries", "_older", "_ends", "shed", "_lowest_tag", "_shed_from", "_to_shed", "passed_over")

    def __init__(self) -> None:
        self.entries: dict[int, Unacked] = {}  # the newest deliveries
        self._older: list[dict[int, Unacked]] = []
        self._ends: list[int] = []
        self.shed: SortedRows | None = None  # the other deliveries, by tag (`delivery_of`); None without any
        self._lowest_tag = 1  # no lower tag is outstanding
        self._shed_from = 1  # no lower tag is to be looked at for shedding, but for
        self._to_shed: Iterator[int] | None = None  # the rest of those before
        self.passed_over = 0  # the lowest tag of those that could not be shed for lack of room, or 0

    def __len__(self) -> int:
        return sum([len(part) for part in self._older]) + len(self.entries) + self.shed_count

    @property
    def shed_count(self) -> int:
        """The number of deliveries that were shed."""
        return len(self.shed) if self.shed is not None else 0

    def __contains__(self, tag: int) -> bool:
        return tag in self.entries or self.get(tag) is not None

    def tags(self) -> list[int]:
        """Return all outstanding tags."""
        return [tag for tags in self.slices(range(1, NEVER_ENDS)) for tag in tags if tag in self]

    def values(self) -> list[Unacked]:
        """Return all deliveries, oldest first."""
        found = [self.get(tag) for tag in self.tags()]
        return [delivery for delivery in found if delivery is not None]

    def get(self, tag: int) -> Unacked | None:
        """Return a delivery, or None if the tag is not outstanding."""
        delivery = self._part(tag)[0].get(tag)
        if delivery is None and self.shed is not None and (row := self.shed.get(tag)) is not None:
            return delivery_of(row)
        return delivery

    def of_queue(self, queue: Queue, examined: int, limit: int) -> list[tuple[int, Unacked]]:
        """Return tags and deliveries of a queue among this number of the oldest ones, at most `limit` shed ones."""
        found: list[tuple[int, Unacked]] = []
        if self.shed is not None:
            rows = islice(self.shed.matching(lambda of: queue_of(of) is queue, examined), limit)
            found = [(row[0], delivery_of(row)) for row in rows]
            examined = max(examined - len(self.shed), 0)
        items = chain.from_iterable([part.items() for part in (*self._older, self.entries)])
        return found + [item for item in islice(items, examined) if item[1][0] is queue]

    def add(self, tag: int, delivery: Unacked) -> None:
        """Add a delivery. Its tag must be the highest so far."""
        self.entries[tag] = delivery
        if len(self.entries) > PART:
            self.begin_part(tag)

    def begin_part(self, last: int) -> None:
        """Have those that are added from now on in a part of their own; `last` is the last tag so far."""
        self._join_sparse()
        self._older.append(self.entries)
        self._ends.append(last)
        self.entries = {}

    def _join_sparse(self) -> None:
        """Drop older parts that are empty, and join some others of which few deliveries are left.

        A part keeps the space of those that were removed.
        """
        older: list[dict[int, Unacked]] = []
        ends: list[int] = []
        joined = 0
        for part, end in zip(self._older, self._ends, strict=True):
            if not part:
                continue
            if joined < JOINED and len(part) <= FEW and getsizeof(part) > FEW_BYTES:
                part = dict(part)  # without the space of those that were removed
                joined += 1
            if joined < JOINED and older and len(part) <= FEW and len(older[-1]) <= FEW:
                older[-1] |= part
                ends[-1] = end
                joined += 1
            else:
                older.append(part)
                ends.append(end)
        self._older, self._ends = older, ends

    def newest(self, count: int) -> list[int]:
        """Return the last tags of those that were added last, at most `count`."""
        part = self.entries if self.entries or not self._older else self._older[-1]
        return list(islice(reversed(part), count))

    def check(self, tag: int) -> None:
        """Raise PreconditionFailed (406) for a tag that is not outstanding."""
        if tag not in self:
            raise unknown_tag(tag)

    def tags_up_to(self, tag: int) -> tuple[range, int]:
        """Return tags up to and including this one, among them all outstanding ones, and the cost to look them up.

        The caller removes them: no tag is returned twice, unless a transaction is rolled back.
        """
        first, self._lowest_tag = self._lowest_tag, tag + 1
        return range(first, tag + 1), cost_of_lookup(first, tag)

    def slices(self, tags: range) -> Iterator[Sequence[int]]:
        """Yield tags in ascending order, in slices of at most SLICE, among them all outstanding ones of a range.

        Others may come and go meanwhile. Most of a part with a dense range are outstanding. Where few are, those are
        listed, which takes as long as all of the part are.
        """
        first = tags.start
        while first < tags.stop:
            part, last = self._part(first)
            last = min(last, tags.stop - 1)
            if last - first < max(SPAN, SPARSE * len(part)):
                for at in range(first, last + 1, SLICE):
                    yield range(at, min(at + SLICE, last + 1))
            else:
                # What is shed meanwhile is in the list.
                listed = sorted([tag for tag in part if first <= tag <= last])
                found = merge(listed, self._shed_tags(first, last)) if self.shed is not None else iter(listed)
                while some := list(islice(found, SLICE)):
                    yield some
            first = last + 1

    def _shed_tags(self, first: int, last: int) -> Iterator[int]:
        while self.shed is not None and (tags := self.shed.some_keys(first)):
            for tag in tags:
                if tag > last:
                    return
                yield tag
            first = tags[-1] + 1

    def deliveries(self, last: int) -> Iterator[list[Unacked]]:
        """Return the deliveries up to a tag in slices of at most SLICE, oldest first. Others may come and go."""
        for tags in self.slices(range(self._lowest_tag, last + 1)):
            found = [self.get(tag) for tag in tags]
            yield [delivery for delivery in found if delivery is not None]

    def pop(self, tag: int) -> Unacked:
        """Remove and return a delivery; raises PreconditionFailed (406) for a tag that is not outstanding."""
        delivery = self.entries.pop(tag, None) or self.pop_elsewhere(tag)[1]
        if delivery is None:
            raise unknown_tag(tag)
        return delivery

    def pop_elsewhere(self, tag: int) -> tuple[dict[int, Unacked] | None, Unacked | None]:
        """Remove and return a delivery, or None, wherever it is; also its part, or None if it was shed."""
        part, _ = self._part(tag)
        delivery = part.pop(tag, None)
        return (part, delivery) if delivery is not None else (None, self._pop_shed(tag))

    def _pop_shed(self, tag: int) -> Unacked | None:
        row = self.shed.pop(tag) if self.shed is not None else None
        if row is None:
            return None
        if self.shed is not None and not len(self.shed):
            self.shed = None
        return delivery_of(row)

    def pop_many(self, tags: Sequence[int]) -> list[Unacked]:
        """Remove and return those of several deliveries, in ascending order of their tags, that are outstanding."""
        if self.shed is None and not self._ends:
            entries = self.entries
            found = [entries.pop(tag, None) for tag in tags]
            return [delivery for delivery in found if delivery is not None]
        return [delivery for _, delivery in self.pop_items(tags)]

    def pop_items(self, tags: Sequence[int]) -> list[tuple[int, Unacked]]:
        """Remove those of several deliveries, as `pop_many`, and return them with their tags."""
        found: list[tuple[int, Unacked | None]] = []
        part, last = self.entries, 0
        for tag in tags:
            if tag > last:
                part, last = self._part(tag)
            found.append((tag, part.pop(tag, None) or self._pop_shed(tag)))
        return [(tag, delivery) for tag, delivery in found if delivery is not None]

    def cut_shed(self, tag: int) -> SortedRows:
        """Remove and return the deliveries up to this one that were shed."""
        if self.shed is None:
            return SortedRows(VALUES)
        cut = self.shed.cut(tag)
        if not len(self.shed):
            self.shed = None
        return cut

    def take_all(self) -> list[dict[int, Unacked]]:
        """Remove and return the parts with all deliveries that were not shed."""
        parts = [*self._older, self.entries]
        self._older, self._ends, self.entries = [], [], {}
        return parts

    def shed_some(self, last: int, log: TrafficLog | None, has_room: bool) -> int:
        """Shed some deliveries up to this tag, the last one; return the cost, 0 if all were looked at.

        Without room, those that have to be stored for that are passed over for now.
        """
        if self._to_shed is None:
            if self.passed_over and has_room:
                self._shed_from, self.passed_over = self.passed_over, 0
            if self._shed_from > last:
                return 0
            tags = range(self._shed_from, last + 1)
            self._to_shed, self._shed_from = chain.from_iterable(self.slices(tags)), last + 1
        cost = looked = 0
        part, end = self.entries, 0
        for tag in islice(self._to_shed, SHED_LOOKS):
            looked += 1
            if tag > end:
                part, end = self._part(tag)
            delivery = part.get(tag)
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
                if queue.host.journal.room() != ROOM:
                    self.passed_over = self.passed_over or tag
                continue
            if not shed.persistent or not queue.number:
                cost += before >> STORE_SHIFT
            del part[tag]
            if self.shed is None:
                self.shed = SortedRows(VALUES)
            self.shed.add(tag, shed.values(), consumer if consumer is not None else queue)
            if cost > SHED_COST or not ledger.exceeded:
                break
        else:
            if looked < SHED_LOOKS:
                self._to_shed = None
        return cost + (looked >> LOOKUP_SHIFT) + 1

    def put_back(self, settlements: list[tuple[int, Unacked, Settlement]]) -> Job:
        """Make deliveries that were removed outstanding again, in steps; the list is emptied.

        It makes no object for each: the garbage collector would look at very many together.
        """
        self.passed_over = 0  # all are looked at again
        while settlements:
            some: list[Any] = settlements[-SLICE:]  # compiled code makes each typed tuple anew
            for settled in some:
                tag: int = settled[0]
                part, end = self._part(tag)
                untyped: dict[int, Any] = part
                untyped[tag] = settled[1]
                self._lowest_tag = min(self._lowest_tag, tag)
                if len(part) > 2 * PART:
                    self._split(part, end)
                    yield SPLIT_COST
            del settlements[-SLICE:]
            yield PUT_BACK_COST * SLICE
        self._shed_from, self._to_shed = self._lowest_tag, None

    def _part(self, tag: int) -> tuple[dict[int, Unacked], int]:
        """Return the part that has this tag if it is outstanding and was not shed, and the last tag of that part."""
        ends = self._ends
        while ends and not self._older[0]:  # others that are empty are dropped later
            del self._older[0], ends[0]
        at = bisect_left(ends, tag)
        return (self._older[at], ends[at]) if at < len(ends) else (self.entries, NEVER_ENDS)

    def _split(self, part: dict[int, Unacked], end: int) -> None:
        """Divide a part that has grown as deliveries were put back."""
        tags = sorted(part)[:PART]
        at = bisect_left(self._ends, end)
        untyped: dict[int, Any] = part  # as in `put_back`
        self._older.insert(at, {tag: untyped.pop(tag) for tag in tags})
        self._ends.insert(at, tags[-1])


def delivery_of(row: Row) -> Unacked:
    """Return the delivery of a row of `UnackedDeliveries.shed`, whose message has no content."""
    _, values, of = row
    message = shed_message(*values)
    return queue_of(of), None if isinstance(of, Queue) else cast("CreditConsumer", of), message.position, message


def queue_of(of: object) -> Queue:
    """Return the queue of such a row's object: that or its consumer."""
    return of if isinstance(of, Queue) else cast("CreditConsumer", of).queue


def cost_of_rows(deliveries: list[Unacked]) -> int:
    """Return the cost of making deliveries of the rows of shed ones, in the scheduler's units."""
    return ROW_COST * sum([isinstance(message, ShedMessage) for _, _, _, message in deliveries])


def cost_of_lookup(first: int, last: int) -> int:
    """Return the cost of looking for deliveries from `first` to `last`, if they are few, in the scheduler's units."""
    return max(0, min(last - first, SPAN)) >> LOOKUP_SHIFT


def unknown_tag(tag: int) -> PreconditionFailed:
    """Return the error for a tag that is not outstanding."""
    return PreconditionFailed(f"unknown delivery tag {tag}")
