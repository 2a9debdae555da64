"""The fanout exchange: it routes each message to all bound destinations."""

from collections.abc import Iterable

from ...amqp.field_table import Table
from ..messages.binding import Binding, Destination, Destinations
from ..messages.message import Message
from .exchange_context import Emission
from .exchange_type import ExchangeType


class FanoutExchange(ExchangeType):
    """The exchange type fanout, and base class of types that choose among all `bound` destinations."""

    description = "AMQP fanout exchange, as per the AMQP specification"

    __slots__ = ("bound",)

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self.bound = Destinations()

    def on_bind(self, binding: Binding) -> Iterable[Emission]:
        self.bound.add(binding.destination)
        return ()

    def on_unbind(self, binding: Binding) -> Iterable[Emission]:
        self.bound.remove(binding.destination)
        return ()

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return self.bound.all()
