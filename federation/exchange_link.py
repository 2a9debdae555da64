"""An exchange link: a queue upstream gets what the exchange here is bound for, and is emptied into it
(spec/federation.md 5).

The upstream exchange is bound to an internal exchange of ours there, and that to the upstream queue. There are two
names for the internal exchange, A and B: a link that starts makes the other one, binds it, and only then deletes the
one that was there, so that what was bound before and still is misses nothing, and what was unbound meanwhile is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from warren.broker.plugin import Binding, Exchange, Host, Invalid, Table

from . import hop_headers
from .binding_sync import BindingSync
from .deduplication import NO_IDENTITY, DuplicateWindow, identified, reach
from .errors import LinkError
from .forwarder import NO_ACK, Forwarding
from .link import Link
from .link_spec import LinkSpec
from .link_status import FLOWING
from .upstream.type_check import type_mismatch
from .upstream_exchange import DEDUPLICATE
from .upstream_names import LETTERS, base_name, internal_name, other_letter

if TYPE_CHECKING:
    from .upstream.connection import UpstreamChannel, UpstreamConnection
    from .upstream.delivery_parser import Delivery
    from .upstream.endpoint import Endpoint

NOT_FOUND, COMMAND_INVALID, PRECONDITION_FAILED = 404, 503, 406
FIRST = LETTERS[0]  # the letter that counts as in use where there is no internal exchange yet
BACKLOG_S = 10.0  # how often the upstream queue is asked how much it has
PURPOSE = ("x-internal-purpose", ("S", b"federation"))
DISPOSABLE = "Disposable exchange federation link connection"
TYPE, FALLBACK = "x-federation-upstream", "fanout"


class ExchangeLink(Link):
    def __init__(
        self, host: Host, wanted: LinkSpec, exchange: Exchange, check_s: float, seen: DuplicateWindow | None
    ) -> None:
        super().__init__(host, wanted, exchange)
        self.exchange = exchange
        self._check_s = check_s
        self._seen = seen  # what the exchange had, where it deduplicates
        self._connection: UpstreamConnection | None = None
        self._forwarding: Forwarding | None = None
        self._sync: BindingSync | None = None  # that of the newest internal exchange, while there is a connection
        self._queue = self._internal = ""
        self._letter = FIRST
        self._complete: dict[Endpoint, str] = {}  # where it ran last: the letter of the one complete internal exchange
        self._listens = False  # at the upstream exchange, for the type of ours
        self.origin: tuple[str, str, str] | None = None  # cluster name, vhost and exchange at which it did so last

    # Setting up

    async def set_up(self, connection: UpstreamConnection) -> None:
        settings = self.settings
        self._connection = connection
        self._queue = self._base(connection)
        consuming = await connection.channel()
        consuming.cancelled = lambda tag: self.lose("basic_cancel")
        commanding = consuming if settings.single_channel else await connection.channel()
        self.needs(consuming)
        self.needs(commanding)
        self._listens = await self._may_listen(connection)
        self._forwarding = self._forwarding_from(connection)
        self.status.backlog, consumers = await consuming.declare_queue(
            self._queue, True, False, queue_arguments(settings.expires_ms, settings.message_ttl_ms, settings.queue_type)
        )
        self._left_behind = True
        if consumers:
            self._report("federation_queue_shared", "warning", queue=self._queue, consumers=consumers)
            self.status.degrade("another broker with the same cluster name takes messages from the queue upstream")
        if settings.ack_mode != NO_ACK:
            await consuming.qos(settings.prefetch_count)
        await consuming.consume(self._queue, "", settings.ack_mode == NO_ACK, Table.EMPTY)
        await self._find_upstream_exchange(connection, consuming)
        old = await self._make_internal(connection, consuming)
        self._listen_from(connection, not old)
        await consuming.bind_queue(self._queue, self._internal, "", Table.EMPTY)
        await self._bind_all(connection, commanding)
        self._complete.clear()  # if the link breaks in the deletion, either of them may be the only one
        if old:
            await self._delete_exchange(connection, old)
        self._complete[connection.endpoint] = self._letter
        self.status.flow(FLOWING, "")

    def _base(self, connection: UpstreamConnection) -> str:
        key = self.wanted.key
        try:
            return base_name(key.upstream_name, self.cluster_name, key.vhost, key.name, connection.vhost)
        except Invalid as error:
            raise LinkError(error.text) from None

    def _forwarding_from(self, connection: UpstreamConnection) -> Forwarding:
        key, settings, status = self.wanted.key, self.settings, self.status
        stamp = hop_headers.ExchangeStamp(
            connection.safe_uri, key.name, connection.cluster_name, connection.vhost, settings.trust_user_id
        )
        ours = self._is_ourselves(connection)
        cluster_name, vhost, max_hops = self.cluster_name, key.vhost, settings.max_hops
        heard = key.upstream_name.encode("utf-8", "surrogateescape") if self._listens else None
        seen, clock = self._seen, self.node.clock

        def prepare(delivery: Delivery) -> bytes | None:
            if heard is not None and delivery.exchange != heard:
                status.dropped_invalid += 1  # put into our queue by somebody else
                discard(delivery, hop_headers.STRANGE)
                return None
            properties, limit, identity = delivery.properties, max_hops, NO_IDENTITY
            if seen is not None:
                identity, properties = identified(properties, delivery.routing_key, delivery.body_frames)
                limit = reach(limit, identity)
            obstacle = hop_headers.SEEN if ours else hop_headers.obstacle(properties, limit, cluster_name, vhost)
            if not obstacle and seen is not None and seen.is_repeat(identity, clock.now_ms()):
                obstacle = hop_headers.SEEN
            if not obstacle:
                return stamp(properties, delivery.redelivered)
            status.dropped(obstacle == hop_headers.MAX)
            discard(delivery, obstacle)
            return None

        def discard(delivery: Delivery, reason: str) -> None:
            routing_key = delivery.routing_key.decode("utf-8", "surrogateescape")
            content = delivery.properties, delivery.body_bytes, delivery.body_frames
            inflow.discard(key.name, routing_key, content, reason)

        def refused(delivery: Delivery) -> None:
            if seen is not None:
                seen.forget(identified(delivery.properties, delivery.routing_key, delivery.body_frames)[0])

        inflow = self.inflow()
        inflow.comes_from(key.upstream, self._queue)
        inflow.brings = self._listens
        undo = refused if seen is not None else None
        forwarding = Forwarding(
            self.node, inflow, connection.transport, status, settings.ack_mode, key.name, None, prepare, self.lose, undo
        )
        forwarding.rejected = self.report_rejected
        return forwarding

    def _is_ourselves(self, connection: UpstreamConnection) -> bool:
        """Whether the upstream exchange is this very exchange: what it had is here already."""
        key = self.wanted.key
        if connection.cluster_name != self.cluster_name or connection.vhost != key.vhost:
            return False
        if not connection.direct:
            self._report("federation_same_cluster_name", "warning", cluster_name=self.cluster_name)
            self.status.degrade(f"the upstream has the same cluster name, '{self.cluster_name}': messages are lost")
        return connection.direct and key.upstream_name == key.name

    async def _may_listen(self, connection: UpstreamConnection) -> bool:
        if self.exchange.type.upstream_binding is None:
            return False
        reason = await type_mismatch(connection, self.exchange, self.wanted.key.upstream_name)
        if reason:
            self._report("federation_not_listening", "warning", reason=reason)
        return not reason

    def _listen_from(self, connection: UpstreamConnection, first: bool) -> None:
        """`first`: nothing is left upstream of an earlier link."""
        if not self._listens:
            return
        origin = (connection.cluster_name or "", connection.vhost, self.wanted.key.upstream_name)
        if self.origin is None and first:
            self.exchange.type.on_upstream_detached(*origin)  # discards state from before a restart
        elif self.origin != origin:
            self._part()
        self.origin = origin

    def forsake(self) -> None:
        """It was told to end for good, and its exchange goes on without it."""
        if self._forwarding is not None:
            self._forwarding.close()
            self._forwarding = None
        self._part()

    def _part(self) -> None:
        """The exchange hears nothing any more from where it did."""
        if self.origin is not None:
            self.exchange.type.on_upstream_detached(*self.origin)
            self.origin = None
            self.node.pump()

    async def _find_upstream_exchange(self, connection: UpstreamConnection, channel: UpstreamChannel) -> None:
        """Of whatever type it is; made like ours where there is none. Other errors surface where it is bound."""
        name, ours = self.wanted.key.upstream_name, self.exchange
        if not await self._exists(connection, name):
            await channel.declare_exchange(name, ours.type_name, ours.durable, ours.auto_delete, False, ours.arguments)

    async def _exists(self, connection: UpstreamConnection, name: str) -> bool:
        """False where the upstream says that there is none."""
        channel = await connection.channel()
        try:
            await channel.declare_exchange(
                name, self.exchange.type_name, False, False, False, Table.EMPTY, passive=True
            )
        except LinkError as fault:
            if not fault.code:
                raise
            return fault.code != NOT_FOUND
        await channel.close()
        return True

    async def _make_internal(self, connection: UpstreamConnection, channel: UpstreamChannel) -> str:
        """The internal exchange of the other letter; the name of the one that was there, if any."""
        names = {letter: internal_name(self._queue, letter) for letter in LETTERS}
        complete = self._complete.get(connection.endpoint)
        there = [complete] if complete else await self._letters_used(connection, names)
        old = there[-1] if there else FIRST
        if len(there) > 1:
            # A start was cut short, and nobody knows which of them is complete: one is made so before the other goes.
            self._letter, self._internal = old, names[old]
            await channel.bind_queue(self._queue, self._internal, "", Table.EMPTY)
            await self._bind_all(connection, channel)
        self._letter = other_letter(old)
        self._internal = names[self._letter]
        if self._letter in there or complete:
            await self._delete_exchange(connection, self._internal)
        await self._declare_internal(connection, channel)
        return names[old] if there else ""

    async def _letters_used(self, connection: UpstreamConnection, names: dict[str, str]) -> list[str]:
        """The letters of internal exchanges that feed a queue. One that feeds none is of no use, and is deleted: that
        it is missing is then no error, which a passive declaration would leave in the upstream's log."""
        used = []
        for letter, name in names.items():
            channel = await connection.channel()
            try:
                await channel.delete_exchange(name, if_unused=True)
            except LinkError as fault:
                if fault.code != PRECONDITION_FAILED:
                    raise
                used.append(letter)
            else:
                await channel.close()
        return used

    async def _declare_internal(self, connection: UpstreamConnection, channel: UpstreamChannel) -> None:
        """By a connection of its own: an upstream that does not know the type may close the connection (503)."""
        arguments = Table.of({}).with_items(
            [
                ("x-max-hops", ("l", self.settings.max_hops)),
                ("x-downstream-name", ("S", self.cluster_name.encode())),
                ("x-downstream-vhost", ("S", self.wanted.key.vhost.encode())),
                PURPOSE,
                *([(DEDUPLICATE, ("t", True))] if self.wanted.deduplicate else []),
            ]
        )
        disposable = connection if connection.direct else await self.dial(connection.endpoint, DISPOSABLE)
        try:
            other = await disposable.channel()
            await other.declare_exchange(self._internal, TYPE, True, True, True, arguments)
            await other.close()
        except LinkError as fault:
            if fault.code not in (COMMAND_INVALID, PRECONDITION_FAILED) or "exchange type" not in fault.text:
                raise
            await channel.declare_exchange(
                self._internal, FALLBACK, True, True, True, Table.of({}).with_items([PURPOSE])
            )
        finally:
            if disposable is not connection:
                await disposable.close(1.0)

    async def _delete_exchange(self, connection: UpstreamConnection, name: str) -> None:
        channel = await connection.channel()
        await channel.delete_exchange(name)
        await channel.close()

    # Bindings

    def bound(self, binding: Binding) -> None:
        """Take up a new binding of the exchange here."""
        if self._sync is not None:
            self._sync.bound(binding)

    def unbound(self, binding: Binding) -> None:
        """Take up that a binding of the exchange here is deleted."""
        if self._sync is not None:
            self._sync.unbound(binding)

    async def _bind_all(self, connection: UpstreamConnection, channel: UpstreamChannel) -> None:
        """Bind the internal exchange as the exchange here is bound; changes are followed from here on."""
        upstream = connection.cluster_name or "", connection.vhost
        internal = self._internal, self._letter
        self._sync = BindingSync(
            self.exchange, self.wanted, self.cluster_name, self.status, channel, upstream, internal, self._listens
        )
        await self._sync.send()

    # Running

    def works(self) -> list[Coroutine[Any, Any, None]]:
        assert self._connection is not None and self._sync is not None
        return [self._sync.follow(), self._check(self._connection, self._sync)]

    async def _check(self, connection: UpstreamConnection, sync: BindingSync) -> None:
        """How much waits in the queue upstream, and, less often, whether the exchanges are still there."""
        every_s = min(self._check_s, BACKLOG_S)
        since_s = 0.0
        while True:
            await asyncio.sleep(every_s)
            channel = await connection.channel()
            self.status.backlog, _ = await channel.declare_queue(self._queue, True, False, Table.EMPTY, passive=True)
            await channel.close()
            since_s += every_s
            if since_s >= self._check_s:
                since_s = 0.0
                for name in (self._internal, self.wanted.key.upstream_name):
                    if not await self._exists(connection, name):
                        raise LinkError(f"no exchange '{name}' any more in vhost '{connection.vhost}'", NOT_FOUND)
                sync.resend_some()

    def take(self, deliveries: list[Delivery]) -> None:
        if self._forwarding is not None:
            self._forwarding.take(deliveries)

    def broken(self) -> None:
        if self._forwarding is not None:
            self._forwarding.close()
        self._forwarding = self._sync = self._connection = None

    async def clean_up(self, connection: UpstreamConnection) -> None:
        queue = self._base(connection)
        channel = await connection.channel()
        await channel.delete_queue(queue)
        for letter in LETTERS:
            await channel.delete_exchange(internal_name(queue, letter))
        await channel.close()


def queue_arguments(expires_ms: int | None, message_ttl_ms: int | None, queue_type: str) -> Table:
    """Of the upstream queue, which has to be declared the same each time."""
    items: list[tuple[str, tuple[str, Any]]] = []
    if expires_ms is not None:
        items.append(("x-expires", ("l", expires_ms)))
    if message_ttl_ms is not None:
        items.append(("x-message-ttl", ("l", message_ttl_ms)))
    items += [PURPOSE, ("x-queue-type", ("S", queue_type.encode()))]
    return Table.of({}).with_items(items)
