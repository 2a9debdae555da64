"""The consumers of one queue, and the order in which they get messages.

Consumers of the highest priority with room are served first, in turn within a priority. A consumer without room leaves
the turn and rejoins it at the tail, so that a delivery looks at no consumer that waits for room.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from ..messages.message import Message

if TYPE_CHECKING:
    from .queue import Queue

WAITING = "waiting"  # activity status of a consumer that waits for the active one


@mypyc_attr(allow_interpreted_subclasses=True)
class Consumer:
    """A consumer of a queue, as the queue sees it: a port that sessions and federation links implement.

    output   the output of its deliveries; consumers with the same output keep the order of all their deliveries
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
        """True if its channel is closed. Its queue removes it later, when the channel is released in slices."""
        return False

    def finish(self) -> None:
        """Leave the queue now if `ended`. The queue delivers again once it has the unacknowledged messages back."""
        raise NotImplementedError

    def room(self, body_bytes: int) -> int:
        """Return how many messages with bodies of about that size fit its credit and its output buffer."""
        raise NotImplementedError

    def deliver(self, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        """Send messages whose positions are position, position + step, and so on. There is room for all of them.

        After an exception the queue takes all of them back, and calls `failed`.
        """
        raise NotImplementedError

    def failed(self, messages: list[Message]) -> None:
        """Forget these messages, which `deliver` did not deliver because of a bug, and end."""

    def cancelled(self) -> None:
        """Notify of a cancellation by the broker: the queue was deleted, or the permission to read it revoked.

        The queue has already removed the consumer.
        """
        raise NotImplementedError


def is_active(consumer: Consumer) -> bool:
    return consumer.queue.consumers.activity_status(consumer) != WAITING


class Consumers:
    """The consumers of one queue, in turn within each priority."""

    __slots__ = ("_all", "_counts", "_turns", "_order", "exclusive")

    def __init__(self) -> None:
        self._all: dict[Consumer, None] = {}
        self._counts: dict[int, int] = {}  # by priority
        self._turns: dict[int, deque[Consumer]] = {}
        self._order: list[int] = []  # the priorities, highest first
        self.exclusive = False  # the only consumer is exclusive

    def __len__(self) -> int:
        return len(self._all)

    def all(self) -> list[Consumer]:
        """Return all consumers, in the order in which they were added."""
        return list(self._all)

    def ended(self) -> list[Consumer]:
        """Return the consumers whose channel is closed."""
        return [consumer for consumer in self._all if consumer.ended]

    @property
    def all_ended(self) -> bool:
        """Return whether there are consumers, and the channels of all are closed."""
        return len(self._all) > 0 and all(consumer.ended for consumer in self._all)

    def activity_status(self, consumer: Consumer) -> str:
        """Return RabbitMQ's activity status of the consumer: up, single_active or waiting."""
        return "up"

    def add(self, consumer: Consumer) -> None:
        """Add a consumer. If it is `waiting`, it joins the turn when it is woken."""
        self._all[consumer] = None
        self._counts[consumer.priority] = self._counts.get(consumer.priority, 0) + 1
        self.exclusive = consumer.exclusive
        turn = self._turn(consumer.priority)
        if not consumer.waiting:
            turn.append(consumer)

    def remove(self, consumer: Consumer) -> bool:
        """Remove a consumer; return False if it was not there, as when its queue was deleted at the same time."""
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
        """Return a consumer that has room again to the turn."""
        if consumer.waiting:
            consumer.waiting = False
            self._turn(consumer.priority).append(consumer)

    def put_off(self) -> None:
        """Take consumers without room out of the turn without a delivery; each calls `wake` when it has room."""
        for turn in self._turns.values():
            for consumer in [one for one in turn if one.room(0) <= 0]:
                turn.remove(consumer)
                consumer.waiting = True

    def any_ready(self) -> bool:
        """Return whether a consumer is in the turn; it may have lost its room since."""
        return any(self._turns.values())

    def take_turn(self, wanted: int, body_bytes: int) -> tuple[list[Consumer], int]:
        """Return up to `wanted` consumers, in turn, and the number of messages that each of them can take.

        The list is empty if none has room. Of `n` consumers, consumer i mod n gets message i. A consumer that shares
        its room is returned alone, since a delivery to one leaves less room for the others.
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
        """Continue the turn after the last taker that got one of `served` messages, dealt out one by one."""
        turn = self._turns.get(takers[0].priority)
        if turn is None:
            return
        if served < len(takers):
            turn.rotate(len(takers) - served)  # messages were long: consumers that got none are next
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
    """The consumers of a queue with a single active consumer: one is served, the others wait.

    With `preempts`, as in quorum queues, a consumer of a higher priority becomes active once the active one has settled
    all its deliveries.
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
            self.wake(self.active)  # it may have been put off for the removed one
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
        """Return the first consumer of the highest priority."""
        return max(self._all, key=lambda consumer: consumer.priority, default=None)
