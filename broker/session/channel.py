"""One channel: its user's rights, its replies and jobs, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from pamqp import commands

from ..amqp.errors import AccessRefused, AMQPError, NotFound
from ..core.jobs.scheduler import AT_ONCE_COST, CONSUMER_COST, OBJECT_COST, SLICE, UNLIMITED, Job, do_at_once
from ..core.messages.journal_port import ROOM
from ..core.metadata.patterns import SearchTime
from ..core.queues.queue import Queue
from ..core.queues.reply_queue import ReplyQueue
from ..core.queues.traffic_log import CHANNEL, COMMIT
from ..core.vhost.vhost import CheckNew
from ..wire import method_encoder
from . import events
from .alarm_blocking import check_new
from .channel_host import RUNNING, ChannelHost, ChannelState, Postponed
from .checked_properties import CheckedProperties
from .consumer import ChannelConsumer
from .prefetch import SharedPrefetch
from .settlements import LOOK_SHIFT, PAUSE_SHIFT, resume_in_steps, settle_all
from .transaction import Transaction
from .unacked import CreditConsumer, Settlement, Unacked, cost_of_rows

if TYPE_CHECKING:
    from ..core.access.permissions import Permission, TopicPermission
    from ..core.exchanges.route_cache import RouteCache

KEYS_S = 0.01  # processor time to check the permission for all routing keys of one message


class Channel(ChannelState):
    """State of one channel: its user's rights, consumers, unsettled deliveries, confirms and transaction."""

    __slots__ = (
        *("consumers", "unfinished", "object_check", "last_queue", "get_until_ms", "all_or_none", "on_full"),
        *("end_settlement", "prefetch", "transaction", "reply_queue", "checked", "routes"),
        *("_counted", "_paused", "_job"),
    )

    def __init__(self, connection: ChannelHost, number: int) -> None:
        self.consumers: dict[str, ChannelConsumer] = {}
        super().__init__(connection, number, SharedPrefetch(self.consumers))
        self.unfinished = connection.node.unfinished_of(self.user.account)
        self._counted = True  # as an open channel
        self._paused: dict[Queue, None] = {}  # queues that deliver nothing until its deliveries are requeued
        self.object_check: CheckNew | None = None  # in place of that for clients (`check_new`)
        self.last_queue = ""
        self._job: tuple[Callable[[], None], ...] | None = None  # calls that send replies after the job under way
        self.get_until_ms = 0  # when a basic.get that waits for a message to be read fails; 0 without one
        self.all_or_none = False  # no queue gets a message that another refuses, nor one behind it: they are repeated
        self.on_full: Callable[[], None] | None = None  # in place of a wait for a full queue: nothing is published
        self.end_settlement = Settlement.RETURN  # how its unsettled deliveries return to their queues when it ends
        self.prefetch = connection.settings.default_consumer_prefetch  # of each new consumer, 0 for no limit
        self.transaction: Transaction | None = None
        self.reply_queue: ReplyQueue | None = None
        self.checked = CheckedProperties(connection.charge)
        self.routes: RouteCache = self.vhost.routes_of(self.user.account)
        connection.node.shedding.holders[self] = None
        connection.node.connection_counts.channel_opened(self.user.account)
        connection.node.churn.channel_created += 1
        events.channel_created(self)

    @property
    def check_new(self) -> CheckNew:
        """The check before an object is created, which may raise Blocked."""
        return self.object_check or partial(check_new, self.connection)

    def note_freed(self) -> None:
        """Note that consumers that wait may have room, and are woken in one of the next turns."""
        self.freed = True
        self.connection.node.scheduler.freed += 1

    def still_freed(self) -> bool:
        connection = self.connection
        stalled = len(connection.stalled) > 0 and connection.output.room() > 0
        self.freed = stalled or self.shared_prefetch.frees
        return self.freed

    def shed(self) -> int:
        """Shed the contents of some deliveries (`core.queues.paging`)."""
        node = self.connection.node
        cost = self.unacked.shed_some(self.delivery_tag, self.vhost.traffic_log, node.journal.room() == ROOM)
        node.shedding.awaits_room = node.shedding.awaits_room or self.unacked.passed_over > 0
        return cost

    # For the functions that serve methods

    def has_permission(self, what: str, name: str) -> bool:
        """Whether the user has a right (`what`: configure, write or read) to a name in this virtual host."""
        permission = self.user.permissions.get(self.vhost.name)
        if permission is None:
            return False
        return self._is_allowed(permission, what, name)

    def _is_allowed(self, permission: Permission | TopicPermission, what: str, name: str) -> bool:
        """Return whether a permission allows it, and charge the search."""
        processor_s = self.connection.node.clock.processor_s
        begun_s = processor_s()
        allowed = permission.allows(what, name)
        self.connection.spent += int((processor_s() - begun_s) * 1e6)
        if not allowed and permission.exhausted:
            self._report_exhausted(permission.exhausted)
        return allowed

    def check(self, what: str, kind: str, name: str) -> None:
        """Check a right of the user (`what`: configure, write or read) to an exchange or queue (`kind`).

        Raises AccessRefused (403).
        """
        checked = "amq.default" if kind == "exchange" and not name else name
        if not self.has_permission(what, checked):
            raise AccessRefused(
                f"{what} access to {kind} '{checked}' in {self.vhost} refused for user '{self.user.name}'"
            )

    def check_any(self, kind: str, name: str) -> None:
        """Check that the user has any of the three rights, as passive declarations need. Raises AccessRefused (403)."""
        if not any(self.has_permission(what, name) for what in ("write", "read", "configure")):
            self.check("configure", kind, name)

    def check_topic(self, what: str, exchange: str, *routing_keys: str) -> None:
        """Check the user's topic permission, if there is one and the exchange is a topic exchange.

        Raises AccessRefused (403), also where the searches for all keys take too long together. An exchange that does
        not exist is no error here.
        """
        topics = self.user.topic_permissions.get(self.vhost.name)
        permission = topics.get(exchange) if topics is not None else None
        topic = self.vhost.exchanges.get(exchange)
        if permission is None or topic is None or topic.type_name != "topic":
            return
        searches = SearchTime(self.connection.node.clock.processor_s, KEYS_S) if len(routing_keys) > 1 else None
        for routing_key in routing_keys:
            if searches is None:
                allowed = self._is_allowed(permission, what, routing_key)
            else:
                allowed = permission.allows_in(searches, what, routing_key)
                if not allowed and permission.exhausted:
                    self._report_exhausted(permission.exhausted)
            if not allowed:
                raise AccessRefused(
                    f"{what} access to topic '{routing_key}' in {topic} refused for user '{self.user.name}'"
                )
        self.connection.spent += len(routing_keys) + (searches.cost if searches is not None else 0)

    def _report_exhausted(self, patterns: list[str]) -> None:
        fields: dict[str, object] = {"vhost": self.vhost.name, "user": self.user.name, "patterns": patterns}
        self.connection.transport.report("permission_takes_too_long", "error", fields)

    def queue_name(self, name: str | None) -> str:
        """Return the name, or that of the queue declared last if it is empty. Raises NotFound (404) without one."""
        if name:
            return name
        if not self.last_queue:
            raise NotFound("no previously declared queue")
        return self.last_queue

    def set_shared_prefetch(self, count: int) -> None:
        """Change the limit of all consumers together, 0 for none.

        Unsettled deliveries count, and those that an open transaction has settled.
        """
        self.connection.spent += len(self.consumers) >> 3
        if self.shared_prefetch.set_limit(count):
            self.note_freed()
            outstanding = len(self.unacked) + self._settled
            self.do("prefetch limit", self.shared_prefetch.count(outstanding, self._deliveries()))

    def _deliveries(self) -> Iterator[list[Unacked]]:
        """Return all deliveries that are unsettled, or that the open transaction has settled, in slices."""
        yield from self.unacked.deliveries(self.delivery_tag)
        settled = self.transaction.settlements if self.transaction is not None else []
        for at in range(0, len(settled), SLICE):
            yield [delivery for _, delivery, _ in settled[at : at + SLICE]]

    @property
    def _settled(self) -> int:
        """The number of deliveries that the open transaction has settled."""
        return len(self.transaction.settlements) if self.transaction is not None else 0

    def send_when_durable(self, frames: bytes) -> None:
        """Send a reply once all that was done so far is durable; the connection is suspended until then."""
        if self._job is not None:
            self._job += (partial(self.send_when_durable, frames),)
            return
        journal = self.connection.node.journal
        ticket = journal.ticket()
        if ticket <= journal.durable:
            self._reply(frames)
        else:
            self.connection.suspend()
            journal.when_durable(ticket, partial(self._durable, frames))

    def _reply(self, frames: bytes) -> None:
        """Send a reply that all so far is durable. That of a commit confirms its publishes."""
        log = self.vhost.traffic_log
        if log is not None and self.transaction is not None:
            log.confirmed(self.origin, COMMIT, COMMIT, ())
        self.send(frames)

    def send_change_ok(self, frames: bytes, stored: bool = True) -> None:
        """Send the reply of a declaration, deletion or binding once it is durable, or in order if it is not `stored`.

        Until then the connection serves more of these methods, so that one batch of the journal has all of them.
        """
        if self._job is not None:
            self._job += (partial(self.send_change_ok, frames, stored),)
            return
        connection = self.connection
        journal = connection.node.journal
        ticket = journal.ticket()
        if (ticket <= journal.durable or not stored) and not connection.replies_due:
            self.send(frames)
        else:
            connection.replies_due += 1
            journal.when_durable(ticket, partial(self._changed, frames))

    def send_after_job(self, frames: bytes) -> None:
        """Send a reply at once, or after the job of this channel that is under way."""
        if self._job is not None:
            self._job += (partial(self.send, frames),)
        else:
            self.send(frames)

    @property
    def has_deliveries(self) -> bool:
        """True if it has deliveries, also settled in a transaction that is open, or consumers."""
        return len(self.unacked) > 0 or len(self.consumers) > 0 or self._settled > 0

    @property
    def busy(self) -> bool:
        """True while a job of this channel is under way."""
        return self._job is not None

    def begin_job(self) -> Callable[[], None]:
        """Suspend the connection for a job and return the function to call when the job is done.

        No method is served meanwhile. Replies that wait for the journal wait for the job as well.
        """
        assert self._job is None and not self.closing, "a suspended connection serves no method"
        self._job = ()
        self.connection.suspend()

        def finished() -> None:
            replies, self._job = self._job or (), None
            if not self.closing:
                for send in replies:
                    send()
            self.connection.resume()

        return finished

    def await_tracing(self) -> None:
        """Raise Postponed, until the next turn, while the firehose has very many messages to copy."""
        if self.vhost.held:
            clock = self.connection.node.clock
            raise Postponed(partial(clock.call_at, clock.now_ms()))

    def await_publishes(self) -> None:
        """Raise Postponed until unfinished publishes take less memory."""
        self.connection.waits_for_room = True
        raise Postponed(self.unfinished.wait)

    def admit_emissions(self, source: str) -> None:
        """Raise Postponed while very much that the type of this exchange has emitted waits to be enqueued."""
        emissions = self.vhost.emissions_of(source)
        if emissions is not None and emissions.full:
            raise Postponed(emissions.when_enqueued)

    def await_emissions(self, source: str) -> None:
        """Suspend the connection until all that the type of this exchange has emitted is enqueued; replies wait too."""
        emissions = self.vhost.emissions_of(source)
        if emissions is not None:
            emissions.when_enqueued(self.begin_job())

    def await_unbinding(self, kind: str, name: str) -> None:
        """Raise Postponed while bindings of a deleted object of this name are being deleted."""
        if (kind, name) in self.vhost.unbinding_jobs:
            raise Postponed(partial(self.vhost.when_unbound, kind, name))

    def await_deletion(self, kind: str, name: str) -> None:
        """Suspend the connection until all is deleted with the deleted object of this name; replies wait too."""
        if (kind, name) in self.vhost.unbinding_jobs:
            self.vhost.when_unbound(kind, name, self.begin_job())

    def await_requeues(self, name: str) -> None:
        """Raise Postponed while the queue is paused: it has only a part of the messages that are being requeued."""
        queue = self.vhost.find_queue(name)
        if queue is not None and queue.paused:
            raise Postponed(queue.when_resumed)

    def do(self, name: str, steps: Job, budget: int = AT_ONCE_COST) -> None:
        """Do the steps of a job at once until they have cost more than `budget`, and the rest as `start_job` does."""
        more, spent = do_at_once(steps, budget)
        if more:
            self.start_job(name, steps)
        self.connection.spent += spent

    def start_job(self, name: str, job: Job, appends: bool = False) -> None:
        """Do a job in turns of the loop (`Scheduler.start`); the connection is suspended until it is done."""
        finished = self.begin_job()

        def complete() -> Job:
            yield from job
            finished()

        full_name = f"{name} of channel {self.number} of connection {self.connection.name}"
        self.connection.node.scheduler.start(full_name, complete(), self.connection.job_failed, appends)

    def _durable(self, frames: bytes) -> None:
        if not self.closing:
            self._reply(frames)
        self.connection.resume()

    def _changed(self, frames: bytes) -> None:
        if not self.closing and self.connection.state == RUNNING:
            self.send(frames)
        self.connection.replied()

    def close(self, error: AMQPError) -> None:
        """Close the channel with an error. Its deliveries are requeued before the client gets channel.close."""
        self.connection.confirm()  # the publishes before the error
        self.end_and_send(
            method_encoder.close(self.number, error.code, error.reply_text, error.class_id, error.method_id)
        )
        fields = {"channel": self.number, "reason": error.reply_text, "operation": operation(error)}
        self.connection.transport.report("channel_closing", "error", self.connection.log_fields(False) | fields)

    def end_and_send(self, last_frame: bytes) -> None:
        """End the channel, as a job if it has many deliveries; `last_frame` is sent once all are requeued."""
        connection = self.connection
        rest = self.end_in_steps()
        more, spent = do_at_once(rest)
        connection.spent += spent
        if not more:
            connection.send(last_frame)
            return
        connection.suspend()

        def steps() -> Job:
            yield from rest
            if connection.state == RUNNING:
                connection.send(last_frame)
                connection.resume()

        name = f"end of channel {self.number} of connection {connection.name}"
        connection.node.scheduler.start(name, steps(), connection.job_failed)

    def end(self) -> None:
        """End the channel: remove consumers, requeue unsettled deliveries, roll the transaction back."""
        steps = self.end_in_steps()
        if do_at_once(steps, UNLIMITED)[0]:
            name = f"end of channel {self.number} of connection {self.connection.name}"
            self.connection.node.scheduler.start(name, steps)

    def end_in_steps(self) -> Job:
        """End the channel as a job.

        Its queues deliver nothing until its deliveries are requeued, so that other consumers get those first.
        """
        self.closing = True
        try:
            self.leave()
            events.channel_closed(self)
            if self.rates is not None and self.connection.node.detailed_rates is not None:
                self.connection.node.detailed_rates.close(self.rates)
            self._pause_those_of_consumers()
            consumers = list(self.consumers.values())
            consumers.reverse()
            while consumers:  # this frees them one by one
                consumer = consumers.pop()
                self.remove(consumer)
                yield OBJECT_COST if consumer.queue.deleted else consumer.end_cost
            if self.transaction is not None:
                yield from self.transaction.rollback(self)
            yield from settle_all(self, self.end_settlement, CHANNEL)
            yield from resume_in_steps(self._paused)
        finally:
            for queue in self._paused:
                queue.resume()
            self._paused.clear()
        self.confirms = self.origin.unconfirmed = None  # the traffic log may keep the origin
        yield OBJECT_COST

    def pause_in_steps(self) -> Job:
        """Pause the queues of its consumers and deliveries until the channel, which is closing, has ended."""
        self._pause_those_of_consumers()
        yield CONSUMER_COST + (len(self.consumers) >> 3)
        for deliveries in self._deliveries():
            those = {delivery[0] for delivery in deliveries}
            for paused in those:
                self.pause(paused)
            looks_cost = (SLICE >> LOOK_SHIFT) + cost_of_rows(deliveries)
            yield looks_cost + (len(those) >> PAUSE_SHIFT)

    def leave(self) -> None:
        """Count the channel as closed, once."""
        if self._counted:
            self._counted = False
            self.connection.node.shedding.holders.pop(self, None)
            self.connection.node.connection_counts.channel_closed(self.user.account)
            self.connection.node.churn.channel_closed += 1

    def pause(self, queue: Queue) -> None:
        if queue not in self._paused:
            self._paused[queue] = None
            queue.pause()

    def _pause_those_of_consumers(self) -> None:
        for paused in {consumer.queue for consumer in self.consumers.values()}:
            self.pause(paused)

    def forget(self, consumer: CreditConsumer) -> bool:
        if self.consumers.get(consumer.tag) is not consumer:
            return False
        del self.consumers[consumer.tag]
        self.shared_prefetch.forget(consumer)
        events.consumer_deleted(self, consumer)
        return True

    def remove(self, consumer: CreditConsumer) -> None:
        if not self.forget(consumer):
            return
        queue = consumer.queue
        if queue is self.reply_queue:
            self.reply_queue = None
        if queue.remove_consumer(consumer):
            self.vhost.consumers_changed(queue)


def operation(error: AMQPError) -> str:
    """Return the method that caused an error, as `queue.declare`; `none` if there is no such method."""
    method = commands.INDEX_MAPPING.get(error.class_id << 16 | error.method_id)
    return method.__qualname__.lower() if method is not None else "none"
