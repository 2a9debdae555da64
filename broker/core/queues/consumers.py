"""The consumers of one queue and whose turn it is.

The highest priority with a consumer that has room is served first; within a priority the turn goes round. A consumer
without room leaves the turn and comes back at its tail, so a delivery never looks at consumers that wait.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..messages.message import Message

if TYPE_CHECKING:
    from .queue import Queue

WAITING = "waiting"  # activity status of a consumer that another one is served before


class Consumer:
    """A consumer of a queue, as the queue sees it: a port that sessions and federation links implement.

    output   where its deliveries are written; consumers with the same output keep the order of all their deliveries
    waiting  it had no room when last asked, and gets no turn until it calls `Queue.wake`; set by the queue alone
    shares   it shares its room with other consumers
    unacked  deliveries that it has not settled
    """

    __slots__ = ("tag", "queue", "output", "no_ack", "exclusive", "priority", "waiting", "shares", "unacked")

    def __init__(self, tag: str, queue: Queue, output: object, no_ack: bool, exclusive: bool, priority: int) -> None:
        self.tag = tag
        self.queue = queue
        self.output = output
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.waiting = False
        self.shares = False
        self.unacked = 0

    @property
    def ended(self) -> bool:
        """Whether its channel is closed; the queue loses the consumer later, when the channel is released in slices."""
        return False

    def finish(self) -> None:
        """Leave the queue now if `ended`; the queue resumes deliveries once it has the unacknowledged messages back."""
        raise NotImplementedError

    def room(self, body_bytes: int) -> int:
        """Return how many messages with bodies of about that size fit its credit and its output buffer."""
        raise NotImplementedError

    def deliver(self, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        """Send messages whose positions are position, position + step, and so on. There is room for all of them."""
        raise NotImplementedError

    def cancelled(self) -> None:
        """The queue is deleted, or the right to read it was revoked. The queue has already removed the consumer."""
        raise NotImplementedError


def is_active(consumer: Consumer) -> bool:
    return consumer.queue.consumers.activity_status(consumer) != WAITING


class Consumers:
    __slots__ = ("_all", "_counts", "_turns", "_order", "exclusive")

    def __init__(self) -> None:
        self._all: dict[Consumer, None] = {}
        self._counts: dict[int, int] = {}  # by priority
        self._turns: dict[int, deque[Consumer]] = {}
        self._order: list[int] = []  # the priorities, highest first
        self.exclusive = False  # one of them asked to be the only one

    def __len__(self) -> int:
        return len(self._all)

    def all(self) -> list[Consumer]:
        """All of them, in the order in which they came."""
        return list(self._all)

    def ended(self) -> list[Consumer]:
        """Those whose channel is over."""
        return [consumer for consumer in self._all if consumer.ended]

    @property
    def all_ended(self) -> bool:
        """Whether there are some, and none whose channel goes on."""
        return len(self._all) > 0 and all(consumer.ended for consumer in self._all)

    def activity_status(self, consumer: Consumer) -> str:
        """RabbitMQ's word for whether the consumer gets deliveries: up, single_active or waiting."""
        return "up"

    def add(self, consumer: Consumer) -> None:
        """One that is `waiting` gets its first turn when it is woken."""
        self._all[consumer] = None
        self._counts[consumer.priority] = self._counts.get(consumer.priority, 0) + 1
        self.exclusive = consumer.exclusive
        turn = self._turn(consumer.priority)
        if not consumer.waiting:
            turn.append(consumer)

    def remove(self, consumer: Consumer) -> bool:
        """False when it was not there: a consumer can end and its queue go at the same time."""
        if consumer not in self._all:
            return False
        del self._all[consumer]
        if consumer.exclusive:
            self.exclusive = False
        turn = self._turns[consumer.priority]
        if not consumer.waiting:
            turn.remove(consumer)
        consumer.waiting = False
        self._counts[consumer.priority] -= 1
        if not self._counts[consumer.priority]:
            del self._counts[consumer.priority]
            del self._turns[consumer.priority]
            self._order.remove(consumer.priority)
        return True

    def wake(self, consumer: Consumer) -> None:
        """It has room again."""
        if consumer.waiting:
            consumer.waiting = False
            self._turn(consumer.priority).append(consumer)

    def put_off(self) -> None:
        """Take those without room out of the turn before there is anything for them: each wakes when it has room."""
        for turn in self._turns.values():
            for consumer in [one for one in turn if one.room(0) <= 0]:
                turn.remove(consumer)
                consumer.waiting = True

    def any_ready(self) -> bool:
        """Whether some consumer is in a turn, as far as is known."""
        return any(self._turns.values())

    def take_turn(self, wanted: int, body_bytes: int) -> tuple[list[Consumer], int]:
        """Up to `wanted` consumers whose turn it is, in their order, and how many messages each of them can take.

        The list is empty when nobody has room. With `n` consumers, message i is for consumer i mod n. Who shares room
        with others is taken alone, since a delivery to one of them leaves less for the next.
        """
        for priority in self._order:
            turn = self._turns[priority]
            takers: list[Consumer] = []
            least = 0
            for _ in range(len(turn)):
                if len(takers) == wanted:
                    break
                consumer = turn.popleft()
                room = consumer.room(body_bytes)
                if room <= 0:
                    consumer.waiting = True
                    continue
                if consumer.shares and takers:
                    turn.appendleft(consumer)
                    break
                least = min(least, room) if takers else room
                takers.append(consumer)
                if consumer.shares:
                    break
            turn.extend(takers)
            if takers:
                return takers, least
        return [], 0

    def rotate(self, takers: list[Consumer], served: int) -> None:
        """The takers were served one by one, `served` messages in all: the one after the last is first again."""
        turn = self._turns.get(takers[0].priority)
        if turn is None:
            return
        if served < len(takers):
            turn.rotate(len(takers) - served)  # long messages: those that got none come before all others
        elif len(turn) == len(takers):
            turn.rotate(-(served % len(takers)))

    def _turn(self, priority: int) -> deque[Consumer]:
        turn = self._turns.get(priority)
        if turn is None:
            turn = self._turns[priority] = deque()
            self._order.append(priority)
            self._order.sort(reverse=True)
        return turn


class SingleActiveConsumers(Consumers):
    """One of them is served, the others wait for it to go.

    With `preempts` it also gives way to a consumer of a higher priority, once it has settled what it has.
    """

    __slots__ = ("active", "preempts")

    def __init__(self, preempts: bool) -> None:
        super().__init__()
        self.active: Consumer | None = None
        self.preempts = preempts

    def activity_status(self, consumer: Consumer) -> str:
        return "single_active" if consumer is self.active else WAITING

    def add(self, consumer: Consumer) -> None:
        super().add(consumer)
        if self.active is None:
            self.active = consumer

    def remove(self, consumer: Consumer) -> bool:
        there = super().remove(consumer)
        if consumer is self.active:
            self.active = self._best()
        elif self.preempts and self.active is not None:
            self.wake(self.active)  # it may have given way to this one
        return there

    def put_off(self) -> None:
        active = self.active
        if active is not None and not active.waiting and active.room(0) <= 0:
            active.waiting = True
            self._turn(active.priority).remove(active)

    def any_ready(self) -> bool:
        return self.active is not None and not self.active.waiting

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
            self._turn(active.priority).remove(active)
            return [], 0
        return [active], room

    def _best(self) -> Consumer | None:
        """The highest priority, and of these the one that came first."""
        return max(self._all, key=lambda consumer: consumer.priority, default=None)
