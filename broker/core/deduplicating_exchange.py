"""An exchange of any type that drops duplicates before its type routes them (spec/core.md 19.9)."""

from __future__ import annotations

from ..table import Table
from .binding import Destination
from .deduplication import Deduplication
from .enclosing_type import EnclosingType
from .exchange_host import ExchangeHost
from .message import Message
from .receipt import TAKEN, Receipt
from .sink import Sink


class DeduplicatingExchange(EnclosingType):
    """A duplicate counts as routed, but goes nowhere: it is not
    returned, and no alternate exchange gets it."""

    __slots__ = ("deduplication", "_dropped", "_host")

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self.deduplication = Deduplication(arguments)
        self._host: ExchangeHost | None = None
        self._dropped: list[Destination] = []

    def attach(self, host: ExchangeHost) -> None:
        self._host = host
        self._dropped = [Nowhere(host)]
        super().attach(host)

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        assert self._host is not None, "it was attached"
        now_ms = self._host.clock.now_ms()
        if self.deduplication.is_duplicate(message, now_ms):
            return self._dropped
        self.deduplication.add(message, now_ms)
        return super().route(keys, message)


class Nowhere(Sink):
    """Takes messages, and that is that."""

    __slots__ = ()

    def take(self, messages: list[Message]) -> Receipt:
        return TAKEN
