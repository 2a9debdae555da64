"""The services of a virtual host for the exchange types in it: delivery, timers, storage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from ..exchanges.exchange import Exchange
from ..exchanges.exchange_context import ExchangeContext, LookSteps, TargetSteps, TryLater
from ..exchanges.exchange_type import Emission, EnqueueSteps, ExchangeType
from ..jobs.scheduler import Job
from ..messages.binding import Destination
from ..messages.message import Message
from ..messages.ports import Timer
from ..queues.enqueue import EnqueueResult
from ..queues.message_log import DELAYED
from ..queues.route_target import RouteTarget, queues_of, without_full
from .emissions import LOOK_SHIFT, LOOKS, deliver, deliver_in_slices, enqueue, enqueue_in_slices, have_room

if TYPE_CHECKING:
    from .vhost import VHost

FORWARD_COST = 3_000  # of a message that is enqueued in one step, and so is either delayed or routed after a power cut


class ExchangeHost(ExchangeContext):
    """A virtual host as the type of one of its exchanges sees it."""

    __slots__ = ("_vhost", "_exchange")

    def __init__(self, vhost: VHost, exchange: Exchange) -> None:
        super().__init__(vhost.clock, exchange.durable, exchange.number)
        self._vhost = vhost
        self._exchange = exchange

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> Timer:
        def run_and_pump() -> None:
            try:
                fn()
            finally:
                self._vhost.pump()

        return self.clock.call_at(when_ms, run_and_pump)

    def start(self, job: Job, appends: bool = True) -> None:
        self._vhost.scheduler.start(f"messages of {self._exchange}", job, appends=appends)

    def emit(self, emissions: Iterable[Emission]) -> None:
        self._vhost.emit(self._exchange, emissions)

    @property
    def emitting(self) -> bool:
        return self._exchange in self._vhost.emitting

    def deliver(self, destinations: Collection[Destination], messages: Collection[Message]) -> EnqueueResult:
        return deliver(self._vhost, destinations, messages)

    def deliver_in_steps(self, destinations: Collection[Destination], messages: Collection[Message]) -> EnqueueSteps:
        return deliver_in_slices(self._vhost, Emission(destinations, messages))

    def destinations_have_room(self, destinations: Collection[Destination], message: Message) -> LookSteps:
        return have_room(self._vhost, destinations, message)

    def forward(self, inner: ExchangeType, keys: tuple[str, ...], message: Message) -> Job:
        published = not message.dead_lettered
        search = self._vhost.search(self._exchange, keys, message, defers=True, first=inner, published=published)
        yield from search.in_steps()
        targets, result, full = search.targets, None, False
        for at in range(0, len(targets), LOOKS):
            some = targets[at : at + LOOKS]
            if with_room := self._with_room(some):
                found = at + some.index(with_room[0])
                if found or len(targets) >= LOOKS:  # it comes first, in this step: later it may be full, too
                    result = enqueue(self._vhost, with_room[:1], [message], DELAYED)
                    targets = targets[:found] + targets[found + 1 :]
                full = False
                break
            full = full or len(queues_of(some)) > 0
            yield LOOKS >> LOOK_SHIFT
        if full:
            raise TryLater(targets)
        yield search.keep()
        recorders = search.recorders
        yield from enqueue_in_slices(self._vhost, targets, [message], DELAYED, FORWARD_COST, recorders, result)

    def peek(self, inner: ExchangeType, keys: tuple[str, ...], message: Message) -> TargetSteps:
        published = not message.dead_lettered
        search = self._vhost.search(self._exchange, keys, message, peeks=True, first=inner, published=published)
        yield from search.in_steps()
        return search.targets

    def has_room(self, targets: tuple[RouteTarget, ...]) -> bool:
        return not queues_of(targets) or len(self._with_room(targets)) > 0

    def _with_room(self, targets: tuple[RouteTarget, ...]) -> tuple[RouteTarget, ...]:
        """Return the queues among the targets that may reject more messages."""
        return without_full(self._vhost.budget, queues_of(targets))

    def store(self, messages: list[Message], durable: bool) -> None:
        numbers = [self.number] if durable and self.number else []
        for message in messages:
            message.persistent = len(numbers) > 0
        self._vhost.journal.append(numbers, messages)

    def read(self, ids: list[int]) -> list[Message | None]:
        messages = self._vhost.journal.read_all(ids, self.number)
        return messages + [None] * (len(ids) - len(messages))

    def drop(self, id_: int, durable: bool) -> None:
        self._vhost.journal.settle(self.number if durable else 0, id_)

    def drop_moved(self, id_: int, durable: bool) -> None:
        self._vhost.journal.settle_moved(self.number if durable else 0, id_)
