"""The services of a virtual host for the exchange types in it: delivery, timers, storage."""

from collections.abc import Callable, Collection, Generator, Iterable

from ..exchanges.exchange import Exchange
from ..exchanges.exchange_context import Emission, EnqueueSteps, ExchangeContext, LookSteps, RoomSteps, TryLater
from ..exchanges.router import SEARCH_COST, Search
from ..jobs.long_routes import SHORT_BYTES, TARGET_BYTES, Place
from ..jobs.scheduler import SUSPENDED, Job
from ..messages.binding import Destination
from ..messages.clock import Timer
from ..messages.message import Message
from ..queues.route_target import EnqueueResult, Targets, queues_of, without_full
from ..queues.traffic_log import DELAYED
from .emissions import (
    LOOK_SHIFT,
    LOOKS,
    EmissionHost,
    deliver,
    deliver_in_slices,
    enqueue,
    enqueue_in_slices,
    have_room,
)

READING_BYTES = 64 << 10  # of messages that are read to be released, before they are read
FORWARD_COST = 3_000  # of a message that is enqueued in one step, and so is either delayed or routed after a power cut


class ExchangeHost(ExchangeContext):
    """A virtual host as the type of one of its exchanges sees it."""

    __slots__ = ("clock", "durable", "number", "_vhost", "_exchange")

    def __init__(self, vhost: EmissionHost, exchange: Exchange) -> None:
        self.clock, self.durable, self.number = vhost.clock, exchange.durable, exchange.number
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
        return deliver_in_slices(self._vhost, destinations, messages)

    def destinations_have_room(self, destinations: Collection[Destination], message: Message) -> RoomSteps:
        return have_room(self._vhost, destinations, message)

    def forward(self, keys: tuple[str, ...], message: Message) -> Job:
        search, short = self._begin(keys, message)
        if short:
            yield search.cost
            yield from self._forward(search, message)
            return
        place = self._new_place(message)
        try:
            search = yield from self._search(place, search, keys, message)
            steps = self._forward(search, message)
            if place.held or not self._vhost.scheduler.finishing:
                yield from steps
            else:
                yield sum(steps)
        finally:
            self._vhost.ledger.long_routes.end(place)

    def look(self, keys: tuple[str, ...], message: Message) -> LookSteps:
        place = self._new_place(message)
        try:
            search, short = self._begin(keys, message, peeks=True)
            if short:
                yield search.cost
            else:
                search = yield from self._search(place, search, keys, message, peeks=True)
            queues = queues_of(search.targets)
            room = not queues
            for at in range(0, len(queues), LOOKS):
                room = room or self.has_room(queues[at : at + LOOKS])
                yield LOOKS >> LOOK_SHIFT
            return queues, room
        finally:
            self._vhost.ledger.long_routes.end(place)

    def _new_place(self, message: Message) -> Place:
        return Place(self._vhost.route_bytes + len(message.frames), str(self._exchange))

    def _begin(self, keys: tuple[str, ...], message: Message, peeks: bool = False) -> tuple[Search, bool]:
        """Return the search for the targets of a message after its first step, and whether it needs no place.

        It needs one if it is not complete, or its targets are many.
        """
        search = self._new_search(keys, message, peeks)
        complete = search.run(SEARCH_COST)
        count = len(search.targets)
        return search, complete and (count < 2 or count * TARGET_BYTES + len(message.frames) <= SHORT_BYTES)

    def _new_search(self, keys: tuple[str, ...], message: Message, peeks: bool) -> Search:
        exchange, published = self._exchange, not message.dead_lettered
        return self._vhost.search(exchange, keys, message, peeks, not peeks, exchange.type.undelayed, published)

    def _search(
        self, place: Place, search: Search, keys: tuple[str, ...], message: Message, peeks: bool = False
    ) -> Generator[int, None, Search]:
        """Go on with a search, and return it. Without a place, it waits for that, and begins again.

        At a stop it does not wait, and is made in one step.
        """
        vhost, scheduler = self._vhost, self._vhost.scheduler
        if not vhost.ledger.long_routes.begin(place, scheduler.suspend()):
            search.stop()
            scheduler.charge(search.cost)
            search.targets = ()
            while not (place.held or scheduler.finishing):
                yield SUSPENDED
            search = self._new_search(keys, message, peeks)
            if not place.held:
                search.run()
        yield search.cost
        yield from search.in_steps()
        return search

    def _forward(self, search: Search, message: Message) -> Job:
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

    def has_room(self, targets: Targets) -> bool:
        return not queues_of(targets) or len(self._with_room(targets)) > 0

    def _with_room(self, targets: Targets) -> Targets:
        """Return the queues among the targets that may reject more messages."""
        return without_full(self._vhost.ledger, queues_of(targets))

    def store(self, messages: list[Message], durable: bool) -> None:
        numbers = [self.number] if durable and self.number else []
        for message in messages:
            message.persistent = len(numbers) > 0
        self._vhost.journal.append(numbers, messages)

    def begin_reading(self) -> Generator[int, None, Place]:
        readings, scheduler = self._vhost.ledger.readings, self._vhost.scheduler
        place = Place(READING_BYTES, str(self._exchange))
        while not readings.begin(place, scheduler.suspend()):
            while not (place.held or scheduler.finishing):
                yield SUSPENDED
            if scheduler.finishing or not readings.full:
                break
            readings.end(place)  # others that were called at the same time have read so much
        return place

    def has_read(self, place: Place, read_bytes: int) -> None:
        self._vhost.ledger.readings.grow(place, read_bytes)

    def end_reading(self, place: Place) -> None:
        self._vhost.ledger.readings.end(place)

    def read(self, ids: list[int]) -> list[Message | None]:
        messages = self._vhost.journal.read_all(ids, self.number)
        return messages + [None] * (len(ids) - len(messages))

    def drop(self, id_: int, durable: bool) -> None:
        self._vhost.journal.settle(self.number if durable else 0, id_)

    def drop_moved(self, id_: int, durable: bool) -> None:
        self._vhost.journal.settle_moved(self.number if durable else 0, id_)
