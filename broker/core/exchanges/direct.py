"""The direct exchange: it routes a message to destinations whose binding key equals the routing key."""

from collections.abc import Iterator

from ...amqp.field_table import Table
from ..messages.binding import Binding, Destination
from ..messages.message import Message
from .bound_destinations import Destinations
from .exchange_type import Emission, ExchangeType


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

    def release(self) -> Iterator[None]:
        while self._by_key:
            self._by_key.popitem()
            yield

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        if len(keys) == 1:
            bound = self._by_key.get(keys[0])
            return bound.all() if bound is not None else []
        found: list[Destination] = []
        for key in keys:
            bound = self._by_key.get(key)
            if bound is not None:
                found += bound.all()
        return found
