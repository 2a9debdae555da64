"""The services of a virtual host for the exchange types in it: delivery, timers, storage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from ..exchanges.exchange import Exchange
from ..exchanges.exchange_context import ExchangeContext
from ..exchanges.exchange_type import Emission
from ..messages.binding import Destination
from ..messages.message import Message, total_bytes
from ..messages.ports import Timer
from ..queues.enqueue import ACCEPTED, DURABLE, EnqueueResult
from ..queues.message_log import DELAYED
from ..queues.route_target import RouteTarget

if TYPE_CHECKING:
    from .vhost import VHost


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

    def deliver(self, destinations: Collection[Destination], messages: Collection[Message]) -> EnqueueResult:
        return deliver(self._vhost, destinations, messages)

    def forward(self, destinations: list[Destination], keys: tuple[str, ...], message: Message) -> None:
        vhost = self._vhost
        alternate = self._exchange.alternate
        if not destinations and alternate in vhost.exchanges:
            destinations = [vhost.exchanges[alternate]]
        targets: dict[RouteTarget, None] = {}
        for destination in destinations:
            if isinstance(destination, Exchange):
                targets.update(dict.fromkeys(vhost.route(destination, keys, message)[0]))
            elif isinstance(destination, RouteTarget):
                targets[destination] = None
        if targets:
            vhost.enqueue([message], message.body_bytes, message.persistent, tuple(targets), DELAYED)

    def store(self, messages: list[Message], durable: bool) -> None:
        numbers = [self.number] if durable and self.number else []
        for message in messages:
            message.persistent = len(numbers) > 0
        self._vhost.journal.append(numbers, messages)

    def read(self, pages: list[tuple[int, int]]) -> list[Message | None]:
        messages = self._vhost.journal.read_all(pages, self.number)
        return messages + [None] * (len(pages) - len(messages))

    def drop(self, id_: int, location: int, durable: bool) -> None:
        self._vhost.journal.settle(self.number if durable else 0, id_, location)

    def drop_moved(self, id_: int, location: int, durable: bool) -> None:
        self._vhost.journal.settle_moved(self.number if durable else 0, id_, location)


def deliver_emissions(vhost: VHost, emissions: Iterable[Emission]) -> None:
    """Enqueue the messages that an exchange type emits for a binding."""
    for emission in emissions:
        deliver(vhost, emission.destinations, emission.messages)


def runs_alike(messages: list[Message]) -> Iterable[list[Message]]:
    """Split messages into runs of those that have a per-queue state and those that have none."""
    plain = [message.state is None for message in messages]
    if all(plain) or not any(plain):
        return [messages]
    return [list(run) for _, run in groupby(messages, lambda message: message.state is None)]


def deliver(vhost: VHost, destinations: Collection[Destination], messages: Collection[Message]) -> EnqueueResult:
    """Enqueue messages at queues, and through exchanges by the routing key of each. Deleted queues are skipped.

    The messages remain the caller's: queues change only copies of them.
    """
    if not messages:
        return ACCEPTED
    stored = False
    refused: set[int] = set()
    queues = tuple([one for one in destinations if isinstance(one, RouteTarget) and not one.deleted])
    if queues:
        given = list(messages)
        if any(queue.per_message for queue in queues):
            given = [message.copy_for_queue() for message in given]
        at = 0
        stores = any(queue.number for queue in queues)
        for run in runs_alike(given):
            persistent = stores and True in [message.persistent for message in run]
            receipt = vhost.enqueue(run, total_bytes(run), persistent, queues)
            stored = stored or receipt.stored
            refused |= {at + index for index in receipt.refused}
            at += len(run)
    for destination in destinations:
        if isinstance(destination, Exchange):
            for index, message in enumerate(messages):
                found = vhost.route(destination, (message.address.routing_key,), message)[0]
                receipt = vhost.enqueue([message.copy_for_queue()], message.body_bytes, message.persistent, found)
                stored = stored or receipt.stored
                refused |= {index} if receipt.refused else set()
    if refused:
        return EnqueueResult(stored, frozenset(refused))
    return DURABLE if stored else ACCEPTED
