"""The prefetch limit shared by all consumers of a channel (basic.qos with `global`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ..core.jobs.scheduler import SLICE, Job
from ..core.metadata.queue_types import QUORUM
from ..core.queues.sorted_entries import Entry, SortedEntries
from .unacked import CreditConsumer, Unacked, cost_of_rows

WOKEN: Final = 100  # consumers woken at once
WAKE_COST: Final = 6  # of one of them (`jobs.scheduler`)
COUNT_SHIFT: Final = 3  # to look for 8 deliveries and count them costs 1


class SharedPrefetch:
    """Limit of unsettled deliveries of all consumers of a channel together, without those of quorum queues."""

    __slots__ = ("limit", "unacked", "_consumers", "_turns", "_of_queues", "_deliveries", "_counting", "_expected")

    def __init__(self, consumers: Mapping[str, CreditConsumer]) -> None:
        self.limit = 0  # unsettled deliveries at a time, 0 for no limit
        self.unacked = 0  # unsettled deliveries that count towards it
        self._consumers = consumers
        self._turns = SortedEntries()  # consumers that wait, by `turn`: the queue of the first one is served next
        self._of_queues = SortedEntries()  # the same by queue, the highest priority first
        self._deliveries = 0
        self._counting = False  # `count` is under way
        self._expected = False  # `_wake_more` is due in the next turn

    @property
    def frees(self) -> bool:
        """Whether the limit may allow deliveries to consumers that wait for it."""
        return self._counting or bool(self._turns) and (not self.limit or self.unacked < self.limit)

    def set_limit(self, limit: int) -> bool:
        """Change the limit, and return whether deliveries made before the change have to be counted now (`count`).

        Deliveries of cancelled consumers count, too.
        """
        first = limit > 0 and not self.limit
        if first or not limit and self.limit:
            for consumer in self._consumers.values():
                consumer.shares = limit > 0 and consumer.queue.settings.type != QUORUM
        self.limit = limit
        if not first:
            self._wake()
        return first

    def count(self, outstanding: int, slices: Iterable[list[Unacked]]) -> Job:
        """Count deliveries made before there was a limit, in steps; `outstanding` is their number.

        At first all of them count, so that consumers get no more than the limit allows.
        """
        self.unacked = outstanding
        self._counting = True
        for deliveries in slices:
            counted = 0
            for _, consumer, _, _ in deliveries:
                if consumer is not None and consumer.queue.settings.type != QUORUM:
                    consumer.shares = True
                    counted += 1
            self.unacked -= len(deliveries) - counted
            yield (SLICE >> COUNT_SHIFT) + cost_of_rows(deliveries)
        self._counting = False
        self._wake()

    def room(self, consumer: CreditConsumer) -> int:
        """Return how many deliveries the limit allows; if none, the consumer is woken when it allows some."""
        room = self.limit - self.unacked
        if room <= 0 and not consumer.awaits_limit:
            consumer.awaits_limit = True
            self._add(consumer, consumer.served)
        return room

    def _add(self, consumer: CreditConsumer, turn: int) -> None:
        consumer.turn = turn
        self._turns.add((turn, consumer))
        self._of_queues.add(place_of(consumer))

    def forget(self, consumer: CreditConsumer) -> None:
        """Wake a consumer that is being removed no more."""
        if consumer.awaits_limit:
            consumer.awaits_limit = False
            self._turns.pop_from((consumer.turn, consumer))
            self._of_queues.pop_from(place_of(consumer))

    def on_delivered(self, consumer: CreditConsumer, count: int) -> None:
        """Count deliveries to a consumer under the limit, and make it the last to be woken when there is room."""
        if not consumer.no_ack:
            self.unacked += count
        consumer.served = self.next_delivery()

    def on_settled(self, count: int) -> None:
        """Count settled deliveries, and wake the consumers that waited for room."""
        self.unacked -= count
        if self._turns:
            self._wake()

    def next_delivery(self) -> int:
        """Return the number of a new consumer or a delivery, by which consumers are woken in order."""
        self._deliveries += 1
        return self._deliveries

    def _wake(self) -> None:
        """Wake as many consumers as can have a delivery, and more in the next turn if those do not take it."""
        turns = self._turns
        room = self.limit - self.unacked if self.limit else WOKEN
        for _ in range(WOKEN):
            if not turns or room <= 0:
                break
            consumer = self._pop()
            consumer.queue.host.scheduler.spent += WAKE_COST
            consumer.awaits_limit = False
            if consumer.waiting:
                consumer.queue.wake(consumer)
                room -= consumer.queue.ready > 0
        if turns and self.frees:
            first: CreditConsumer = turns.first()[1]
            first.group.freed = True
            first.queue.host.scheduler.freed += 1
            if not self._expected:
                self._expected = True
                clock = first.queue.host.clock
                clock.call_at(clock.now_ms(), self._wake_more)

    def _pop(self) -> CreditConsumer:
        """Remove and return the consumer of the highest priority of the queue whose turn it is."""
        first: CreditConsumer = self._turns.pop_first()[1]
        best: CreditConsumer = self._of_queues.pop_from((id(first.queue),))[-1]
        if best is not first:  # whose turn it had
            self._turns.pop_from((best.turn, best))
            self._of_queues.pop_from(place_of(first))
            self._add(first, self.next_delivery())
        return best

    def _wake_more(self) -> None:
        """Wake more consumers as a job, because those of very many channels may wait."""
        if self._turns:
            self._turns.first()[1].queue.host.scheduler.start("consumers under a shared limit", self._wake_in_a_step())
        else:
            self._expected = False

    def _wake_in_a_step(self) -> Job:
        self._expected = False
        if self._turns and self.frees:
            host = self._turns.first()[1].queue.host
            before = host.scheduler.spent
            self._wake()
            host.pump()
            yield host.scheduler.spent - before


def place_of(consumer: CreditConsumer) -> Entry:
    """Return the entry of a consumer that waits in the order of those of its queue."""
    return id(consumer.queue), -consumer.priority, consumer.turn, consumer
