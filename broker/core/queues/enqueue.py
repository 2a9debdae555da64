"""Messages into queues that look at each of them: priorities, times to live, limits that refuse; and dead letters.

Everything else goes by `VHost.enqueue` alone, many messages at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...amqp import properties
from ..exchanges.sink import Sink
from ..messages.message import Message, total_bytes
from ..messages.message_state import NEVER, NO_TTL, MessageState
from ..messages.ports import Journal
from .enqueue_result import ACCEPTED, DURABLE, EnqueueResult
from .message_log import DEAD_LETTERED, MADE
from .queue import Queue
from .queue_settings import NONE, QUORUM, QueueSettings
from .x_death import REJECTED, copied, cycles, dead_lettered, routing_keys

if TYPE_CHECKING:
    from ..vhost.vhost import VHost


def enqueue_carefully(
    messages: list[Message], queues: tuple[Queue, ...], source: str = MADE, alone: bool = True
) -> EnqueueResult:
    """One by one into each queue. A message gets a life of its own for each, and is stored for each.

    `alone` says that no other queue has them.
    """
    stored = False
    refused: set[int] = set()
    if alone and source and len(queues) > 1 and (log := queues[0].home.message_log) is not None:
        log.made(messages)
    for queue in queues:
        if isinstance(queue, Sink):
            taken = queue.take(messages)
            stored = taken.stored or stored
            refused |= taken.refused
            continue
        entry = PerMessageEnqueue(queue, alone and len(queues) == 1, source)
        for index, message in enumerate(messages):
            if not entry.take(message):
                refused.add(index)
        entry.push()
        stored = stored or entry.stored
    if refused:
        return EnqueueResult(stored, frozenset(refused))
    return DURABLE if stored else ACCEPTED


def store(
    journal: Journal, messages: list[Message], body_bytes: int, queues: tuple[Queue, ...], numbers: list[int]
) -> list[Message]:
    """Once for all the durable ones of these queues, which have these numbers; the messages to queue. HOT: bench D."""
    if any(message.id for message in messages):
        messages = [message.again() for message in messages]  # each copy has a life of its own in the journal
    stored = [message for message in messages if message.persistent]
    journal.append(numbers, stored)
    stored_bytes = body_bytes if len(stored) == len(messages) else total_bytes(stored)
    for queue in queues:
        if queue.number:
            queue.kept.add(len(stored), stored_bytes)
    return messages


class PerMessageEnqueue:
    """The way into one queue. `run` are messages of one priority that are pushed together."""

    __slots__ = (
        "queue",
        "rules",
        "alone",
        "source",
        "stored",
        "now_ms",
        "run",
        "level",
        "run_bytes",
        "_seen",
        "_seen_level",
    )

    def __init__(self, queue: Queue, alone: bool, source: str) -> None:
        self.queue = queue
        self.rules = queue.rules
        self.alone = alone
        self.source = source
        self.stored = False
        self.now_ms = queue.home.clock.now_ms()
        self.run: list[Message] = []
        self.run_bytes = 0
        self.level = 0
        self._seen = b""
        self._seen_level = 0

    def take(self, message: Message) -> bool:
        """False where the queue refuses it."""
        deduplication = self.queue.deduplication
        if deduplication is not None and deduplication.is_duplicate(message, self.now_ms):
            self.stored = True  # it is confirmed no sooner than the original, which the journal may still have
            return True
        if self.rules.refuses and not self._has_room(message):
            return False
        if deduplication is not None:
            deduplication.add(message, self.now_ms)
        level = self._level_of(message)
        ttl_ms = shortest_ttl(self.rules, message.life)
        died, blind = message.died, message.blind
        if not self.alone or message.id:
            message = message.again()
        if self.rules.type == QUORUM:
            message.persistent = True  # whatever its delivery mode
        if ttl_ms != NO_TTL or level or died or blind:
            deadline_ms = self.now_ms + ttl_ms if ttl_ms != NO_TTL else NEVER
            message.life = MessageState(NO_TTL, deadline_ms, level, 0, died, blind)
        if level != self.level or ttl_ms == 0:
            self.push()
        self.level = level
        self.run.append(message)
        self.run_bytes += message.body_bytes
        if ttl_ms == 0:
            self._hand_over(message)
        elif self.rules.refuses:
            self.push()  # the next one must be told of it
        return True

    def push(self) -> None:
        """Store and queue what has gathered."""
        if not self.run:
            return
        run, self.run = self.run, []
        run_bytes, self.run_bytes = self.run_bytes, 0
        queue = self.queue
        persistent = [message for message in run if message.persistent] if queue.number else []
        if persistent:
            queue.home.journal.append([queue.number], persistent)
            queue.kept.add(len(persistent), total_bytes(persistent))
            self.stored = True
        if queue.home.message_log is not None:
            queue.home.message_log.enqueued((queue,), run, self.source)
        queue.push_at(self.level, run, run_bytes)

    def _hand_over(self, message: Message) -> None:
        """It may not wait at all: to a consumer that is ready for it, or nowhere (spec/core.md 14)."""
        queue, life = self.queue, message.life
        assert life is not None
        queue.home.feed(queue)  # first what was there before it
        self.push()
        deadline_ms, life.deadline_ms = life.deadline_ms, NEVER
        queue.home.feed(queue)
        life.deadline_ms = deadline_ms
        queue.lines.at(life.level).timed = True
        queue.mark()

    def _has_room(self, message: Message) -> bool:
        if has_room(self.queue, message.body_bytes):
            return True
        if self.rules.dead_letter_refused:
            self.queue.dying.add([message], "maxlen", queued=False)
        return False

    def _level_of(self, message: Message) -> int:
        if not self.rules.levels:
            return 0
        raw = message.property_bytes
        if raw != self._seen:
            self._seen = raw
            self._seen_level = self.rules.level(properties.priority(raw))
        return self._seen_level


def has_room(queue: Queue, body_bytes: int) -> bool:
    """Whether a queue that refuses what is too much would take one more message with a body of that size."""
    if not is_full(queue, body_bytes):
        return True
    queue.home.feed(queue)  # what could be delivered does not count
    queue.mark()
    return not is_full(queue, body_bytes)


def is_full(queue: Queue, body_bytes: int) -> bool:
    """Whether there is no room for one more message with a body of that size."""
    rules = queue.rules
    return NONE < rules.max_length <= queue.ready or NONE < rules.max_bytes < queue.ready_bytes + body_bytes


def shortest_ttl(rules: QueueSettings, life: MessageState | None) -> int:
    """The queue's or the message's own, NO_TTL where there is neither."""
    own_ms = life.ttl_ms if life is not None else NO_TTL
    if own_ms == NO_TTL or rules.ttl_ms == NO_TTL:
        return max(own_ms, rules.ttl_ms)
    return min(own_ms, rules.ttl_ms)


def dead_letter(vhost: VHost, queue: Queue, messages: list[Message], reason: str) -> None:
    """Publish them to the queue's dead letter exchange; where that is missing they are gone (spec/core.md 13).

    One that is like the one before, its body apart, becomes a copy like that one's and goes the same way. So do most.
    """
    rules = queue.rules
    exchange = vhost.exchanges.get(rules.dead_letter_exchange or "")
    if exchange is None or rules.dead_letter_exchange is None:
        return
    timestamp_s = vhost.clock.timestamp_s()
    before: Message | None = None
    copies: list[Message] = []
    targets: tuple[Queue, ...] = ()
    for message in messages:
        if before is not None and alike(before, message):
            copies.append(copied(message, copies[0].address, copies[0].property_bytes, copies[0].blind))
            continue
        publish(vhost, copies, targets)
        copy = dead_lettered(message, queue.name, reason, exchange.name, rules.dead_letter_key, timestamp_s)
        targets, stable = vhost.route(exchange, routing_keys(message, rules.dead_letter_key), copy)
        if reason != REJECTED:
            targets = tuple(target for target in targets if not cycles(copy, target.name))
        copies = [copy]
        before = message if stable else None
    publish(vhost, copies, targets)


def alike(one: Message, other: Message) -> bool:
    """Whether they differ in nothing but their bodies."""
    return (
        one.address.encoded == other.address.encoded
        and one.property_bytes == other.property_bytes
        and one.died == other.died
        and one.blind == other.blind
        and one.persistent == other.persistent
    )


def publish(vhost: VHost, messages: list[Message], queues: tuple[Queue, ...]) -> None:
    """Messages that are all persistent, or all not."""
    if messages and queues:
        vhost.enqueue(messages, total_bytes(messages), messages[0].persistent, queues, DEAD_LETTERED)
