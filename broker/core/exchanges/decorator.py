"""The base class of exchange types that delegate to another type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

from ...amqp.field_table import Table
from ..messages.binding import Binding, Destination
from ..messages.message import Message
from .exchange_context import Emission, ExchangeContext, RecoveredMessages
from .exchange_type import ExchangeType, Registry


class ExchangeDecorator(ExchangeType):
    """An exchange type that delegates to `inner`, which `compose` or `around` sets."""

    __slots__ = ("inner",)

    routes_by_key_only = False  # a decorator acts on each message

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self.inner: ExchangeType

    @classmethod
    def around(cls, inner: ExchangeType) -> Self:
        """Return a decorator of a type that is composed already."""
        made = cls(inner.name, inner.arguments)
        made.inner = inner
        return made

    @property
    def equivalence_arguments(self) -> tuple[str, ...]:
        return (*self.fixed_arguments, *self.inner.equivalence_arguments)

    @property
    def route_cost(self) -> int:
        return self.inner.route_cost

    @property
    def relays(self) -> bool:
        return self.inner.relays

    @property
    def persists_messages(self) -> bool:
        return self.inner.persists_messages

    @property
    def undelayed(self) -> ExchangeType:
        return self.inner.undelayed

    def compose(self, registry: Registry) -> None:
        raise NotImplementedError

    def on_created(self, context: ExchangeContext) -> None:
        self.inner.on_created(context)

    def restore(self, stored: RecoveredMessages) -> None:
        self.inner.restore(stored)

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        self.inner.validate_binding(routing_key, arguments, destination_type)

    def on_bind(self, binding: Binding) -> Iterable[Emission]:
        return self.inner.on_bind(binding)

    def on_unbind(self, binding: Binding) -> Iterable[Emission]:
        return self.inner.on_unbind(binding)

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        return self.inner.search(keys, message, found)

    def peek(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        return self.inner.peek(keys, message, found)

    def on_deleted(self) -> None:
        self.inner.on_deleted()

    def release(self) -> Iterator[int]:
        return self.inner.release()
