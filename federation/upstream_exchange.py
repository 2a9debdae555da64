"""The exchange type x-federation-upstream: the type of the exchanges that feed the queues of downstream links.

It is a fanout that skips messages which the downstream would drop: those that have made as many hops as the link
allows, or have been in the downstream's cluster and virtual host. Without a cluster name or a virtual host of the
downstream, only hops count. With the argument x-deduplicate, which Warren's links set if their exchange deduplicates,
routed messages get an identity (see `deduplication`).
"""

from binascii import crc32

from warren.broker.amqp.federation_headers import RECEIVED_FROM
from warren.broker.amqp.field_table import INTEGERS, type_name
from warren.broker.plugin import (
    Destination,
    Destinations,
    EnqueueResult,
    ExchangeContext,
    FanoutExchange,
    Message,
    PreconditionFailed,
    Sink,
    Table,
)

from . import hop_headers
from .deduplication import Identities, effective_max_hops, identity_from_header, with_identity

MAX_HOPS = "x-max-hops"
DOWNSTREAM_NAME, DOWNSTREAM_VHOST = "x-downstream-name", "x-downstream-vhost"
DEDUPLICATE = "x-deduplicate"

_identities = Identities()  # one for the process, so that all internal exchanges give a publish the same identity


class FederationUpstreamExchange(FanoutExchange):
    """Federation upstream helper exchange"""

    description = "Federation upstream helper exchange"

    __slots__ = ("routes_by_key_unless_header", "_max_hops", "_cluster_name", "_vhost", "_deduplicates", "_stamp")

    routes_by_key_only = False
    fixed_arguments = (MAX_HOPS,)

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        given = arguments.get(MAX_HOPS)
        if given is None:
            raise PreconditionFailed(f"Argument {MAX_HOPS} missing")
        if given[0] not in INTEGERS:
            raise PreconditionFailed(f"Argument {MAX_HOPS} must be of type long, not {type_name(given)}")
        self._max_hops = arguments.integer(MAX_HOPS) or 0
        self._cluster_name = arguments.text(DOWNSTREAM_NAME)
        self._vhost = arguments.text(DOWNSTREAM_VHOST)
        self._deduplicates = arguments.flag(DEDUPLICATE) is True
        self._stamp: list[Destination] = []
        # Only messages with x-received-from may be skipped; with x-deduplicate, any message may get an identity.
        self.routes_by_key_unless_header = b"" if self._deduplicates else RECEIVED_FROM.encode()

    def on_created(self, context: ExchangeContext) -> None:
        self._stamp = [IdentityStamp(context, self.bound)]

    def on_deleted(self) -> None:
        self._stamp = []  # a cycle with the context

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        raw = message.property_bytes
        limit = self._max_hops
        known = True
        if self._deduplicates:
            # A message without an identity gets one now.
            known = bool(identity_from_header(raw, crc32(message.body)))
            limit = effective_max_hops(limit, b"\x01")
        if not self.bound or hop_headers.drop_reason(raw, limit, self._cluster_name, self._vhost):
            return []
        return self.bound.all() if known else self._stamp


class IdentityStamp(Sink):
    """A sink that gives messages their identity and passes them on."""

    __slots__ = ("_bound", "_forgets")

    def __init__(self, context: ExchangeContext, bound: Destinations) -> None:
        super().__init__(context)
        self._bound = bound
        self._forgets = False  # a timer will release the messages of this turn of the loop

    def _forget(self) -> None:
        self._forgets = False
        _identities.forget()

    def handle(self, messages: list[Message]) -> EnqueueResult:
        stored = False
        refused: set[int] = set()
        if not self._forgets:
            self._forgets = True
            self.context.clock.call_at(self.context.clock.now_ms(), self._forget)
        for index, identity in enumerate(_identities.of(messages)):
            message = messages[index]
            copy = message.copy_for_queue().with_properties(with_identity(message.property_bytes, identity))
            receipt = self.context.deliver(self._bound.all(), [copy])
            stored = receipt.stored or stored
            refused |= {index} if receipt.refused else set()
        return EnqueueResult(stored, frozenset(refused))
