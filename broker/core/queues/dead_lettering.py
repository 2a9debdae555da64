"""Dead-lettering: messages that a queue drops are republished to its dead letter exchange.

Dead-lettering costs as much as publishing, and a new limit, a common deadline or one basic.nack can drop any number of
messages at once. So they wait in the queue's outbox, and a slice of them is published whenever the queue is pumped.
Dead-lettering never recurses: clients may declare a chain of any number of queues, each the dead letter queue of the
one before. Messages in the outbox stay in the journal, so after a crash they are in the queue again.

With the strategy at-least-once a message stays in the outbox until each of its targets has taken it, and is retried
where there is no target, or one rejects it. The journal settles it together with its copies.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..counters.statistics import AT_LEAST_ONCE, AT_MOST_ONCE, CONFIRMED
from ..jobs.scheduler import COPY_SHIFT, Job
from ..messages.message import Message, total_bytes
from .message_log import DEAD_LETTERED
from .route_target import RouteTarget
from .x_death import REJECTED, copy_with_properties, cycles, dead_letter_copy, routing_keys

if TYPE_CHECKING:
    from .queue import Queue

SLICE = 200  # messages dead-lettered at once, in addition to as many as were published: some milliseconds
SLICE_COST = 2_000  # of the messages dead-lettered at once, in addition to that of those published (`scheduler`)
REST_COST = 500  # of a step of the job that dead-letters the messages of a deleted queue
COST, ALIKE_COST = 10, 4  # of a message that differs from the one before, or differs in the body only
HEADER_SHIFT = 3  # to decode 8 bytes of properties costs 1
MANY = 10_000  # with more in the outbox, the queue delivers, expires and drops nothing
MANY_BYTES = 64 << 20  # likewise, of bodies
UNCONFIRMED = 32  # messages retried at a time, as in RabbitMQ; further ones wait until the targets take some of them
RETRY_MS = 5_000  # until the next retry,
QUICK_RETRY_MS = 10  # or at first this after targets took some of the messages; twice as long after each vain retry


class UnconfirmedLetter:
    """A message that was dead-lettered at least once and that not all of its targets have taken.

    confirmed  the targets that have
    ticket     the batch of the journal with the last copy; the message may be settled once that is durable
    """

    __slots__ = ("message", "reason", "confirmed", "ticket")

    def __init__(self, message: Message, reason: str) -> None:
        self.message = message
        self.reason = reason
        self.confirmed: set[RouteTarget] = set()
        self.ticket = 0


class DeadLetterOutbox:
    """The messages that one queue has dropped and that wait to be dead-lettered.

    waiting           (message, reason, whether the message was ever in the queue)
    unconfirmed       the messages before them that are to be retried at `retry_at_ms`, which is 0 without any
    persistent_count  those of them that are still stored in the journal
    persistent_bytes  the sum of their bodies
    """

    __slots__ = ("_queue", "waiting", "unconfirmed", "retry_at_ms", "persistent_count", "persistent_bytes", "_wait_ms")
    __deletable__ = ("_queue",)  # `Queue.break_cycles`

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.waiting: deque[tuple[Message, str, bool]] = deque()
        self.unconfirmed: list[UnconfirmedLetter] = []
        self.retry_at_ms = 0
        self._wait_ms = RETRY_MS  # until the next retry
        self.persistent_count = self.persistent_bytes = 0

    def __len__(self) -> int:
        return len(self.waiting) + len(self.unconfirmed)

    @property
    def many(self) -> bool:
        """True if the queue must not drop more messages for now."""
        return len(self.waiting) > MANY or self.persistent_bytes > MANY_BYTES and len(self.waiting) > 0

    @property
    def publishable(self) -> bool:
        """True if messages can be published before the next retry."""
        return len(self.waiting) > 0 and (len(self.unconfirmed) < UNCONFIRMED or not self._at_least_once)

    @property
    def _at_least_once(self) -> bool:
        """The strategy. It ends with the queue, whose messages the journal then no longer keeps."""
        return self._queue.settings.dead_letters_at_least_once and not self._queue.deleted

    def add(self, messages: list[Message], reason: str, queued: bool = True) -> None:
        """Add messages. `queued` is False for messages that the queue rejected."""
        queue = self._queue
        strategy = AT_LEAST_ONCE if self._at_least_once else AT_MOST_ONCE
        queue.host.statistics.count_dead_letters(queue.settings.type, strategy, reason, len(messages))
        self.waiting.extend([(message, reason, queued) for message in messages])
        if queued and queue.number:
            self._count(messages, 1)

    def publish_slice(self, published: int) -> int:
        """Publish SLICE messages and as many more as were published to the queue since, so that the outbox keeps up.

        Stop where they have cost too much; return the cost.
        """
        cost = 0
        if self.unconfirmed and (self._queue.host.clock.now_ms() >= self.retry_at_ms or not self._at_least_once):
            cost = self._retry()
        cost += self._publish_first(min(SLICE + published, len(self.waiting)), SLICE_COST + 2 * ALIKE_COST * published)
        if not self.unconfirmed:
            self.retry_at_ms = 0
            self._wait_ms = RETRY_MS
        return cost

    def publish_all(self) -> None:
        """Publish all messages, as the node stops. Those that targets do not take are in the queue after a restart."""
        while self.waiting:
            self.unconfirmed.clear()
            self._publish_first(len(self.waiting), SLICE_COST)

    def publish_rest(self) -> Job:
        """Publish all messages of a deleted queue, in slices, at most once from now on."""
        self._retry()
        while self.waiting:
            yield self._publish_first(min(SLICE, len(self.waiting)), REST_COST)
        self._queue.break_cycles()

    def _publish_first(self, count: int, cost_limit: int) -> int:
        """Publish the first messages until they have cost too much; return the cost.

        Successive ones with the same reason are published together.
        """
        queue, waiting = self._queue, self.waiting
        cost = 0
        while count and cost < cost_limit and self.publishable:
            _, reason, queued = waiting[0]
            if self._at_least_once:
                cost += self._forward(UnconfirmedLetter(waiting.popleft()[0], reason))
                count -= 1
                continue
            messages: list[Message] = []
            while count and waiting and waiting[0][1] == reason and waiting[0][2] == queued:
                messages.append(waiting.popleft()[0])
                count -= 1
            # The copies must be durable before the journal drops the originals.
            published, its_cost = self.publish(messages, reason, cost_limit - cost)
            cost += its_cost
            if published < len(messages):
                waiting.extendleft([(message, reason, queued) for message in reversed(messages[published:])])
                del messages[published:]
            if queued and queue.number:
                queue.journal.settle(messages, moved=True)
                self._count(messages, -1)
        return cost

    def _retry(self) -> int:
        """Publish the unconfirmed messages again, and return the cost. Targets with room again take the rest soon."""
        letters, self.unconfirmed = self.unconfirmed, []
        cost = sum([self._forward(letter) for letter in letters])
        self._wait_ms = QUICK_RETRY_MS if len(self.unconfirmed) < len(letters) else min(2 * self._wait_ms, RETRY_MS)
        self.retry_at_ms = self._queue.host.clock.now_ms() + self._wait_ms
        return cost

    def _forward(self, letter: UnconfirmedLetter) -> int:
        """Publish a message to those targets that have room and do not have it; settle it if all of them have it now.

        Copies of an earlier attempt are in an earlier batch of the journal, which must be durable before that. Return
        the cost.
        """
        queue, message = self._queue, letter.message
        host, exchange = queue.host, queue.settings.dead_letter_exchange
        cost, routing = cost_of(message), host.routing_cost
        done = not self._at_least_once
        if exchange is not None and host.has_exchange(exchange):
            copy, targets, _ = self._route(message, letter.reason, exchange, host.clock.timestamp_s())
            cost += len(targets) + host.routing_cost - routing
            missing = [target for target in targets if target not in letter.confirmed]
            takers = tuple([target for target in missing if target.has_room(copy.body_bytes)])
            if takers and not host.enqueue([copy], copy.body_bytes, copy.persistent, takers, DEAD_LETTERED).refused:
                letter.confirmed.update(takers)
            if targets and letter.confirmed.issuperset(targets) and letter.ticket <= host.journal.durable:
                host.statistics.count_dead_letters(queue.settings.type, AT_LEAST_ONCE, CONFIRMED, 1)
                done = True
            elif takers:
                letter.ticket = host.journal.ticket()
        if done:
            queue.journal.settle([message], moved=True)
            self._count([message], -1)
            return cost
        if not self.retry_at_ms:
            host.scheduler.report(
                "dead_letters_wait", "warning", {"queue": queue.name, "vhost": queue.vhost, "exchange": exchange}
            )
        if not self.unconfirmed:
            self.retry_at_ms = host.clock.now_ms() + self._wait_ms
        self.unconfirmed.append(letter)
        return cost

    def _count(self, messages: list[Message], sign: int) -> None:
        stored = [message for message in messages if message.persistent]
        self.persistent_count += sign * len(stored)
        self.persistent_bytes += sign * total_bytes(stored)

    def publish(self, messages: list[Message], reason: str, cost_limit: int) -> tuple[int, int]:
        """Publish messages to the queue's dead letter exchange, or drop them if there is none.

        Stop where they have cost too much; return how many were published or dropped, and the cost. A message that
        differs from the one before in its body only, as most do, gets a copy of its properties and its route.
        """
        queue = self._queue
        host, exchange = queue.host, queue.settings.dead_letter_exchange
        if exchange is None or not host.has_exchange(exchange):
            return len(messages), len(messages)
        routing = host.routing_cost
        cost = count = 0
        timestamp_s = host.clock.timestamp_s()
        before: Message | None = None
        copies: list[Message] = []
        targets: tuple[RouteTarget, ...] = ()
        for message in messages:
            if cost >= cost_limit:
                break
            count += 1
            if before is not None and alike(before, message):
                cost += ALIKE_COST + len(targets) + (message.body_bytes >> COPY_SHIFT)
                copies.append(
                    copy_with_properties(message, copies[0].address, copies[0].property_bytes, copies[0].bcc_keys)
                )
                continue
            self._enqueue(copies, targets)
            copy, targets, stable = self._route(message, reason, exchange, timestamp_s)
            copies = [copy]
            before = message if stable else None
            cost += cost_of(message) + len(targets) + host.routing_cost - routing
            routing = host.routing_cost
        self._enqueue(copies, targets)
        return count, cost

    def _route(
        self, message: Message, reason: str, exchange: str, timestamp_s: int
    ) -> tuple[Message, tuple[RouteTarget, ...], bool]:
        """Return the dead-lettered copy, its targets, and whether these depend on its routing keys alone."""
        name, key = self._queue.name, self._queue.settings.dead_letter_key
        copy = dead_letter_copy(message, name, reason, exchange, key, timestamp_s)
        targets, stable = self._queue.host.route_to(exchange, routing_keys(message, key), copy)
        if reason != REJECTED:
            targets = tuple(target for target in targets if not cycles(copy, target.name))
        return copy, targets, stable

    def _enqueue(self, messages: list[Message], queues: tuple[RouteTarget, ...]) -> None:
        """Enqueue messages, of which either all or none are persistent."""
        if messages and queues:
            self._queue.host.enqueue(messages, total_bytes(messages), messages[0].persistent, queues, DEAD_LETTERED)


def cost_of(message: Message) -> int:
    """Return the cost of a message with its properties and its body, which are copied (`jobs.scheduler`)."""
    return COST + (len(message.property_bytes) >> HEADER_SHIFT) + (message.body_bytes >> COPY_SHIFT)


def alike(one: Message, other: Message) -> bool:
    """Return whether two messages differ in their bodies only."""
    return (
        one.address.encoded == other.address.encoded
        and one.property_bytes == other.property_bytes
        and one.dead_lettered == other.dead_lettered
        and one.bcc_keys == other.bcc_keys
        and one.persistent == other.persistent
    )
