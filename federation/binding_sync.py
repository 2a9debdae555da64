"""Binding synchronisation: mirrors the bindings of a local exchange to one of its internal exchanges upstream.

Each distinct binding of the local exchange becomes a binding from the upstream exchange to the internal exchange. A
BindingSync sends all present bindings first, then each change, and keeps up to a window of methods unanswered. It also
resends some bindings from time to time: a client that deletes and redeclares the upstream exchange thereby deletes its
bindings, and AMQP has no method that lists them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from warren.broker.plugin import Binding, Exchange, Table

from . import hop_headers
from .binding_set import BindingSet, UpstreamBinding

if TYPE_CHECKING:
    from .link_spec import LinkSpec
    from .link_status import LinkStatus
    from .upstream.channel import UpstreamChannel

RESEND_LIMIT = 1000  # bindings resent at each check


class BindingSync:
    """The synchronisation of the bindings of `exchange` with one internal exchange upstream.

    It starts with all present bindings pending. Changes are added by `binding_added` and `binding_removed`, which have
    to be called from the construction on, so that no change is missed.
    """

    def __init__(
        self,
        exchange: Exchange,
        spec: LinkSpec,
        cluster_name: str,
        status: LinkStatus,
        channel: UpstreamChannel,
        upstream: tuple[str, str],
        internal: tuple[str, str],
        listens: bool,
    ) -> None:
        """Make all present bindings pending.

        `upstream` is the upstream's cluster name and virtual host; `internal` is the internal exchange's name and
        generation; `listens`: also bind what the exchange's type listens for.
        """
        self._exchange = exchange
        self._spec = spec
        self._cluster_name = cluster_name
        self._status = status
        self._channel = channel
        self._upstream = upstream
        self._internal, self._generation = internal
        self._bindings = BindingSet()
        self._pending: dict[UpstreamBinding, bool] = {}  # to bind (True) or to unbind
        self._resend: list[UpstreamBinding] = []
        self._resent = 0  # bindings resent so far in the present round
        self._changed = asyncio.Event()
        status.bindings = 0
        for binding in list(exchange.outgoing.values()):
            self.binding_added(binding)
        listening = exchange.type.upstream_binding
        if listens and listening is not None:
            self._add(Binding(exchange.name, exchange, *listening))

    # Local changes

    def binding_added(self, binding: Binding) -> None:
        """Add a new binding of the local exchange."""
        if not self._is_listener(binding):
            self._add(binding)

    def binding_removed(self, binding: Binding) -> None:
        """Remove a deleted binding of the local exchange."""
        if not self._is_listener(binding):
            last = self._bindings.remove(binding)
            if last is not None:
                self._set_pending(last, False)

    def resend_some(self) -> None:
        """Schedule the next RESEND_LIMIT bindings to be sent again."""
        bindings = self._bindings.all()
        begin = self._resent if self._resent < len(bindings) else 0
        self._resent = begin + RESEND_LIMIT
        self._resend = bindings[begin : self._resent]
        self._changed.set()

    def _is_listener(self, binding: Binding) -> bool:
        """Whether the binding has the key that the exchange's type listens for, which the link binds by itself."""
        listening = self._exchange.type.upstream_binding
        return listening is not None and listening[0] == binding.routing_key

    def _add(self, binding: Binding) -> None:
        first = self._bindings.add(binding)
        if first is not None:
            self._set_pending(first, True)

    def _set_pending(self, binding: UpstreamBinding, bind: bool) -> None:
        if self._pending.get(binding, bind) != bind:
            del self._pending[binding]  # the opposite change was not sent yet
        else:
            self._pending[binding] = bind
            self._changed.set()

    # Sending

    async def follow(self) -> None:
        """Send changes as they come. Raises LinkError."""
        while True:
            await self._changed.wait()
            await self.send()

    async def send(self) -> None:
        """Send all pending changes; the upstream has applied them when this returns. Raises LinkError."""
        self._changed.clear()
        pending, self._pending = self._pending, {}
        source, nowait = self._spec.key.upstream_name, self._spec.settings.bind_nowait
        for bind in (True, False):  # binding first: no message is missed when one binding replaces another
            items = self._encode([binding for binding, state in pending.items() if state == bind])
            if items and bind:
                await self._channel.bind_many(self._internal, source, items, nowait)
                self._status.bindings += len(items)
            elif items:
                await self._channel.unbind_many(self._internal, source, items, nowait)
                self._status.bindings -= len(items)
        items = self._encode([one for one in self._resend if one not in pending and one in self._bindings])
        self._resend.clear()
        if items:
            await self._channel.bind_many(self._internal, source, items, nowait)

    def _encode(self, bindings: list[UpstreamBinding]) -> list[tuple[str, Table]]:
        """Return routing keys and arguments to bind with upstream, without bindings that have no hops left."""
        items = [(binding.routing_key, self._arguments(binding)) for binding in bindings]
        return [(routing_key, arguments) for routing_key, arguments in items if arguments is not None]

    def _arguments(self, binding: UpstreamBinding) -> Table | None:
        """Return the arguments to bind with upstream, or None for a binding that has no hops left."""
        key, max_hops = self._spec.key, self._spec.settings.max_hops
        left = hop_headers.hops_left(binding.arguments, max_hops, *self._upstream)
        if left <= 0:
            return None
        name = f"{key.name} {self._generation}"
        return hop_headers.bound_from(binding.arguments, self._cluster_name, key.vhost, name, left)
