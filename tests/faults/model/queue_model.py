"""The rules of a queue by RabbitMQ's guides: order, limits, expiry, delivery limits, consumers, dead letters.

A reference for tests: lists in place of fast structures, and no frames. `Queue` decides what happens to its messages;
who gets one is decided by the frames that came (session_model.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"
QUORUM_DELIVERY_LIMIT, QUORUM_PRIORITIES, QUORUM_PRIORITY = 20, 31, 4
QUORUM_POLICY = {"delivery-limit", "dead-letter-strategy"}
RETURNS_LIMIT = 1 << 30  # more than messages come back
RETURNED = -1  # the arrival of messages that came back with the end of their channel
Identity = tuple[str, str, bytes, tuple[tuple[str, str, int], ...]]
"""The exchange, routing key and body of a message, and the queue, reason and count of each of its deaths."""


@dataclass(frozen=True)
class Dialect:
    """Rules in which RabbitMQ 4.0 differs from Warren, most of quorum queues: Warren follows RabbitMQ 4.3 and AMQP.

    nack_counts          basic.nack with requeue counts towards the delivery limit
    priorities           messages have 32 priorities
    shared_prefetch      a limit of the channel is one of each consumer; if not, it is refused with 540
    exclusive_consumers  the flag `exclusive` of basic.consume has an effect (AMQP 0-9-1, basic.consume)
    settling_consumers   a basic.get and a cancelled consumer count as consumers until their deliveries are settled,
                         and those that wait for a single active consumer do not
    places_kept          messages that come back take their places again; if not, they stay in the order in which they
                         come back, in front of the others, or behind them if there is no delivery limit and the
                         channel did not end. Those of several consumers of a channel that ends come in any order
    rejections_counted   a rejected message of a quorum queue is redelivered in other quorum queues, with the number of
                         its rejections as its delivery count, until it has one of its own there
    limits_first         a policy with a limit and an overflow that rejects drops what is above the limit of a classic
                         queue, which dropped its head before: the limit applies before the overflow
    retry_ms             until dead letters at least once that no queue took are published again
    quick_retry_ms       and if queues took some of them
    due_counted          the message-count of basic.get-ok has those behind the message that expire with it gone
    quorum_by_name       a commit publishes to the quorum queue that has the name by then, and drops what has none; if
                         not, it fails if the queue was deleted since the publish
    serves_at_once       a queue serves each publish of a commit before the next, and what a commit requeues before that
                         fails
    """

    nack_counts: bool = False
    priorities: bool = True
    shared_prefetch: bool = True
    exclusive_consumers: bool = True
    settling_consumers: bool = False
    places_kept: bool = True
    rejections_counted: bool = False
    limits_first: bool = False
    due_counted: bool = False
    quorum_by_name: bool = False
    serves_at_once: bool = False
    retry_ms: int = 5_000
    quick_retry_ms: int = 10


WARREN = Dialect()
RABBITMQ_40 = Dialect(True, False, False, False, True, False, True, True, True, True, True, 180_000, 180_000)


@dataclass
class Death:
    """An entry of x-death: the deaths in one queue for one reason."""

    queue: str
    reason: str
    exchange: str
    keys: list[str]
    time_s: int
    expiration: str | None
    count: int = 1

    def table(self) -> dict[str, Any]:
        given = {"original-expiration": self.expiration} if self.expiration is not None else {}
        named = {"count": self.count, "reason": self.reason, "queue": self.queue, "exchange": self.exchange}
        return {**named, "routing-keys": self.keys, "time": self.time_s, **given}


@dataclass(eq=False)
class Message:
    """A message as it was published, or dead-lettered: `deaths` are the entries of x-death, the latest first.

    `copies` are the routing keys of CC that are in force, `blind` those of BCC. `rejections` counts those of dead
    letters in quorum queues.
    """

    body: bytes
    exchange: str
    key: str
    properties: Mapping[str, Any]
    copies: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()
    deaths: list[Death] = field(default_factory=list)
    first: Death | None = None
    last: Death | None = None
    rejections: int = 0

    @property
    def identity(self) -> Identity:
        """The values in which most messages differ, and copies of one message."""
        deaths = tuple((death.queue, death.reason, death.count) for death in self.deaths)
        return self.exchange, self.key, self.body, deaths

    @property
    def keys(self) -> list[str]:
        return [self.key, *self.copies]

    @property
    def ttl_ms(self) -> int | None:
        given = self.properties.get("expiration")
        return int(given) if given is not None else None

    def content(self, delivery_count: int = 0) -> dict[str, Any]:
        """The properties that a client sees, with the headers that the broker adds."""
        shown = dict(self.properties)
        headers = {key: value for key, value in shown.pop("headers", {}).items() if key != "BCC"}
        for place, death in (("first", self.first), ("last", self.last)):
            if death is not None:
                headers |= {f"x-{place}-death-{key}": getattr(death, key) for key in ("reason", "queue", "exchange")}
        if self.deaths:
            headers["x-death"] = [death.table() for death in self.deaths]
        if delivery_count:
            headers["x-delivery-count"] = delivery_count
        return shown | ({"headers": headers} if headers else {})

    def dead_lettered(self, queue: str, reason: str, exchange: str, key: str | None, time_s: int) -> Message:
        """The copy for a dead letter exchange: a death more, without expiration; a configured key replaces all keys."""
        expiration = self.properties.get("expiration")
        last = Death(queue, reason, self.exchange, self.keys, time_s, expiration)
        earlier = [one for one in self.deaths if (one.queue, one.reason) == (queue, reason)]
        others = [one for one in self.deaths if one not in earlier]
        entry = replace(earlier[0], count=earlier[0].count + 1) if earlier else last
        rest = {name: value for name, value in self.properties.items() if name != "expiration"}
        copy = replace(
            self, exchange=exchange, properties=rest, deaths=[entry, *others], first=self.first or last, last=last
        )
        return replace(copy, key=key, copies=(), blind=()) if key is not None else copy

    def cycles(self, queue: str) -> bool:
        """Whether it has died in this queue, and no consumer has rejected it since (Dead Letter Exchanges: cycles)."""
        for death in self.deaths:
            if death.reason == REJECTED:
                return False
            if death.queue == queue:
                return True
        return False


@dataclass(eq=False)
class Entry:
    """A message in a queue. Of `arrival`, messages of different `source` that came at once have no order."""

    message: Message
    position: int
    priority: int
    deadline_ms: int | None
    arrival: tuple[int, str]
    redelivered: bool = False
    attempts: int = 0
    rejections: int = 0  # that count as deliveries here

    @property
    def shown(self) -> tuple[bool, int]:
        """The flag `redelivered` and the delivery count of a delivery."""
        count = self.attempts or self.rejections
        return self.redelivered or count > 0, count

    @property
    def order(self) -> tuple[int, int]:
        return -self.priority, self.position


@dataclass(eq=False)
class Letter:
    """A message that left a queue for its dead letter exchange; `taken` are the queues that have their copy.

    `lacks` is the queue that alone had no copy after the last attempt.
    """

    message: Message
    reason: str
    taken: set[str] = field(default_factory=set)
    lacks: Queue | None = None


@dataclass(eq=False)
class Consumer:
    """A consumer: `channel` is the model of its channel, which limits it as well."""

    tag: str
    channel: Any
    queue: Queue
    no_ack: bool
    exclusive: bool
    priority: int
    prefetch: int
    unacked: int = 0

    @property
    def has_room(self) -> bool:
        if self.prefetch and not self.no_ack and self.unacked >= self.prefetch:
            return False
        limit: int = self.channel.shared_limit
        return self.queue.quorum or not limit or self.channel.shared_unacked < limit


class Queue:
    """A queue. `came_back` is true from a requeue until the length limit was applied, which comes first then."""

    def __init__(
        self, name: str, arguments: Mapping[str, Any], owner: int | None, auto_delete: bool, dialect: Dialect
    ) -> None:
        self.name = name
        self.dialect = dialect
        self.arguments = arguments
        self.policy: Mapping[str, Any] = {}
        self.owner = owner
        self.auto_delete = auto_delete
        self.quorum = arguments.get("x-queue-type") == "quorum"
        self.deleted = False
        self.ready: list[Entry] = []
        self.consumers: list[Consumer] = []
        self.active: Consumer | None = None
        self.outbox: list[Letter] = []  # to be published at once
        self.waiting: list[Letter] = []  # at least once, until the next retry
        self.offered: Letter | None = None  # that which is being published
        self.retry_ms, self.wait_ms = 0, dialect.retry_ms
        self.came_back = False
        self._tail = 0
        self._returns = -RETURNS_LIMIT  # the next place of a message that comes back, unless it keeps its own

    def __repr__(self) -> str:
        return self.name  # the same in each copy of the model (`Model.state`)

    # Settings: the smaller of two numbers, and an argument before a policy

    def apply(self, policy: Mapping[str, Any]) -> None:
        """Apply a policy, but none with a key that this type of queue does not support (Parameters and Policies)."""
        dropped_head = self._text("overflow") in (None, "drop-head")
        self.policy = policy if self.quorum or not QUORUM_POLICY & set(policy) else {}
        if self.dialect.limits_first and dropped_head and not self.quorum:
            self.drop_head()

    def _least(self, key: str) -> int | None:
        given = (self.arguments.get(f"x-{key}"), self.policy.get(key))
        return min((value for value in given if value is not None), default=None)

    def _text(self, key: str) -> Any:
        return self.arguments.get(f"x-{key}", self.policy.get(key))

    @property
    def limited(self) -> bool:
        return self._least("max-length") is not None or self._least("max-length-bytes") is not None

    @property
    def never_waits(self) -> bool:
        """Whether messages expire at once if no consumer has room for them."""
        return self._least("message-ttl") == 0

    @property
    def overflow(self) -> str:
        """The behaviour beyond the limit; quorum queues do not know reject-publish-dlx."""
        overflow = self._text("overflow") or "drop-head"
        return "drop-head" if not self.limited or self.quorum and overflow == "reject-publish-dlx" else str(overflow)

    @property
    def dead_letter_exchange(self) -> str | None:
        exchange = self._text("dead-letter-exchange")
        return None if exchange is None else str(exchange)

    @property
    def dead_letter_key(self) -> str | None:
        key = self._text("dead-letter-routing-key")
        return None if key is None else str(key)

    @property
    def at_least_once(self) -> bool:
        """Quorum Queues, dead lettering: at-least-once needs the overflow reject-publish, without a limit as well."""
        wanted = self._text("dead-letter-strategy") == "at-least-once" and self._text("overflow") == "reject-publish"
        return self.quorum and wanted and self.dead_letter_exchange is not None and not self.deleted

    @property
    def delivery_limit(self) -> int | None:
        """Negative: none. A classic queue has a limit only if it is set, which is Warren's own."""
        given = [one for one in (self.arguments.get("x-delivery-limit"), self.policy.get("delivery-limit"))
                 if one is not None] or ([QUORUM_DELIVERY_LIMIT] if self.quorum else [])  # fmt: skip
        return min(given) if given and min(given) >= 0 else None

    @property
    def counts(self) -> bool:
        return self.quorum or "x-delivery-limit" in self.arguments

    @property
    def single_active(self) -> bool:
        return bool(self.arguments.get("x-single-active-consumer"))

    def priority_of(self, message: Message) -> int:
        given = message.properties.get("priority")
        if self.quorum:
            return QUORUM_PRIORITY if given is None else min(given, QUORUM_PRIORITIES)
        return min(given or 0, self.arguments.get("x-max-priority", 0))

    # Messages enter

    @property
    def kept(self) -> list[Letter]:
        """The dead letters that are still here."""
        return [*self.outbox, *self.waiting, *([self.offered] if self.offered is not None else [])]

    def excess(self, body: bytes = b"", more: int = 0, swap: bool = False) -> bool:
        """Whether `more` messages with this body would exceed a limit.

        Dead letters that are kept count as well, but not while one of them leaves for the message (`swap`).
        """
        messages = [entry.message for entry in self.ready]
        if self.at_least_once and not swap:
            messages += [letter.message for letter in self.kept]
        count, total = self._least("max-length"), self._least("max-length-bytes")
        size = sum(len(message.body) for message in messages) + len(body)
        return count is not None and len(messages) + more > count or total is not None and size > total

    def swaps(self, given: Letter, taken: Letter) -> bool:
        """Whether a full queue that keeps dead letters may take one for one that it gives.

        A longer one does not let it have more than twice its limit of bytes.
        """
        growth, total = len(taken.message.body) - len(given.message.body), self._least("max-length-bytes")
        messages = [entry.message for entry in self.ready]
        messages += [letter.message for letter in self.kept]
        size = sum(len(message.body) for message in messages) + growth
        return self.at_least_once and (growth <= 0 or total is None or size <= 2 * total)

    def ttl_ms(self, message: Message) -> int | None:
        """The time to live of a message here: the smaller of the queue's and its own."""
        return min([ttl for ttl in (self._least("message-ttl"), message.ttl_ms) if ttl is not None], default=None)

    def push(self, message: Message, now_ms: int, arrival: tuple[int, str]) -> Entry:
        ttl_ms = self.ttl_ms(message)
        deadline_ms = now_ms + ttl_ms if ttl_ms is not None else None
        entry = Entry(message, self._tail, self.priority_of(message), deadline_ms, arrival)
        if self.quorum and self.dialect.rejections_counted:
            entry.rejections = message.rejections
        self._tail += 1
        self._insert(entry)
        return entry

    def _insert(self, entry: Entry) -> None:
        self.ready.append(entry)
        self.ready.sort(key=lambda one: one.order)

    def requeue(self, entry: Entry, nacked: bool, lost_by: str = "") -> None:
        """Return a delivery to its place (Consumer Acknowledgements: negative acks and requeuing).

        `lost_by` names the consumer if its channel has ended.
        Quorum Queues, poison messages: beyond the delivery limit it is dead-lettered. In a quorum queue a basic.nack is
        no failure, since RabbitMQ 4.3.
        """
        if self.deleted:
            return
        entry.redelivered = True
        if self.counts and not (nacked and self.quorum and not self.dialect.nack_counts):
            entry.attempts += 1
            if self.delivery_limit is not None and entry.attempts > self.delivery_limit:
                self.dead_letter(entry.message, DELIVERY_LIMIT)
                return
        if self.quorum and not self.dialect.places_kept:
            if self.delivery_limit is None and not lost_by:
                entry.position = self._tail
                self._tail += 1
            else:
                entry.position = self._returns
                self._returns += 1
                if lost_by:
                    entry.arrival = RETURNED, lost_by
        self._insert(entry)
        self.came_back = True

    # Messages leave

    def dead_letter(self, message: Message, reason: str) -> None:
        """Dead-letter a message that left, if there is an exchange for it."""
        if self.dead_letter_exchange is not None:
            rejections = message.rejections + (self.quorum and reason == REJECTED)
            self.outbox.append(Letter(replace(message, rejections=rejections), reason))

    def expire(self, now_ms: int) -> None:
        """Time-To-Live: messages expire at the head, of each priority; others behind a longer-lived one stay."""
        for priority in sorted({entry.priority for entry in self.ready}, reverse=True):
            for entry in [one for one in self.ready if one.priority == priority]:
                if entry.deadline_ms is None or entry.deadline_ms > now_ms:
                    break
                self.ready.remove(entry)
                self.dead_letter(entry.message, EXPIRED)

    def trim(self) -> None:
        """Queue Length Limit: drop-head drops from the front, which has the highest priority."""
        if self.overflow == "drop-head":
            self.drop_head()

    def overdue(self, now_ms: int) -> bool:
        """Whether a message has to leave now: it is beyond the limit, or expired."""
        due_ms = min(self._head_deadlines_ms(), default=now_ms + 1)
        return self.overflow == "drop-head" and self.excess() or due_ms <= now_ms

    def drop_head(self) -> None:
        while self.ready and self.excess():
            entry = self.ready.pop(0)
            self.dead_letter(entry.message, MAXLEN)

    def next_ms(self) -> int | None:
        """The next time when a head expires or kept dead letters are tried again, or None."""
        return min([*self._head_deadlines_ms(), *([self.retry_ms] if self.waiting else [])], default=None)

    def _head_deadlines_ms(self) -> list[int]:
        """The deadlines of the first messages of each priority."""
        heads: dict[int, Entry] = {}
        for entry in self.ready:
            heads.setdefault(entry.priority, entry)
        return [entry.deadline_ms for entry in heads.values() if entry.deadline_ms is not None]

    def heads(self) -> list[Entry]:
        """The messages that may be next: the first, and of those that came with it the first of each source.

        AMQP 4.7 orders messages on one path alone: dead letters of different queues mix in any order. So one with a
        lower priority may come, and leave, before one of another queue, and before later ones of its own, since a queue
        may publish them in parts.
        """
        return self._first_of(self.ready)

    def take(self, entry: Entry) -> None:
        """Remove one of the messages that may be next, which has the first place by that."""
        self.ready.remove(entry)
        self._set_order([entry, *self.ready])
        self.ready.remove(entry)

    def take_order(self, seen: Sequence[Identity]) -> None:
        """Take the order in which these identities of the messages are `seen`, as far as that is open."""
        rest, ordered = list(self.ready), []
        for identity in seen:
            alike = [entry for entry in self._first_of(rest) if entry.message.identity == identity]
            if not alike:
                break
            rest.remove(alike[0])
            ordered.append(alike[0])
        self._set_order(ordered + rest)

    def _set_order(self, ready: list[Entry]) -> None:
        """Give messages the places of those with their priority, in this order."""
        ready = sorted(ready, key=lambda entry: -entry.priority)
        positions = sorted(entry.order for entry in ready)
        for entry, (_, position) in zip(ready, positions, strict=True):
            entry.position = position
        self.ready = ready

    @staticmethod
    def _first_of(ready: list[Entry]) -> list[Entry]:
        found: list[Entry] = []
        for entry in ready:
            if entry.arrival[0] != ready[0].arrival[0]:
                break
            source = entry.arrival[1]
            positions = [one.position for one in found if one.arrival[1] == source]
            if not positions or source and entry.position < min(positions):
                found.append(entry)
        return found

    # Consumers

    def add(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        if self.active is None:
            self.active = consumer

    def remove(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        if consumer is self.active:
            self.active = self._best()

    def _best(self) -> Consumer | None:
        return max(self.consumers, key=lambda consumer: consumer.priority, default=None)

    def takers(self) -> list[Consumer]:
        """The consumers that may get the next message: of the highest priority with room (Consumer Priorities).

        Which of them gets it is open: AMQP 0-9-1 has no rule, and RabbitMQ's guides promise turns only about.
        """
        if self.single_active:
            best = self._best()
            # A quorum queue changes to a higher priority once the active consumer has settled all it had.
            if self.quorum and best is not None and self.active is not None and best.priority > self.active.priority:
                if self.active.unacked:
                    return []
                self.active = best
            return [self.active] if self.active is not None and self.active.has_room else []
        ready = [consumer for consumer in self.consumers if consumer.has_room]
        highest = max((consumer.priority for consumer in ready), default=0)
        return [consumer for consumer in ready if consumer.priority == highest]
