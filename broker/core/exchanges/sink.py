"""A destination through which an exchange type takes messages for itself, to store or to change them."""

from __future__ import annotations

from typing import ClassVar

from ..messages.message import Message
from ..queues.route_target import EnqueueResult, RouteTarget
from .exchange_context import ExchangeContext


class Accepted(RouteTarget):
    """A `sink` that has taken a message in steps, with the result."""

    __slots__ = ("sink", "_result")
    internal: ClassVar[bool] = True

    def __init__(self, sink: RouteTarget, result: EnqueueResult) -> None:
        super().__init__("", 0, True)
        self.sink = sink
        self._result = result

    def accept(
        self, messages: list[Message], source: str, shared: bool, others: tuple[RouteTarget, ...] = ()
    ) -> EnqueueResult:
        return self._result


class Sink(RouteTarget):
    """A route target of one exchange type, which gets messages in place of a queue. Subclasses define `handle`.

    A message that is routed to a sink counts as routed, and is confirmed when the result of `handle` is stored.
    """

    __slots__ = ("context",)
    internal: ClassVar[bool] = True

    def __init__(self, context: ExchangeContext) -> None:
        super().__init__("", 0, True)
        self.context = context
        self.reads_headers = True

    def accept(
        self, messages: list[Message], source: str, shared: bool, others: tuple[RouteTarget, ...] = ()
    ) -> EnqueueResult:
        return self.handle(messages)

    def handle(self, messages: list[Message]) -> EnqueueResult:
        """Process messages that were published together; return whether they are stored, and which are rejected."""
        raise NotImplementedError
