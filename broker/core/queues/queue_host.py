"""The services that a queue gets from its virtual host, and what these, and parts of the queue, need of it."""

from __future__ import annotations

from typing import cast

from mypy_extensions import mypyc_attr

from ..counters.statistics import Statistics
from ..jobs.scheduler import Scheduler
from ..messages.clock import Clock, Timer
from ..messages.journal_port import Journal
from ..messages.message import NO_ADDRESS, Message, SharedMessage, header_bytes_of, total_bytes
from .deduplication import Deduplication
from .ledger import Ledger
from .queue_settings import QueueSettings, QueueSettingsCache
from .route_target import ACCEPTED, DURABLE, EnqueueResult, RouteTarget, Targets, TargetSearch
from .traffic_log import MADE, TrafficLog
from .waiting_outboxes import WaitingOutboxes


@mypyc_attr(allow_interpreted_subclasses=True)
class HostedQueue(RouteTarget):
    """A queue as its host and its parts see it; `Queue` is the only one.

    dirty          the queue waits to be pumped
    timer          for the earliest of the times for which it waits, `due_ms` (`Scheduler.pump_at`)
    deduplication  of the messages that are published to it, or None
    interrupted    consumers may have room for ready messages: they are asked, or woken, in one of the next turns
    unacked        the number of unacknowledged messages
    """

    __slots__ = (*("host", "vhost", "settings", "dirty", "timer", "due_ms", "deduplication", "interrupted", "unacked"),)

    def __init__(self, host: QueueHost, name: str, number: int, settings: QueueSettings) -> None:
        super().__init__(name, number, settings.per_message)
        self.host, self.vhost = host, host.name
        self.settings = settings
        self.dirty = self.interrupted = False
        self.timer: Timer | None = None
        self.due_ms = 0
        self.deduplication: Deduplication | None = None
        self.unacked = 0

    def pump(self) -> int:
        """Deliver, expire and drop messages and dead-letter some of them; return the cost (`jobs.scheduler`)."""
        raise NotImplementedError

    def schedule_pump(self) -> None:
        """Have the node pump this queue soon, as something may be deliverable."""

    def on_due(self) -> int:
        """Do the work for which the queue has waited (`Scheduler.pump_at`); return the cost."""
        raise NotImplementedError

    def feed(self) -> None:
        """Deliver ready messages to consumers until either run out; expire and drop messages."""

    # For its ready messages

    def can_deliver(self, body_bytes: int) -> bool:
        """Return whether a message of this length would be delivered now, or in one of the next turns."""
        raise NotImplementedError

    @property
    def dead_letter_room_bytes(self) -> int:
        """The bytes of messages that the queue may still drop, but for the last message."""
        raise NotImplementedError

    # For messages that it looks at one by one

    @property
    def hands_over(self) -> bool:
        """True if messages with a time to live of 0 can do anything but expire, as there are consumers or limits."""
        raise NotImplementedError

    def is_full(self, body_bytes: int, before: int = 0) -> bool:
        """Return whether a message is above a limit, if deliverable ones count.

        `before` messages are pushed first; `body_bytes` is the sum of their bodies and its own.
        """
        raise NotImplementedError

    def takes(self, body_bytes: int) -> bool:
        """Return whether the queue can take a body of this length without dropping or rejecting a message."""
        raise NotImplementedError

    def dead_letter_rejected(self, message: Message) -> bool:
        """Dead-letter a message that was rejected; return whether the publisher has to wait for the journal, too."""
        raise NotImplementedError

    def push_at(self, level: int, messages: list[Message], body_bytes: int, shared: bool = False) -> None:
        """Add messages at the tail of their priority level; any of them may have a deadline."""

    def expire_soon(self, level: int) -> None:
        """Have the queue pumped soon, because a message of this priority level got its deadline after `push_at`."""

    def await_freed(self) -> None:
        """Note it if consumers that wait may have room. What is above a limit is dropped later, if it stays."""


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueHost:
    """The virtual host as its queues see it: clock, journal, memory ledger, scheduler, counters and publishing.

    pending         queues of the whole node that wait to be pumped
    settings_cache  the settings that queues with the same arguments and policies share
    traffic_log     records all messages that enter or leave queues, or None
    topology        a number that is another one after each change that may change a route
    waiting         outboxes whose dead letters wait for a full queue
    held            publishes and deliveries wait, because the firehose has very many messages to copy
    """

    def __init__(self, name: str, clock: Clock, journal: Journal, ledger: Ledger, scheduler: Scheduler) -> None:
        self.name = name
        self.clock = clock
        self.journal = journal
        self.ledger = ledger
        self.scheduler = scheduler
        self.pending = scheduler.pending
        self.settings_cache = QueueSettingsCache()
        self.statistics = Statistics()
        self.traffic_log: TrafficLog | None = None
        self.topology = 0
        self.waiting = WaitingOutboxes(clock, scheduler)
        self.held = False

    def left(self, queue: HostedQueue, messages: list[Message], reason: str) -> None:
        """Log messages that left the queue, if there is a traffic log."""
        if self.traffic_log is not None:
            self.traffic_log.left(queue, messages, reason)

    def left_paged(self, queue: HostedQueue, seqs: list[int], average_bytes: int, reason: str) -> None:
        """Log messages that left the queue and are not in memory; `seqs` has each `Message.seq`."""
        if self.traffic_log is not None:
            messages = [Message(NO_ADDRESS, b"", 0, average_bytes, 0, False) for _ in seqs]
            for message, seq in zip(messages, seqs, strict=True):
                message.seq = seq
            self.traffic_log.left(queue, messages, reason)

    def cleared(self, queue: HostedQueue) -> None:
        """Log that all ready messages left the queue."""
        if self.traffic_log is not None:
            self.traffic_log.cleared(queue)

    def requeued(self, queue: HostedQueue, message: Message, reason: str) -> None:
        """Log that a delivered message returned to the queue."""
        if self.traffic_log is not None:
            self.traffic_log.requeued(queue, message, reason)

    def pump(self) -> int:
        """Pump pending queues, also those that a delivery makes pending, and return the cost."""
        return self.scheduler.pump()

    def feed(self, queue: HostedQueue) -> None:
        """Deliver from this queue in the middle of a publish, which needs to know how many messages remain."""
        try:
            queue.feed()
        except Exception as error:  # a fault of a consumer or of the disk, not of the publisher
            self.scheduler.pump_failed(queue, error)

    def delete_expired(self, queue: HostedQueue) -> None:
        """Delete a queue that was unused for its `x-expires`."""

    # Publishing

    def enqueue(
        self,
        messages: list[Message],
        body_bytes: int,
        persistent: bool,
        targets: Targets,
        source: str = MADE,
        shared: bool = False,
        header_bytes: int = -1,
    ) -> EnqueueResult:
        """Store messages once for all durable targets, and give them to all targets.

        `body_bytes` is the sum of their bodies; `persistent` is True if any of them is. Either all of them have a
        `MessageState` or none. `source` is that of `traffic_log`, empty for a client. `shared` messages are also
        enqueued at other targets, by other calls; if `Ledger.share` has returned them, their contents count once for
        all of these. `header_bytes` is the sum of their long headers (`header_bytes_of`), or -1 if unknown. HOT: bench
        A-M.
        """
        if shared or len(targets) > 1:
            messages = self.ledger.share(messages)
        else:
            shared = isinstance(messages[0], SharedMessage)
        if messages[0].address.counted is None:  # made by the broker; those of other publishes have cached routes
            messages[0].address.count(self.ledger.addresses)
        if messages[0].state is not None:
            return self._enqueue_per_message(messages, targets, source, shared) if targets else ACCEPTED
        for target in targets:
            if target.per_message:
                return self._enqueue_apart(messages, body_bytes, persistent, targets, source, shared)
        numbers = [target.number for target in targets if target.number] if persistent else []
        if numbers:
            if any(message.id for message in messages):
                messages = [message.copy_for_queue() for message in messages]  # each with records of its own
            stored = [message for message in messages if message.persistent]
            self.journal.append(numbers, stored)
            stored_bytes = body_bytes if len(stored) == len(messages) else total_bytes(stored)
            for target in targets:
                target.count_stored(len(stored), stored_bytes)
        if self.traffic_log is not None:
            self.traffic_log.enqueued(cast("tuple[HostedQueue, ...]", targets), messages, source)
        shared = shared or len(targets) > 1
        if header_bytes < 0:
            header_bytes = header_bytes_of(messages)
        for target in targets:
            target.push(messages, body_bytes, shared, header_bytes)
        return DURABLE if numbers else ACCEPTED

    def _enqueue_apart(
        self, messages: list[Message], body_bytes: int, persistent: bool, targets: Targets, source: str, shared: bool
    ) -> EnqueueResult:
        """Enqueue where some targets look at each message; the other targets share one stored copy."""
        plain = tuple([target for target in targets if not target.per_message])
        per_message = tuple([target for target in targets if target.per_message])
        if not plain:
            return self._enqueue_per_message(messages, per_message, source, shared)
        if source and self.traffic_log is not None:
            self.traffic_log.made(messages)
        stored = self.enqueue(messages, body_bytes, persistent, plain, source, shared).stored
        result = self._enqueue_per_message(messages, per_message, source, True)
        return result if result.stored or not stored else EnqueueResult(True, result.refused)

    def _enqueue_per_message(
        self, messages: list[Message], targets: Targets, source: str, shared: bool
    ) -> EnqueueResult:
        """Enqueue messages one by one at each target, which gets copies of its own if other targets get them too.

        Queues with equal keys share the records (`RouteTarget.record_key`). `shared` is True if targets other than
        these get the messages.
        """
        if len(targets) == 1:
            return targets[0].accept(messages, source, shared)
        if not shared and source and self.traffic_log is not None:
            self.traffic_log.made(messages)
        groups: dict[object, list[RouteTarget]] = {}
        for target in targets:
            groups.setdefault(target.record_key, []).append(target)
        stored = False
        refused: set[int] = set()
        for first, *others in groups.values():
            result = first.accept(messages, source, True, tuple(others))
            stored = stored or result.stored
            refused |= result.refused
        if refused:
            return EnqueueResult(stored, frozenset(refused))
        return DURABLE if stored else ACCEPTED

    def has_exchange(self, name: str) -> bool:
        """Return whether the exchange exists."""
        raise NotImplementedError

    @property
    def route_bytes(self) -> int:
        """The bytes that one search may take, about."""
        raise NotImplementedError

    def search_from(self, exchange: str, keys: tuple[str, ...], message: Message) -> TargetSearch:
        """Begin the search for the targets of a message, from an existing exchange."""
        raise NotImplementedError
