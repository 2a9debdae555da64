"""Queues without a node, publishing to them, and a consumer that records deliveries."""

from typing import Any

import pytest

from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.access.users import Users
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.exchanges.router import Search
from warren.broker.core.jobs.scheduler import Scheduler
from warren.broker.core.messages.clock import Clock
from warren.broker.core.messages.journal_port import Journal
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.node.node import Node
from warren.broker.core.queues import dead_letter_budget, dead_lettering
from warren.broker.core.queues import ready_messages as ready_messages_module
from warren.broker.core.queues.chunks import Packed, Resident, Stored
from warren.broker.core.queues.consumers import Consumer
from warren.broker.core.queues.dead_lettering import DeadLetterOutbox
from warren.broker.core.queues.ledger import Ledger
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.queue_host import HostedQueue, QueueHost
from warren.broker.core.queues.ready_messages import Fifo
from warren.broker.core.queues.sorted_rows import Row
from warren.broker.core.vhost.vhost import VHost

from .clock import FakeClock
from .session import SlowJournal

ADDRESS = RoutingAddress("", "q")
UNLIMITED_BYTES = 1 << 62
Delivery = tuple[str, int, Message, bool]  # consumer, position, message, redelivered


def message(body_bytes: int = 10, persistent: bool = True, frames: bytes = b"") -> Message:
    return Message(ADDRESS, frames, 0, body_bytes, 0, persistent)


def new_queue(
    kind: type[Queue] = Queue,
    number: int = 1,
    journal: SlowJournal | None = None,
    ledger: Ledger | None = None,
    arguments: Table = Table.EMPTY,
) -> Queue:
    """A queue, which is durable unless its number is 0."""
    clock = FakeClock()
    journal = journal or SlowJournal()
    scheduler = Scheduler(clock, journal)
    home = NoVHost("/", clock, journal, ledger or Ledger(UNLIMITED_BYTES), scheduler)
    queue = kind(home, f"q{number}", number=number, arguments=arguments)
    queue.outbox = NotingOutbox(queue, home.dead)
    return queue


class NotingOutbox(DeadLetterOutbox):
    """An outbox that records the messages to be dead-lettered."""

    def __init__(self, queue: Queue, dead: list[tuple[Message, str]]) -> None:
        super().__init__(queue)
        self.dead = dead

    def publish(self, messages: list[Message], reason: str, cost_limit: int) -> tuple[int, int]:
        self.dead += [(each, reason) for each in messages]
        return len(messages), len(messages)


class NoVHost(QueueHost):
    """A queue host that records the requests of its queues."""

    def __init__(self, name: str, clock: Clock, journal: Journal, ledger: Ledger, scheduler: Scheduler) -> None:
        super().__init__(name, clock, journal, ledger, scheduler)
        self.dead: list[tuple[Message, str]] = []
        self.over: list[HostedQueue] = []

    def delete_expired(self, queue: HostedQueue) -> None:
        self.over.append(queue)


def enqueue(messages: list[Message], *queues: Queue) -> None:
    """Publish to queues of one journal."""
    vhost = VHost("/", Node("test", "test", FakeClock(), queues[0].host.journal, Users(frozenset())).services)
    body_bytes = sum(each.body_bytes for each in messages)
    vhost.enqueue(messages, body_bytes, any(each.persistent for each in messages), queues)


def ready_messages(queue: Queue) -> list[Message]:
    """Return the ready messages of a queue, which are too few to be packed, in their order."""
    ready: list[Message] = []
    for fifo in queue.ready_messages.all:
        assert not fifo.chunks.count
        ready += held_by(fifo)[0]
    return ready


def held_by(fifo: Fifo) -> tuple[list[Message], int]:
    """Return the messages of a fifo in memory, in their order, and the bytes that are saved as some are packed."""
    held = [message for _, message, _ in sorted(fifo.requeued.heap)] if fifo.requeued is not None else []
    held += fifo.fresh
    for chunk in fifo.chunks._chunks:
        if isinstance(chunk, Packed):
            held += chunk.unpack()
        elif isinstance(chunk, Resident):
            held += chunk.messages
    return held + fifo.chunks._last, sum(chunk.saved_bytes for chunk in fifo.chunks._chunks)


def stored_ids(fifo: Fifo) -> list[int]:
    """Return the ids of the messages of a fifo that the journal alone has, but for those that could not be read."""
    ids = [id_ for chunk in fifo.chunks._chunks if isinstance(chunk, Stored) for id_ in chunk.peek(chunk.count)]
    return ids + [values[1] for _, values, _ in rows_of(fifo)]


def rows_of(fifo: Fifo) -> list[Row]:
    """Return the rows of requeued messages of a fifo that the journal alone has."""
    requeued = fifo.requeued
    return list(requeued.rows) if requeued is not None else []


def limit_dead_letters(monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
    """Replace limits of the dead letters that wait, by their names in `dead_lettering`; without others for a user."""
    for module in (dead_lettering, ready_messages_module):
        monkeypatch.setattr(module, "FEW_BYTES", 0)
    for name, limit in ({"USER_BYTES": 0} | limits).items():
        for module in (dead_lettering, dead_letter_budget):
            monkeypatch.setattr(module, name, limit, raising=module is dead_lettering)


def journal_of(queue: Queue) -> SlowJournal:
    journal: Journal = queue.host.journal
    assert isinstance(journal, SlowJournal)
    return journal


class Taker(Consumer):
    """A consumer that records deliveries. `credit` is the number of further messages it accepts."""

    def __init__(self, name: str, queue: Queue, line: list[Delivery], no_ack: bool, priority: int, credit: int) -> None:
        super().__init__(name, line, no_ack, False, priority)
        self.queue = queue
        self.log = line
        self.credit = credit

    def room(self, body_bytes: int) -> int:
        return self.credit

    def deliver(self, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        assert 0 < len(messages) <= self.credit
        self.credit -= len(messages)
        for index, each in enumerate(messages):
            self.log.append((self.tag, position + index * step, each, redelivered))


class OutboxWatcher(Taker):
    """A consumer that takes everything, and records how many dead letters wait in an outbox meanwhile."""

    def __init__(self, queue: Queue, outbox: dead_lettering.DeadLetterOutbox) -> None:
        super().__init__("watcher", queue, [], True, 0, 1_000_000)
        self.outbox = outbox
        self.longest = 0
        self.count = 0
        queue.add_consumer(self)

    def deliver(self, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        self.count += len(messages)
        self.longest = max(self.longest, len(self.outbox))


def publish(vhost: VHost, exchange: str, key: str, body: bytes, **properties: Any) -> int:
    """Publish a message; return the number of queues that get it."""
    message = framed(RoutingAddress(exchange, key), Properties(**properties), body)
    targets = routed(vhost, vhost.exchanges[exchange], (key,), message).targets
    if targets:
        vhost.enqueue([message], len(body), message.persistent, targets)
    return len(targets)


def taken(queue: Queue) -> list[Message]:
    """Take all ready messages of a queue."""
    messages = []
    while (got := queue.get(True)) is not None:
        messages.append(got[1])
    return messages


def routed(vhost: VHost, exchange: Exchange, keys: tuple[str, ...], message: Message | None) -> Search:
    """Search for the targets of a message with these keys."""
    search = vhost.search(exchange, keys, message)
    search.run()
    return search
