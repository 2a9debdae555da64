"""Exchanges that drop duplicate messages before routing."""

from collections.abc import Callable, Iterator

from ...amqp.field_table import Table
from ..messages.binding import Destination
from ..messages.message import Message
from ..queues.deduplication import Deduplication, DeduplicationRecorder
from ..queues.route_target import DURABLE, EnqueueResult
from .exchange_context import ExchangeContext
from .exchange_type import ExchangeDecorator, Sink

Find = Callable[[tuple[str, ...], Message, dict[Destination, None]], Iterator[int]]
"""`ExchangeType.search`, or `peek`."""


class DeduplicatingExchange(ExchangeDecorator):
    """An exchange type that drops duplicates and routes all other messages by `inner`.

    A duplicate counts as routed: it is not returned, and no alternate exchange gets it. A message is put in the cache
    once the targets of its route have accepted it (`DeduplicationRecorder`).
    """

    __slots__ = ("deduplication", "_dropped", "_context", "_recorder")

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self.deduplication = Deduplication(arguments)
        self._context: ExchangeContext | None = None
        self._dropped: list[Destination] = []
        self._recorder: list[Destination] = []

    def on_created(self, context: ExchangeContext) -> None:
        self._context = context
        self._dropped = [DiscardSink(context)]
        self._recorder = [DeduplicationRecorder(self.deduplication, context.clock)]
        super().on_created(context)

    def release(self) -> Iterator[int]:
        yield from self.deduplication.release()
        yield from super().release()

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        return self._find(self.inner.search, keys, message, found, 1)

    def peek(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        return self._find(self.inner.peek, keys, message, found, 0)

    def _find(
        self, search: Find, keys: tuple[str, ...], message: Message, found: dict[Destination, None], count: int
    ) -> Iterator[int]:
        """Find the destinations by this search, or drop the message and count it as this number of duplicates."""
        assert self._context is not None, "on_created has been called"
        deduplication = self.deduplication
        duplicate = deduplication.has_seen(deduplication.key_of(message), self._context.clock.now_ms())
        yield deduplication.read_cost
        if duplicate:
            deduplication.duplicates += count
            found.update(dict.fromkeys(self._dropped))
        else:
            found.update(dict.fromkeys(self._recorder))
            yield from search(keys, message, found)


class DiscardSink(Sink):
    """The sink that drops duplicates. They are confirmed with the current batch, in which the originals may be."""

    __slots__ = ()

    def handle(self, messages: list[Message]) -> EnqueueResult:
        return DURABLE
