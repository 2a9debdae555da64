"""Dead-lettering: messages that a queue drops are republished to its dead letter exchange.

Dead-lettering costs as much as publishing, and a new limit, a common deadline or one basic.nack can drop any number of
messages at once. So they wait in the queue's outbox, and a slice of them is published whenever the queue is pumped.
Dead-lettering never recurses: clients may declare a chain of any number of queues, each the dead letter queue of the
one before. Messages in the outbox stay in the journal, so after a crash they are in the queue again.

With the strategy at-least-once a message stays in the outbox until each of its targets has taken it, and is retried
where there is no target, or one rejects it. The journal settles it together with its copies.

Messages that are kept so count for the limits of their queue. So each queue of a circle of full ones would wait for
ever for room in the next: each passes one message to the next at the same time, which changes the number of messages in
none of them, and lets none in from outside (`find_circle`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol, cast

from ..counters.statistics import AT_LEAST_ONCE, AT_MOST_ONCE, CONFIRMED
from ..jobs.long_routes import SHORT_BYTES, TARGET_BYTES, Place
from ..jobs.scheduler import COPY_SHIFT, STORE_SHIFT, SUSPENDED, UNLIMITED, Job, Pumpable
from ..messages.journal_port import ROOM
from ..messages.message import LONG_HEADER, Message, frame_bytes, total_bytes
from .dead_letter_budget import ALL_BYTES, FEW_BYTES, USER_BYTES, WOKEN
from .deduplication import Recorders
from .lazy_deque import LazyDeque, made
from .queue_host import QueueHost
from .queue_journal import QueueJournal
from .queue_settings import QueueSettings
from .route_target import (
    ACCEPTED,
    PAGE_COST,
    PER_MESSAGE_COST,
    EnqueueResult,
    RouteTarget,
    Targets,
    TargetSearch,
    cost_of_reading,
    cost_of_records,
    existing,
    in_parts,
    queues_of,
)
from .traffic_log import CYCLE, DEAD_LETTERED, REFUSED
from .x_death import REJECTED, copy_with_properties, cycle, cycles, dead_letter_copy, routing_keys

SLICE = 200  # messages dead-lettered at once, in addition to as many as were published: some milliseconds
SLICE_COST = 2_000  # of the messages dead-lettered at once, in addition to that of those published (`scheduler`)
REST_COST = 500  # of a step of the job that dead-letters the messages of a deleted queue
PART_COST = 600  # of the targets that get a message in one step: 200, fewer if they store a long one more than once
FEW = 4  # targets of which each is searched in the bytes of the properties
COST, ALIKE_COST = 10, 4  # of a message that differs from the one before, or differs in the body only
HEADER_SHIFT = 3  # to decode 8 bytes of properties costs 1
LAST_BYTES = 1 << 10  # of properties that an outbox keeps of its last letter
MANY = 10_000  # with more in the outbox, the queue delivers, expires and drops nothing
MANY_BYTES = 64 << 20  # likewise, with those that no target takes
SOME_BYTES = 1 << 20  # likewise, while the node (`ALL_BYTES`) and the user (`USER_BYTES`) have too many
DELETED_BYTES = 6_000  # of memory of a deleted queue, with its job
OVERHEAD = 400  # bytes of memory of a message beside its frames
UNCONFIRMED = 32  # messages retried at a time, as in RabbitMQ; further ones wait until the targets take some of them
MANY_TAKERS = 10_000  # of these: with so many targets that have taken them, further ones wait, too; each takes
TAKER_BYTES = 8  # of memory
LOOKS, LOOK_SHIFT = 1_000, 3  # targets that are looked at in one step; to look at 8 of them costs 1,
ASK_SHIFT = 1  # or at 2, if it is asked whether they must not reject
FULL_LOOKS = 100  # targets of which it is asked whether they wait for this queue
MOST_QUEUES = 100  # that are searched for a circle, each with UNCONFIRMED letters
MOST_BYTES = 16 << 20  # of the letters of a circle, which are passed on in one step
LETTERS_SHIFT = 1  # to look at 2 letters costs 1 (`jobs.scheduler`)
NO_QUEUES: frozenset[str] = frozenset()
WAITS_COST = 20  # of asking one of them: 10 us
WAITS = 100  # queues that are looked at which wait for each other
PASS_MS = 100  # until the next ones that wait for a queue are called while it passes its messages to another one
RETRY_MS = 5_000  # until the next retry,
QUICK_RETRY_MS = 10  # or at first this after targets took some of the messages; twice as long after each retry in vain


class DeadLetterSource(Pumpable, Protocol):
    """A queue as its own outbox, and those of others, see it."""

    host: QueueHost
    number: int
    unacked: int
    journal: QueueJournal
    settings: QueueSettings
    outbox: DeadLetterOutbox

    @property
    def ready_bytes(self) -> int:
        """The sum of the bodies of its ready messages."""

    @property
    def dead_letters_rejected(self) -> bool:
        """True if messages that the queue rejects are dead-lettered."""

    def has_room(self, body_bytes: int) -> bool:
        """Return whether a message with a body of this length would not be rejected."""

    def break_cycles(self) -> None:
        """Break the reference cycles of a deleted queue, unless dead letters are under way."""


class DeadLetter:
    """A message that is being published to the dead letter exchange, in steps if its search or its targets are long.

    copy       the copy that is published; the message itself between attempts, because the copy takes as much memory
    stable     whether its targets depend on its routing keys alone
    targets    None until the search is complete
    full       those of them that must not reject more, or the first ones
    recorders  of the exchanges on the way that are to record the message once all targets have taken it
    topology   `QueueHost.topology` when the search began
    long       whether it needs a place (`jobs.long_routes`), because it may hold many bytes from one step to the next
    divided    whether the targets are offered the copy in several parts
    accepted   whether targets have taken the message, and none has refused it; at least once: all of them
    confirmed  at least once, during an attempt: the targets that have taken the message
    takers     the same between two attempts
    counted    how many of these the outbox has counted
    ticket     at least once: the batch of the journal with the last copy; the message may be settled once that is
               durable
    waits_for  at least once: the full queue that alone had not taken the message at the end of the last attempt, or
               None
    """

    __slots__ = (
        *("message", "reason", "copy", "targets", "full", "recorders", "topology", "divided", "stable", "accepted"),
        *("confirmed", "ticket", "waits_for", "_at", "_parts", "_search", "_refused", "_found", "_looked", "_passed"),
        *("_missing", "_more_missing", "long", "takers", "counted"),
    )

    def __init__(self, message: Message, reason: str) -> None:
        self.message = message
        self.reason = reason
        self.confirmed: set[RouteTarget] = set()
        self.takers: Targets = ()
        self.counted = 0
        self.ticket = 0
        self.waits_for: DeadLetterSource | None = None
        self.copy = message
        self.targets: Targets | None = None
        self.recorders: Recorders = ()
        self.divided = self.stable = self.accepted = False
        self.topology = 0
        self._at = 0  # the number of targets that were offered the copy
        self._parts: Iterator[Targets] = iter(())
        self._search: TargetSearch | None = None
        self._refused = False
        self.full: Targets = ()
        self._found: LazyDeque[RouteTarget] = ()  # of those that are looked at
        self._looked = 0
        self._passed: frozenset[str] | set[str] = NO_QUEUES  # that it must not reach again
        self._missing: Targets = ()  # the first ones that have not taken it in this attempt
        self._more_missing = False
        self.long = True

    def find_targets(self, queue: DeadLetterSource, exchange: str, timestamp_s: int, cost_limit: int) -> int:
        """Search for the targets, or continue the search; return the cost."""
        search, cost = self._search, 0
        key = queue.settings.dead_letter_key
        if self.copy is self.message:
            self.copy = dead_letter_copy(self.message, queue.name, self.reason, exchange, key, timestamp_s)
            cost = cost_of(self.message) + (len(self.takers) >> LOOK_SHIFT)
            self.confirmed.update(self.takers)
        if self.targets is not None:
            return cost
        if search is None:
            self.topology = queue.host.topology
            search = self._search = queue.host.search_from(exchange, routing_keys(self.message, key), self.copy)
        cost -= search.cost
        if search.run(max(cost_limit, 1)):
            cost += self._look(queue, search, cost_limit - cost - search.cost)
        return cost + search.cost

    def _look(self, queue: DeadLetterSource, search: TargetSearch, cost_limit: int) -> int:
        """Look at the targets that the search has found, or at more of them; return the cost."""
        targets, cost = search.targets, 0
        if not self._looked:
            self._passed = cycle(self.copy) if self.reason != REJECTED and may_cycle(self.copy, targets) else NO_QUEUES
        asks = queue.host.ledger.dead_letters.full_outboxes > 0
        while self._looked < len(targets):
            some = targets[self._looked : self._looked + LOOKS]
            self._looked += len(some)
            cost += len(some) >> (ASK_SHIFT if asks else LOOK_SHIFT)
            if self._passed:
                some = tuple([target for target in some if target.name not in self._passed])
                self._found = made(self._found)
                self._found.extend(some)
            if asks and len(self.full) < FULL_LOOKS:
                self.full += tuple([target for target in some if target.outbox_full])
            if cost >= cost_limit and self._looked < len(targets):
                return cost
        self.targets = tuple(self._found) if self._passed else targets
        self._found = ()
        self.recorders, self.stable = search.recorders, search.stable
        if len(self.targets) > 1:
            self.copy = queue.host.ledger.share([self.copy])[0]
        each = PER_MESSAGE_COST
        if queue.host.ledger.exceeded:
            each = PAGE_COST + (len(self.copy.frames) >> STORE_SHIFT)
        each += cost_of_reading([self.copy], self.targets)
        self.long = len(self.targets) + len(self.recorders) > 1 and self._is_long(each)
        self._parts = in_parts(self.targets, each, len(self.copy.frames), PART_COST)
        return cost

    @property
    def why(self) -> str:
        """The reason why it has no target (`TrafficLog.unrouted`)."""
        return CYCLE if len(self._passed) > 0 else ""

    @property
    def is_found(self) -> bool:
        """True if all targets are known, and none was offered the copy."""
        return self.targets is not None and not self._at

    def _is_long(self, each: int) -> bool:
        """Return whether it holds many bytes after a step; `each` is the cost of a target beside the records."""
        targets = self.targets or ()
        if not self.recorders and len(targets) * (each + (len(self.copy.frames) >> STORE_SHIFT)) <= PART_COST:
            return False  # it is published in one step
        return self.held_bytes(0) > SHORT_BYTES

    def held_bytes(self, search_bytes: int) -> int:
        """Return how many bytes it holds after a step, of which a search that is not complete takes `search_bytes`."""
        if self.targets is not None:
            search_bytes = TARGET_BYTES * (len(self.targets) + len(self.recorders))
        return len(self.copy.frames) + search_bytes

    @property
    def complete(self) -> bool:
        """True if every target was offered the copy."""
        return self.targets is not None and self._at >= len(self.targets)

    def next_targets(self) -> Targets:
        """Return the next targets that still exist."""
        part = next(self._parts, ())
        self._at += len(part)
        self.divided = self.divided or not self.complete
        return existing(part)

    def offered(self, targets: Targets, result: EnqueueResult) -> None:
        """Note whether some targets have taken the copy."""
        self._refused = self._refused or len(result.refused) > 0
        self.accepted = not self._refused and (self.accepted or len(targets) > 0)

    def keep(self) -> int:
        """Have exchanges on the way keep the message, because this is the last attempt; return the cost."""
        return self._search.keep() if self._search is not None else 0

    def record(self, cost_limit: int) -> int:
        """Record the accepted message in some of the recorders, and remove these; return the cost."""
        cost = count = 0
        while count < len(self.recorders) and (not count or cost < cost_limit):
            self.recorders[count].record(self.copy)
            cost += self.recorders[count].cost
            count += 1
        self.recorders = self.recorders[count:]
        return cost

    @property
    def is_confirmed(self) -> bool:
        """True if there are targets, and all of them have taken the message."""
        return bool(self.targets) and len(self.confirmed) > 0 and not self._more_missing and not self._still_missing()

    def note_missing(self, targets: Targets) -> None:
        """Note which of some targets have not taken the message; if they are several, two of them are enough."""
        missing = [target for target in targets if target not in self.confirmed]
        room = 2 - len(self._missing)
        self._missing += tuple(missing[:room])
        self._more_missing = self._more_missing or len(missing) > room

    def note_last(self) -> None:
        """Note the target that alone has not taken the message, if that is a full queue."""
        missing = self._still_missing()
        full = not self._more_missing and len(missing) == 1 and missing[0].rejects_overflow
        self.waits_for = cast("DeadLetterSource", missing[0]) if full else None

    def _still_missing(self) -> list[RouteTarget]:
        return [target for target in self._missing if not target.deleted and target not in self.confirmed]

    def forget_takers(self) -> None:
        """Forget which targets have taken the message, as all have, or it is published no more."""
        self.confirmed, self.takers = set(), ()

    def end_attempt(self) -> None:
        """Copy the message and search again in the next attempt: the targets may be others by then."""
        if self.confirmed:
            self.takers, self.confirmed = existing(tuple(self.confirmed)), set()
        self.copy = self.message
        if self._search is not None:
            self._search.stop()
        self.targets = self._search = None
        self.full = self.recorders = self._found = self._missing = ()
        self._at = self._looked = 0
        self._more_missing = False
        self.long = True


class LastLetter:
    """The properties and route of the last dead letter, for later ones that differ in their bodies only, as most do."""

    __slots__ = (
        *("reason", "settings", "timestamp_s", "topology", "targets", "why"),
        *("address", "property_bytes", "persistent", "dead_lettered", "bcc_keys"),
        *("_encoded", "_property_bytes", "_dead_lettered", "_bcc_keys", "_persistent"),
    )

    def __init__(
        self, letter: DeadLetter, targets: Targets, settings: QueueSettings, timestamp_s: int, topology: int
    ) -> None:
        message, copy = letter.message, letter.copy
        self.reason = letter.reason
        self.settings = settings
        self.timestamp_s = timestamp_s
        self.topology = topology  # `QueueHost.topology` at that time
        self.targets = targets  # all that it was offered to
        self.why = letter.why
        self.address = copy.address
        self.property_bytes = copy.property_bytes
        self.persistent = copy.persistent
        self.dead_lettered = copy.dead_lettered
        self.bcc_keys = copy.bcc_keys
        self._encoded = message.address.encoded
        self._property_bytes = message.property_bytes
        self._dead_lettered = message.dead_lettered
        self._bcc_keys = message.bcc_keys
        self._persistent = message.persistent

    @property
    def is_short(self) -> bool:
        """True if the outbox may keep it, which no limit of memory counts."""
        return len(self._property_bytes) + len(self.property_bytes) < LAST_BYTES

    def serves(self, queue: DeadLetterSource, reason: str, timestamp_s: int) -> bool:
        """Return whether messages that the queue drops now, for this reason, may share its properties and its route."""
        if self.reason != reason or self.timestamp_s != timestamp_s or self.settings is not queue.settings:
            return False
        return self.topology == queue.host.topology and existing(self.targets) == self.targets

    def is_like(self, message: Message) -> bool:
        """Return whether the message differs from that of the letter in its body only."""
        return (
            self._encoded == message.address.encoded
            and self._property_bytes == message.property_bytes
            and self._dead_lettered == message.dead_lettered
            and self._bcc_keys == message.bcc_keys
            and self._persistent == message.persistent
        )

    def copy(self, message: Message) -> Message:
        """Return the copy of such a message that is published."""
        return copy_with_properties(
            message, self.address, self.property_bytes, self.persistent, self.dead_lettered, self.bcc_keys
        )


class DeadLetterOutbox:
    """The messages that one queue has dropped and that wait to be dead-lettered.

    waiting           (message, reason, whether the message was ever in the queue)
    forwarded         the messages before them that are being published at least once
    unconfirmed       those that are to be retried at `retry_at_ms`, which is 0 without any
    persistent_count  those of them that are still stored in the journal
    persistent_bytes  the sum of their bodies
    held_bytes        of memory of all messages, with the targets that have taken them; 0 without any
    loose_bytes       of those of them that the queue has rejected, or of all when it is deleted (`DeadLetterBudget`)
    account           of the user for whom they count (`charge`); empty without one
    awaits_journal    nothing is published until the journal, which is behind, has caught up, or the disk has room
    awaited           nothing is published until this full queue, which dead-letters rejected messages, has fewer
    passes_to         such a queue that waits for this one, so that this one publishes to it nevertheless
    exchanging        one of them leaves for the message that is being published to the queue, whose limits do not count
                      the outbox meanwhile
    """

    __slots__ = (
        *("_queue", "waiting", "forwarded", "unconfirmed", "retry_at_ms", "persistent_count", "persistent_bytes"),
        *("held_bytes", "loose_bytes", "account", "awaits_journal", "awaited", "passes_to", "exchanging", "_budget"),
        *("_first", "_last", "_retried", "_wait_ms", "_when_fewer", "_when_room", "_held_back", "_waking"),
        *("_full", "_resume", "_place", "_takers"),
    )
    __deletable__ = ("_queue",)  # `Queue.break_cycles`

    def __init__(self, queue: DeadLetterSource) -> None:
        self._queue = queue
        self.waiting: LazyDeque[tuple[Message, str, bool]] = ()
        self.forwarded: LazyDeque[DeadLetter] = ()
        self.unconfirmed: list[DeadLetter] = []
        self._first: DeadLetter | None = None  # of the first waiting message, of which a part of the work is done
        self._last: LastLetter | None = None
        self.retry_at_ms = 0
        self._retried = 0  # messages of the retry under way
        self._wait_ms = RETRY_MS  # until the next retry
        self.awaits_journal = self.exchanging = False
        self.awaited: DeadLetterSource | None = None
        self.passes_to: DeadLetterSource | None = None
        self._full = False  # counted in `DeadLetterBudget.full_outboxes`
        self._when_fewer: dict[Callable[[], None], None] | tuple[()] = ()  # each once, however often it waits again
        self._when_room: LazyDeque[Callable[[], None]] = ()
        self._held_back = False  # the queue is pumped when it may drop messages again
        self._waking = False  # the rest of those that wait, soon
        self._resume: Callable[[], None] | None = None  # the job of a deleted queue that waits
        self._place: Place | None = None  # for a letter with a long route
        self._takers = 0  # of all letters between two attempts
        self.persistent_count = self.persistent_bytes = 0
        self.held_bytes = self.loose_bytes = 0
        self.account = ""
        self._budget = queue.host.ledger.dead_letters

    def __len__(self) -> int:
        return len(self.waiting) + len(self.forwarded) + len(self.unconfirmed)

    @property
    def many(self) -> bool:
        """True if the queue must not drop more messages for now."""
        if self.held_bytes <= MANY and self._budget.total < ALL_BYTES:
            return False  # the usual case: so many messages have more bytes, and all limits are above this
        return len(self) > MANY or self._budget.total > FEW_BYTES and self.room_bytes <= 0

    @property
    def room_bytes(self) -> int:
        """The bytes of messages that the queue may still drop, but for the last message."""
        held_bytes, budget, account = self.held_bytes, self._budget, self.account
        if self._queue.settings.dead_letter_exchange is None:
            return MANY_BYTES  # it only drops them
        some_room = -held_bytes if account and budget.has_many_loose(account) else SOME_BYTES - held_bytes
        user_room = USER_BYTES - budget.of(account) if account else 0
        node_room = ALL_BYTES - budget.total
        return min(MANY_BYTES - held_bytes, max(some_room, user_room, node_room))

    @property
    def full(self) -> bool:
        """True if the queue has rejected so many messages that dead letters of others must wait."""
        return self.passes_to is not None or self.held_bytes > 0 and self.many

    @property
    def takes_no_more(self) -> bool:
        """True if publishers must wait, too: if it is full, or if the user and the node have too many messages."""
        return self.full or self._budget.is_full(self.account)

    @property
    def publishable(self) -> bool:
        """True if messages can be published before the next retry."""
        return self.unpublished and not self.awaits_journal and self.awaited is None and not self.awaits_place

    @property
    def is_behind(self) -> bool:
        """True if many bytes wait, and some of them are published in the next turn."""
        return self.held_bytes > SOME_BYTES and self.publishable

    @property
    def awaits_place(self) -> bool:
        """True if nothing is published until there is a place for the first letter, whose route is long."""
        return self._place is not None and not self._place.held

    @property
    def unpublished(self) -> bool:
        """True if there are messages that may be published before the next retry, or wait for room."""
        few = not self.unconfirmed or len(self.unconfirmed) < UNCONFIRMED and self._takers < MANY_TAKERS
        waiting = len(self.waiting) > 0 and (few or not self._at_least_once)
        return waiting or len(self.forwarded) > 0

    @property
    def _at_least_once(self) -> bool:
        """The strategy. It ends with the queue, whose messages the journal then no longer keeps."""
        return self._queue.settings.dead_letters_at_least_once and not self._queue.deleted

    def add(self, messages: list[Message], reason: str, queued: bool = True) -> None:
        """Add messages. `queued` is False for messages that the queue rejected."""
        queue = self._queue
        strategy = AT_LEAST_ONCE if self._at_least_once else AT_MOST_ONCE
        queue.host.statistics.count_dead_letters(queue.settings.type, strategy, reason, len(messages))
        self.waiting = made(self.waiting)
        self.waiting.extend([(message, reason, queued) for message in messages])
        self._hold(messages, 1, queued)
        if not queued and self.many:
            self._set_full(True)
        if queued and queue.number:
            self._count(messages, 1)

    def charge(self, account: str) -> None:
        """Count all messages, now and later, for the user of this account, if it is the first to declare the queue.

        Not for who declares it again or uses it: a consumer could have its publishers wait for dead letters of other
        queues.
        """
        if account and not self.account:
            clock = self._queue.host.clock
            self._budget.add(account, self.held_bytes, self.loose_bytes, clock)
            self._budget.add("", -self.held_bytes, -self.loose_bytes, clock)
            self._budget.forget("", self.wake)
            self.account = account
            self.wake()

    def when_fewer(self, fn: Callable[[], None]) -> None:
        """Call `fn` once it is no longer full, or the queue dead-letters nothing more that it rejects."""
        if not isinstance(self._when_fewer, dict):
            self._when_fewer = {}
        self._when_fewer[fn] = None
        self._budget.when_fewer(self.account, self.wake)

    def when_room(self, fn: Callable[[], None]) -> None:
        """Call `fn` once when it takes more, or the queue dead-letters nothing more that it rejects."""
        self._when_room = made(self._when_room)
        self._when_room.append(fn)
        self._budget.when_fewer(self.account, self.wake)

    def await_room(self) -> None:
        """Have the queue pumped when it may drop messages again."""
        self._held_back = True
        self._budget.when_fewer(self.account, self.wake)

    @property
    def is_awaited(self) -> bool:
        return len(self._when_fewer) + len(self._when_room) > 0

    def wake(self) -> None:
        """Call some of those that need not wait any more, in their order, and the others soon.

        They may fill the outbox again. This is called whenever less waits: here, in the node, or for the user.
        """
        queue = self._queue
        rejects, count = queue.dead_letters_rejected, WOKEN
        if self._held_back and not self.many:
            self._held_back = False
            queue.schedule_pump()
        if not (rejects and self.held_bytes and self.many):
            self._set_full(self.passes_to is not None)
            for fn in list(islice(self._when_fewer, WOKEN)):
                cast("dict[Callable[[], None], None]", self._when_fewer).pop(fn, None)
                fn()
                count -= 1
            while count and self._when_room and not (rejects and self.takes_no_more):
                made(self._when_room).popleft()()
                count -= 1
        if self._held_back or rejects and self.is_awaited:
            self._budget.when_fewer(self.account, self.wake)
        if not count and self.is_awaited:
            self._wake_soon()

    def _wake_soon(self) -> None:
        if not self._waking:
            self._waking = True
            clock = self._queue.host.clock
            wait_ms = PASS_MS if self.passes_to is not None else 0  # of those, some or all have to wait again
            clock.call_at(clock.now_ms() + wait_ms, self._wake_rest)

    def _wake_rest(self) -> None:
        self._waking = False
        if self._full or self.is_awaited:
            queue = self._queue
            self.wake()
            if queue.deleted:
                queue.break_cycles()  # which were kept for those that wait

    def on_changed(self) -> None:
        """Let those go on who wait, and its own messages: it may reject nothing more, or publish to other targets."""
        self._await(None)
        self.passes_to = None
        self.wake()

    def on_deleted(self) -> None:
        """Publish the messages as a job, which counts as one of them, and let those go on who wait."""
        queue = self._queue
        self._budget.forget(self.account, self.wake)
        self._held_back = False
        self.passes_to = None
        if len(self):
            clock = queue.host.clock
            self._budget.add(self.account, DELETED_BYTES, self.held_bytes - self.loose_bytes + DELETED_BYTES, clock)
            self.loose_bytes = self.held_bytes
            job = self._publish_rest()
            queue.host.scheduler.start(f"dead letters of {queue}", job, self._end_place, appends=True)
        if self._full or self.is_awaited:
            self.wake()

    def publish_slice(self, published: int) -> int:
        """Publish SLICE messages and as many more as were published to the queue since, so that the outbox keeps up.

        Stop where they have cost too much, and wait while the journal is behind or the disk full; return the cost.
        """
        if self.awaits_journal or self._queue.host.journal.room() != ROOM:
            self._await_journal()
            return 0
        return self._publish_slice(published)

    def _publish_slice(self, published: int) -> int:
        if self.unconfirmed and (self._queue.host.clock.now_ms() >= self.retry_at_ms or not self._at_least_once):
            self._retry()
        cost = self._publish_first(min(SLICE + published, len(self.waiting)), SLICE_COST + 2 * ALIKE_COST * published)
        if not self.unconfirmed and not self.forwarded:
            self._end_retries()
        return cost

    def _await_journal(self) -> None:
        """Go on when there is room, in turn with other jobs that wait for it."""
        if not self.awaits_journal:
            self.awaits_journal = True
            queue = self._queue
            job = self._go_on(queue)
            queue.host.scheduler.start(f"dead letters of {queue}", job, queue.schedule_pump, appends=True)

    def _go_on(self, queue: DeadLetterSource) -> Job:
        if not queue.deleted:  # otherwise `_publish_rest` does
            self.awaits_journal = False
            cost = self._publish_slice(0)
            queue.host.scheduler.pump_later(queue)
            yield cost

    def publish_all(self, budget: int) -> bool:
        """Publish all messages when the node stops; at least once, until UNCONFIRMED of them are not confirmed.

        Return False, with the rest undone, where there is no room, or that has cost `budget`. Stored messages that
        targets do not take, or that are not published, are in the queue after a restart.
        """
        self.awaits_journal = False
        self._await(None)
        if self.awaits_place:
            self._end_place()
        self._retry()
        cost = 0
        while self.unpublished:
            if cost >= budget or self._queue.host.journal.room() != ROOM:
                return False
            cost += self._publish_first(len(self.waiting), SLICE_COST)
        return True

    def _publish_rest(self) -> Job:
        """Publish all messages of a deleted queue, in slices, at most once from now on."""
        queue, scheduler = self._queue, self._queue.host.scheduler
        self.awaits_journal = False  # the scheduler sees to it
        self._retry()
        while self.waiting or self.forwarded:
            if (self.awaited is not None or self.awaits_place) and not scheduler.finishing:
                self._resume = scheduler.suspend()
                yield SUSPENDED
            self._await(None)
            if not scheduler.finishing:
                yield self._publish_first(min(SLICE, len(self.waiting)), REST_COST)
                continue
            if self.awaits_place:
                self._end_place()
            yield self._publish_first(min(1, len(self.waiting)), UNLIMITED)  # with no place: in one step
        self._budget.add(self.account, -DELETED_BYTES, -DELETED_BYTES, queue.host.clock)
        self.passes_to = None
        self._set_full(False)
        queue.break_cycles()

    def _publish_first(self, count: int, cost_limit: int) -> int:
        """Publish the first messages until they have cost too much, or one has to wait; return the cost."""
        if self.awaits_place:
            return 0
        try:
            return self._publish_some(count, cost_limit)
        finally:
            self._leave_place()

    def _publish_some(self, count: int, cost_limit: int) -> int:
        """Publish the first messages: successive ones with the same reason together. Return the cost."""
        queue = self._queue
        cost = self._forward_all(cost_limit)
        while count and cost < cost_limit and self.publishable:
            waiting = made(self.waiting)
            _, reason, queued = waiting[0]
            if self._at_least_once and queued:
                self.forwarded = made(self.forwarded)
                self.forwarded.append(DeadLetter(waiting.popleft()[0], reason))
                cost += self._forward_all(cost_limit - cost)
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
            self._hold(messages, -1, queued)
            if queued and queue.number:
                queue.journal.settle(messages, moved=True)
                self._count(messages, -1)
        return cost

    def _retry(self) -> None:
        """Begin to publish the unconfirmed messages again."""
        self._retried = len(self.unconfirmed)
        if self.unconfirmed:
            self.forwarded = made(self.forwarded)
            self.forwarded.extend(self.unconfirmed)
            self.unconfirmed = []

    def _end_retry(self) -> None:
        """Set the time of the next retry. Targets with room again take the rest soon."""
        fruitless = len(self.unconfirmed) >= self._retried
        self._retried = 0
        self._wait_ms = min(2 * self._wait_ms, RETRY_MS) if fruitless else QUICK_RETRY_MS
        self.retry_at_ms = self._queue.host.clock.now_ms() + self._wait_ms

    def _forward_all(self, cost_limit: int) -> int:
        """Publish the forwarded messages until they have cost too much; return the cost."""
        cost = 0
        while self.forwarded and cost < cost_limit and not self.awaits_place:
            cost += self._forward(self.forwarded[0], cost_limit - cost)
        if self._retried and not self.forwarded:
            self._end_retry()
        return cost

    def _forward(self, letter: DeadLetter, cost_limit: int) -> int:
        """Publish the first forwarded message to those targets that have room and do not have it, or to some of them.

        Settle it if all of them have it now. Copies in an earlier batch of the journal must be durable before that.
        Return the cost.
        """
        queue, message = self._queue, letter.message
        host, exchange = queue.host, queue.settings.dead_letter_exchange
        cost, done = 0, not self._at_least_once
        safe = letter.ticket <= host.journal.durable
        if not letter.accepted and exchange is not None and host.has_exchange(exchange):
            cost = letter.find_targets(queue, exchange, host.clock.timestamp_s(), cost_limit)
            if letter.long and not self._has_place(letter):
                letter.end_attempt()
                return cost
            while letter.targets is not None and not letter.complete and cost < cost_limit:
                targets, copy = letter.next_targets(), letter.copy
                cost += self._cost_of_targets(copy, targets)
                missing = [target for target in targets if target not in letter.confirmed]
                takers = tuple([target for target in missing if target.has_room(copy.body_bytes)])
                sinks = [(taker,) for taker in takers if taker.internal]
                for some in (queues_of(takers), *sinks):  # a sink may refuse it, as what it stands for
                    if some and not self._enqueue([copy], some, len(letter.targets) > 1).refused:
                        letter.confirmed.update(some)
                        letter.ticket = host.journal.ticket()
                letter.note_missing(targets)
            if not letter.complete:
                return cost
            letter.note_last()
            if safe and letter.waits_for is not None and not done:
                cost += self._exchange(letter, letter.waits_for)
            letter.accepted = letter.is_confirmed
        if letter.accepted or done:
            cost += letter.keep()
        if letter.accepted:
            cost += letter.record(cost_limit - cost)
            if letter.recorders:
                return cost
            if safe:
                host.statistics.count_dead_letters(queue.settings.type, AT_LEAST_ONCE, CONFIRMED, 1)
                done = True
        made(self.forwarded).popleft()
        if done and not letter.accepted and not letter.targets:
            self._log_unrouted([message], letter.why)
        if done or letter.accepted:
            letter.forget_takers()
        letter.end_attempt()
        self._leave_place()
        self._hold_takers(letter)
        if done:
            self._hold([message], -1)
            self._count([message], -1)
            queue.journal.settle([message], moved=True)
            return cost
        if not self.retry_at_ms:
            host.scheduler.report(
                "dead_letters_wait", "warning", {"queue": queue.name, "vhost": queue.vhost, "exchange": exchange}
            )
        if not self.unconfirmed:
            self.retry_at_ms = host.clock.now_ms() + self._wait_ms
        self.unconfirmed.append(letter)
        return cost

    def _exchange(self, letter: DeadLetter, last: DeadLetterSource) -> int:
        """Publish a message to the full queue that alone does not have it, if they are in a circle of such queues.

        Each queue of the circle passes one message on. Return the cost.
        """
        circle, cost = find_circle(self._queue, letter, last)
        if not circle:
            return cost
        size = sum([len(waiting.message.frames) for _, waiting, _ in circle])
        cost_limit = 2 * SLICE_COST + (size >> COPY_SHIFT)
        others = [(giver.outbox, waiting) for giver, waiting, _ in circle if waiting is not letter]
        again = True
        for outbox, waiting in others:
            if again and cost < cost_limit:
                its_cost, again = outbox._search_again(waiting, cost_limit - cost)
                cost += its_cost
            else:
                again = False
        if again:
            cost += (size >> STORE_SHIFT) + PER_MESSAGE_COST * len(circle)
            self._pass_on(circle)
        for outbox, waiting in others:
            outbox._end_exchange(waiting)
        return cost

    def _pass_on(self, circle: list[Pass]) -> None:
        """Publish the messages of a circle if each queue has room for one, but for those that it keeps."""
        for _, _, taker in circle:
            taker.outbox.exchanging = True
        try:
            if all(taker.has_room(letter.copy.body_bytes) for _, letter, taker in circle):
                for giver, letter, taker in circle:
                    target = cast("RouteTarget", taker)
                    if giver.outbox._enqueue([letter.copy], (target,), len(letter.targets or ()) > 1).refused:
                        break
                    letter.confirmed.add(target)
                    letter.ticket = giver.host.journal.ticket()
        finally:
            for _, _, taker in circle:
                taker.outbox.exchanging = False

    def _search_again(self, letter: DeadLetter, cost_limit: int) -> tuple[int, bool]:
        """Search the targets of an unconfirmed message again.

        Return the cost, and whether it still waits for the same queue alone and may be settled with its copy there.
        """
        queue, last, exchange = self._queue, letter.waits_for, self._queue.settings.dead_letter_exchange
        host = queue.host
        if exchange is None or not host.has_exchange(exchange) or letter.ticket > host.journal.durable:
            return 0, False
        cost = letter.find_targets(queue, exchange, host.clock.timestamp_s(), cost_limit)
        letter.note_missing(letter.targets or ())
        letter.note_last()
        return cost, letter.waits_for is last

    def _end_exchange(self, letter: DeadLetter) -> None:
        """Settle an unconfirmed message if all targets have it."""
        if cast("RouteTarget | None", letter.waits_for) in letter.confirmed:
            queue, message = self._queue, letter.message
            letter.forget_takers()
            self._hold_takers(letter)
            letter.keep()
            letter.record(UNLIMITED)  # few, because the search was short
            self.unconfirmed.remove(letter)
            self._hold([message], -1)
            self._count([message], -1)
            queue.host.statistics.count_dead_letters(queue.settings.type, AT_LEAST_ONCE, CONFIRMED, 1)
            queue.journal.settle([message], moved=True)
            if not self.unconfirmed and not self.forwarded:
                self._end_retries()
        letter.end_attempt()

    def _end_retries(self) -> None:
        self.retry_at_ms = 0
        self._wait_ms = RETRY_MS

    def _hold(self, messages: list[Message], sign: int, queued: bool = True) -> None:
        """Count the memory of messages that came, or that left with a `sign` of -1."""
        self._hold_bytes(sign * (frame_bytes(messages) + OVERHEAD * len(messages)), queued)
        if sign < 0 and (self._full or self.is_awaited):
            self.wake()

    def _hold_takers(self, letter: DeadLetter) -> None:
        """Count the targets that have taken a letter so far, which it holds until all have."""
        change = len(letter.takers) - letter.counted
        if change:
            letter.counted += change
            self._takers += change
            self._hold_bytes(TAKER_BYTES * change)

    def _hold_bytes(self, held_bytes: int, queued: bool = True) -> None:
        queue = self._queue
        loose_bytes = held_bytes if queue.deleted or not queued else 0
        self.held_bytes += held_bytes
        self.loose_bytes += loose_bytes
        self._budget.add(self.account, held_bytes, loose_bytes, queue.host.clock)

    def _set_full(self, full: bool) -> None:
        if full != self._full:
            self._full = full
            self._budget.full_outboxes += 1 if full else -1

    def _must_wait(self, targets: Targets) -> tuple[bool, int]:
        """Return whether one of the targets must not reject more messages, and begin to wait for it; and the cost.

        Queues do not wait for each other in a circle, which their dead letters cannot leave otherwise. One of them goes
        on, and its publishers wait in its place.
        """
        if not self._budget.full_outboxes or self._queue.host.scheduler.finishing:
            return False, 0
        cost = len(targets) >> LOOK_SHIFT
        full: DeadLetterSource | None = None
        for full in islice((cast("DeadLetterSource", target) for target in targets if target.outbox_full), FULL_LOOKS):
            cost += WAITS_COST
            if not waits_for(full, self._queue):
                self._await(full)
                full.outbox.when_fewer(self.wait_no_longer)
                return True, cost
        if full is not None and self.passes_to is None:
            self.passes_to = full
            self._set_full(True)
            full.outbox.when_fewer(self._pass_no_longer)
        return False, cost

    def _await(self, full: DeadLetterSource | None) -> None:
        """Publish nothing until this queue has fewer messages, or go on."""
        self.awaited = full
        waiting = self._queue.host.waiting
        if full is not None:
            waiting.add(self.wait_no_longer)
        else:
            waiting.remove(self.wait_no_longer)

    def wait_no_longer(self) -> None:
        """Go on with the message that waits for a full queue: its targets are searched again."""
        if self.awaited is not None:
            self._await(None)
            self._go_on_soon()

    def _go_on_soon(self) -> None:
        if self._resume is not None:
            self._resume()
        else:
            self._queue.schedule_pump()

    def _pass_no_longer(self) -> None:
        """Wake those that wait, but later: they may be a chain of any length of queues that passed to the next one."""
        if self.passes_to is not None:
            self.passes_to = None
            self._wake_soon()

    def _has_place(self, letter: DeadLetter) -> bool:
        """Return whether a long letter may go on, which has a place or is being published.

        Otherwise nothing is published until it has one, and it is searched for again. At a stop nothing waits.
        """
        host = self._queue.host
        if self._place is not None or host.scheduler.finishing or letter.targets is not None and not letter.is_found:
            return True
        self._place = Place(letter.held_bytes(host.route_bytes), self.account)
        return host.ledger.long_routes.begin(self._place, self._go_on_soon)

    def _leave_place(self) -> None:
        """Give the place back unless a letter is under way that goes on in the next step. Others wait for their own."""
        if self._place is None or self.awaits_place:
            return
        forwarded = self.forwarded[0] if self.forwarded else None
        under_way = self._first is not None or forwarded is not None and forwarded.copy is not forwarded.message
        if not (under_way and self.publishable):
            self._end_place()

    def _end_place(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            self._queue.host.ledger.long_routes.end(place)

    def _count(self, messages: list[Message], sign: int) -> None:
        stored = [message for message in messages if message.persistent]
        self.persistent_count += sign * len(stored)
        self.persistent_bytes += sign * total_bytes(stored)

    def publish(self, messages: list[Message], reason: str, cost_limit: int) -> tuple[int, int]:
        """Publish messages to the queue's dead letter exchange, or drop them if there is none.

        Stop where they have cost too much; return how many were published or dropped, and the cost.
        """
        queue = self._queue
        host, exchange = queue.host, queue.settings.dead_letter_exchange
        if exchange is None or not host.has_exchange(exchange):
            self._first = None
            self._log_unrouted(messages)
            return len(messages), len(messages)
        cost = count = 0
        timestamp_s = host.clock.timestamp_s()
        last = self._last
        if last is not None and (self._first is not None or not last.serves(queue, reason, timestamp_s)):
            last = None
        self._last = None
        if last is not None:
            must_wait, cost = self._must_wait(last.targets)
            if must_wait:
                self._last = last
                return 0, cost
            cost = min(cost, cost_limit - 1)  # one message is published at least
        copies: list[Message] = []
        targets: Targets = last.targets if last is not None else ()
        alone = len(targets) == 1
        for message in messages:
            if cost >= cost_limit:
                break
            its_cost = self._cost_of_targets(message, targets)
            if last is not None and last.is_like(message) and (its_cost <= PART_COST or len(targets) < 2):
                count += 1
                cost += ALIKE_COST + its_cost + (len(message.frames) >> COPY_SHIFT)
                copies.append(last.copy(message))
                if not targets:
                    self._log_unrouted([message], last.why)
                continue
            self._enqueue_copies(messages[count - len(copies) : count], copies, targets, alone)
            copies = []
            last = None
            letter, self._first = self._first, None
            if letter is None or letter.message is not message:
                letter = DeadLetter(message, reason)
            cost += letter.find_targets(queue, exchange, timestamp_s, cost_limit - cost)
            if letter.long and not self._has_place(letter):
                letter.end_attempt()
                break
            if letter.is_found:
                must_wait, its_cost = self._must_wait(letter.full)
                cost += its_cost
                if must_wait:
                    break  # it is searched for again, because its targets may be others by then
                cost += letter.keep()
            if letter.targets is not None:
                targets = letter.next_targets()
                cost += self._cost_of_targets(letter.copy, targets)
            while letter.targets is not None and not letter.complete:
                letter.offered(targets, self._enqueue([letter.copy], targets, shared=True))
                targets = ()
                if cost >= cost_limit:
                    break
                targets = letter.next_targets()
                cost += self._cost_of_targets(letter.copy, targets)
            if letter.complete and letter.recorders:
                letter.offered(targets, self._enqueue([letter.copy], targets))
                targets = ()
                if letter.accepted:
                    cost += letter.record(cost_limit - cost)
                else:
                    letter.recorders = ()
            if not letter.complete or letter.recorders:
                self._first = letter
                break
            count += 1
            alone = letter.targets is not None and len(letter.targets) == 1
            if not letter.targets:
                self._log_unrouted([message], letter.why)
            if self._place is not None:
                self._leave_place()
            copies = [letter.copy]
            if letter.stable and not letter.divided and letter.topology == host.topology:
                last = LastLetter(letter, targets, queue.settings, timestamp_s, host.topology)
        self._enqueue_copies(messages[count - len(copies) : count], copies, targets, alone)
        if last is not None and last.is_short:
            self._last = last
        return count, cost

    def _log_unrouted(self, messages: list[Message], why: str = "") -> None:
        """Log messages that no queue gets, if there is a traffic log and a dead letter exchange."""
        queue = self._queue
        if queue.host.traffic_log is not None and queue.settings.dead_letter_exchange is not None:
            queue.host.traffic_log.unrouted(queue, messages, why)

    def _enqueue_copies(self, messages: list[Message], copies: list[Message], targets: Targets, alone: bool) -> None:
        """Enqueue the copies of messages, and log those that are refused by a queue which is `alone` on their route."""
        refused = self._enqueue(copies, targets).refused
        if refused and alone:
            self._log_unrouted([messages[index] for index in sorted(refused)], REFUSED)

    def _enqueue(self, messages: list[Message], queues: Targets, shared: bool = False) -> EnqueueResult:
        """Enqueue messages, of which either all or none are persistent."""
        if not messages or not queues:
            return ACCEPTED
        body_bytes, persistent = total_bytes(messages), messages[0].persistent
        return self._queue.host.enqueue(messages, body_bytes, persistent, queues, DEAD_LETTERED, shared)

    def _cost_of_targets(self, message: Message, targets: Targets) -> int:
        """Return the cost of enqueueing one message at these targets, each of which looks at it."""
        count, size = len(targets), len(message.frames)
        cost = cost_of_reading([message], targets) * count if size - message.body_bytes > LONG_HEADER else 0
        if self._queue.host.ledger.exceeded:
            return cost + count * (PAGE_COST + (size >> STORE_SHIFT))
        return cost + cost_of_records(size, targets) + (count if count < 2 else count * PER_MESSAGE_COST)


def cost_of(message: Message) -> int:
    """Return the cost of a message with its properties and its body, which are copied (`jobs.scheduler`)."""
    return COST + (len(message.property_bytes) >> HEADER_SHIFT) + (message.body_bytes >> COPY_SHIFT)


class Pass(NamedTuple):
    """A letter that one queue of a circle passes to the next one."""

    giver: DeadLetterSource
    letter: DeadLetter
    taker: DeadLetterSource


def find_circle(source: DeadLetterSource, letter: DeadLetter, first: DeadLetterSource) -> tuple[list[Pass], int]:
    """Return what the queues of a circle pass on, which begins with the letter from `source` to `first`; and the cost.

    The list is empty if there is no circle, or it or the search would be too long.
    """
    found = {first: Pass(source, letter, first)}
    sizes = {first: len(letter.message.frames)}  # of all letters on the way to a queue
    pending = deque([first])
    cost = 1
    while pending and source not in found and len(found) < MOST_QUEUES:
        queue = pending.popleft()
        taken = found[queue].letter
        cost += 1 + (len(queue.outbox.unconfirmed) >> LETTERS_SHIFT)
        for waiting in queue.outbox.unconfirmed:
            taker = waiting.waits_for
            if taker is None or taker in found or not exchanges(queue, waiting, taken):
                continue
            size = sizes[queue] + len(waiting.message.frames)
            if size <= MOST_BYTES and (taker is not source or exchanges(source, letter, waiting)):
                found[taker] = Pass(queue, waiting, taker)
                sizes[taker] = size
                pending.append(taker)
    if source not in found or first is source and not exchanges(source, letter, letter):
        return [], cost
    circle = [found[source]]
    while circle[-1].giver is not source:
        circle.append(found[circle[-1].giver])
    return circle[::-1], cost


def exchanges(queue: DeadLetterSource, given: DeadLetter, taken: DeadLetter) -> bool:
    """Return whether a full queue may pass on one letter as it takes another.

    That may be longer, as long as the queue does not exceed twice its limit of bytes.
    """
    settings, growth = queue.settings, taken.message.body_bytes - given.message.body_bytes
    if queue.deleted or not settings.dead_letters_at_least_once:
        return False
    total = queue.ready_bytes + queue.outbox.persistent_bytes + growth
    return growth <= 0 or settings.max_bytes < 0 or total <= 2 * settings.max_bytes


def waits_for(queue: DeadLetterSource, other: DeadLetterSource) -> bool:
    """Return whether the outbox of a queue waits for the other one, or may do so behind WAITS more."""
    seen: set[DeadLetterSource] = set()
    for _ in range(WAITS):
        if queue is other:
            return True
        seen.add(queue)
        following = queue.outbox.awaited or queue.outbox.passes_to
        if following is None or following in seen:
            return False  # others wait for each other in a circle, in which one goes on
        queue = following
    return True


def may_cycle(copy: Message, targets: Targets) -> bool:
    """Return whether some of the targets may close a cycle of queues."""
    return len(targets) > FEW or any(cycles(copy, target.name) for target in targets)
