"""An exchange of any type that holds messages until they are due, and routes them then (spec/core.md 19.7)."""

from __future__ import annotations

from ...amqp.field_table import Table
from ..messages.binding import Destination
from ..messages.message import Message
from ..queues.x_death import routing_keys
from ..vhost.exchange_host import ExchangeHost
from .decorator import ExchangeDecorator
from .delay import Delay, held
from .recovered import RecoveredMessages


class DelayedExchange(ExchangeDecorator):
    """`inner` routes, by the bindings there are when a message is due."""

    __slots__ = ("_host", "_delay")

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._host: ExchangeHost | None = None
        self._delay: Delay | None = None

    @property
    def stores(self) -> bool:
        return True

    @property
    def messages_delayed(self) -> int:
        """How many are held."""
        return len(self._delay) if self._delay is not None else 0

    def attach(self, host: ExchangeHost) -> None:
        self._host = host
        self._delay = Delay(host, self._release)
        super().attach(host)

    def restore(self, stored: RecoveredMessages) -> None:
        assert self._delay is not None, "it was attached"
        self._delay.hold_again(stored)
        super().restore(stored)

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        assert self._delay is not None, "it was attached"
        if self._delay.asked_ms(message):
            return [self._delay]
        return super().route(keys, message)

    def deleted(self) -> None:
        if self._delay is not None:
            self._delay.end()
        super().deleted()

    def _release(self, message: Message) -> None:
        """It is due."""
        assert self._host is not None, "it was attached"
        keys = routing_keys(message, None)
        message = held(message)
        self._host.forward(self.inner.route(keys, message), keys, message)
