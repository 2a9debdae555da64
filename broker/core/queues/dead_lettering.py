"""Dead-lettering: messages that a queue drops are republished to its dead letter exchange.

Dead-lettering costs as much as publishing, and a new limit, a common deadline or one basic.nack can drop any number of
messages at once. So they wait in the queue's outbox, and a slice of them is published whenever the queue is pumped.
Dead-lettering never recurses: clients may declare a chain of any number of queues, each the dead letter queue of the
one before. Messages in the outbox stay in the journal, so after a crash they are in the queue again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..counters.statistics import AT_MOST_ONCE
from ..jobs.scheduler import Job
from ..messages.message import Message, total_bytes
from .message_log import DEAD_LETTERED
from .route_target import RouteTarget
from .x_death import REJECTED, copy_with_properties, cycles, dead_letter_copy, routing_keys

if TYPE_CHECKING:
    from .queue import Queue

SLICE = 200  # messages dead-lettered at once, in addition to as many as were published: some milliseconds
REST_SLICE, COST = 50, 10  # for a deleted queue: messages in one step of a job, and the cost of each (`scheduler`)
MANY = 10_000  # with more in the outbox, the queue delivers, expires and drops nothing


class DeadLetterOutbox:
    """The messages that one queue has dropped and that wait to be dead-lettered.

    waiting           (message, reason, whether the message was ever in the queue)
    persistent_count  those of them that are still stored in the journal
    persistent_bytes  the sum of their bodies
    """

    __slots__ = ("_queue", "waiting", "persistent_count", "persistent_bytes")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.waiting: deque[tuple[Message, str, bool]] = deque()
        self.persistent_count = self.persistent_bytes = 0

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def many(self) -> bool:
        """True if the queue must not drop more messages for now."""
        return len(self.waiting) > MANY

    def add(self, messages: list[Message], reason: str, queued: bool = True) -> None:
        """Add messages. `queued` is False for messages that the queue rejected."""
        queue = self._queue
        queue.host.statistics.count_dead_letters(queue.settings.type, AT_MOST_ONCE, reason, len(messages))
        self.waiting.extend([(message, reason, queued) for message in messages])
        if queued and queue.number:
            self._count(messages, 1)

    def publish_slice(self, published: int) -> None:
        """Publish SLICE messages and as many more as were published to the queue since, so that the outbox keeps up."""
        self._publish_first(min(SLICE + published, len(self.waiting)))

    def publish_all(self) -> None:
        """Publish all messages, as the node stops."""
        self._publish_first(len(self.waiting))

    def publish_rest(self) -> Job:
        """Publish all messages of a deleted queue, in slices."""
        while self.waiting:
            before = len(self.waiting)
            self._publish_first(min(REST_SLICE, before))
            yield COST * (before - len(self.waiting))

    def _publish_first(self, count: int) -> None:
        """Publish the first messages. Successive ones with the same reason are published together."""
        queue, waiting = self._queue, self.waiting
        while count:
            _, reason, queued = waiting[0]
            messages: list[Message] = []
            while count and waiting and waiting[0][1] == reason and waiting[0][2] == queued:
                messages.append(waiting.popleft()[0])
                count -= 1
            self.publish(messages, reason)  # the copies must be durable before the journal drops the originals
            if queued and queue.number:
                queue.journal.settle(messages, moved=True)
                self._count(messages, -1)

    def _count(self, messages: list[Message], sign: int) -> None:
        stored = [message for message in messages if message.persistent]
        self.persistent_count += sign * len(stored)
        self.persistent_bytes += sign * total_bytes(stored)

    def publish(self, messages: list[Message], reason: str) -> None:
        """Publish messages to the queue's dead letter exchange, or drop them if there is none.

        A message that differs from the one before in its body only, as most do, gets a copy of its properties and its
        route.
        """
        queue = self._queue
        host, settings = queue.host, queue.settings
        exchange = settings.dead_letter_exchange
        if exchange is None or not host.has_exchange(exchange):
            return
        timestamp_s = host.clock.timestamp_s()
        before: Message | None = None
        copies: list[Message] = []
        targets: tuple[RouteTarget, ...] = ()
        for message in messages:
            if before is not None and alike(before, message):
                copies.append(
                    copy_with_properties(message, copies[0].address, copies[0].property_bytes, copies[0].bcc_keys)
                )
                continue
            self._enqueue(copies, targets)
            copy = dead_letter_copy(message, queue.name, reason, exchange, settings.dead_letter_key, timestamp_s)
            targets, stable = host.route_to(exchange, routing_keys(message, settings.dead_letter_key), copy)
            if reason != REJECTED:
                targets = tuple(target for target in targets if not cycles(copy, target.name))
            copies = [copy]
            before = message if stable else None
        self._enqueue(copies, targets)

    def _enqueue(self, messages: list[Message], queues: tuple[RouteTarget, ...]) -> None:
        """Enqueue messages, of which either all or none are persistent."""
        if messages and queues:
            self._queue.host.enqueue(messages, total_bytes(messages), messages[0].persistent, queues, DEAD_LETTERED)


def alike(one: Message, other: Message) -> bool:
    """Return whether two messages differ in their bodies only."""
    return (
        one.address.encoded == other.address.encoded
        and one.property_bytes == other.property_bytes
        and one.dead_lettered == other.dead_lettered
        and one.bcc_keys == other.bcc_keys
        and one.persistent == other.persistent
    )
