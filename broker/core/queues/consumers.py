"""The consumers of one queue, and the order in which they get messages.

Consumers of the highest priority with room are served first, in turn within a priority. A consumer without room leaves
the turn and rejoins it at the tail, so that a delivery looks at no consumer that waits for room.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice, takewhile
from typing import Final

from mypy_extensions import mypyc_attr

from ..jobs.scheduler import CONSUMER_COST, Scheduler
from ..messages.message import Message
from .sorted_entries import SortedEntries

LOOKS = 1_000  # consumers asked for their room at once: a millisecond
LOOK_COST = 2  # of one of them that has no room, or gets no message (`jobs.scheduler`)
LEVEL_COST = 6  # of a priority whose consumers have no room any more, beside theirs
GROUPS_SHIFT = 5  # to look at 32 groups costs 1
WASTED_COST = 3_000  # of those and of these, after which deliveries wait for the next pump of the queue
NONE: OrderedDict[Consumer, None] = OrderedDict()  # of a queue that has had no consumer
NO_GROUPS: dict[ConsumerGroup, int] = {}  # of a queue that has no consumer
WAITING = "waiting"  # activity status of a consumer that waits for the active one


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumerGroup:
    """Consumers that may get room at the same time, as those of a channel do; a port that sessions implement.

    freed  some that wait may have room, and are woken in one of the next turns, because they are many; it may still be
           True when they have none any more (`still_freed`); `Scheduler.freed` counts how often it is set to True
    """

    __slots__ = ("freed",)

    def __init__(self) -> None:
        self.freed = False

    def still_freed(self) -> bool:
        """Return whether the group, which was `freed`, is so now, and set that."""
        return self.freed


ALONE: Final = ConsumerGroup()  # of consumers that are always woken at once


@mypyc_attr(allow_interpreted_subclasses=True)
class Consumer:
    """A consumer of a queue, as the queue sees it: a port that sessions and federation links implement.

    output   the output of its deliveries; consumers with the same output keep the order of all their deliveries
    group    consumers that may get room at the same time as it; set before it is added to its queue
    waiting  it had no room when last asked, and gets no turn until it calls `Queue.wake`; set by the queue alone
    shares   it shares its room with other consumers
    unacked  deliveries that it has not settled
    """

    __slots__ = ("tag", "output", "group", "no_ack", "exclusive", "priority", "waiting", "shares", "unacked")

    def __init__(self, tag: str, output: object, no_ack: bool, exclusive: bool, priority: int) -> None:
        self.tag = tag
        self.output = output
        self.group = ALONE
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.waiting = False
        self.shares = False
        self.unacked = 0

    @property
    def account(self) -> str:
        """The account of its user (`User.account`); empty if it is none of a user."""
        return ""

    @property
    def ended(self) -> bool:
        """True if its channel is closed. Its queue removes it later, when the channel is released in slices."""
        return False

    @property
    def end_cost(self) -> int:
        """The cost of removing it (`jobs.scheduler`)."""
        return CONSUMER_COST

    def finish(self) -> None:
        """Leave the queue now if `ended`. The queue delivers again once it has the unacknowledged messages back."""

    def room(self, body_bytes: int) -> int:
        """Return how many messages fit its credit and its output; bodies and long headers are of about that size."""
        raise NotImplementedError

    def deliver(self, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        """Send messages whose positions are position, position + step, and so on. There is room for all of them.

        After an exception the queue takes all of them back, and calls `failed`.
        """

    def failed(self, messages: list[Message]) -> None:
        """Forget these messages, which `deliver` did not deliver because of a bug, and end."""

    def cancelled(self) -> None:
        """Notify of a cancellation by the broker: the queue was deleted, or the permission to read it revoked.

        The queue has already removed the consumer.
        """


class Turn:
    """Consumers by priority, in order within each. A change costs a search among the priorities."""

    __slots__ = ("wasted_cost", "_consumers", "_priorities", "_best")

    def __init__(self) -> None:
        self.wasted_cost = 0  # of consumers that were asked and priorities that were looked at in vain, not charged yet
        self._consumers: dict[int, OrderedDict[Consumer, None]] = {}  # of one priority at most there are none
        self._priorities = SortedEntries()  # its keys, descending: (-priority,)
        self._best = NONE  # those of the highest priority

    def of(self, priority: int) -> OrderedDict[Consumer, None]:
        """Return the consumers of this priority, to which the caller adds or among which there are some."""
        consumers = self._consumers.get(priority)
        if consumers is None:
            consumers = self._consumers[priority] = OrderedDict()
            self._priorities.add((-priority,))
            self._find_best()
        return consumers

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, if it is there."""
        consumers = self._consumers.get(consumer.priority)
        if consumers is not None:
            consumers.pop(consumer, None)
            if not consumers:
                self._forget(consumer.priority)

    def best(self) -> OrderedDict[Consumer, None]:
        """Return the consumers of the highest priority that has some, or an empty dict."""
        while not self._best and len(self._consumers) > 1:
            self.wasted_cost += LEVEL_COST
            self._forget(-self._priorities.first()[0])
        return self._best

    def _forget(self, priority: int) -> None:
        """Remove a priority without consumers, unless it is the last one, to which a consumer often returns."""
        if len(self._consumers) > 1:
            del self._consumers[priority]
            self._priorities.pop_from((-priority,))
            self._find_best()

    def _find_best(self) -> None:
        self._best = self._consumers[-self._priorities.first()[0]]


class Consumers:
    """The consumers of one queue, in turn within each priority.

    all          all of them, in the order in which they were added
    wasted_cost  of consumers that were asked and priorities that were looked at in vain, since it was set to 0
    """

    __slots__ = ("wasted_cost", "all", "_live", "_turn", "_groups", "_none_freed", "_looked", "_scheduler", "exclusive")

    def __init__(self, scheduler: Scheduler) -> None:
        self.wasted_cost = 0
        self._scheduler = scheduler
        self.all: dict[Consumer, None] = {}
        self._live: dict[Consumer, None] = {}  # those not known to have ended
        self._turn = Turn()  # those that may have room
        self._groups = NO_GROUPS  # with the number of their consumers
        self._looked = 0  # of these groups, in turn
        self._none_freed = 0  # `Scheduler.freed` when none of them was freed
        self.exclusive = False  # the only consumer is exclusive

    def __len__(self) -> int:
        return len(self.all)

    def first(self) -> Consumer:
        """Return the consumer that was added first; there must be one."""
        return next(iter(self.all))

    @property
    def active_ended(self) -> bool:
        """Return whether there is a single active consumer, and its channel is closed."""
        return False

    @property
    def all_ended(self) -> bool:
        """Return whether there are consumers, and the channels of all are closed."""
        ended = list(takewhile(lambda consumer: consumer.ended, self._live))
        for consumer in ended:  # each is looked at once, however often this is asked
            del self._live[consumer]
        return len(self.all) > 0 and not self._live

    def activity_status(self, consumer: Consumer) -> str:
        """Return RabbitMQ's activity status of the consumer: up, single_active or waiting."""
        return "up"

    def add(self, consumer: Consumer) -> None:
        """Add a consumer. If it is `waiting`, it joins the turn when it is woken."""
        if not self.all:
            self._groups = {}
        self.all[consumer] = self._live[consumer] = None
        self._groups[consumer.group] = self._groups.get(consumer.group, 0) + 1
        self.exclusive = consumer.exclusive
        if not consumer.waiting:
            self._turn.of(consumer.priority)[consumer] = None

    def remove(self, consumer: Consumer) -> bool:
        """Remove a consumer; return False if it was not there, as when its queue was deleted at the same time."""
        if consumer not in self.all:
            return False
        del self.all[consumer]
        self._live.pop(consumer, None)
        self._groups[consumer.group] -= 1
        if not self._groups[consumer.group]:
            del self._groups[consumer.group]
        if consumer.exclusive:
            self.exclusive = False
        self._turn.remove(consumer)
        consumer.waiting = False
        return True

    def remove_all(self) -> list[Consumer]:
        """Remove all consumers, and return them in the order in which they were added."""
        removed = list(self.all)
        for consumer in removed:
            consumer.waiting = False
        self.all, self._live, self._turn, self._groups = {}, {}, Turn(), NO_GROUPS
        self.exclusive = False
        return removed

    def wake(self, consumer: Consumer) -> None:
        """Return a consumer that has room again to the turn."""
        if consumer.waiting:
            consumer.waiting = False
            self._turn.of(consumer.priority)[consumer] = None

    def put_off(self, consumer: Consumer) -> None:
        """Take a consumer without room out of the turn without a delivery; it calls `wake` when it has room."""
        consumer.waiting = True
        self._turn.remove(consumer)

    def any_ready(self) -> bool:
        """Return whether a consumer is in the turn; it may have lost its room since."""
        return len(self._turn.best()) > 0

    def any_room(self, body_bytes: int) -> bool:
        """Return whether one of the next consumers, LOOKS at most, has room for a message."""
        for _ in range(LOOKS):
            turn = self._turn.best()
            if not turn:
                break
            consumer = next(iter(turn))
            if consumer.room(body_bytes) > 0:
                return True
            consumer.waiting = True
            del turn[consumer]
            self._scheduler.spent += LOOK_COST
        return False

    def any_freed(self) -> bool:
        """Return whether consumers that wait may have room, and are woken in one of the next turns."""
        freed = self._scheduler.freed
        if freed == self._none_freed:
            return False
        groups, at = self._groups, self._looked
        self._scheduler.spent += min(len(groups), LOOKS) >> GROUPS_SHIFT
        if any(group.freed and group.still_freed() for group in islice(groups, at, at + LOOKS)):
            return True
        self._looked = at + LOOKS
        if self._looked < len(groups):
            return True  # the others are looked at next time
        self._looked, self._none_freed = 0, freed
        return False

    def take_turn(self, wanted: int, body_bytes: int) -> tuple[list[Consumer], int]:
        """Return up to `wanted` consumers, in turn, and the number of messages that each of them can take.

        The list is empty if none of those that it asks has room: LOOKS at most, so that some may be ready still; and
        once WASTED_COST is reached. Of `n` consumers, consumer i mod n gets message i. A consumer that shares its room
        is returned alone, since a delivery to one leaves less room for the others. HOT: bench A-M.
        """
        turn = self._turn.best()
        if len(turn) == 1:  # as in most queues
            [consumer] = turn
            room = consumer.room(body_bytes)
            if room > 0:
                return [consumer], room
            consumer.waiting = True
            del turn[consumer]
        looks = LOOKS
        takers: list[Consumer] = []
        least = 0
        while len(takers) < wanted and looks:
            first = len(takers)  # they are still at the head
            if first == len(turn) and (takers or not (turn := self._turn.best())):
                break
            asked = list(islice(turn, first, first + min(wanted - first, looks)))
            looks -= len(asked)
            for consumer in asked:
                room = consumer.room(body_bytes)
                if room <= 0:
                    consumer.waiting = True
                    del turn[consumer]
                    self._turn.wasted_cost += LOOK_COST
                    continue
                if consumer.shares:
                    looks = 0
                    if takers:
                        break
                least = min(least, room) if takers else room
                takers.append(consumer)
                if consumer.shares:
                    break
        if self._turn.wasted_cost:
            self._scheduler.spent += self._turn.wasted_cost
            self.wasted_cost += self._turn.wasted_cost
            self._turn.wasted_cost = 0
            if self.wasted_cost >= WASTED_COST:
                return [], 0
        if len(takers) < len(turn):
            for taker in takers:
                turn.move_to_end(taker)
        return takers, least

    def rotate(self, takers: list[Consumer], served: int) -> None:
        """Continue the turn after the last taker that got one of `served` messages, dealt out one by one."""
        turn = self._turn.of(takers[0].priority)
        if served < len(takers):
            self._turn.wasted_cost += LOOK_COST * (len(takers) - served)
            for taker in reversed(takers[served:]):
                turn.move_to_end(taker, last=False)  # messages were long: consumers that got none are next
        elif len(turn) == len(takers):
            for taker in takers[: served % len(takers)]:
                turn.move_to_end(taker)


class SingleActiveConsumers(Consumers):
    """The consumers of a queue with a single active consumer: one is served, the others wait.

    With `preempts`, as in quorum queues, a consumer of a higher priority becomes active once the active one has settled
    all its deliveries.
    """

    __slots__ = ("active", "preempts")

    def __init__(self, scheduler: Scheduler, preempts: bool) -> None:
        super().__init__(scheduler)
        self.active: Consumer | None = None
        self.preempts = preempts

    def activity_status(self, consumer: Consumer) -> str:
        return "single_active" if consumer is self.active else WAITING

    def first(self) -> Consumer:
        """Return the active consumer; there must be one."""
        assert self.active is not None
        return self.active

    @property
    def active_ended(self) -> bool:
        return self.active is not None and self.active.ended

    def add(self, consumer: Consumer) -> None:
        super().add(consumer)
        self._turn.of(consumer.priority)[consumer] = None  # all consumers are in it, in the order of their succession
        if self.active is None:
            self.active = consumer

    def remove(self, consumer: Consumer) -> bool:
        there = super().remove(consumer)
        if consumer is self.active:
            self.active = self._best()
        elif self.preempts and self.active is not None:
            self.wake(self.active)  # it may have been put off for the removed one
        return there

    def remove_all(self) -> list[Consumer]:
        self.active = None
        return super().remove_all()

    def put_off(self, consumer: Consumer) -> None:
        consumer.waiting = True

    def any_ready(self) -> bool:
        return self.active is not None and not self.active.waiting

    def any_room(self, body_bytes: int) -> bool:
        return len(self.take_turn(1, body_bytes)[0]) > 0

    def any_freed(self) -> bool:
        active = self.active
        return active is not None and active.waiting and active.group.freed and active.group.still_freed()

    def take_turn(self, wanted: int, body_bytes: int) -> tuple[list[Consumer], int]:
        active = self.active
        if active is None or active.waiting:
            return [], 0
        room = 0
        best = self._best() if self.preempts else active
        if best is not None and best.priority > active.priority:
            if not active.unacked:
                self.active = best
                return self.take_turn(wanted, body_bytes)
        else:
            room = active.room(body_bytes)
        if room <= 0:
            active.waiting = True
            return [], 0
        return [active], room

    def _best(self) -> Consumer | None:
        """Return the first consumer of the highest priority."""
        return next(iter(self._turn.best()), None)
