"""What a virtual host does for the exchange types in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from ..exchanges.exchange import Exchange
from ..exchanges.exchange_type import Emission
from ..messages.binding import Destination
from ..messages.message import Message, total_bytes
from ..messages.ports import Clock, Timer
from ..queues.enqueue import ACCEPTED, DURABLE, EnqueueResult
from ..queues.message_log import DELAYED
from ..queues.route_target import RouteTarget

if TYPE_CHECKING:
    from .vhost import VHost


class ExchangeHost:
    """What one exchange's type may ask for. `durable` says whether the exchange is."""

    __slots__ = ("home", "durable", "number", "_exchange")

    def __init__(self, home: VHost, exchange: Exchange) -> None:
        self.home = home
        self.durable = exchange.durable
        self.number = exchange.number  # what the journal knows by what is stored; 0: a restart forgets it
        self._exchange = exchange

    @property
    def clock(self) -> Clock:
        return self.home.clock

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> Timer:
        """Call `fn` then, by `clock.now_ms`; what it delivers reaches consumers at once."""

        def due() -> None:
            try:
                fn()
            finally:
                self.home.pump()

        return self.clock.call_at(when_ms, due)

    def deliver(self, destinations: Collection[Destination], messages: Collection[Message]) -> EnqueueResult:
        """Give these messages to each of these destinations, in this order."""
        return deliver(self.home, destinations, messages)

    def forward(self, destinations: list[Destination], keys: tuple[str, ...], message: Message) -> None:
        """Let a message that was kept go where its exchange's type has just routed it by these keys: through exchanges
        too, and to the alternate exchange where there is nothing."""
        home = self.home
        alternate = self._exchange.alternate
        if not destinations and alternate in home.exchanges:
            destinations = [home.exchanges[alternate]]
        found: dict[RouteTarget, None] = {}
        for end in destinations:
            if isinstance(end, Exchange):
                found.update(dict.fromkeys(home.route(end, keys, message)[0]))
            elif isinstance(end, RouteTarget):
                found[end] = None
        if found:
            home.enqueue([message], message.body_bytes, message.persistent, tuple(found), DELAYED)

    # What a type keeps. It says so with `stores`.

    def store(self, messages: list[Message], durable: bool) -> None:
        """Give each its `id` and `place` in the journal, in ascending order; both 0 where nothing is ever stored there.

        Only what is `durable` is there after a restart, whatever its delivery mode. A message must have had no place
        yet: it is one's own copy.
        """
        numbers = [self.number] if durable and self.number else []
        for message in messages:
            message.persistent = len(numbers) > 0
        self.home.journal.append(numbers, messages)

    def read(self, pages: list[tuple[int, int]]) -> list[Message | None]:
        """Stored messages by id and place, which may be others by now; None for one that cannot be read now."""
        messages = self.home.journal.read_all(pages, self.number)
        return messages + [None] * (len(pages) - len(messages))

    def drop_moved(self, id_: int, place: int, durable: bool) -> None:
        """Drop one that was given to queues in this turn, in one step with their copies."""
        self.home.journal.settle_moved(self.number if durable else 0, id_, place)

    def drop(self, id_: int, place: int, durable: bool) -> None:
        """It need not be stored any more. An exchange that is deleted drops all it has."""
        self.home.journal.settle(self.number if durable else 0, id_, place)


def deliver_notices(vhost: VHost, notices: Iterable[Emission]) -> None:
    """What an exchange type has to say."""
    for notice in notices:
        deliver(vhost, notice.destinations, notice.messages)


def runs_alike(messages: list[Message]) -> Iterable[list[Message]]:
    """Split messages where one that has a life stands next to one that has none, which they seldom do."""
    plain = [message.life is None for message in messages]
    if all(plain) or not any(plain):
        return [messages]
    return [list(run) for _, run in groupby(messages, lambda message: message.life is None)]


def deliver(vhost: VHost, destinations: Collection[Destination], messages: Collection[Message]) -> EnqueueResult:
    """Into queues, and through exchanges by the routing key of each message. A queue that is gone gets nothing.

    The messages stay the giver's, who may give them again: what a queue notes in them, it notes in copies.
    """
    if not messages:
        return ACCEPTED
    stored = False
    refused: set[int] = set()
    queues = tuple([end for end in destinations if isinstance(end, RouteTarget) and not end.deleted])
    if queues:
        given = list(messages)
        if any(queue.per_message for queue in queues):
            given = [message.again() for message in given]
        at = 0
        stores = any(queue.number for queue in queues)
        for run in runs_alike(given):
            persistent = stores and True in [message.persistent for message in run]
            receipt = vhost.enqueue(run, total_bytes(run), persistent, queues)
            stored = stored or receipt.stored
            refused |= {at + index for index in receipt.refused}
            at += len(run)
    for end in destinations:
        if isinstance(end, Exchange):
            for index, message in enumerate(messages):
                found = vhost.route(end, (message.address.routing_key,), message)[0]
                receipt = vhost.enqueue([message.again()], message.body_bytes, message.persistent, found)
                stored = stored or receipt.stored
                refused |= {index} if receipt.refused else set()
    if refused:
        return EnqueueResult(stored, frozenset(refused))
    return DURABLE if stored else ACCEPTED
