"""What a queue asks of the vhost that it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..counters.statistics import Statistics
from ..jobs.scheduler import Scheduler
from ..messages.message import Message
from ..messages.ports import Clock, Journal
from .message_log import MessageLog
from .paged_tail import MemoryBudget
from .queue_settings import QueueSettingsCache
from .reread import Reread

if TYPE_CHECKING:
    from .queue import Queue


class QueueHost:
    """`pending` are the queues, of all the node, that wait to be pumped."""

    def __init__(self, name: str, clock: Clock, journal: Journal, budget: MemoryBudget, scheduler: Scheduler) -> None:
        self.name = name
        self.clock = clock
        self.journal = journal
        self.budget = budget
        self.scheduler = scheduler
        self.pending = scheduler.pending
        self.rulebook = QueueSettingsCache()
        self.statistics = Statistics()
        self.rereading = Reread(clock, scheduler)
        self.message_log: MessageLog | None = None  # while what becomes of messages is logged

    def left(self, queue: Queue, messages: list[Message], reason: str) -> None:
        """For the message log, if there is one: the queue has them no more."""
        if self.message_log is not None:
            self.message_log.left(queue, messages, reason)

    def left_paged(self, queue: Queue, seqs: list[int], average_bytes: int, reason: str) -> None:
        """Likewise, of messages that are not in memory: `Message.seq` of each."""
        if self.message_log is not None:
            self.message_log.left_paged(queue, seqs, average_bytes, reason)

    def cleared(self, queue: Queue) -> None:
        """Likewise: it has nothing that is ready any more."""
        if self.message_log is not None:
            self.message_log.cleared(queue)

    def requeued(self, queue: Queue, message: Message, reason: str) -> None:
        """Likewise: the queue gets it back."""
        if self.message_log is not None:
            self.message_log.requeued(queue, message, reason)

    def pump(self) -> None:
        """Deliver what can be delivered now, also what a delivery itself makes ready."""
        self.scheduler.pump()

    def feed(self, queue: Queue) -> None:
        """Deliver what can be delivered of this queue, in the middle of a publish that has to know what is left."""
        try:
            queue.feed()
        except Exception as error:  # of a consumer or of the disk, not of who publishes
            self.scheduler.pump_failed(queue, error)

    def dead_letter(self, queue: Queue, messages: list[Message], reason: str) -> None:
        """Publish what this queue is done with to its dead letter exchange, before the queue forgets it."""
        raise NotImplementedError

    def unused(self, queue: Queue) -> None:
        """Nobody has used this queue for as long as it may be unused: it goes."""
        raise NotImplementedError
