"""Shedding: contents of unacknowledged messages leave memory while the node's memory for messages is used up.

A message that was written to the socket is needed again only if it returns to its queue or is dead-lettered, and is
read from the journal then. The oldest deliveries of each channel are shed first, as far as the journal has them or has
room for them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from ..jobs.scheduler import SUSPENDED, Job, Scheduler
from ..messages.ports import Journal
from .ledger import Ledger

KEEP_BYTES = 4 << 20  # of unacknowledged messages, which stay in memory whatever else takes it
STEP_BYTES = 1 << 20  # by which they have to grow after all that can be shed was


class Holder(Protocol):
    """A channel, as it holds deliveries."""

    def shed(self) -> int:
        """Shed the contents of some deliveries, and return the cost; 0 if there are none that were not looked at."""


class Shedding:
    """The channels of a node, and the job that sheds what they hold.

    awaits_room  some deliveries have to be stored for that, and there was no room; channels set it
    """

    __slots__ = ("holders", "awaits_room", "_ledger", "_scheduler", "_journal", "_kept_bytes", "_resume")

    def __init__(self, ledger: Ledger, scheduler: Scheduler, journal: Journal) -> None:
        self.holders: OrderedDict[Holder, None] = OrderedDict()
        self.awaits_room = False
        self._ledger = ledger
        self._scheduler = scheduler
        self._journal = journal
        self._kept_bytes = 0  # the least that was held since the last job, or since it waits
        self._resume: Callable[[], None] | None = None  # the job that waits for the journal
        ledger.when_held = self.start

    def start(self) -> None:
        """Shed messages until the limit is not exceeded, if there are many."""
        held_bytes = self._ledger.unacked_bytes
        self._kept_bytes = min(self._kept_bytes, held_bytes)
        if held_bytes <= max(KEEP_BYTES, self._kept_bytes + STEP_BYTES):
            return
        if not self._ledger.shedding:
            self._ledger.shedding = True
            self._scheduler.start("shedding of unacknowledged messages", self._job())
        elif self._resume is not None:  # others need no room
            self._resume()

    def _job(self) -> Job:
        ledger, holders, scheduler = self._ledger, self.holders, self._scheduler
        vain = 0
        try:
            while ledger.exceeded and ledger.unacked_bytes > KEEP_BYTES:
                if vain >= len(holders):
                    if not holders or not self.awaits_room or scheduler.full or scheduler.finishing:
                        return
                    vain, self.awaits_room = 0, False
                    if scheduler.is_behind:
                        self._kept_bytes = ledger.unacked_bytes
                        self._resume = scheduler.suspend()
                        self._journal.when_durable(self._journal.ticket(), self._resume)
                        yield SUSPENDED
                        self._resume = None
                        continue  # all holders may be gone
                holder = next(iter(holders))
                holders.move_to_end(holder)
                cost = holder.shed()
                vain = 0 if cost else vain + 1
                yield cost or 1
        finally:
            ledger.shedding = False
            self._kept_bytes = ledger.unacked_bytes
