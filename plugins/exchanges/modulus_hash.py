"""The exchange type x-modulus-hash: the hash of the routing key, modulo the number of bindings, chooses one of them.

The bindings stand in the order of their destinations: exchanges before queues, and by the octets of the name; where
they were bound first, or with which key, does not matter. M bindings of one queue are M places in that order. So
messages with one routing key go to one destination, also after a restart, for as long as the bindings stay the same.
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
        # The CC and BCC keys count too, as in RabbitMQ. No other octet would do better between them, or worse.
        return [places[stable_hash("\0".join(keys).encode("utf-8", "surrogateescape")) % len(places)]]


def order(destination: Destination) -> tuple[str, bytes]:
    """By kind, then by name: `exchange` stands before `queue`."""
    return destination.kind, destination.name.encode("utf-8", "surrogateescape")
