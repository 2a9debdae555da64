"""The services that a queue gets from its virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mypy_extensions import mypyc_attr

from ..counters.statistics import Statistics
from ..jobs.scheduler import Scheduler
from ..messages.message import Message, SharedMessage, header_bytes_of
from ..messages.ports import Clock, Journal
from .enqueue import enqueue_per_message, store
from .ledger import Ledger
from .message_log import MADE, MessageLog
from .queue_settings import QueueSettingsCache
from .route_target import ACCEPTED, DURABLE, EnqueueResult, RouteTarget, TargetSearch
from .waiting_outboxes import WaitingOutboxes

if TYPE_CHECKING:
    from .queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueHost:
    """The virtual host as its queues see it: clock, journal, memory ledger, scheduler, counters and publishing.

    pending         queues of the whole node that wait to be pumped
    settings_cache  the settings that queues with the same arguments and policies share
    message_log     records all messages that enter or leave queues, or None
    topology        a number that is another one after each change that may change a route
    waiting         outboxes whose dead letters wait for a full queue
    held            publishes and deliveries wait, as the firehose has very many messages to copy
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
        self.message_log: MessageLog | None = None
        self.topology = 0
        self.waiting = WaitingOutboxes(clock, scheduler)
        self.held = False

    def left(self, queue: Queue, messages: list[Message], reason: str) -> None:
        """Log messages that left the queue, if there is a message log."""
        if self.message_log is not None:
            self.message_log.left(queue, messages, reason)

    def left_paged(self, queue: Queue, seqs: list[int], average_bytes: int, reason: str) -> None:
        """Log messages that left the queue and are not in memory; `seqs` has each `Message.seq`."""
        if self.message_log is not None:
            self.message_log.left_paged(queue, seqs, average_bytes, reason)

    def cleared(self, queue: Queue) -> None:
        """Log that all ready messages left the queue."""
        if self.message_log is not None:
            self.message_log.cleared(queue)

    def requeued(self, queue: Queue, message: Message, reason: str) -> None:
        """Log that a delivered message returned to the queue."""
        if self.message_log is not None:
            self.message_log.requeued(queue, message, reason)

    def pump(self) -> int:
        """Pump pending queues, also those that a delivery makes pending, and return the cost."""
        return self.scheduler.pump()

    def feed(self, queue: Queue) -> None:
        """Deliver from this queue in the middle of a publish, which needs to know how many messages remain."""
        try:
            queue.feed()
        except Exception as error:  # a fault of a consumer or of the disk, not of the publisher
            self.scheduler.pump_failed(queue, error)

    def delete_expired(self, queue: Queue) -> None:
        """Delete a queue that was unused for its `x-expires`."""
        raise NotImplementedError

    # Publishing

    def enqueue(
        self,
        messages: list[Message],
        body_bytes: int,
        persistent: bool,
        targets: tuple[RouteTarget, ...],
        source: str = MADE,
        shared: bool = False,
        header_bytes: int = -1,
    ) -> EnqueueResult:
        """Store messages once for all durable targets, and give them to all targets.

        `body_bytes` is the sum of their bodies; `persistent` is True if any of them is. Either all of them have a
        `MessageState` or none. `source` is that of `message_log`, empty for a client. `shared` messages are also
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
            return enqueue_per_message(messages, targets, source, shared, self.message_log) if targets else ACCEPTED
        for target in targets:
            if target.per_message:
                return self._enqueue_apart(messages, body_bytes, persistent, targets, source, shared)
        numbers = [target.number for target in targets if target.number] if persistent else []
        if numbers:
            messages = store(self.journal, messages, body_bytes, targets, numbers)
        if self.message_log is not None:
            self.message_log.enqueued(cast("tuple[Queue, ...]", targets), messages, source)
        shared = shared or len(targets) > 1
        if header_bytes < 0:
            header_bytes = header_bytes_of(messages)
        for target in targets:
            target.push(messages, body_bytes, shared, header_bytes)
        return DURABLE if numbers else ACCEPTED

    def _enqueue_apart(
        self,
        messages: list[Message],
        body_bytes: int,
        persistent: bool,
        targets: tuple[RouteTarget, ...],
        source: str,
        shared: bool,
    ) -> EnqueueResult:
        """Enqueue where some targets look at each message; the other targets share one stored copy."""
        plain = tuple([target for target in targets if not target.per_message])
        per_message = tuple([target for target in targets if target.per_message])
        if not plain:
            return enqueue_per_message(messages, per_message, source, shared, self.message_log)
        if source and self.message_log is not None:
            self.message_log.made(messages)
        stored = self.enqueue(messages, body_bytes, persistent, plain, source, shared).stored
        result = enqueue_per_message(messages, per_message, source, True, self.message_log)
        return result if result.stored or not stored else EnqueueResult(True, result.refused)

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
