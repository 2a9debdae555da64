"""Checks of the numbers that a process counts against the objects that it holds, and a message log that counts too."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tests.support.queues import held_by, rows_of, stored_ids
from warren.broker.core.counters.statistics import DeliveryCounters
from warren.broker.core.messages.message import (
    PAGE_BYTES,
    Message,
    SharedMessage,
    ShedMessage,
    header_bytes_of,
    total_bytes,
)
from warren.broker.core.node.node import Node
from warren.broker.core.queues.ledger import Ledger as MemoryLedger
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.traffic_log import Origin, TrafficLog
from warren.broker.core.vhost.vhost import VHost
from warren.broker.session.channel import Channel
from warren.broker.session.connection import Connection

if TYPE_CHECKING:
    from tests.faults.simulation.brokers.broker import Process


class Tee(TrafficLog):
    """A message log that passes each call to all of `logs`."""

    __slots__ = ("logs",)

    def __init__(self, *logs: TrafficLog) -> None:
        self.logs = logs

    def needs_content(self, tag: str, queue: Queue) -> bool:
        return any(log.needs_content(tag, queue) for log in self.logs)


def _call_each(name: str) -> Callable[..., None]:
    def call(tee: Tee, *arguments: Any, **named: Any) -> None:
        for log in tee.logs:
            getattr(log, name)(*arguments, **named)

    return call


for _name in [name for name in vars(TrafficLog) if not name.startswith("_") and name not in vars(Tee)]:
    setattr(Tee, _name, _call_each(_name))


class Ledger(TrafficLog):
    """A message log that counts the messages in each queue by what happens to them, beside the one that there is.

    counts      messages in each queue
    deliveries  from each queue, in the fields of its own counters
    """

    __slots__ = ("counts", "deliveries")

    def __init__(self, vhost: VHost) -> None:
        self.counts = Counter({queue: queue.ready for queue in vhost.queues.values()})
        self.deliveries: defaultdict[Queue, DeliveryCounters] = defaultdict(DeliveryCounters)
        vhost.traffic_log = self if vhost.traffic_log is None else Tee(vhost.traffic_log, self)

    def enqueued(self, queues: tuple[Queue, ...], messages: list[Message], source: str) -> None:
        for queue in queues:
            self.counts[queue] += len(messages)

    def delivered(
        self, origin: Origin, tag: str, queue: Queue, messages: list[Message], position: int, step: int,
        redelivered: bool, no_ack: bool,
    ) -> None:  # fmt: skip
        self.counts[queue] -= len(messages) if no_ack else 0
        if tag:
            self.deliveries[queue].delivered(len(messages), no_ack, redelivered)
        else:
            self.deliveries[queue].got(no_ack, redelivered)

    def settled(self, origin: Origin, tag: str, queue: Queue, messages: list[Message], acked: bool) -> None:
        if acked:
            self.counts[queue] -= len(messages)
            self.deliveries[queue].acked(len(messages))

    def left(self, queue: Queue, messages: list[Message], reason: str) -> None:
        self.counts[queue] -= len(messages)


def check_accounts(process: Process) -> None:
    """Compare counters with objects, the message log with both, and the memory that is counted with what is held."""
    node = process.node
    if len(node.scheduler):
        return  # work is under way
    connections = process.server.connections.values()
    check_census(node, connections)
    out = check_ledger(node, [channel for connection in connections for channel in connection.channels.values()])
    for queue in process.vhost.queues.values():
        assert queue.unacked == out[queue], f"{queue} counts {queue.unacked} unacknowledged, channels have {out[queue]}"
        held = sum(len(fifo) for fifo in queue.ready_messages.all)
        assert queue.ready == held, f"{queue} counts {queue.ready} ready messages and has {held}"
        unread = queue.ready_messages.unread_count
        logged, kept = process.ledger.counts[queue], queue.ready + queue.unacked + unread
        assert logged == kept, f"{queue} has {kept} messages, and {logged} by the message log"
        counted, listed = queue.delivering.values(), process.ledger.deliveries[queue].values()
        assert counted == listed, f"{queue} counts deliveries {counted}, the message log {listed}"


def check_census(node: Node, connections: Iterable[Connection]) -> None:
    """Compare the numbers of open connections and channels, by virtual host and by user, with those there are."""
    census, running = node.connection_counts, [each for each in connections if each.vhost is not None]
    channels = [channel for each in running for channel in each.channels.values() if channel._counted]
    holders = [holder for holder in node.shedding.holders if isinstance(holder, Channel)]
    channels += [channel for channel in holders if not channel.user.account]  # those of links
    counted = census._vhosts, census._users, census._channels, census.channels
    there = (
        Counter(each.vhost_name for each in running),
        Counter(each.user.account for each in running if each.user is not None),
        Counter(channel.user.account for channel in channels),
        len(channels),
    )
    assert counted == there, f"connections by virtual host and user, and channels: {counted} counted, {there} there"


def check_ledger(node: Node, channels: Iterable[Channel]) -> Counter[Queue]:
    """Compare the memory that is counted with what queues and all channels hold; return what is unacknowledged."""
    ledger = node.ledger
    out: Counter[Queue] = Counter()
    shed: Counter[Queue] = Counter()
    unacked_bytes = rows = 0
    shared: set[SharedMessage] = set()
    for channel in channels:
        entries = channel.unacked.values()
        if channel.transaction is not None:
            entries += [entry for _, entry, _ in channel.transaction.settlements]
        messages = [entry[3] for entry in entries if not isinstance(entry[3], ShedMessage)]
        out.update(entry[0] for entry in entries)
        shed.update(entry[0] for entry in entries if isinstance(entry[3], ShedMessage))
        unacked_bytes += bytes_of(messages, MemoryLedger.UNACKED)
        shared |= shared_of(messages)
    for vhost in node.vhosts.values():
        for queue in vhost.queues.values():
            assert queue.shed == shed[queue], f"{queue} counts {queue.shed} shed messages, channels have {shed[queue]}"
            rows += sum(len(rows_of(fifo)) for fifo in queue.ready_messages.all) + queue.ready_messages.unread_count
            for fifo in queue.ready_messages.all:
                shared |= shared_of(held_by(fifo)[0])
            shared |= shared_of(dead_letters(queue))
    shared_bytes = sum(ledger.ALONE + (0 if message.origin else len(message.frames)) for message in shared)
    shared_bytes += sum(PAGE_BYTES * len(message.pages or ()) for message in shared)
    counted = ledger.ready_bytes, ledger.unacked_bytes, ledger.shed_bytes, ledger.shared.total
    holds = resident_bytes(node), unacked_bytes, (shed.total() + rows) * ledger.SHED, shared_bytes
    assert counted == holds, (
        f"bytes of ready, unacknowledged, shed and shared messages: {counted} counted, {holds} held"
    )
    return out


def dead_letters(queue: Queue) -> list[Message]:
    """Return the messages that wait to be dead-lettered by a queue, and the dead letters that were made of some."""
    outbox = queue.outbox
    letters = [*outbox.forwarded, *outbox.unconfirmed] + ([outbox._first] if outbox._first is not None else [])
    made = [message for letter in letters for message in (letter.message, letter.copy)]
    return [message for message, _, _ in outbox.waiting] + made


def bytes_of(messages: list[Message], each_bytes: int = MemoryLedger.OVERHEAD) -> int:
    """Return what the ledger counts for these messages in memory, beside those of several queues together."""
    own = [message for message in messages if not isinstance(message, SharedMessage)]
    entries = len(messages) - len(own)
    return total_bytes(own) + header_bytes_of(own) + each_bytes * len(own) + MemoryLedger.ENTRY * entries


def shared_of(messages: list[Message]) -> set[SharedMessage]:
    """Return messages of several queues, those of which some are copies, and these copies, each once."""
    shared = {message for message in messages if isinstance(message, SharedMessage)}
    return shared | {message.origin for message in shared if message.origin is not None}


def resident_bytes(node: Node) -> int:
    """Return the memory of ready messages, as the ledger estimates it."""
    total = 0
    for vhost in node.vhosts.values():
        for queue in vhost.queues.values():
            for fifo in queue.ready_messages.all:
                held, saved_bytes = held_by(fifo)
                assert len(held) == fifo.resident and len(stored_ids(fifo)) == fifo.paged_count
                total += bytes_of(held) - saved_bytes
    return total
