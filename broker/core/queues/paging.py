"""Paging: contents of messages leave memory while the node's memory for messages is used up.

A message that was written to the socket is needed again only if it returns to its queue or is dead-lettered, and is
read from the journal then. The oldest deliveries of each channel are shed first, as far as the journal has them or has
room for them.

Of ready messages, the last ones of queues from which nothing was delivered for a while are shed, so that a queue which
was filled first does not keep the memory that others use.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from ..jobs.scheduler import SUSPENDED, Job, Scheduler
from ..messages.clock import Clock
from ..messages.journal_port import BEHIND, DISK_FULL, Journal
from .ledger import Ledger
from .ready_messages import PAGE_ABOVE

if TYPE_CHECKING:
    from .queue import Queue

KEEP_BYTES = 4 << 20  # of unacknowledged messages, which stay in memory whatever else takes it
STEP_BYTES = 1 << 20  # by which they have to grow after all that can be shed was
SWEEP_MS = 2_000  # from one sweep of all queues to the next
SPARE_SHIFT = 4  # a sweep frees a 16th of the limit
LOOK_SHIFT = 5  # to look at 32 messages of a fifo costs 1


class Holder(Protocol):
    """A channel, as it holds deliveries."""

    def shed(self) -> int:
        """Shed the contents of some deliveries, and return the cost; 0 if there are none that were not looked at."""


class Shedding:
    """The channels and queues of a node, and the jobs that shed their contents."""

    __slots__ = (
        *("holders", "awaits_room", "_ledger", "_scheduler", "_journal", "_kept_bytes", "_resume"),
        *("_clock", "_queues", "_sweeping", "_swept_ms"),
    )

    def __init__(
        self,
        ledger: Ledger,
        scheduler: Scheduler,
        journal: Journal,
        clock: Clock,
        queues: Callable[[], Iterator[list[Queue]]],
    ) -> None:
        """`queues` returns all queues of the node, in parts."""
        self.holders: OrderedDict[Holder, None] = OrderedDict()
        self.awaits_room = False  # some deliveries have to be stored for that, and there was no room; channels set it
        self._ledger = ledger
        self._scheduler = scheduler
        self._journal = journal
        self._kept_bytes = 0  # the least that was held since the last job, or since it waits
        self._resume: Callable[[], None] | None = None  # the job that waits for the journal
        ledger.when_held = self.start
        self._clock = clock
        self._queues = queues
        self._sweeping = False
        self._swept_ms = -SWEEP_MS  # when the last sweep ended

    def start(self) -> None:
        """Shed messages until the limit is not exceeded, if there are many, from the next turn on.

        It is called in the middle of deliveries and publishes.
        """
        if not self._sweeping and self._clock.now_ms() >= self._swept_ms + SWEEP_MS:
            self._sweeping = True
            self._scheduler.start_later("shedding of ready messages", self._sweep())
        held_bytes = self._ledger.held_bytes
        self._kept_bytes = min(self._kept_bytes, held_bytes)
        if held_bytes <= max(KEEP_BYTES, self._kept_bytes + STEP_BYTES):
            return
        if not self._ledger.shedding:
            self._ledger.shedding = True
            self._scheduler.start_later("shedding of unacknowledged messages", self._job())
        elif self._resume is not None:  # others need no room
            self._resume()

    def _sweep(self) -> Job:
        """Shed the last messages of queues from which nothing was delivered since the last sweep."""
        ledger, scheduler = self._ledger, self._scheduler
        spare_bytes = ledger.limit_bytes >> SPARE_SHIFT
        try:
            for queues in self._queues():
                for queue in queues:
                    fifos = queue.ready_messages.all[::-1]  # the lowest priority first
                    keeps = False  # the rest
                    for fifo in fifos:
                        seen, fifo.seen = fifo.seen, fifo.head
                        while not keeps and fifo.may_shed and seen == fifo.head and ledger.excess_bytes > -spare_bytes:
                            cost = 0 if queue.deleted or self._journal.room() == DISK_FULL else fifo.shed()
                            keeps = not cost
                            if cost:
                                yield cost + len(fifos)
                                yield from scheduler.caught_up()
                    yield sum([1 + (min(fifo.resident, PAGE_ABOVE) >> LOOK_SHIFT) for fifo in fifos])
        finally:
            self._sweeping, self._swept_ms = False, self._clock.now_ms()

    def _job(self) -> Job:
        ledger, holders, scheduler = self._ledger, self.holders, self._scheduler
        fruitless = 0
        try:
            while ledger.exceeded and ledger.held_bytes > KEEP_BYTES:
                if fruitless >= len(holders):
                    if not holders or not self.awaits_room or scheduler.finishing:
                        return
                    room = self._journal.room()
                    if room == DISK_FULL:
                        return
                    fruitless, self.awaits_room = 0, False
                    if room == BEHIND:
                        self._kept_bytes = ledger.held_bytes
                        self._resume = scheduler.suspend()
                        self._journal.when_durable(self._journal.ticket(), self._resume)
                        yield SUSPENDED
                        self._resume = None
                        continue  # all holders may be closed
                holder = next(iter(holders))
                holders.move_to_end(holder)
                cost = holder.shed()
                fruitless = 0 if cost else fruitless + 1
                yield cost or 1
        finally:
            ledger.shedding = False
            self._kept_bytes = ledger.held_bytes
