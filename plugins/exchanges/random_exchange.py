"""The exchange types x-random and x-local-random, which route each message to one random destination."""

from collections.abc import Iterator
from random import choice
from typing import Generic, TypeVar

from warren.broker.plugin import Binding, Destination, Emission, ExchangeType, Message, PreconditionFailed, Table

CLASSIC = "classic"
EXCHANGE = "exchange"
T = TypeVar("T")


class Choices(Generic[T]):
    """Different values, one of which is chosen. The time of a change does not depend on their number."""

    __slots__ = ("_all", "_at")

    def __init__(self) -> None:
        self._all: list[T] = []
        self._at: dict[T, int] = {}  # the index of each in the list

    def __len__(self) -> int:
        return len(self._all)

    def add(self, value: T) -> None:
        self._at[value] = len(self._all)
        self._all.append(value)

    def remove(self, value: T) -> None:
        at = self._at.pop(value)
        last = self._all.pop()
        if last is not value:
            self._all[at] = last
            self._at[last] = at

    def one(self) -> T:
        """Return one of the values with equal probability; there must be at least one."""
        return choice(self._all)

    def release(self) -> Iterator[int]:
        """Free the values in short steps, and yield the number of each step."""
        while self._all:
            self.remove(self._all[-1])
            yield 1


class RandomExchange(ExchangeType):
    """An exchange that selects bindings with equal probability: a queue bound twice gets twice as many messages."""

    description = "AMQP random exchange."

    __slots__ = ("_bindings",)

    routes_by_key_only = False  # each message is routed separately

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._bindings = Choices[Binding]()

    def on_bind(self, binding: Binding) -> list[Emission]:
        self._bindings.add(binding)
        return []

    def on_unbind(self, binding: Binding) -> list[Emission]:
        self._bindings.remove(binding)
        return []

    def release(self) -> Iterator[int]:
        return self._bindings.release()

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return [self._bindings.one().destination] if self._bindings else []


class LocalRandomExchange(ExchangeType):
    """An exchange that selects bound classic queues with equal probability. Binding keys must be empty.

    RabbitMQ selects among the queues of the publisher's node; Warren has one node, so all queues are local.
    """

    description = "Picks one random local binding (queue) to route via (to)."

    __slots__ = ("_queues", "_bindings")

    routes_by_key_only = False

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._queues = Choices[Destination]()
        self._bindings: dict[Destination, int] = {}  # the number of bindings by queue

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        if routing_key:
            raise PreconditionFailed(f"Non empty binding '{routing_key}' key not permitted")
        if destination_type == EXCHANGE:
            raise PreconditionFailed("Destination not found")
        if destination_type != CLASSIC:
            raise PreconditionFailed(f"Queue type {destination_type} not valid for this exchange type")

    def on_bind(self, binding: Binding) -> list[Emission]:
        queue = binding.destination
        if queue not in self._bindings:
            self._queues.add(queue)
        self._bindings[queue] = self._bindings.get(queue, 0) + 1
        return []

    def on_unbind(self, binding: Binding) -> list[Emission]:
        queue = binding.destination
        self._bindings[queue] -= 1
        if not self._bindings[queue]:
            del self._bindings[queue]
            self._queues.remove(queue)
        return []

    def release(self) -> Iterator[int]:
        while self._bindings:
            self._bindings.popitem()
            yield 1
        yield from self._queues.release()

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return [self._queues.one()] if self._queues else []
