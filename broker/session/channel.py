"""One channel: its state, and which function serves which method."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pamqp import base

from ..amqp.errors import AccessRefused, AMQPError, CommandInvalid, NotFound
from ..amqp.field_table import Table
from ..core.access.users import User
from ..core.counters.statistics import DeliveryCounters, PublishCounters
from ..core.jobs.scheduler import OBJECT_COST, Job
from ..core.queues.message_log import Origin
from ..core.queues.queue import Queue
from ..core.queues.reply_queue import ReplyQueue
from ..core.telemetry.event_exchange import INTERNAL
from ..core.vhost.vhost import VHost
from ..wire.frame_reader import ACK, PUBLISH, Publishes
from . import confirms
from . import events as notices
from .consumer import ChannelConsumer
from .methods import (
    acknowledge,
    basic,
    tx,
)
from .methods import (
    exchange as exchanges,
)
from .methods import (
    publish as publishing,
)
from .methods import (
    queue as queues,
)
from .prefetch import SharedPrefetch
from .unacked import UnackedDeliveries

if TYPE_CHECKING:
    from ..core.exchanges.router import Route, RouteKey
    from .connection import Connection

Handler = Callable[["Channel", Any, Table], None]

CONSUMER_COST = 10  # of the end of one consumer (`core.scheduler`)

HANDLERS: dict[int, Handler] = {
    0x00140014: basic.flow,
    0x001E000A: basic.access_request,
    0x0028000A: exchanges.declare,
    0x00280014: exchanges.delete,
    0x0028001E: exchanges.bind,
    0x00280028: exchanges.unbind,
    0x0032000A: queues.declare,
    0x00320014: queues.bind,
    0x0032001E: queues.purge,
    0x00320028: queues.delete,
    0x00320032: queues.unbind,
    0x003C000A: basic.qos,
    0x003C0014: basic.consume,
    0x003C001E: basic.cancel,
    0x003C0046: basic.get,
    0x003C005A: acknowledge.reject,
    0x003C0064: acknowledge.recover_async,
    0x003C006E: acknowledge.recover,
    0x003C0078: acknowledge.nack,
    0x0055000A: confirms.select,
    0x005A000A: tx.select,
    0x005A0014: tx.commit,
    0x005A001E: tx.rollback,
}
IGNORED = (0x003C001F, 0x00140015)  # basic.cancel-ok and channel.flow-ok: answers to what we did not ask to be answered


class Channel:
    """State of one channel of a connection: its user's rights, consumers, unsettled deliveries, confirms and
    transaction.

    prefetch         limit of unsettled deliveries of each consumer to come, 0 for none
    shared_prefetch  the limit of all consumers together
    """

    def __init__(self, connection: Connection, number: int) -> None:
        assert connection.vhost is not None and connection.user is not None
        self.connection = connection
        self.number = number
        self.vhost: VHost = connection.vhost
        self.user: User = connection.user
        self.closing = False  # one of both sides has closed it
        self._counted = True  # as an open one
        self._paused: set[Queue] = set()  # until it has given back what is out
        self.last_queue = ""
        self.delivery_tag = 0
        self.unacked = UnackedDeliveries()
        self._job: tuple[Callable[[], None], ...] | None = None  # sends replies that wait for its job
        self.consumers: dict[str, ChannelConsumer] = {}
        self.prefetch = connection.settings.default_consumer_prefetch
        self.shared_prefetch = SharedPrefetch(self.consumers)
        self.confirms: confirms.Confirms | None = None
        self.transaction: tx.Transaction | None = None
        self.reply_queue: ReplyQueue | None = None
        # Properties of the publish before, and what they say: persistent, in need of a closer look.
        self.seen_properties = b""
        self.seen_persistent = False
        self.seen_special = False
        self.routes: dict[RouteKey, Route] = publishing.remembered_routes(self.vhost, self.user)
        self.publishing = PublishCounters()
        self.delivering = DeliveryCounters()
        breakdown = connection.node.breakdown
        self.lane = breakdown.open() if breakdown is not None else None
        self.statistics = self.vhost.statistics
        self.origin = Origin(connection.name, number, self.vhost.name, self.user.name)
        connection.node.census.channel_opened(self.user.account)
        connection.node.churn.channel_created += 1

    def handle(self, index: int, method: base.Frame, table: Table) -> None:
        """Serve a method; every AMQPError that comes out carries the ids of the method."""
        events = self.connection.node.events
        events.actor = self.user.name
        try:
            handler = HANDLERS.get(index)
            if handler is not None:
                handler(self, method, table)
            elif index == ACK:
                raise AssertionError("acknowledgements are events of their own")
            elif index not in IGNORED:
                raise CommandInvalid("unimplemented method")
        except AMQPError as error:
            raise named(error, index) from None
        finally:
            events.actor = INTERNAL

    def publish(self, publishes: Publishes) -> None:
        """HOT: bench A-M."""
        try:
            contents = publishes.contents
            if not contents:
                raise publishing.too_long(self, publishes)
            route = self.routes.get(publishes.method)
            if route is None:
                route = publishing.resolve(self, publishes.method)
            publishing.publish(self, route, contents, publishes.alike, publishes.largest_frame)
        except AMQPError as error:
            raise named(error, PUBLISH) from None

    def ack(self, tags: list[int], multiple: bool) -> None:
        """HOT: bench B, D, I, L."""
        try:
            acknowledge.ack(self, tags, multiple)
        except AMQPError as error:
            raise named(error, ACK) from None

    # What the functions that serve methods share

    def send(self, frames: bytes) -> None:
        self.connection.send(frames)

    def may(self, what: str, name: str) -> bool:
        """Whether the user has this right, configure, write or read, to that name here."""
        permission = self.user.permissions.get(self.vhost.name)
        if permission is None:
            return False
        allowed = permission.allows(what, name)
        if not allowed and permission.exhausted:
            self._report_exhausted(permission.exhausted)
        return allowed

    def check(self, what: str, kind: str, name: str) -> None:
        """Raises AccessRefused (403); `what` is configure, write or read, `kind` is exchange or queue."""
        checked = "amq.default" if kind == "exchange" and not name else name
        if not self.may(what, checked):
            raise AccessRefused(
                f"{what} access to {kind} '{checked}' in {self.vhost} refused for user '{self.user.name}'"
            )

    def check_any(self, kind: str, name: str) -> None:
        """For passive declarations: one right of the three is enough; raises AccessRefused (403)."""
        if not any(self.may(what, name) for what in ("write", "read", "configure")):
            self.check("configure", kind, name)

    def check_topic(self, what: str, exchange: str, routing_key: str) -> None:
        """The right to write or read this key where the exchange is one of topics and the user has a permission on it;
        raises AccessRefused (403). A missing exchange is for others to complain about."""
        topics = self.user.topic_permissions
        permission = topics.get((self.vhost.name, exchange)) if topics else None
        if permission is None or permission.allows(what, routing_key):
            return
        there = self.vhost.exchanges.get(exchange)
        if there is not None and there.type_name == "topic":
            if permission.exhausted:
                self._report_exhausted(permission.exhausted)
            raise AccessRefused(
                f"{what} access to topic '{routing_key}' in {there} refused for user '{self.user.name}'"
            )

    def _report_exhausted(self, patterns: list[str]) -> None:
        fields: dict[str, object] = {"vhost": self.vhost.name, "user": self.user.name, "patterns": patterns}
        self.connection.link.report("permission_takes_too_long", "error", fields)

    def queue_name(self, name: str | None) -> str:
        """An empty name is the queue declared last; raises NotFound (404) when there is none."""
        if name:
            return name
        if not self.last_queue:
            raise NotFound("no previously declared queue")
        return self.last_queue

    def set_shared_prefetch(self, count: int) -> None:
        """Change the limit of all consumers together, 0 for none. Unsettled deliveries count, those of a transaction
        that is not committed too."""
        settled = self.transaction.settlements if self.transaction is not None else []
        deliveries = [*self.unacked.values(), *[delivery for _, delivery, _ in settled]]
        self.shared_prefetch.set_limit(count, [consumer for _, consumer, _, _ in deliveries if consumer is not None])

    def committed(self) -> None:
        """The journal has more on disk: confirm what waited for it."""
        if self.confirms is not None:
            self.confirms.committed(self.connection.node.journal.durable)
            self.send_confirms()

    def send_when_durable(self, frames: bytes) -> None:
        """Send a reply as soon as all that was done until now is on disk; until then the connection is not served."""
        if self._job is not None:
            self._job += (partial(self.send_when_durable, frames),)
            return
        journal = self.connection.node.journal
        ticket = journal.ticket()
        if ticket <= journal.durable:
            self.send(frames)
        else:
            self.connection.wait()
            journal.when_durable(ticket, partial(self._durable, frames))

    def send_after_job(self, frames: bytes) -> None:
        """Send a reply at once, or when the job is done that is under way for this channel."""
        if self._job is not None:
            self._job += (partial(self.send, frames),)
        else:
            self.send(frames)

    def begin_job(self) -> Callable[[], None]:
        """Have the connection wait for a job, so that nobody on it sees that half done; the job calls what this returns
        when it is done. A reply that is to be sent when it is durable waits for both."""
        assert self._job is None and not self.closing, "a connection that waits serves no method"
        self._job = ()
        self.connection.wait()

        def finished() -> None:
            replies, self._job = self._job or (), None
            if not self.closing:
                for send in replies:
                    send()
            self.connection.go_on()

        return finished

    def start_job(self, name: str, job: Job) -> None:
        """Do a job in turns of the loop; the connection is suspended until it is done."""
        finished = self.begin_job()

        def complete() -> Job:
            yield from job
            finished()

        full_name = f"{name} of channel {self.number} of connection {self.connection.name}"
        self.connection.node.scheduler.start(full_name, complete(), self.connection.job_failed)

    def _durable(self, frames: bytes) -> None:
        if not self.closing:
            self.send(frames)
        self.connection.go_on()

    def send_confirms(self) -> None:
        if self.confirms is not None and not self.closing:
            before, told = self.confirms.confirmed, self.confirms.told
            refused = self.confirms.refusals() if self.vhost.message_log is not None else ()
            frame = self.confirms.take(self.number)
            if frame:
                if self.vhost.message_log is not None:
                    self.vhost.message_log.confirmed(self.origin, told + 1, self.confirms.told, refused)
                self.send(frame)
                confirmed = self.confirms.confirmed - before
                self.publishing.confirm += confirmed
                self.statistics.publishing.confirm += confirmed

    def end(self) -> None:
        """The channel is over: consumers go, what is out goes back, what was not committed is forgotten."""
        for _ in self.end_in_steps():
            pass

    def end_in_steps(self) -> Job:
        """End it as a job. Its queues deliver nothing before they have back what is out, so that a consumer which takes
        its place gets that first."""
        self.closing = True
        self.leave()
        notices.channel_closed(self)
        if self.lane is not None and self.connection.node.breakdown is not None:
            self.connection.node.breakdown.close(self.lane)
        try:
            for subscription in self.consumers.values():
                self.pause(subscription.queue)
            for subscription in list(self.consumers.values()):
                self.remove(subscription)
                yield CONSUMER_COST
            if self.transaction is not None:
                yield from self.transaction.rollback(self)
            yield from acknowledge.requeue_in_steps(self)
        finally:
            for queue in self._paused:
                queue.resume()
            self._paused.clear()
        self.confirms = None
        yield OBJECT_COST

    def leave(self) -> None:
        """Count no more as open."""
        if self._counted:
            self._counted = False
            self.connection.node.census.channel_closed(self.user.account)
            self.connection.node.churn.channel_closed += 1

    def pause(self, queue: Queue) -> None:
        """Have the queue deliver nothing until the end of this channel, which is under way, is complete."""
        if queue not in self._paused:
            self._paused.add(queue)
            queue.pause()

    def remove(self, subscription: ChannelConsumer) -> None:
        """End a consumer from the channel's side."""
        if self.consumers.get(subscription.tag) is not subscription:
            return
        del self.consumers[subscription.tag]
        queue = subscription.queue
        if queue is self.reply_queue:
            self.reply_queue = None
        notices.consumer_deleted(subscription)
        if queue.remove_consumer(subscription):
            self.vhost.consumers_changed(queue)

    @property
    def end_cost(self) -> int:
        """The cost of its end, as the scheduler counts it."""
        return acknowledge.COST * len(self.unacked) + CONSUMER_COST * len(self.consumers)


def named(error: AMQPError, index: int) -> AMQPError:
    """The error with the ids of the method that failed, unless it has some."""
    if not error.class_id:
        error.class_id, error.method_id = index >> 16, index & 0xFFFF
    return error
