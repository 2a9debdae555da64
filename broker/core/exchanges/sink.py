"""Where messages go that an exchange type wants for itself, to keep them or to change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..messages.message import Message
from ..queues.enqueue import EnqueueResult
from ..queues.route_target import RouteTarget

if TYPE_CHECKING:
    from ..vhost.exchange_host import ExchangeHost


class Sink(RouteTarget):
    """A route target of one exchange type, which gets messages in place of a queue. Subclasses define `handle`.

    A message that reaches it counts as routed, and is confirmed when the result of `handle` is stored.
    """

    __slots__ = ("host",)
    internal = True

    def __init__(self, host: ExchangeHost) -> None:
        super().__init__("", 0, True)
        self.host = host

    def accept(self, messages: list[Message], source: str, shared: bool) -> EnqueueResult:
        return self.handle(messages)

    def handle(self, messages: list[Message]) -> EnqueueResult:
        """Take messages that were published together."""
        raise NotImplementedError
