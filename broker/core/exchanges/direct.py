"""The direct exchange: it routes a message to destinations whose binding key equals the routing key."""

from collections.abc import Iterator

from ...amqp.field_table import Table
from ..messages.binding import Binding, Destination, Destinations
from ..messages.message import Message
from .exchange_context import Emission
from .exchange_type import ExchangeType, add_all


class DirectExchange(ExchangeType):
    description = "AMQP direct exchange, as per the AMQP specification"

    __slots__ = ("_by_key",)

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._by_key: dict[str, Destinations] = {}

    def on_bind(self, binding: Binding) -> list[Emission]:
        key = binding.routing_key
        if key not in self._by_key:
            self._by_key[key] = Destinations()
        self._by_key[key].add(binding.destination)
        return []

    def on_unbind(self, binding: Binding) -> list[Emission]:
        bound = self._by_key[binding.routing_key]
        bound.remove(binding.destination)
        if not bound:
            del self._by_key[binding.routing_key]
        return []

    def release(self) -> Iterator[int]:
        while self._by_key:
            self._by_key.popitem()
            yield 1

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        cost = len(keys)
        for key in keys:
            bound = self._by_key.get(key)
            if bound is not None:
                cost = yield from add_all(bound.all(), found, cost)
        yield cost
