"""A simulated exchange, which shows where an exchange type would route keys to equal queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warren.broker.plugin import Binding, Destination, ExchangeType, Properties, RoutingAddress, Table, framed

from ...exchanges.consistent_hash import ConsistentHashExchange
from ...exchanges.modulus_hash import ModulusHashExchange

HASH_TYPES: Final[dict[str, Callable[[str, Table], ExchangeType]]] = {
    "x-modulus-hash": ModulusHashExchange,
    "x-consistent-hash": ConsistentHashExchange,
}
MESSAGE: Final = framed(RoutingAddress("x", ""), Properties(), b"")


class SimulatedExchange:
    """An exchange of the hash type `type_name`, with `count` equal queues bound to it."""

    def __init__(self, type_name: str, count: int) -> None:
        self.type = HASH_TYPES[type_name](type_name, Table.EMPTY)
        self._bindings: list[Binding] = []
        for _ in range(count):
            self.add()

    def add(self) -> None:
        """Bind another queue, whose name sorts last."""
        binding = Binding("x", Destination(f"queue-{len(self._bindings):04}"), "1", Table.EMPTY)
        self.type.on_bind(binding)
        self._bindings.append(binding)

    def remove(self, index: int) -> None:
        """Unbind the queue at this index."""
        self.type.on_unbind(self._bindings.pop(index))

    def routes(self, keys: list[tuple[str]]) -> list[Destination]:
        """Return the destination of each key."""
        return [self.type.route(key, MESSAGE)[0] for key in keys]
