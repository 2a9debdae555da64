"""An exchange link: copies those messages of an upstream exchange for which the local exchange has bindings.

It declares a queue upstream, from which it consumes, and an internal exchange that feeds the queue and has the bindings
of the local exchange as its bindings to the upstream exchange. The internal exchange has two generations, A and B: a
starting link declares the generation that is not in use, binds it, and only then deletes the other one. So messages of
bindings that stay are not missed, and bindings that were deleted while the link was down do not remain upstream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from warren.broker.plugin import Host, Invalid, Table, UpstreamExchange

from . import hop_headers
from .binding_set import ExchangeBindings
from .binding_sync import BindingSync
from .deduplication import NO_IDENTITY, DuplicateWindow, effective_max_hops, identify
from .forwarder import NO_ACK, Forwarder
from .link import Link, Pace
from .link_spec import LinkSpec
from .link_status import FLOWING
from .upstream.errors import LinkError
from .upstream.turns import CHANGES_COST, CHECK_COST
from .upstream_exchange import DEDUPLICATE
from .upstream_names import GENERATIONS, base_name, internal_name, next_generation

if TYPE_CHECKING:
    from .upstream.connection import UpstreamChannel, UpstreamConnection
    from .upstream.delivery_parser import Delivery
    from .upstream.endpoint import Endpoint

NOT_FOUND, COMMAND_INVALID, PRECONDITION_FAILED = 404, 503, 406
INEQUIVALENT = "inequivalent arg"
FIRST = GENERATIONS[0]  # counts as in use before there is an internal exchange
BACKLOG_S = 10.0  # between two checks of the length of the upstream queue, and of all at a Warren upstream
FORMER_S = 30  # for the link of a former owner to end: until the upstream misses its heartbeats
PURPOSE = ("x-internal-purpose", ("S", b"federation"))
DISPOSABLE = "Disposable exchange federation link connection"
TYPE, FALLBACK = "x-federation-upstream", "fanout"


class ExchangeLink(Link):
    """The link of one exchange with one upstream.

    `origin` is the cluster name, virtual host and exchange at which the exchange's type listens or last listened, or
    None. `check_s` is the time between two checks of the exchanges upstream, in seconds.
    """

    def __init__(
        self,
        host: Host,
        pace: Pace,
        spec: LinkSpec,
        bindings: ExchangeBindings,
        check_s: float,
        window: DuplicateWindow | None,
    ) -> None:
        super().__init__(host, pace, spec, bindings.exchange)
        self.exchange = bindings.exchange
        self.bindings = bindings
        self._check_s = check_s
        self._window = window  # None unless the exchange deduplicates
        self._forwarder: Forwarder | None = None
        self._sync: BindingSync | None = None  # for the newest internal exchange, while there is a connection
        self._queue = self._internal = ""
        self._generation = FIRST
        # The generation that has all bindings, at the endpoint where the link ran last; empty if unknown.
        self._complete: dict[Endpoint, str] = {}
        self._listens = False  # whether the local exchange's type listens to the upstream exchange
        self.origin: UpstreamExchange | None = None

    # Setting up

    async def set_up(self, connection: UpstreamConnection) -> None:
        settings = self.settings
        self._queue = self._queue_name(connection)
        consuming = await connection.channel()
        consuming.cancelled = lambda tag: self.fail("basic_cancel")
        commanding = consuming if settings.single_channel else await connection.channel()
        self.end_with(consuming)
        self.end_with(commanding)
        self._listens = await self._can_listen(connection)
        self._forwarder = self._make_forwarder(connection)
        self.status.backlog, consumers = await consuming.declare_queue(
            self._queue,
            durable=True,
            arguments=queue_arguments(settings.expires_ms, settings.message_ttl_ms, settings.queue_type),
        )
        self._left_upstream = True
        if consumers and self.host.alone is not None and not self._complete:
            consumers = await self._wait_for_former(consuming)
        if consumers:
            self._report("federation_queue_shared", "warning", queue=self._queue, consumers=consumers)
            self.status.degrade("another broker with the same cluster name takes messages from the queue upstream")
        if settings.max_hops < 1:
            self.status.degrade(f"max-hops is {settings.max_hops}: no message may pass the link")
        if settings.ack_mode != NO_ACK:
            await consuming.qos(settings.prefetch_count)
        await consuming.consume(self._queue, "", settings.ack_mode == NO_ACK, Table.EMPTY)
        await self._ensure_upstream_exchange(connection, consuming)
        old = await self._declare_next_generation(connection, consuming)
        self._listen_from(connection, not old)
        await consuming.bind_queue(self._queue, self._internal, "", Table.EMPTY)
        await self._bind_all(connection, commanding)
        self._complete.clear()  # if the link breaks during the deletion, either generation may be the only one
        if old:
            await self._delete_exchange(connection, old)
        self._complete[connection.endpoint] = self._generation
        self.status.flow(FLOWING, "")

    async def _wait_for_former(self, channel: UpstreamChannel) -> int:
        """Wait FORMER_S at most until the link of a former owner of the store has no consumer upstream.

        Its last requests, such as the deletion of an internal exchange, are done by then. Returns the number of
        consumers.
        """
        for _ in range(FORMER_S):
            await asyncio.sleep(1)
            _, consumers = await channel.declare_queue(self._queue, durable=True, passive=True)
            if not consumers:
                break
        return consumers

    def _queue_name(self, connection: UpstreamConnection) -> str:
        key = self.spec.key
        try:
            return base_name(key.upstream_name, self.cluster_name, key.vhost, key.name, connection.vhost)
        except Invalid as error:
            raise LinkError(error.text) from None

    def _make_forwarder(self, connection: UpstreamConnection) -> Forwarder:
        key, settings, status = self.spec.key, self.settings, self.status
        stamp = hop_headers.ExchangeStamp(
            connection.safe_uri, key.name, connection.cluster_name, connection.vhost, settings.trust_user_id
        )
        is_same = self._is_same_exchange(connection)
        cluster_name, vhost, max_hops = self.cluster_name, key.vhost, settings.max_hops
        listened_to = key.upstream_name.encode("utf-8", "surrogateescape") if self._listens else None
        window, clock = self._window, self.node.clock

        def prepare(delivery: Delivery) -> bytes | None:
            if listened_to is not None and delivery.exchange != listened_to:
                status.dropped_invalid += 1  # another client published it into the upstream queue
                discard(delivery, hop_headers.STRANGE)
                return None
            properties, limit, identity = delivery.properties, max_hops, NO_IDENTITY
            if window is not None:
                identity, properties = identify(properties, delivery.routing_key, delivery.body_frames)
                limit = effective_max_hops(limit, identity)
            reason = hop_headers.SEEN if is_same else hop_headers.drop_reason(properties, limit, cluster_name, vhost)
            if not reason and window is not None and window.is_repeat(identity, clock.now_ms()):
                reason = hop_headers.SEEN
            if not reason:
                return stamp(properties, delivery.redelivered)
            status.dropped(reason == hop_headers.MAX)
            discard(delivery, reason)
            return None

        def discard(delivery: Delivery, reason: str) -> None:
            routing_key = delivery.routing_key.decode("utf-8", "surrogateescape")
            content = delivery.properties, delivery.body_bytes, delivery.body_frames
            publisher.discard(key.name, routing_key, content, reason)

        def refused(delivery: Delivery) -> None:
            if window is not None:
                window.forget(identify(delivery.properties, delivery.routing_key, delivery.body_frames)[0])

        publisher = self.open_publisher()
        publisher.comes_from(key.upstream, self._queue)
        publisher.brings_from = self._upstream(connection) if self._listens else None
        undo = refused if window is not None else None
        forwarder = Forwarder(
            self.node, publisher, connection.transport, status, settings.ack_mode, key.name, None,
            prepare, self.fail, undo,
        )  # fmt: skip
        forwarder.rejected = self.report_rejected
        return forwarder

    def _is_same_exchange(self, connection: UpstreamConnection) -> bool:
        """Whether the upstream exchange is the local exchange itself, so that all its messages are repeats."""
        key = self.spec.key
        if connection.cluster_name != self.cluster_name or connection.vhost != key.vhost:
            return False
        if not connection.direct:
            self._report("federation_same_cluster_name", "warning", cluster_name=self.cluster_name)
            self.status.degrade(f"the upstream has the same cluster name, '{self.cluster_name}': messages are lost")
        return connection.direct and key.upstream_name == key.name

    def _upstream(self, connection: UpstreamConnection) -> UpstreamExchange:
        return UpstreamExchange(connection.cluster_name or "", connection.vhost, self.spec.key.upstream_name)

    async def _can_listen(self, connection: UpstreamConnection) -> bool:
        if self.exchange.type.upstream_binding is None:
            return False
        reason = await self._type_mismatch(connection)
        if reason:
            self._report("federation_not_listening", "warning", reason=reason)
        return not reason

    async def _type_mismatch(self, connection: UpstreamConnection) -> str:
        """Return how the upstream exchange's type differs, or an empty text if it does not or the exchange was missing.

        An exchange of another type would pass on messages that clients publish there. The type is checked by declaring
        the exchange again, for which the link needs permission to configure it. Raises LinkError if the connection is
        lost.
        """
        channel = await connection.channel()
        try:
            await self._declare_upstream_exchange(channel)
        except LinkError as fault:
            if not fault.code:
                raise
            # The text names the first property that differs, and the type is compared first.
            same_type = INEQUIVALENT in fault.text and f"{INEQUIVALENT} 'type'" not in fault.text
            return "" if same_type else fault.text
        await channel.close()
        return ""

    async def _declare_upstream_exchange(self, channel: UpstreamChannel) -> None:
        own = self.exchange
        await channel.declare_exchange(
            self.spec.key.upstream_name,
            own.type_name,
            durable=own.durable,
            auto_delete=own.auto_delete,
            arguments=own.arguments,
        )

    def _listen_from(self, connection: UpstreamConnection, first: bool) -> None:
        """Set the exchange at which the local exchange's type listens, and notify the type of a change.

        `first`: the upstream has no internal exchange of an earlier link.
        """
        if not self._listens:
            return
        origin = self._upstream(connection)
        if self.origin is None and first:
            self.exchange.type.on_upstream_detached(origin)  # discards state from before a restart
        elif self.origin != origin:
            self._stop_listening()
        self.origin = origin

    def detach(self) -> None:
        """Stop forwarding at once, because the link is removed while its exchange stays."""
        if self._forwarder is not None:
            self._forwarder.close()
            self._forwarder = None
        self._stop_listening()

    def _stop_listening(self) -> None:
        """Notify the exchange's type that it no longer listens to its origin."""
        if self.origin is not None:
            self.exchange.type.on_upstream_detached(self.origin)
            self.origin = None
            self.node.pump()

    async def _ensure_upstream_exchange(self, connection: UpstreamConnection, channel: UpstreamChannel) -> None:
        """Declare the upstream exchange like the local one, unless one of that name exists, of whatever type.

        Other faults of an existing exchange appear when it is bound. Raises LinkError.
        """
        if not await self._exists(connection, self.spec.key.upstream_name):
            await self._declare_upstream_exchange(channel)

    async def _exists(self, connection: UpstreamConnection, name: str) -> bool:
        """Whether the upstream has an exchange of that name. Raises LinkError if the connection is lost."""
        channel = await self.open_passive_channel(connection)
        try:
            await channel.declare_exchange(name, self.exchange.type_name, passive=True)
        except LinkError as fault:
            self.passive_channel = None
            if not fault.code:
                raise
            return fault.code != NOT_FOUND
        return True

    async def _declare_next_generation(self, connection: UpstreamConnection, channel: UpstreamChannel) -> str:
        """Declare the internal exchange of the next generation. Returns the name of the previous one, or ""."""
        names = {generation: internal_name(self._queue, generation) for generation in GENERATIONS}
        complete = self._complete.get(connection.endpoint)
        used = [complete] if complete else await self._generations_used(connection, names)
        old = used[-1] if used else FIRST
        if len(used) > 1:
            # An earlier start was interrupted and either may lack bindings: complete one before deleting the other.
            self._generation, self._internal = old, names[old]
            await channel.bind_queue(self._queue, self._internal, "", Table.EMPTY)
            await self._bind_all(connection, channel)
        self._generation = next_generation(old)
        self._internal = names[self._generation]
        if self._generation in used or complete:
            await self._delete_exchange(connection, self._internal)
        await self._declare_internal(connection, channel)
        return names[old] if used else ""

    async def _generations_used(self, connection: UpstreamConnection, names: dict[str, str]) -> list[str]:
        """Return the generations whose internal exchange feeds a queue; delete an internal exchange that feeds none.

        The deletion, if unused, also shows whether the exchange exists: unlike a passive declaration of a missing
        exchange it leaves no error in the upstream's log.
        """
        used = []
        for generation, name in names.items():
            channel = await connection.channel()
            try:
                await channel.delete_exchange(name, if_unused=True)
            except LinkError as fault:
                if fault.code != PRECONDITION_FAILED:
                    raise
                used.append(generation)
            else:
                await channel.close()
        return used

    async def _declare_internal(self, connection: UpstreamConnection, channel: UpstreamChannel) -> None:
        """Declare the internal exchange, as a fanout if the upstream does not know x-federation-upstream.

        The declaration uses a connection of its own, since an upstream that does not know the type may close the
        connection (503).
        """
        arguments = Table.of({}).with_items(
            [
                ("x-max-hops", ("l", self.settings.max_hops)),
                ("x-downstream-name", ("S", self.cluster_name.encode())),
                ("x-downstream-vhost", ("S", self.spec.key.vhost.encode())),
                PURPOSE,
                *([(DEDUPLICATE, ("t", True))] if self.spec.deduplicate else []),
            ]
        )
        disposable = connection if connection.direct else await self.dial(connection.endpoint, DISPOSABLE)
        try:
            other = await disposable.channel()
            await other.declare_exchange(
                self._internal, TYPE, durable=True, auto_delete=True, internal=True, arguments=arguments
            )
            await other.close()
        except LinkError as fault:
            if fault.code not in (COMMAND_INVALID, PRECONDITION_FAILED) or "exchange type" not in fault.text:
                raise
            await channel.declare_exchange(
                self._internal,
                FALLBACK,
                durable=True,
                auto_delete=True,
                internal=True,
                arguments=Table.of({}).with_items([PURPOSE]),
            )
        finally:
            if disposable is not connection:
                await disposable.close(1.0)

    async def _delete_exchange(self, connection: UpstreamConnection, name: str) -> None:
        channel = await connection.channel()
        await channel.delete_exchange(name)
        await channel.close()

    # Bindings

    def bindings_changed(self) -> None:
        """Mirror changes of the local exchange's bindings in a turn that has time."""
        if self._sync is not None and self._sync.expect():
            self.pace.turns.run(CHANGES_COST, self._sync.changed)

    async def _bind_all(self, connection: UpstreamConnection, channel: UpstreamChannel) -> None:
        """Give the internal exchange all bindings of the local exchange; later changes are mirrored from then on."""
        upstream = connection.cluster_name or "", connection.vhost
        internal = self._internal, self._generation
        self._sync = BindingSync(
            self.bindings, self.spec, self.cluster_name, self.status, channel, upstream, internal, self._listens
        )
        await self._sync.send()

    # Running

    def background_work(self) -> list[Coroutine[Any, Any, None]]:
        assert self._connection is not None and self._sync is not None
        return [self._sync.follow(), self._check(self._connection, self._sync)]

    async def _check(self, connection: UpstreamConnection, sync: BindingSync) -> None:
        """Check the length of the upstream queue and, less often, that the exchanges and bindings still exist.

        A Warren upstream is checked each time: to repeat a binding costs it about 20 us.
        """
        every_s = min(self._check_s, BACKLOG_S)
        check_s = every_s if connection.is_warren else self._check_s
        since_s = 0.0
        while True:
            await asyncio.sleep(self.jittered(every_s))
            await self.pace.turns.wait(CHECK_COST)
            channel = await self.open_passive_channel(connection)
            self.status.backlog, _ = await channel.declare_queue(self._queue, durable=True, passive=True)
            since_s += every_s
            if since_s >= check_s:
                since_s = 0.0
                for name in (self._internal, self.spec.key.upstream_name):
                    if not await self._exists(connection, name):
                        raise LinkError(f"no exchange '{name}' any more in vhost '{connection.vhost}'", NOT_FOUND)
                sync.resend_some()

    def take(self, deliveries: list[Delivery]) -> None:
        if self._forwarder is not None:
            self._forwarder.take(deliveries)

    def disconnected(self) -> None:
        if self._forwarder is not None:
            self._forwarder.close()
        self._forwarder = self._sync = self.passive_channel = None

    async def clean_up(self, connection: UpstreamConnection) -> None:
        queue = self._queue_name(connection)
        channel = await connection.channel()
        await channel.delete_queue(queue)
        for generation in GENERATIONS:
            await channel.delete_exchange(internal_name(queue, generation))
        await channel.close()


def queue_arguments(expires_ms: int | None, message_ttl_ms: int | None, queue_type: str) -> Table:
    """Return the arguments of the upstream queue, which have to be equal in each declaration."""
    items: list[tuple[str, tuple[str, Any]]] = []
    if expires_ms is not None:
        items.append(("x-expires", ("l", expires_ms)))
    if message_ttl_ms is not None:
        items.append(("x-message-ttl", ("l", message_ttl_ms)))
    items += [PURPOSE, ("x-queue-type", ("S", queue_type.encode()))]
    return Table.of({}).with_items(items)
