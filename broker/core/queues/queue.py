"""A queue: ready messages, unacknowledged deliveries and consumers.

Expiry, length limits, priorities, dead-lettering and delivery limits cost only the queues that have them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from mypy_extensions import mypyc_attr

from ...amqp.errors import Unreadable
from ...amqp.field_table import Table
from ..counters.statistics import DISABLED, DeliveryCounters
from ..jobs.scheduler import COPY_SHIFT, DUE_COST, OBJECT_COST, PUMP_COST, SPEED, STORE_SHIFT, Job
from ..jobs.scheduler import SLICE as JOB_SLICE
from ..messages.binding import Binding
from ..messages.journal_port import DISK_FULL, ROOM, RecoveredQueue
from ..messages.message import FIELD_SHIFT, FIELDS_COST, Message, ShedMessage, header_bytes_of, total_bytes
from ..messages.message_state import NEVER, MessageState
from ..metadata.queue_types import QUORUM
from .chunks import Chunk
from .consumers import Consumer, Consumers, SingleActiveConsumers
from .dead_lettering import DeadLetterOutbox
from .deduplication import Deduplication
from .flow_control import HOLD_ABOVE, HOLD_ABOVE_BYTES, RELEASE_BELOW, RELEASE_BELOW_BYTES, HeldPublishers
from .per_message_enqueue import HAND_OVER_MS, PerMessageEnqueue
from .queue_host import HostedQueue, QueueHost
from .queue_journal import QueueJournal
from .queue_settings import NO_POLICY, NONE
from .ready_messages import BATCH_BYTES, LEVEL_SHIFT, MESSAGE_BYTES, Fifo, ReadyMessages
from .route_target import ACCEPTED, DURABLE, EnqueueResult, Targets
from .traffic_log import CHANNEL, DELETED, PURGED, REJECT
from .x_death import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED

if TYPE_CHECKING:
    from ..metadata.policy import Policy

DELIVERED, DELIVERED_BYTES = 4_000 * SPEED, 8 << 20  # messages delivered at once, and their contents: some ms
COUNT_COST = 4  # of a requeue that counts a delivery, beside the copy of the message
SLICE = 2_000  # messages that expire or are dropped at once, in addition to as many as were published: some ms
FAR, FAR_BYTES = 10_000, 16 << 20  # messages, or bytes of bodies, above a limit, while consumers may have room


@mypyc_attr(allow_interpreted_subclasses=True)
class Queue(HostedQueue):
    """A queue: ready messages, unacknowledged deliveries and consumers.

    number           identifies a durable queue in the journal; 0 for all others
    owner            the connection of an exclusive queue, or None
    shed             unacknowledged messages whose content only the journal has; `shed_bytes` is the sum of their bodies
    delivered_bytes  the sum of the bodies and long headers delivered to consumers
    """

    __slots__ = (
        *("durable", "journal", "owner", "auto_delete", "arguments", "policy", "operator_policy", "effective"),
        *("incoming", "consumers", "ready_messages", "shed", "shed_bytes", "had_consumer", "paused", "_resumed"),
        *("published", "delivered_bytes", "delivering", "unacked_bytes", "dropped", "expired", "held_publishers"),
        *("outbox", "_used_ms", "_came_back", "_feeding", "_pumped", "_slice", "demand_followers", "_acyclic"),
    )

    def __init__(
        self,
        host: QueueHost,
        name: str,
        *,
        number: int = 0,
        owner: object = None,
        auto_delete: bool = False,
        arguments: Table = Table.EMPTY,
    ) -> None:
        """A durable queue has a number in the journal, a transient one has 0."""
        settings = host.settings_cache.get(arguments, NO_POLICY)
        super().__init__(host, name, number, settings)
        self.durable = number > 0
        self.journal = QueueJournal(host.journal, number)
        self.owner = owner
        self.auto_delete = auto_delete
        self.arguments = arguments
        self.policy: Policy | None = None
        self.operator_policy: Policy | None = None
        self.effective: Mapping[str, object] = NO_POLICY
        self.incoming: dict[bytes, Binding] = {}
        single = settings.single_active_consumer
        scheduler = host.scheduler
        self.consumers = SingleActiveConsumers(scheduler, settings.type == QUORUM) if single else Consumers(scheduler)
        self.ready_messages = ReadyMessages(self, settings, self.journal, host.ledger)
        self.unacked_bytes = self.shed = self.shed_bytes = 0
        self.had_consumer = False
        self.paused = 0  # jobs that requeue messages which must be delivered first
        self._resumed: list[Callable[[], None]] = []  # callbacks for their end
        self.published = self.delivered_bytes = 0
        self.delivering = DeliveryCounters(host.statistics.delivering[settings.type])
        self.dropped = self.expired = 0  # by a length limit; by a time to live
        self.held_publishers = HeldPublishers()
        if settings.deduplicates:
            self.deduplication = Deduplication(arguments)
            self.reads_headers = True
        self.outbox = DeadLetterOutbox(self)
        self._used_ms = 0  # when `x-expires` began to count; 0 without one
        self.demand_followers: dict[Callable[[], None], None] = {}  # called once when the consumers' demand changes
        self._came_back = self._feeding = self._acyclic = False
        self._pumped = 0  # `published` when it was last pumped
        self._slice = SLICE  # messages that may still expire or be dropped in this pump
        self.renew_expiry()

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    @property
    def ready(self) -> int:
        """The number of ready messages."""
        return self.ready_messages.count

    @property
    def stored(self) -> int:
        """The number of ready messages and of those that would be ready if they could be read."""
        return self.ready_messages.count + self.ready_messages.unread_count

    @property
    def ready_bytes(self) -> int:
        """The sum of their bodies, an estimate while some cannot be read (`ReadyMessages`)."""
        return max(self.ready_messages.body_bytes, 0)

    def configure(self, policy: Policy | None, operator_policy: Policy | None, effective: Mapping[str, object]) -> None:
        """Apply these policies from now on. Messages in the queue keep their deadlines."""
        self.policy, self.operator_policy, self.effective = policy, operator_policy, effective
        before, self.settings = self.settings, self.host.settings_cache.get(self.arguments, effective)
        self.per_message = self.settings.per_message
        if self.settings.expires_ms == NONE:
            self._used_ms = 0
        elif self._used_ms:
            self.host.scheduler.pump_at(self, self._used_ms + self.settings.expires_ms)
        else:
            self.renew_expiry()
        if self.settings is not before:
            self.outbox.on_changed()
        self.schedule_pump()

    # Messages enter

    def push(self, messages: list[Message], body_bytes: int, shared: bool = False, header_bytes: int = -1) -> None:
        """Add messages, already stored if need be, at the tail; `body_bytes` is their sum. HOT: bench A-M."""
        self.ready_messages.default.push(messages, body_bytes, shared, header_bytes)
        self.published += len(messages)
        if not self.dirty:
            self.dirty = True
            self.host.pending.append(self)

    def push_at(self, level: int, messages: list[Message], body_bytes: int, shared: bool = False) -> None:
        self.ready_messages.at(level).push_timed(messages, body_bytes, shared)
        self.published += len(messages)
        self.schedule_pump()

    def accept(self, messages: list[Message], source: str, shared: bool, others: Targets = ()) -> EnqueueResult:
        enqueue = PerMessageEnqueue((self, *cast("tuple[Queue, ...]", others)), source, shared)
        refused = [index for index, message in enumerate(messages) if not enqueue.add(message)]
        enqueue.push()
        if refused:
            return EnqueueResult(enqueue.stored, frozenset(refused))
        return DURABLE if enqueue.stored else ACCEPTED

    def count_stored(self, count: int, body_bytes: int) -> None:
        if self.number:
            self.journal.count += count
            self.journal.body_bytes += body_bytes

    @property
    def record_key(self) -> object:
        return self.settings.record_key or self

    @property
    def paged(self) -> bool:
        return self.ready_messages.paged

    @property
    def rejects_overflow(self) -> bool:
        return self.settings.rejects_publish

    @property
    def dead_letters_rejected(self) -> bool:
        """True if messages that the queue rejects are dead-lettered."""
        return self.settings.dead_letters_rejected and not self.deleted

    @property
    def hands_over(self) -> bool:
        return len(self.consumers) > 0 or self.settings.drops_head or self.settings.rejects_publish

    @property
    def dead_letter_room_bytes(self) -> int:
        return self.outbox.room_bytes

    def dead_letter_rejected(self, message: Message) -> bool:
        self.outbox.add([message], MAXLEN, queued=False)
        return self.outbox.awaits_journal

    @property
    def outbox_full(self) -> bool:
        return self.dead_letters_rejected and self.outbox.full

    @property
    def must_not_reject(self) -> bool:
        return self.dead_letters_rejected and self.outbox.takes_no_more

    def when_may_reject(self, fn: Callable[[], None]) -> None:
        self.outbox.when_room(fn)

    def has_room(self, body_bytes: int) -> bool:
        return not self.settings.rejects_publish or self.takes(body_bytes)

    def takes(self, body_bytes: int) -> bool:
        # Deliverable messages do not count, so it does as long as consumers may have room that are not asked yet.
        if not self.is_full(body_bytes):
            return True
        if not self.interrupted:  # otherwise `pump` goes on, because it may take long
            self.host.feed(self)
            self.await_freed()
        self.schedule_pump()
        return self.interrupted and not self._is_far_above() or not self.is_full(body_bytes)

    def is_full(self, body_bytes: int, before: int = 0) -> bool:
        settings, ready = self.settings, self.ready_messages
        count, total = ready.count + before, ready.body_bytes + body_bytes
        if settings.dead_letters_at_least_once and not self.outbox.exchanging:
            count, total = count + len(self.outbox), total + self.outbox.persistent_bytes
        return NONE < settings.max_length <= count or NONE < settings.max_bytes < total

    def _is_far_above(self) -> bool:
        """Return whether it has too much above a limit to wait for consumers that may have room."""
        settings, ready = self.settings, self.ready_messages
        length, body_bytes = ready.count - FAR, ready.body_bytes - FAR_BYTES
        return NONE < settings.max_length < length or NONE < settings.max_bytes < body_bytes

    def congested(self) -> bool:
        ready = self.ready_messages
        content_bytes = ready.content_bytes if ready.long_headers else ready.body_bytes
        return (ready.count > HOLD_ABOVE or content_bytes > HOLD_ABOVE_BYTES) and len(self.consumers) > 0

    def requeue(
        self,
        position: int,
        message: Message,
        nacked: bool = False,
        reason: str = CHANNEL,
        content: Message | None = None,
    ) -> None:
        """Return a delivered message to its original position, to be redelivered.

        A quorum queue does not count it as a delivery attempt if a consumer `nacked` it. `content` is as in `reject`.
        """
        if not self._take_back(message):
            return
        if isinstance(message, ShedMessage):
            if self.is_at_limit(message, nacked):
                self._drop_shed(message, content, DELIVERY_LIMIT, reason)
                return
            if self._counts(nacked):
                message.attempts += 1
                self.journal.count_delivery(message, message.attempts)
        elif self._counts(nacked):
            state = message.state or MessageState(level=position >> LEVEL_SHIFT)
            state.attempts += 1
            if NONE < self.settings.delivery_limit < state.attempts:
                self.dead_letter_or_drop([message], DELIVERY_LIMIT)
                return
            self.journal.count_delivery(message, state.attempts)
            message = message.with_delivery_count(state)
        self.host.requeued(self, message, reason)
        self.ready_messages.at(position >> LEVEL_SHIFT).requeue(position, message)
        self._came_back = True
        self.schedule_pump()

    def is_at_limit(self, message: ShedMessage, nacked: bool) -> bool:
        """Return whether a requeue of this message would be above its delivery limit."""
        return self._counts(nacked) and NONE < self.settings.delivery_limit <= message.attempts

    def _counts(self, nacked: bool) -> bool:
        settings = self.settings
        return settings.counts_deliveries and not (nacked and settings.type == QUORUM)

    def cost_of_counting(self, message: Message, nacked: bool) -> int:
        """Return the cost of counting the delivery in a requeue, which makes a copy (`jobs.scheduler`)."""
        if not self._counts(nacked):
            return 0
        if isinstance(message, ShedMessage) and self.is_at_limit(message, nacked):
            return COUNT_COST + self.cost_of_reading_back(message)
        fields_cost = min(message.header_end >> FIELD_SHIFT, FIELDS_COST)
        return COUNT_COST + fields_cost + (len(message.frames) >> COPY_SHIFT)

    def restore(self, recovered: RecoveredQueue) -> None:
        """Take over recovered messages, as redelivered."""
        self.count_stored(len(recovered), recovered.body_bytes)
        self.ready_messages.restore(recovered, self.settings.max_priority > 0)
        if recovered.deadlines_ms is not None or self.settings.drops_head:
            self.schedule_pump()

    def expire_soon(self, level: int) -> None:
        self.ready_messages.at(level).timed = True
        self.schedule_pump()

    def schedule_pump(self) -> None:
        if not self.dirty:
            self.dirty = True
            self.host.pending.append(self)

    def renew_expiry(self) -> None:
        """Restart the time after which `x-expires` deletes the queue: a declaration, get or last consumer used it."""
        if self.settings.expires_ms != NONE:
            self._used_ms = self.host.clock.now_ms()
            self.host.scheduler.pump_at(self, self._used_ms + self.settings.expires_ms)

    def on_due(self) -> int:
        """Do what the queue has waited for (`Scheduler.pump_at`): it expires, reads unread messages, or is pumped."""
        if self.deleted:
            return 0
        now_ms, scheduler = self.host.clock.now_ms(), self.host.scheduler
        if self._used_ms and not len(self.consumers):
            expires_ms = self._used_ms + self.settings.expires_ms
            if now_ms >= expires_ms:
                self.host.delete_expired(self)
                return OBJECT_COST
            scheduler.pump_at(self, expires_ms)
        ready = self.ready_messages
        if ready.reread_ms > now_ms:
            scheduler.pump_at(self, ready.reread_ms)
        elif ready.reread_ms:
            ready.start_rereading()
        self.schedule_pump()
        return DUE_COST

    def pause(self) -> None:
        """Suspend deliveries until `resume` was called as often as this."""
        self.paused += 1

    def resume(self) -> None:
        """Resume deliveries, unless other jobs still requeue messages that must be delivered first."""
        self.paused -= 1
        self.schedule_pump()
        if not self.paused:
            waiting, self._resumed = self._resumed, []
            for fn in waiting:
                fn()

    def when_resumed(self, fn: Callable[[], None]) -> None:
        """Call `fn` once the queue is not paused any more."""
        self._resumed.append(fn)

    # Messages are delivered

    def pump(self) -> int:
        """Deliver, expire and drop messages and dead-letter a slice of them; schedule another pump if some remain.

        Return the cost (`jobs.scheduler`) without that of reading messages back, which `Fifo` charges. HOT: bench A-M.
        """
        self.dirty = False
        if self.deleted:
            return PUMP_COST
        ready = self.ready_messages
        count, ready_bytes, delivered_bytes = ready.count, ready.body_bytes, self.delivered_bytes
        self.feed()
        moved_bytes = ready_bytes - ready.body_bytes
        handed_bytes = self.delivered_bytes - delivered_bytes
        if handed_bytes > moved_bytes:
            moved_bytes = handed_bytes
        cost = PUMP_COST + count - ready.count + (moved_bytes >> COPY_SHIFT)
        again = not self._slice
        outbox = self.outbox
        if outbox.held_bytes:
            cost += outbox.publish_slice(self.published - self._pumped)
            again = outbox.publishable or again and not outbox.many
            if not again and outbox.unconfirmed and not outbox.awaits_journal:
                self.host.scheduler.pump_at(self, outbox.retry_at_ms)
        else:
            again = again and not outbox.many
        self._pumped = self.published
        if self.demand_followers and not self.ready:
            self._demand_changed()
        if again:
            self.host.scheduler.pump_later(self)
        elif not self._slice and self.ready:  # perhaps for dead letters of other queues of the user
            outbox.await_room()
        return cost

    def feed(self) -> None:
        """Deliver ready messages to consumers until either run out; expire and drop messages. HOT: bench A-M."""
        if self._feeding:
            return  # the firehose puts copies of its deliveries into this very queue
        self._feeding = True
        self._slice = 0 if self._held_back else SLICE + self.published - self._pumped
        try:
            ready = self.ready_messages
            timed = ready.default.timed if len(ready.all) == 1 else ready.timed
            if timed:
                self._expire(self.ready_messages.all)
            settings = self.settings
            if self._came_back and settings.drops_head and settings.type != QUORUM and not self.interrupted:
                self._trim()  # a requeued message beyond the limit is dropped, even if a consumer has room
            self._came_back = self.interrupted = False
            if self.consumers.all and self._slice:
                if not self.paused:
                    self._deliver()
                elif self.consumers.any_ready():
                    self.interrupted = True  # until `resume`, after which it is pumped
            if self.settings.drops_head:
                self.await_freed()
                if not self.interrupted or self._is_far_above():
                    self._trim()
            if timed and self._slice:
                self._expire(self.ready_messages.all)  # the messages now in front
                if self._slice and (when_ms := self.ready_messages.next_deadline_ms()) != NEVER:
                    self.host.scheduler.pump_at(self, when_ms)
        finally:
            self._feeding = False
        if self.held_publishers.held:
            ready = self.ready_messages
            drained = ready.count < RELEASE_BELOW and ready.content_bytes < RELEASE_BELOW_BYTES
            if drained or not len(self.consumers):
                self.held_publishers.release(self)

    def catch_up(self) -> None:
        """Do the work of a pump that is due, so that counts read next are current."""
        if self.dirty:
            self.host.feed(self)

    def _deliver(self) -> None:
        """Deliver ready messages, or as many as take some milliseconds (`interrupted`)."""
        host = self.host
        if host.held or host.ledger.shedding and self._awaits_shedding():
            self._interrupt()
            return
        consumers, ready = self.consumers, self.ready_messages
        consumers.wasted_cost = 0
        rest, limit_bytes = ready.count - DELIVERED, self.delivered_bytes + DELIVERED_BYTES
        read_end = ready.read_bytes + DELIVERED_BYTES
        while (fifo := ready.first_nonempty()) is not None:
            if ready.count <= rest or self.delivered_bytes > limit_bytes:
                self._interrupt()
                return
            if fifo.timed:
                self._expire([fifo])
                if not self._slice:
                    return  # the first message may be due as well
            requeued = fifo.requeued
            if requeued is None and not fifo.fresh or requeued is not None and requeued.row_first:
                if not consumers.any_room(ready.average_bytes):  # before it is read
                    if consumers.any_ready():
                        self._interrupt()
                    return
                if ready.read_bytes >= read_end:
                    self._interrupt()
                    return
                read_bytes = ready.read_bytes
                message = fifo.ensure_loaded()
                requeued = fifo.requeued
                if requeued is not None:  # they are delivered one by one
                    rest += (ready.read_bytes - read_bytes) // MESSAGE_BYTES
                if message is None:
                    if len(fifo):
                        if not fifo.exhausted:  # very many cannot be read: other queues have their turn first
                            self._interrupt()
                        return
                    continue
                if ready.read_bytes >= read_end:  # or each queue would hold one that it has read
                    rest = ready.count - 1
            # Requeued messages go first, one by one: they are rare, and their positions are not contiguous.
            average_bytes = ready.average_bytes
            if fifo.header_bytes:
                average_bytes += fifo.header_bytes // fifo.resident
            count = 1 if requeued is not None else min(len(fifo.fresh), BATCH_BYTES // (average_bytes + 1) + 1)
            takers, room = consumers.take_turn(count, average_bytes)
            if not takers:
                if consumers.any_ready():  # very many have no room: other queues have their turn first
                    self._interrupt()
                return
            if requeued is not None:
                header_bytes = fifo.header_bytes
                position, message, redelivered = fifo.pop()
                self.delivered_bytes += message.body_bytes + header_bytes - fifo.header_bytes
                self._hand(takers[0], [message], position, 1, redelivered, message.body_bytes)
                rest += 1  # it takes as long as two others
                self.host.scheduler.spent += 1
            else:
                self._hand_fresh(fifo, takers, min(count, room * len(takers), ready.count - rest))

    @property
    def _held_back(self) -> bool:
        """Whether nothing is delivered, since too many messages wait to be dead-lettered."""
        return self.host.ledger.dead_letters.total > 0 and self.outbox.many

    def can_deliver(self, body_bytes: int) -> bool:
        host = self.host
        if self.paused or host.held or self._held_back or host.ledger.shedding and self._awaits_shedding():
            return False
        return self.consumers.any_room(body_bytes) or self.consumers.any_freed()

    def _awaits_shedding(self) -> bool:
        """Return whether deliveries wait until contents of unacknowledged messages have left memory (`shedding`)."""
        host, held = self.host, self.unacked - self.shed
        held_bytes = self.unacked_bytes - self.shed_bytes + held * host.ledger.UNACKED
        return host.ledger.far_exceeded(held_bytes) and host.journal.room() != DISK_FULL

    def _interrupt(self) -> None:
        """Note that consumers may have room for ready messages, and deliver these once other queues had their turn."""
        self.interrupted = True
        self.host.scheduler.pump_later(self)

    def await_freed(self) -> None:
        if self.ready and not self.interrupted and self.consumers.any_freed():
            self.interrupted = True
            if self.settings.drops_head:
                self.host.scheduler.pump_at(self, self.host.clock.now_ms() + HAND_OVER_MS)

    def _hand_fresh(self, fifo: Fifo, takers: list[Consumer], count: int) -> None:
        """Deliver at most `count` fresh messages to these consumers in turn."""
        position = fifo.head
        redelivered = position < fifo.restored_until
        if redelivered:
            count = min(count, fifo.restored_until - position)
        header_bytes = fifo.header_bytes
        messages, taken_bytes = fifo.take(count, self.host.clock.now_ms() if fifo.timed else 0)
        self.delivered_bytes += taken_bytes + header_bytes - fifo.header_bytes
        step = len(takers)
        if step == 1:
            self._hand(takers[0], messages, position, 1, redelivered, taken_bytes)
            return
        self.consumers.rotate(takers, len(messages))
        apart = len({id(taker.output) for taker in takers}) == step
        parts = min(step, len(messages)) if apart else len(messages)
        index = 0
        try:
            if apart:
                for index, taker in enumerate(takers[:parts]):
                    some = messages[index::step]
                    self._hand(taker, some, position + index, step, redelivered, total_bytes(some))
            else:
                for index, message in enumerate(messages):
                    self._hand(takers[index % step], [message], position + index, 1, redelivered, message.body_bytes)
        finally:
            if index < parts - 1:  # a consumer has raised
                rest = [at for at in range(len(messages)) if (at % step if apart else at) > index]
                self._take_back_undelivered([(position + at, messages[at]) for at in rest])

    def _hand(
        self, consumer: Consumer, messages: list[Message], position: int, step: int, redelivered: bool, body_bytes: int
    ) -> None:
        delivered = False
        try:
            consumer.deliver(messages, position, step, redelivered)
            delivered = True
        finally:
            if not delivered:
                consumer.failed(messages)
                self._take_back_undelivered([(position + at * step, message) for at, message in enumerate(messages)])
        self.delivering.delivered(len(messages), consumer.no_ack, redelivered)
        if not consumer.no_ack:
            self._hold_unacked(messages, body_bytes)
        elif self.number:
            self.journal.settle(messages, body_bytes)

    def _hold_unacked(self, messages: list[Message], body_bytes: int) -> None:
        """Count messages that were delivered; `body_bytes` is the sum of their bodies. HOT: bench B, D, I, L."""
        self.unacked += len(messages)
        self.unacked_bytes += body_bytes
        header_bytes = header_bytes_of(messages) if self.ready_messages.long_headers else 0
        ledger = self.host.ledger
        if self.ready_messages.shared:
            ledger.hand(messages, body_bytes + header_bytes)
        else:
            ledger.add_unacked(len(messages), body_bytes + header_bytes)
        if ledger.exceeded:
            ledger.when_held()

    def _free_unacked(self, messages: list[Message], body_bytes: int, settled: bool = False) -> None:
        """Count messages that are settled or come back. HOT: bench B, D, I, L."""
        self.unacked -= len(messages)
        self.unacked_bytes -= body_bytes
        if self.shed:
            if settled:
                self.journal.drop_pages(messages)
            messages, body_bytes = self._free_shed(messages, body_bytes)
        header_bytes = header_bytes_of(messages) if self.ready_messages.long_headers else 0
        if self.ready_messages.shared:
            self.host.ledger.hand(messages, body_bytes + header_bytes, -1)
        else:
            self.host.ledger.add_unacked(-len(messages), -body_bytes - header_bytes)

    def _free_shed(self, messages: list[Message], body_bytes: int) -> tuple[list[Message], int]:
        """Count those messages that were shed and are unacknowledged no more; return the others, and their bodies."""
        others = [message for message in messages if not isinstance(message, ShedMessage)]
        count = len(messages) - len(others)
        shed_bytes = body_bytes - total_bytes(others)
        self.shed -= count
        self.shed_bytes -= shed_bytes
        self.host.ledger.shed(-count)
        return others, body_bytes - shed_bytes

    def shed_content(self, position: int, message: Message) -> ShedMessage | None:
        """Have only the journal keep the content of an unacknowledged message; return its row in memory.

        Return None if it stays in memory because it is not stored, and there is no room to do that, or its delivery
        attempts, which are counted, would not be stored with it.
        """
        id_, host = message.id, self.host
        if not (self.number and message.persistent):
            if host.journal.room() != ROOM or self.settings.counts_deliveries:
                return None
            id_ = self.journal.page_out([message])[0]
        if not id_:
            return None  # the journal stores nothing
        state, content_bytes = message.state, len(message.frames)
        timed, attempts = (state.deadline_ms != NEVER, state.attempts) if state is not None else (False, 0)
        shed = ShedMessage(
            position, id_, message.seq, message.body_bytes, content_bytes, message.persistent, timed, attempts=attempts
        )
        self.shed += 1
        self.shed_bytes += message.body_bytes
        host.ledger.hand([message], message.body_bytes + header_bytes_of([message]), -1)
        host.ledger.shed(1)
        return shed

    def _take_back_undelivered(self, undelivered: list[tuple[int, Message]]) -> None:
        """Requeue messages, by position, after a consumer has raised; any of them may have been sent to it."""
        for position, message in undelivered:
            self.delivered_bytes -= message.body_bytes + header_bytes_of([message])
            self.ready_messages.at(position >> LEVEL_SHIFT).requeue(position, message)
        self._came_back = True

    def get(self, no_ack: bool) -> tuple[int, Message, bool] | None:
        """Return the next message as (position, message, redelivered) for basic.get, or None if no message is ready.

        Raises Unreadable (506) if there are messages and none can be returned now: they cannot be read, very many are
        due and have to expire first, or it may be rejected while too many dead letters wait.
        """
        self.renew_expiry()
        self.catch_up()
        if self.ready_messages.timed:
            self._slice = 0 if self.outbox.many else SLICE
            self._expire(self.ready_messages.all)
            self.schedule_pump()
        fifo = self.ready_messages.first_loaded() if no_ack or not self.outbox.many else None
        if fifo is None or fifo.timed and NEVER < fifo.resident_deadline_ms() <= self.host.clock.now_ms():
            if self.stored:
                raise Unreadable(f"{self} has messages, and none of them can be returned now")
            self.delivering.found_nothing()
            return None
        position, message, redelivered = fifo.pop()
        self._expire(self.ready_messages.all)  # due messages behind it are not counted as remaining
        self.delivering.got(no_ack, redelivered)
        if not no_ack:
            self._hold_unacked([message], message.body_bytes)
        else:
            self.release([message])
        return position, message, redelivered

    # Messages leave

    def settle(self, messages: list[Message]) -> None:
        """Acknowledge delivered messages. HOT: bench B, D, I, L."""
        body_bytes = total_bytes(messages)
        self._free_unacked(messages, body_bytes, settled=True)
        self.delivering.acked(len(messages))
        self.release(messages, body_bytes)
        if self.deleted:
            self.break_cycles()

    def reject(self, position: int, message: Message, content: Message | None = None) -> None:
        """Drop a delivered message, or dead-letter it.

        If only the journal had its content, `content` is the message as `read_back` has returned it.
        """
        if self._take_back(message):
            if isinstance(message, ShedMessage):
                self._drop_shed(message, content, REJECTED, REJECT)
            else:
                self.dead_letter_or_drop([message], REJECTED)

    def read_back(self, messages: list[ShedMessage]) -> list[Message | None]:
        """Return messages that are to be dead-lettered with their contents; None, or fewer, for those not read now."""
        if self.settings.dead_letter_exchange is None or self.deleted:
            return []
        return self.ready_messages.read_back(messages)

    def _drop_shed(self, message: ShedMessage, content: Message | None, reason: str, otherwise: str) -> None:
        """Drop a message whose content only the journal had, or dead-letter it.

        One that has to be dead-lettered and could not be read returns to the queue, where it is read again later, for
        the reason `otherwise` of `traffic_log`.
        """
        if self.settings.dead_letter_exchange is None:
            self.journal.drop_pages([message])
            self.dead_letter_or_drop([message], reason)
            return
        if content is not None:
            self.dead_letter_or_drop([content], reason)
            return
        self.host.requeued(self, message, otherwise)
        self.ready_messages.set_aside(message)
        self.ready_messages.reread_later()

    def cost_of_reading_back(self, message: Message) -> int:
        """Return the cost of dead-lettering this message if its content has to be read."""
        if not isinstance(message, ShedMessage) or self.settings.dead_letter_exchange is None or self.deleted:
            return 0
        return MESSAGE_BYTES + message.content_bytes >> STORE_SHIFT

    def _take_back(self, message: Message) -> bool:
        """Take a message back from its consumer; return False if the queue is deleted, and the message with it."""
        self._free_unacked([message], message.body_bytes)
        if self.deleted:
            self.journal.drop_pages([message])
            self.host.left(self, [message], DELETED)
            self.release([message])
            self.break_cycles()
        return not self.deleted

    def dead_letter_or_drop(self, messages: list[Message], reason: str) -> None:
        """Dead-letter messages that left the queue, or drop them without a dead letter exchange."""
        self.host.left(self, messages, reason)
        if self.settings.dead_letter_exchange is not None:
            self.outbox.add(messages, reason)
            if not self._feeding:
                self.schedule_pump()
            return
        self.host.statistics.count_dead_letters(self.settings.type, DISABLED, reason, len(messages))
        self.release(messages)

    def release(self, messages: list[Message], body_bytes: int = -1) -> None:
        """Have the journal drop messages that left. `body_bytes` is their sum, or -1 if unknown. HOT: bench D."""
        if self.number:
            self.journal.settle(messages, body_bytes)

    def _expire(self, fifos: list[Fifo]) -> None:
        dead, self._slice = self.ready_messages.remove_due(fifos, self.host.clock.now_ms(), self._slice)
        if dead:
            self.expired += len(dead)
            self.dead_letter_or_drop(dead, EXPIRED)

    def _trim(self) -> None:
        """Drop messages from the front that exceed the length limits."""
        settings = self.settings
        dropped, self._slice = self.ready_messages.drop_excess(settings.max_length, settings.max_bytes, self._slice)
        if dropped:
            self.dropped += len(dropped)
            self.dead_letter_or_drop(dropped, MAXLEN)

    def purge(
        self,
        reason: str = PURGED,
        finished: Callable[[], None] = lambda: None,
        failed: Callable[[], None] = lambda: None,
    ) -> int:
        """Drop all ready messages, but not unacknowledged ones; return their number.

        They disappear at once. `finished` is called when the journal has dropped them, perhaps some turns later;
        `failed` is called if a bug prevents that.
        """
        self.catch_up()
        self.host.cleared(self)
        count, average_bytes = self.stored, self.ready_messages.average_bytes
        removed = self.ready_messages.remove_all()
        self.journal.purge(
            self.unacked + self.outbox.persistent_count, self.unacked_bytes + self.outbox.persistent_bytes
        )
        self.held_publishers.release(self)
        if count:
            job = self._settle_removed(removed, average_bytes, reason, finished)
            self.host.scheduler.start(f"purge of {self}", job, failed)
        else:
            finished()
        return count

    def _settle_removed(
        self, removed: deque[Chunk], average_bytes: int, reason: str, finished: Callable[[], None]
    ) -> Job:
        """Free and settle the messages of a purged queue, which are not visible any more; call `finished`.

        `average_bytes` is the average length of a body.
        """
        while removed:
            chunk = removed[0]
            messages = chunk.take()
            ids, seqs = chunk.take_ids(JOB_SLICE)
            if messages:
                self.host.left(self, messages, reason)
                self.host.ledger.remove(messages, total_bytes(messages) + header_bytes_of(messages))
                self.journal.settle_purged(messages)
            if ids:
                self.host.left_paged(self, seqs, average_bytes, reason)
                self.journal.settle_pages(ids)
            if not chunk.count:
                removed.popleft()
            yield len(messages) + len(ids)
        finished()

    def on_deleted(self) -> None:
        """Mark the queue as deleted. It has been purged; messages in the outbox are still dead-lettered."""
        self.deleted = True
        self.outbox.on_deleted()
        self.host.scheduler.forget(self)

    def break_cycles(self) -> None:
        """Break the reference cycles of a deleted queue, which is then freed without a full garbage collection.

        That would hold the loop. A queue keeps them while it has deliveries or dead letters under way.
        """
        if self.unacked or len(self.outbox) or self.outbox.is_awaited or self._acyclic:
            return
        self._acyclic = True
        self.ready_messages.break_cycles()
        del self.outbox._queue

    # Consumers

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.add(consumer)
        self.had_consumer = True
        self.schedule_pump()

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Remove a consumer; return False if it was not there, as when the queue was deleted at the same time."""
        if not self.consumers.remove(consumer):
            return False
        if not len(self.consumers):
            self.renew_expiry()
        self.schedule_pump()
        return True

    def wake(self, consumer: Consumer) -> None:
        """Note that a consumer has room again."""
        self.consumers.wake(consumer)
        if self.ready:
            self.schedule_pump()
        elif self.demand_followers:
            self._demand_changed()

    def _demand_changed(self) -> None:
        """Notify followers once that the queue is empty and a consumer may have room."""
        followers, self.demand_followers = self.demand_followers, {}
        for follower in followers:
            follower()


RAM_BYTES = 600  # about the memory of a message beside its body


def queue_sizes(queue: Queue) -> dict[str, int]:
    """Return the sizes of a queue in messages and bytes, by RabbitMQ's names.

    Ready messages that only the journal has count as long as the average.
    """
    away = sum(fifo.paged_count for fifo in queue.ready_messages.all)
    ram, unacked = queue.ready - away, queue.unacked - queue.shed
    ready_bytes = max(queue.ready_bytes - away * queue.ready_messages.average_bytes, 0)
    ram_bytes = ready_bytes + queue.unacked_bytes - queue.shed_bytes
    message_bytes = queue.ready_bytes + queue.unacked_bytes
    return {
        "messages_ram": ram + unacked,
        "messages_ready_ram": ram,
        "messages_unacknowledged_ram": unacked,
        "messages_paged_out": away + queue.shed,
        "messages_persistent": queue.journal.count,
        "message_bytes": message_bytes,
        "message_bytes_ready": queue.ready_bytes,
        "message_bytes_unacknowledged": queue.unacked_bytes,
        "message_bytes_ram": ram_bytes,
        "message_bytes_paged_out": message_bytes - ram_bytes,
        "message_bytes_persistent": queue.journal.body_bytes,
        "memory": ram_bytes + (ram + unacked) * RAM_BYTES,
    }
