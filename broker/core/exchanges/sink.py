"""Where messages go that an exchange type wants for itself, to keep them or to change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...amqp.field_table import Table
from ..messages.message import Message
from ..queues.enqueue_result import EnqueueResult
from ..queues.queue import Queue
from ..queues.queue_settings import NO_POLICY, QueueSettings

if TYPE_CHECKING:
    from ..vhost.exchange_host import ExchangeHost


class Sink(Queue):
    """One exchange's. It stands among the queues of a route, and nobody else knows of it.

    A message that reaches it counts as routed, and is confirmed when what became of it is stored.
    """

    __slots__ = ("host",)

    def __init__(self, host: ExchangeHost) -> None:
        super().__init__(host.home, "", False, 0, None, False, Table.EMPTY)
        self.host = host
        self.rules = QueueSettings(Table.EMPTY, NO_POLICY)  # its own: others share theirs
        self.rules.careful = True  # so that `take` is asked instead of `push`

    def take(self, messages: list[Message]) -> EnqueueResult:
        """What became of these messages, which were published together."""
        raise NotImplementedError
