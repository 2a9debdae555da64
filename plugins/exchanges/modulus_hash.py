"""The exchange type x-modulus-hash: the hash of the routing key, modulo the number of bindings, selects one of them.

The bindings are sorted by destination: exchanges before queues, then by the bytes of the name. Their keys and the order
in which they were made do not matter. A queue with M bindings is M times in the list. So messages with the same routing
key are routed to the same destination, even after a restart, as long as the bindings stay the same.
"""

from bisect import bisect_left, insort

from warren.broker.plugin import Binding, Destination, Emission, ExchangeType, Message, Table, stable_hash


class ModulusHashExchange(ExchangeType):
    description = "Modulus Hashing Exchange"

    __slots__ = ("_places",)

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._places: list[Destination] = []

    def on_bind(self, binding: Binding) -> list[Emission]:
        insort(self._places, binding.destination, key=order)
        return []

    def on_unbind(self, binding: Binding) -> list[Emission]:
        del self._places[bisect_left(self._places, order(binding.destination), key=order)]
        return []

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        places = self._places
        if not places:
            return []
        # The CC and BCC keys count too, as in RabbitMQ. The separator is arbitrary.
        return [places[stable_hash("\0".join(keys).encode("utf-8", "surrogateescape")) % len(places)]]


def order(destination: Destination) -> tuple[str, bytes]:
    """Return the sort key of a destination: kind, of which `exchange` is before `queue`, then name."""
    return destination.kind, destination.name.encode("utf-8", "surrogateescape")
