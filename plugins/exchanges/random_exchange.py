"""The exchange types x-random and x-local-random, which route each message to one random destination."""

from random import choice

from warren.broker.plugin import (
    Binding,
    Destination,
    Emission,
    ExchangeType,
    FanoutExchange,
    Message,
    PreconditionFailed,
    Table,
)

CLASSIC = "classic"
EXCHANGE = "exchange"


class RandomExchange(ExchangeType):
    """An exchange that selects bindings with equal probability, whatever their keys: a queue bound twice gets twice as
    many messages."""

    description = "AMQP random exchange."

    __slots__ = ("_bindings", "_at")

    routes_by_key_only = False  # each message is routed by a choice of its own

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._bindings: list[Binding] = []
        self._at: dict[Binding, int] = {}  # the index of each in the list

    def on_bind(self, binding: Binding) -> list[Emission]:
        self._at[binding] = len(self._bindings)
        self._bindings.append(binding)
        return []

    def on_unbind(self, binding: Binding) -> list[Emission]:
        at = self._at.pop(binding)
        last = self._bindings.pop()
        if last is not binding:
            self._bindings[at] = last
            self._at[last] = at
        return []

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return [choice(self._bindings).destination] if self._bindings else []


class LocalRandomExchange(FanoutExchange):
    """An exchange that selects bound classic queues with equal probability. Binding keys must be empty.

    RabbitMQ selects among the queues of the publisher's node; Warren has one node, so all queues are local.
    """

    description = "Picks one random local binding (queue) to route via (to)."

    __slots__ = ()

    routes_by_key_only = False

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        if routing_key:
            raise PreconditionFailed(f"Non empty binding '{routing_key}' key not permitted")
        if destination_type == EXCHANGE:
            raise PreconditionFailed("Destination not found")
        if destination_type != CLASSIC:
            raise PreconditionFailed(f"Queue type {destination_type} not valid for this exchange type")

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return [choice(self.bound.all())] if self.bound else []
