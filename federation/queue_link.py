"""A queue link: consumes from an upstream queue while local consumers can take more than the local queue has.

Its deliveries are published into the local queue, even if no consumer can take them any more. Nothing is deleted
upstream when the link ends.

Demand is evaluated after events: at once after deliveries, alarms and changes of consumers; once in DEMAND_INTERVAL_S
after changes of the queue's length and of its consumers' room, which may change with each message. An idle link only
checks the length of the upstream queue every BACKLOG_S.

A link that drains needs no demand: it takes all messages of the upstream queue, and puts them into the local one
unchanged, with exchange, routing key and properties. A message for which the local queue would have to drop another, or
which this broker cannot take, stays upstream with all after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from warren.broker.plugin import Host, Queue

from .demand import LINGER_MS, Demand, prefetch_for
from .demand_path import LOOKED, UNLIMITED, ConsumerDemand, Identity, Path, consume_arguments, consumer_demand
from .forwarder import NO_ACK, Forwarder
from .hop_headers import QueueStamp
from .link import Link, Pace
from .link_spec import LinkSpec
from .link_status import BLOCKED, FLOWING, PAUSED
from .upstream.errors import LinkError
from .upstream.turns import CHECK_COST, DEMAND_COST, LOOKS_COST

if TYPE_CHECKING:
    from .upstream.connection import UpstreamChannel, UpstreamConnection
    from .upstream.delivery_parser import Delivery

NOT_FOUND = 404
# The least time between evaluations of demand after changes that each message may cause; it is longer with so many
# consumers that evaluations, with LOOK_S for each consumer, would take more than LOOKS_SHARE of the time.
DEMAND_INTERVAL_S, LOOK_S, LOOKS_SHARE = 0.01, 0.5e-6, 0.05
BACKLOG_S = 5.0
CHANGED = 2  # the factor by which the wanted prefetch has to change before the link consumes again with it


class QueueLink(Link):
    """The link of one queue with one upstream."""

    def __init__(self, host: Host, pace: Pace, spec: LinkSpec, queue: Queue) -> None:
        super().__init__(host, pace, spec, queue)
        self.queue = queue
        self._demand = Demand(0 if spec.settings.ack_mode == NO_ACK else LINGER_MS)
        self._forwarder: Forwarder | None = None
        self._channel: UpstreamChannel | None = None
        self._consuming = False
        self._missing = False  # there is no upstream queue; it is declared when there is demand
        self._deleted = False  # the upstream queue was deleted while the link consumed from it
        self._path: Path = ()  # the demand path of the present consumer
        self._prefetch = 0  # the prefetch of the present consumer
        self._changed = asyncio.Event()  # demand has to be evaluated
        self._urgent = asyncio.Event()  # demand has to be evaluated before DEMAND_INTERVAL_S is over
        self._change_expected = self._urgent_expected = False  # the events are set in a later turn

    # Setting up

    async def set_up(self, connection: UpstreamConnection) -> None:
        if "consumer_priorities" not in connection.capabilities:
            raise LinkError("upstream_lacks_consumer_priorities")
        if self.settings.drain and self._is_same_queue(connection):
            raise LinkError("the upstream queue is the queue itself, which cannot drain itself")
        await self._ensure_upstream_queue(connection)
        self._channel = await connection.channel()
        self._channel.cancelled = self._cancelled
        self.end_with(self._channel)
        self._forwarder = self._make_forwarder(connection)
        self.node.alarms.add_hook(self._alarm_changed)
        self.status.flow(PAUSED, "no consumer here wants more")
        self.check_demand()

    def _make_forwarder(self, connection: UpstreamConnection) -> Forwarder:
        key, settings = self.spec.key, self.settings
        identity = self._upstream(connection) if self.spec.multi_hop else None
        stamp = QueueStamp(connection.safe_uri, key.name, settings.trust_user_id, identity)

        def unchanged(delivery: Delivery) -> bytes:
            return delivery.properties

        def prepare(delivery: Delivery) -> bytes:
            exchange = delivery.exchange.decode("utf-8", "surrogateescape")
            routing_key = delivery.routing_key.decode("utf-8", "surrogateescape")
            return stamp(delivery.properties, delivery.redelivered, exchange, routing_key)

        publisher = self.open_publisher()
        publisher.comes_from(key.upstream, key.upstream_name)
        forwarder = Forwarder(
            self.node, publisher, connection.transport, self.status, settings.ack_mode, "", key.name,
            unchanged if settings.drain else prepare, self.fail,
        )  # fmt: skip
        if settings.drain:
            forwarder.drain_into = self.queue
        forwarder.target_deleted = lambda: self.queue.deleted
        forwarder.free = self.check_demand
        forwarder.rejected = self.report_rejected
        return forwarder

    def _upstream(self, connection: UpstreamConnection) -> Identity:
        return connection.cluster_name or "", connection.vhost, self.spec.key.upstream_name

    def _is_same_queue(self, connection: UpstreamConnection) -> bool:
        """Whether the upstream queue is the local queue itself."""
        key = self.spec.key
        if (connection.cluster_name, connection.vhost) != (self.cluster_name, key.vhost):
            return False
        return key.upstream_name == key.name and connection.leads_back(self.host)

    async def _ensure_upstream_queue(self, connection: UpstreamConnection) -> None:
        """Declare the upstream queue like the local one, unless one of that name exists, of whatever kind.

        A queue that was deleted while the link consumed from it is declared again only when there is demand: otherwise
        a queue that several brokers federate could not be deleted. A link that drains declares none. Raises LinkError.
        """
        self._missing = not await self._look_at_backlog(connection)
        if self._missing and not self._deleted and not self.settings.drain:
            await self._declare(connection)

    async def _look_at_backlog(self, connection: UpstreamConnection) -> bool:
        """Get the length of the upstream queue. Returns whether the queue exists. Raises LinkError."""
        channel = await self.open_passive_channel(connection)
        name = self.spec.key.upstream_name
        try:
            self.status.backlog, _ = await channel.declare_queue(name, durable=True, passive=True)
        except LinkError as fault:
            self.passive_channel = None
            if fault.code != NOT_FOUND:
                raise
            self.status.backlog = None
            return False
        return True

    async def _declare(self, connection: UpstreamConnection) -> None:
        channel = await connection.channel()
        queue = self.queue
        name = self.spec.key.upstream_name
        self.status.backlog, _ = await channel.declare_queue(
            name, durable=queue.durable, auto_delete=queue.auto_delete, arguments=queue.arguments
        )
        await channel.close()
        self._missing = False

    def _cancelled(self, tag: str) -> None:
        self._deleted = True
        self.fail("basic_cancel")

    # Demand

    def check_demand(self) -> None:
        """Evaluate demand at once: the local queue or its consumers may have changed."""
        self._urgent.set()
        self._changed.set()

    def consumers_changed(self) -> None:
        """Evaluate demand in a turn that has time: all links of the queue do so."""
        if not self._urgent_expected and not self._urgent.is_set():
            self._urgent_expected = True
            self.pace.turns.run(DEMAND_COST, self._check)

    def _check(self) -> None:
        self._urgent_expected = False
        self.check_demand()

    def _alarm_changed(self, resource: str, on: bool) -> None:
        self.consumers_changed()

    def _room_changed(self) -> None:
        """Evaluate demand after DEMAND_INTERVAL_S at the earliest; called once for each evaluation."""
        if not self._change_expected and not self._changed.is_set():
            self._change_expected = True
            self.pace.turns.run(DEMAND_COST, self._note_change)

    def _note_change(self) -> None:
        self._change_expected = False
        self._changed.set()

    def background_work(self) -> list[Coroutine[Any, Any, None]]:
        assert self._connection is not None and self._channel is not None and self._forwarder is not None
        follow = self._follow_demand(self._connection, self._channel, self._forwarder)
        return [follow, self._watch_backlog(self._connection)]

    async def _watch_backlog(self, connection: UpstreamConnection) -> None:
        while True:
            await asyncio.sleep(self.jittered(BACKLOG_S))
            await self.pace.turns.wait(CHECK_COST)
            exists = await self._look_at_backlog(connection)
            if self.settings.drain and exists and self._missing:
                self._missing = False
                self.check_demand()

    async def _follow_demand(
        self, connection: UpstreamConnection, channel: UpstreamChannel, forwarder: Forwarder
    ) -> None:
        loop, clock, demand = asyncio.get_running_loop(), self.node.clock, self._demand
        while True:
            self._changed.clear()
            self._urgent.clear()
            self.queue.demand_followers[self._room_changed] = None
            await self._evaluate_demand(connection, channel, forwarder)
            evaluated_s = loop.time()
            interval_s = max(DEMAND_INTERVAL_S, len(self.queue.consumers) * LOOK_S / LOOKS_SHARE)
            timeout_s = None if demand.check_at_ms is None else max(demand.check_at_ms - clock.now_ms(), 0) / 1000
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            if not self._urgent.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(evaluated_s + interval_s):
                        await self._urgent.wait()
                await self.pace.turns.wait(DEMAND_COST)  # after a long turn the intervals of very many links are over

    async def _evaluate_demand(
        self, connection: UpstreamConnection, channel: UpstreamChannel, forwarder: Forwarder
    ) -> None:
        """Start or cancel the consumer upstream, according to local demand."""
        key, demand = self.spec.key, self._demand
        own = (self.cluster_name, key.vhost, key.name)
        drains = self.settings.drain
        if drains:
            now = ConsumerDemand(0, 0 if self._missing else UNLIMITED)
            if not self.queue.ready:
                forwarder.retry_soon()
        else:
            if cost := min(len(self.queue.consumers), LOOKED) * LOOKS_COST // LOOKED:
                await self.pace.turns.wait(cost)  # of the first step
            looks = consumer_demand(self.queue, own, self._upstream(connection), self.spec.multi_hop, self._path)
            now = await self.pace.turns.do(LOOKS_COST, looks)
        alarm = self.node.alarms.reason
        room = 0 if alarm else now.room
        step = demand.update(self.node.clock.now_ms(), 0 if drains else self.queue.ready, now.priority, room)
        if step == "run":
            await self._consume(connection, channel, now)
        elif step == "pause" and not self.queue.auto_delete:  # otherwise its end would delete the upstream queue
            self._cancel(channel)
        elif self._consuming and demand.wants and not self.queue.auto_delete and self._differs(now):
            self._cancel(channel)
            await self._consume(connection, channel, now)
        forwarder.hold(self._consuming and not demand.wants)
        if drains and self._missing:
            self.status.flow(PAUSED, "the upstream has no such queue")
        elif demand.running:
            self.status.flow(FLOWING, "" if demand.wants else demand.reason)
        else:
            self.status.flow(BLOCKED if alarm else PAUSED, f"this broker is {alarm}" if alarm else demand.reason)

    def _differs(self, now: ConsumerDemand) -> bool:
        """Whether path or prefetch differ so much from the present consumer's that the link has to consume again."""
        asked = prefetch_for(self.settings.prefetch_count, now.room)
        return now.path != self._path or asked > CHANGED * self._prefetch or CHANGED * asked < self._prefetch

    async def _consume(self, connection: UpstreamConnection, channel: UpstreamChannel, now: ConsumerDemand) -> None:
        if self._consuming:
            return
        if self._missing:
            await self._declare(connection)
        settings = self.settings
        self._path, self._prefetch = now.path, prefetch_for(settings.prefetch_count, now.room)
        no_ack = settings.ack_mode == NO_ACK
        if not no_ack:
            await channel.qos(self._prefetch)
        arguments = consume_arguments(self._path, self.spec.multi_hop)
        self._consuming = True
        self._deleted = False
        name = self.spec.key.upstream_name
        await channel.consume(name, settings.consumer_tag, no_ack, arguments, nowait=True)

    def _cancel(self, channel: UpstreamChannel) -> None:
        if self._consuming:
            self._consuming = False
            channel.cancel(self.settings.consumer_tag)

    # Messages

    def take(self, deliveries: list[Delivery]) -> None:
        if self._forwarder is not None and self.settings.drain:
            self._forwarder.take(deliveries)
        elif self._forwarder is not None:
            # Acknowledgements let the upstream send more: evaluate demand first, with these deliveries queued.
            self._forwarder.hold(True)
            self._forwarder.take(deliveries)
            self.check_demand()

    def disconnected(self) -> None:
        if self._forwarder is not None:
            self._forwarder.close()
            self.node.alarms.remove_hook(self._alarm_changed)
        self.queue.demand_followers.pop(self._room_changed, None)
        self._forwarder = self._channel = self.passive_channel = None
        self._consuming = False
        self._demand.reset()

    async def clean_up(self, connection: UpstreamConnection) -> None:
        """Do nothing: a queue link owns nothing upstream."""
