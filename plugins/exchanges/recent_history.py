"""The exchange type x-recent-history: a fanout that delivers its last messages to each new binding.

It keeps x-recent-history-length messages, or 20, but none with the header x-recent-history-no-store. A durable exchange
keeps them over a restart, whatever their delivery mode.
"""

from collections import deque

from warren.broker.amqp.field_table import INTEGERS, term_of
from warren.broker.plugin import (
    Binding,
    Destination,
    Emission,
    ExchangeContext,
    FanoutExchange,
    Message,
    PreconditionFailed,
    RecoveredMessages,
    Table,
)

LENGTH = "x-recent-history-length"
NO_STORE = "x-recent-history-no-store"
DEFAULT_LENGTH = 20


class RecentHistoryExchange(FanoutExchange):
    description = "Recent history exchange: a new binding gets the last messages"

    __slots__ = ("_length", "_kept", "_context")

    routes_by_key_only = False  # `route` keeps each message
    fixed_arguments = (LENGTH,)

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._length = length_of(arguments)
        self._kept: deque[Message] = deque()
        self._context: ExchangeContext | None = None

    @property
    def persists_messages(self) -> bool:
        return True

    def on_created(self, context: ExchangeContext) -> None:
        self._context = context

    def restore(self, stored: RecoveredMessages) -> None:
        assert self._context is not None, "on_created was called"
        pages = [(id_, place) for deadline_ms, id_, place in stored if not deadline_ms]
        self._kept.extend([message for message in self._context.read(pages) if message is not None])

    def on_bind(self, binding: Binding) -> list[Emission]:
        super().on_bind(binding)
        return [Emission([binding.destination], [message.as_republished() for message in self._kept])]

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        if NO_STORE.encode() not in message.property_bytes or not message.headers.flag(NO_STORE):
            self._keep(message.as_republished())
        return self.bound.all()

    def on_deleted(self) -> None:
        while self._kept:
            self._drop_oldest()

    def _keep(self, message: Message) -> None:
        assert self._context is not None, "on_created was called"
        if self._context.number:
            self._context.store([message], True)
        self._kept.append(message)
        if len(self._kept) > self._length:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop the oldest message."""
        message = self._kept.popleft()
        if message.location and self._context is not None:
            self._context.drop(message.id, message.location, True)


def length_of(arguments: Table) -> int:
    """Return the number of messages to keep. Raises PreconditionFailed (406)."""
    value = arguments.get(LENGTH)
    if value is None:
        return DEFAULT_LENGTH
    if value[0] not in INTEGERS or not isinstance(value[1], int) or value[1] < 1:
        raise PreconditionFailed(f"Invalid argument {term_of(value)}, '{LENGTH}' must be a positive integer")
    return value[1]
