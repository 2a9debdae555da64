"""Unsettled deliveries of a channel, and the four ways to settle a delivery."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable
from enum import Enum
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from ..amqp.errors import PreconditionFailed
from ..core.jobs.scheduler import SLICE, Job
from ..core.messages.message import Message
from ..core.queues.queue import Queue

if TYPE_CHECKING:
    from .consumer import ChannelConsumer

SPAN = 100_000  # the most tags that are looked up one by one
MERGE_COST = 2  # of one delivery that a rollback makes outstanding again, in the scheduler's units
MANY = 5_000  # beyond this count, a list of as many tags as are outstanding is assumed to be all of them


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

    `entries` is public for hot functions only (`ChannelConsumer.deliver`, `acknowledge.ack`) and for the job that
    settles many; all others use the methods.
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

    def oldest(self) -> tuple[int, Unacked]:
        """Return the tag and the delivery outstanding longest; there must be one."""
        return next(iter(self.entries.items()))

    def add(self, tag: int, delivery: Unacked) -> None:
        """Add a delivery. Its tag must be the highest so far."""
        self.entries[tag] = delivery

    def tags_up_to(self, tag: int) -> list[int]:
        """Return the outstanding tags up to and including this one, or all for tag 0.

        Raises PreconditionFailed (406) for a tag that is not outstanding.
        """
        entries = self.entries
        if tag == 0:
            return list(entries)
        if tag not in entries:
            raise unknown_tag(tag)
        if tag == next(reversed(entries)):
            self._lowest_tag = tag + 1
            return list(entries)
        # Iterating from the front of a dict is slow once many entries were removed there, so tags are looked up one by
        # one. No tag is tried twice, unless a transaction is rolled back.
        first, self._lowest_tag = self._lowest_tag, tag + 1
        if tag - first < SPAN:
            return [other for other in range(first, tag + 1) if other in entries]
        return [other for other in entries if other <= tag]

    def pop(self, tag: int) -> Unacked:
        """Remove and return a delivery; raises PreconditionFailed (406) for a tag that is not outstanding."""
        delivery = self.entries.pop(tag, None)
        if delivery is None:
            raise unknown_tag(tag)
        return delivery

    def pop_many(self, tags: list[int]) -> list[Unacked]:
        """Remove and return several deliveries; raises PreconditionFailed (406) at a tag that is not outstanding."""
        if len(tags) == len(self.entries) > MANY:  # lists of more than one tag hold outstanding ones only
            return self.pop_all()
        return [self.pop(tag) for tag in tags]

    def pop_all(self) -> list[Unacked]:
        """Remove and return all deliveries."""
        deliveries = list(self.entries.values())
        self.entries.clear()
        return deliveries

    def put_back(self, deliveries: list[tuple[int, Unacked]]) -> Job:
        """Make removed deliveries outstanding again, in steps; the list is emptied.

        No delivery may be removed before the job is done. Deliveries made meanwhile have higher tags.
        """
        runs: list[list[tuple[int, Unacked]]] = []
        while deliveries:
            runs.append(sorted(deliveries[-SLICE:], key=itemgetter(0)))
            del deliveries[-SLICE:]
            yield SLICE
        runs.append(list(self.entries.items()))
        outstanding = len(self.entries)
        merged: dict[int, Unacked] = {}
        for count, (tag, delivery) in enumerate(merge(*runs, key=itemgetter(0)), 1):
            merged[tag] = delivery
            if not count % SLICE:
                yield MERGE_COST * SLICE
        merged.update(islice(self.entries.items(), outstanding, None))
        self.entries = merged
        self._lowest_tag = next(iter(merged), self._lowest_tag)


def unknown_tag(tag: int) -> PreconditionFailed:
    """Return the error for a tag that is not outstanding."""
    return PreconditionFailed(f"unknown delivery tag {tag}")
