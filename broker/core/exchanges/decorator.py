"""An exchange type that leaves the routing to another one within it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self

from ...amqp.field_table import Table
from ..messages.binding import Binding, Destination
from ..messages.message import Message
from .exchange_type import Emission, ExchangeType

if TYPE_CHECKING:
    from ..vhost.exchange_host import ExchangeHost
    from .recovered import RecoveredMessages
    from .registry import Registry


class ExchangeDecorator(ExchangeType):
    """`inner` is there from `compose` on, or was given by `around`."""

    __slots__ = ("inner",)

    by_key = False  # what it does, it does to each message

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self.inner: ExchangeType

    @classmethod
    def around(cls, inner: ExchangeType) -> Self:
        """One that is composed already."""
        made = cls(inner.name, inner.arguments)
        made.inner = inner
        return made

    @property
    def compared(self) -> tuple[str, ...]:
        return (*self.fixed_arguments, *self.inner.compared)

    @property
    def stores(self) -> bool:
        return self.inner.stores

    def compose(self, registry: Registry) -> None:
        raise NotImplementedError

    def attach(self, host: ExchangeHost) -> None:
        self.inner.attach(host)

    def restore(self, stored: RecoveredMessages) -> None:
        self.inner.restore(stored)

    def check(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        self.inner.check(routing_key, arguments, destination_type)

    def bound(self, binding: Binding) -> Iterable[Emission]:
        return self.inner.bound(binding)

    def unbound(self, binding: Binding) -> Iterable[Emission]:
        return self.inner.unbound(binding)

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return self.inner.route(keys, message)

    def deleted(self) -> None:
        self.inner.deleted()

    def release(self) -> Iterator[None]:
        return self.inner.release()
