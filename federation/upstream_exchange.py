"""The exchange type x-federation-upstream: what downstream links declare here to feed their queues
(spec/federation.md 6.3).

It is a fanout for all that may go to that downstream: what has made as many hops as the link allows, or has been in the
downstream's cluster and virtual host, would be dropped there, and is spared the way. Brokers that give no name for the
downstream, or no virtual host, are told nothing about identity. With the argument x-deduplicate, which Warren's links
give where their exchange deduplicates, messages get an identity on their way (see `seen`).
"""

from __future__ import annotations

from binascii import crc32

from warren.broker.plugin import (
    INTEGERS,
    Binding,
    Destination,
    Destinations,
    Emission,
    EnqueueResult,
    ExchangeContext,
    ExchangeType,
    Message,
    PreconditionFailed,
    Sink,
    Table,
    type_name,
)

from . import hop_headers
from .deduplication import Identities, carried, reach, with_identity

MAX_HOPS = "x-max-hops"
DOWNSTREAM_NAME, DOWNSTREAM_VHOST = "x-downstream-name", "x-downstream-vhost"
DEDUPLICATE = "x-deduplicate"

_identities = Identities()  # of this process: all internal exchanges that a publish reaches give it the same


class FederationUpstreamExchange(ExchangeType):
    """Federation upstream helper exchange"""

    description = "Federation upstream helper exchange"

    __slots__ = (
        "routes_by_key_unless_header",
        "_bound",
        "_max_hops",
        "_cluster_name",
        "_vhost",
        "_deduplicates",
        "_identified",
    )

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
        self._bound = Destinations()
        self._identified: list[Destination] = []
        # By what it says alone, a message is kept back; but each that has no identity gets one.
        self.routes_by_key_unless_header = b"" if self._deduplicates else hop_headers.RECEIVED_FROM.encode()

    def on_created(self, context: ExchangeContext) -> None:
        self._identified = [Identified(context, self._bound)]

    def on_bind(self, binding: Binding) -> list[Emission]:
        self._bound.add(binding.destination)
        return []

    def on_unbind(self, binding: Binding) -> list[Emission]:
        self._bound.remove(binding.destination)
        return []

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        raw = message.property_bytes
        limit = self._max_hops
        known = True
        if self._deduplicates:
            # What has no identity yet gets one here: either way it has one from here on.
            known = bool(carried(raw, crc32(message.body)))
            limit = reach(limit, b"\x01")
        if not self._bound or hop_headers.obstacle(raw, limit, self._cluster_name, self._vhost):
            return []
        return self._bound.all() if known else self._identified


class Identified(Sink):
    """Gives messages their identity and hands them on."""

    __slots__ = ("_bound", "_forgets")

    def __init__(self, context: ExchangeContext, bound: Destinations) -> None:
        super().__init__(context)
        self._bound = bound
        self._forgets = False  # soon: the messages of this turn of the loop would be kept alive until the next ones

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
            copy = message.again().with_properties(with_identity(message.property_bytes, identity))
            receipt = self.context.deliver(self._bound.all(), [copy])
            stored = receipt.stored or stored
            refused |= {index} if receipt.refused else set()
        return EnqueueResult(stored, frozenset(refused))
