"""Exchanges that drop duplicate messages before routing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...amqp.field_table import Table
from ..messages.binding import Destination
from ..messages.message import Message
from ..queues.deduplication import Deduplication
from ..queues.enqueue import ACCEPTED, DURABLE, EnqueueResult
from ..queues.route_target import RouteTarget
from .decorator import ExchangeDecorator
from .exchange_context import ExchangeContext
from .sink import Sink

RECORD_COST = 5  # of putting a message in the cache, beside reading its headers


class DeduplicatingExchange(ExchangeDecorator):
    """An exchange type that drops duplicates and routes all other messages by `inner`.

    A duplicate counts as routed: it is not returned, and no alternate exchange gets it. A message is put in the cache
    once the queues of its route have accepted it: one that was rejected, returned or rolled back may be published
    again.
    """

    __slots__ = ("deduplication", "_dropped", "_context", "_recorder")

    records = True

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self.deduplication = Deduplication(arguments)
        self._context: ExchangeContext | None = None
        self._dropped: list[Destination] = []
        self._recorder: Recorder | None = None

    def on_created(self, context: ExchangeContext) -> None:
        self._context = context
        self._dropped = [DiscardSink(context)]
        self._recorder = Recorder(context, self.deduplication)
        super().on_created(context)

    @property
    def recorder(self) -> Sink | None:
        return self._recorder

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        assert self._context is not None, "on_created has been called"
        now_ms = self._context.clock.now_ms()
        duplicate = self.deduplication.is_duplicate(self.deduplication.key_of(message), now_ms)
        yield self.deduplication.read_cost
        if duplicate:
            found.update(dict.fromkeys(self._dropped))
        else:
            yield from super().search(keys, message, found)


class Recorder(Sink):
    """The sink that puts messages in the cache once all queues of their route have accepted them."""

    __slots__ = ("_deduplication",)

    def __init__(self, context: ExchangeContext, deduplication: Deduplication) -> None:
        super().__init__(context)
        self._deduplication = deduplication

    @property
    def cost(self) -> int:
        """The cost of the last message."""
        return RECORD_COST + self._deduplication.read_cost

    def drops(self, message: Message) -> bool:
        """Return whether a duplicate was accepted after this message was routed (`is_duplicate`)."""
        deduplication = self._deduplication
        return deduplication.is_duplicate(deduplication.key_of(message), self.context.clock.now_ms())

    def handle(self, messages: list[Message]) -> EnqueueResult:
        now_ms = self.context.clock.now_ms()
        for message in messages:
            key = self._deduplication.key_of(message)
            if not self._deduplication.has_seen(key, now_ms):
                self._deduplication.add(key, message, now_ms)
        return ACCEPTED


def split_recorders(queues: tuple[RouteTarget, ...]) -> tuple[tuple[RouteTarget, ...], tuple[Recorder, ...]]:
    """Split the targets of a route into queues and recorders."""
    recorders = tuple([queue for queue in queues if isinstance(queue, Recorder)])
    return (queues[: -len(recorders)], recorders) if recorders else (queues, ())


def is_duplicate(recorders: Iterable[Recorder], message: Message) -> bool:
    """Return whether a duplicate was accepted after this message was routed, as in a transaction, or while it waited.

    If so, the message is counted as a duplicate.
    """
    return any(recorder.drops(message) for recorder in recorders)


class DiscardSink(Sink):
    """The sink that drops duplicates. They are confirmed with the current batch, in which the originals may be."""

    __slots__ = ()

    def handle(self, messages: list[Message]) -> EnqueueResult:
        return DURABLE
