"""A queue link: takes messages from a queue upstream while consumers here want more than the queue here has
(spec/federation.md 8).

What it took it puts into the queue here, also when nobody wants it any more; nothing is removed upstream when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from warren.broker.plugin import Host, Queue, Table

from .demand import Demand, pull
from .demand_path import Identity, Path, Wants, consume_arguments, wants
from .errors import LinkError
from .forwarder import NO_ACK, Forwarding
from .hop_headers import QueueStamp
from .link import Link
from .link_spec import LinkSpec
from .link_status import BLOCKED, FLOWING, PAUSED

if TYPE_CHECKING:
    from .upstream.connection import UpstreamChannel, UpstreamConnection
    from .upstream.delivery_parser import Delivery

NOT_FOUND = 404
LOOK_S = 0.01  # between two looks at what consumers here want, however often that changes
BACKLOG_S = 5.0
CHANGED = 2  # times as much, or as little, as what was asked for when it began: then the link begins anew to consume


class QueueLink(Link):
    def __init__(self, host: Host, wanted: LinkSpec, queue: Queue) -> None:
        super().__init__(host, wanted, queue)
        self.queue = queue
        self._demand = Demand()
        self._forwarding: Forwarding | None = None
        self._connection: UpstreamConnection | None = None
        self._channel: UpstreamChannel | None = None
        self._consuming = False
        self._missing = False  # the queue upstream: it is made when something is wanted of it
        self._deleted = False  # it was, while we consumed from it
        self._path: Path = ()  # for whom it consumes
        self._pull = 0  # the prefetch that it consumes with
        self._turn = asyncio.Event()
        self._at_once = False  # the next look waits for nothing, as an acknowledgement waits for it
        self._counting: UpstreamChannel | None = None

    # Setting up

    async def set_up(self, connection: UpstreamConnection) -> None:
        if "consumer_priorities" not in connection.capabilities:
            raise LinkError("upstream_lacks_consumer_priorities")
        self._connection = connection
        await self._find_upstream_queue(connection)
        self._channel = await connection.channel()
        self._channel.cancelled = self._cancelled
        self.needs(self._channel)
        self._forwarding = self._forwarding_from(connection)
        self.queue.demand_followers += (self._turn.set,)
        self.node.alarms.hooks.append(self._alarm_changed)
        self.status.flow(PAUSED, "no consumer here wants more")
        self.look()

    def _forwarding_from(self, connection: UpstreamConnection) -> Forwarding:
        key, settings = self.wanted.key, self.settings
        identity = self._upstream(connection) if self.wanted.multi_hop else None
        stamp = QueueStamp(connection.safe_uri, key.name, settings.trust_user_id, identity)

        def prepare(delivery: Delivery) -> bytes:
            exchange = delivery.exchange.decode("utf-8", "surrogateescape")
            routing_key = delivery.routing_key.decode("utf-8", "surrogateescape")
            return stamp(delivery.properties, delivery.redelivered, exchange, routing_key)

        inflow = self.inflow()
        inflow.comes_from(key.upstream, key.upstream_name)
        forwarding = Forwarding(
            self.node, inflow, connection.transport, self.status, settings.ack_mode, "", key.name, prepare, self.lose
        )
        forwarding.gone = lambda: self.queue.deleted
        forwarding.free = self.look
        forwarding.rejected = self.report_rejected
        return forwarding

    def _upstream(self, connection: UpstreamConnection) -> Identity:
        return connection.cluster_name or "", connection.vhost, self.wanted.key.upstream_name

    async def _find_upstream_queue(self, connection: UpstreamConnection) -> None:
        """Whatever it is like; made like ours where there is none. One that was deleted while we consumed from it is
        not made again before something is wanted: else nobody could delete what several brokers federate."""
        self._missing = not await self._count(connection)
        if self._missing and not self._deleted:
            await self._declare(connection)

    async def _count(self, connection: UpstreamConnection) -> bool:
        """See how much is upstream; whether the queue is there at all."""
        if self._counting is None:
            self._counting = await connection.channel()
        name = self.wanted.key.upstream_name
        try:
            self.status.backlog, _ = await self._counting.declare_queue(name, True, False, Table.EMPTY, passive=True)
        except LinkError as fault:
            self._counting = None
            if fault.code != NOT_FOUND:
                raise
            self.status.backlog = None
            return False
        return True

    async def _declare(self, connection: UpstreamConnection) -> None:
        channel = await connection.channel()
        queue = self.queue
        name = self.wanted.key.upstream_name
        self.status.backlog, _ = await channel.declare_queue(name, queue.durable, queue.auto_delete, queue.arguments)
        await channel.close()
        self._missing = False

    def _cancelled(self, tag: str) -> None:
        self._deleted = True
        self.lose("basic_cancel")

    # Demand

    def look(self) -> None:
        """Something may be different with the queue here or with its consumers."""
        self._at_once = True
        self._turn.set()

    def _alarm_changed(self, resource: str, on: bool) -> None:
        self.look()

    def works(self) -> list[Coroutine[Any, Any, None]]:
        assert self._connection is not None and self._channel is not None and self._forwarding is not None
        follow = self._follow_demand(self._connection, self._channel, self._forwarding)
        return [follow, self._keep_counting(self._connection)]

    async def _keep_counting(self, connection: UpstreamConnection) -> None:
        while True:
            await asyncio.sleep(BACKLOG_S)
            await self._count(connection)

    async def _follow_demand(
        self, connection: UpstreamConnection, channel: UpstreamChannel, forwarding: Forwarding
    ) -> None:
        loop, clock, demand = asyncio.get_running_loop(), self.node.clock, self._demand
        while True:
            self._turn.clear()
            self._at_once = False
            await self._look(connection, channel, forwarding)
            looked_s = loop.time()
            patience_s = None if demand.look_at_ms is None else max(demand.look_at_ms - clock.now_ms(), 0) / 1000
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._turn.wait()
            if not self._at_once:
                await asyncio.sleep(max(looked_s + LOOK_S - loop.time(), 0))

    async def _look(self, connection: UpstreamConnection, channel: UpstreamChannel, forwarding: Forwarding) -> None:
        key, demand = self.wanted.key, self._demand
        self.queue.consumers.put_off()
        own = (self.cluster_name, key.vhost, key.name)
        now = wants(self.queue, own, self._upstream(connection), self.wanted.multi_hop, self._path)
        alarm = self.node.alarms.reason
        room = 0 if alarm else now.room
        step = demand.look(self.node.clock.now_ms(), self.queue.ready, now.priority, room)
        if step == "run":
            await self._consume(connection, channel, now)
        elif step == "pause" and not self.queue.auto_delete:  # or the queue upstream might go with its consumer
            await self._cancel(channel)
        elif self._consuming and demand.wants and not self.queue.auto_delete and self._changed(now):
            await self._cancel(channel)
            await self._consume(connection, channel, now)
        forwarding.hold(self._consuming and not demand.wants)
        if demand.running:
            self.status.flow(FLOWING, "" if demand.wants else demand.reason)
        else:
            self.status.flow(BLOCKED if alarm else PAUSED, f"this broker is {alarm}" if alarm else demand.reason)

    def _changed(self, now: Wants) -> bool:
        """Whether what is wanted now is much different from what the link consumes with."""
        asked = pull(self.settings.prefetch_count, now.room)
        return now.path != self._path or asked > CHANGED * self._pull or CHANGED * asked < self._pull

    async def _consume(self, connection: UpstreamConnection, channel: UpstreamChannel, now: Wants) -> None:
        if self._consuming:
            return
        if self._missing:
            await self._declare(connection)
        settings = self.settings
        self._path, self._pull = now.path, pull(settings.prefetch_count, now.room)
        no_ack = settings.ack_mode == NO_ACK
        if not no_ack:
            await channel.qos(self._pull)
        arguments = consume_arguments(self._path, self.wanted.multi_hop)
        self._consuming = True
        self._deleted = False
        name = self.wanted.key.upstream_name
        await channel.consume(name, settings.consumer_tag, no_ack, arguments, nowait=True)

    async def _cancel(self, channel: UpstreamChannel) -> None:
        if self._consuming:
            self._consuming = False
            await channel.cancel(self.settings.consumer_tag, nowait=True)

    # Messages

    def take(self, deliveries: list[Delivery]) -> None:
        if self._forwarding is not None:
            # An acknowledgement asks for more: first is to be seen what the consumers here leave of these.
            self._forwarding.hold(True)
            self._forwarding.take(deliveries)
            self.look()

    def broken(self) -> None:
        if self._forwarding is not None:
            self._forwarding.close()
            self.node.alarms.hooks.remove(self._alarm_changed)
        self.queue.demand_followers = tuple(one for one in self.queue.demand_followers if one != self._turn.set)
        self._forwarding = self._connection = self._channel = self._counting = None
        self._consuming = False
        self._demand.disconnected()

    async def clean_up(self, connection: UpstreamConnection) -> None:
        """Nothing upstream is the link's own."""
