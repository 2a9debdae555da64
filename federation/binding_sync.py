"""Binding synchronisation: mirrors the bindings of a local exchange to one of its internal exchanges upstream.

Each distinct binding of the local exchange becomes a binding from the upstream exchange to the internal exchange. A
BindingSync sends all present bindings first, then each change, and keeps up to a window of methods unanswered. It also
resends some bindings from time to time: a client that deletes and redeclares the upstream exchange thereby deletes its
bindings, and AMQP has no method that lists them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING

from warren.broker.plugin import Table

from . import hop_headers
from .binding_set import ExchangeBindings, UpstreamBinding
from .upstream.turns import COMPARED, COMPARED_COST, arguments_cost

if TYPE_CHECKING:
    from .link_spec import LinkSpec
    from .link_status import LinkStatus
    from .upstream.channel import UpstreamChannel

RESEND_LIMIT = 1000  # bindings resent at each check


@dataclass(eq=False, repr=False)
class BindingSync:
    """The synchronisation of the bindings of an exchange with one internal exchange upstream.

    It starts with all present bindings to be sent. Later changes are read from `bindings` after each call of `changed`.
    `upstream` is the upstream's cluster name and virtual host; `internal` is the internal exchange's name and
    generation; `listens`: also bind what the exchange's type listens for.
    """

    _bindings: ExchangeBindings
    _spec: LinkSpec
    _cluster_name: str
    _status: LinkStatus
    _channel: UpstreamChannel
    _upstream: tuple[str, str]
    internal: InitVar[tuple[str, str]]
    listens: InitVar[bool]

    def __post_init__(self, internal: tuple[str, str], listens: bool) -> None:
        self._internal, self._generation = internal
        self._read = -1  # the number of the last change that was read
        self._sent: dict[UpstreamBinding, None] = {}  # those bound upstream, or without hops left
        self._resend: list[UpstreamBinding] = []
        self._resent = 0  # bindings resent so far in the present round
        self._changed = asyncio.Event()
        self._expected = False  # `changed` will be called
        self._status.bindings = 0
        listening = self._bindings.exchange.type.upstream_binding if listens else None
        self._listener = UpstreamBinding(*listening) if listening is not None else None

    # Local changes

    def expect(self) -> bool:
        """Note that `changed` will be called. Returns False if a call is expected already or was made."""
        if self._expected or self._changed.is_set():
            return False
        self._expected = True
        return True

    def changed(self) -> None:
        """Send changes soon."""
        self._expected = False
        self._changed.set()

    def resend_some(self) -> None:
        """Schedule the next RESEND_LIMIT bindings to be sent again."""
        bindings = self._bindings.all()
        if self._listener is not None:
            bindings.append(self._listener)
        begin = self._resent if self._resent < len(bindings) else 0
        self._resent = begin + RESEND_LIMIT
        self._resend = bindings[begin : self._resent]
        self._changed.set()

    # Sending

    async def follow(self) -> None:
        """Send changes whenever there are some. Raises LinkError."""
        while True:
            await self._changed.wait()
            await self.send()

    async def send(self) -> None:
        """Send all pending changes; the upstream has applied them when this returns. Raises LinkError."""
        cost = self._bindings.read_cost(self._read)
        if cost:
            await self._channel.wait(cost)
        self._changed.clear()
        changed = self._bindings.changed_since(self._read)
        bound, unbound = (self._bindings.all(), list(self._sent)) if changed is None else (changed, changed)
        if self._read < 0 and self._listener is not None:
            bound.append(self._listener)
        self._read = self._bindings.number
        resend, self._resend = self._resend, []
        to, source, nowait = self._internal, self._spec.key.upstream_name, self._spec.settings.bind_nowait
        # Binding first: no message is missed when one binding replaces another.
        await self._channel.bind_many(to, source, self._encode(bound, self._to_bind, 1), nowait)
        await self._channel.bind_many(to, source, self._encode(unbound, self._to_unbind, -1), nowait, unbind=True)
        await self._channel.bind_many(to, source, self._encode(resend, self._sent.__contains__, 0), nowait)

    def _to_bind(self, binding: UpstreamBinding) -> bool:
        """Whether to bind now; if so, the binding counts as sent, and later changes of it are sent by the next call."""
        if binding in self._sent or not self._wanted(binding):
            return False
        self._sent[binding] = None
        return True

    def _to_unbind(self, binding: UpstreamBinding) -> bool:
        """Whether to unbind now, in the same way."""
        if binding not in self._sent or self._wanted(binding):
            return False
        del self._sent[binding]
        return True

    def _wanted(self, binding: UpstreamBinding) -> bool:
        return binding in self._bindings or binding == self._listener

    def _encode(
        self, bindings: Iterable[UpstreamBinding], chosen: Callable[[UpstreamBinding], bool], counts: int
    ) -> Iterator[tuple[str, Table] | int]:
        """Yield routing keys and arguments to bind with upstream, and the cost of making some of them.

        Bindings that are not `chosen` or have no hops left are left out. `counts` is how many bindings the upstream has
        more for each.
        """
        for number, binding in enumerate(bindings, 1):
            if number % COMPARED == 0:
                yield COMPARED_COST
            if not chosen(binding):
                continue
            cost = arguments_cost(binding.arguments)
            if cost:
                yield cost
            arguments = self._arguments(binding)
            if arguments is not None:
                self._status.bindings += counts
                yield binding.routing_key, arguments

    def _arguments(self, binding: UpstreamBinding) -> Table | None:
        """Return the arguments to bind with upstream, or None for a binding that has no hops left."""
        key, max_hops = self._spec.key, self._spec.settings.max_hops
        arguments = Table(binding.arguments.raw)  # a copy, so that its decoded fields are not kept
        left = hop_headers.hops_left(arguments, max_hops, *self._upstream)
        if left <= 0:
            return None
        name = f"{key.name} {self._generation}"
        return hop_headers.bound_from(arguments, self._cluster_name, key.vhost, name, left)
