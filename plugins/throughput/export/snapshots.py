"""Snapshots: the lengths of all queues at one moment, in exact agreement with the records.

Queues are read in slices before that moment; in the snapshot's own turn of the loop, only those that have changed
since are read again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from warren.broker.core.queues.message_log import MessageLog, Origin
from warren.broker.core.vhost.observer import Observer
from warren.broker.plugin import Message, Node, Queue

from ..file_format import schema
from .record_buffer import RecordBuffer, escape_text

SLICE = 500  # queues that are read or made into rows in one turn of the loop: some milliseconds
PASSES = 5  # over queues that have changed since they were read, each much shorter than the previous one


class Reading(NamedTuple):
    """The counts of one queue."""

    queue: Queue
    ready: int
    unacked: int
    ready_bytes: int
    unacked_bytes: int
    published: int
    delivered: int
    redelivered: int
    acked: int
    recovered: int  # if no client has been served yet


class Changed:
    """The queues that changed during the preparation of a snapshot; `queues` is None at any other time."""

    __slots__ = ("queues",)

    def __init__(self) -> None:
        self.queues: set[Queue] | None = None

    def add(self, queue: Queue) -> None:
        if self.queues is not None:
            self.queues.add(queue)


class ChangeLog(MessageLog):
    """A log of messages that only notes which queues have changed.

    It is attached before the recorder, while the first snapshot is prepared.
    """

    __slots__ = ("_changed",)

    def __init__(self, changed: Changed) -> None:
        self._changed = changed

    def enqueued(self, queues: tuple[Queue, ...], messages: list[Message], source: str) -> None:
        for queue in queues:
            self._changed.add(queue)

    def delivered(
        self,
        origin: Origin,
        tag: str,
        queue: Queue,
        messages: list[Message],
        position: int,
        step: int,
        redelivered: bool,
        no_ack: bool,
    ) -> None:
        self._changed.add(queue)

    def acked(self, origin: Origin, tag: str, queue: Queue, messages: list[Message]) -> None:
        self._changed.add(queue)

    def refused(self, origin: Origin, tag: str, queue: Queue, message: Message) -> None:
        self._changed.add(queue)

    def requeued(self, queue: Queue, message: Message, reason: str) -> None:
        self._changed.add(queue)

    def left(self, queue: Queue, messages: list[Message], reason: str) -> None:
        self._changed.add(queue)

    def left_paged(self, queue: Queue, seqs: list[int], average_bytes: int, reason: str) -> None:
        self._changed.add(queue)

    def cleared(self, queue: Queue) -> None:
        self._changed.add(queue)


class Utilisation:
    """The consumer utilisation of queues: the share of samples in which a queue could deliver at once."""

    def __init__(self) -> None:
        self._looks: dict[Queue, tuple[int, int]] = {}  # all samples, and those in which it could deliver

    def look(self, queues: Iterable[Queue]) -> None:
        for queue in queues:
            if len(queue.consumers):
                looks, ready = self._looks.get(queue, (0, 0))
                self._looks[queue] = (looks + 1, ready + queue.consumers.any_ready())

    def take(self) -> dict[Queue, tuple[int, int]]:
        """Take the counts of samples, and of those in which the queue could deliver, of queues with consumers."""
        looks, self._looks = self._looks, {}
        return looks


class Snapshots(Observer):
    """Snapshots of the queues in the virtual hosts that are exported.

    `prepare` and then `take` make one. It includes deleted queues whose consumers still have messages.
    """

    def __init__(
        self, node: Node, buffer: RecordBuffer, sample_rate: float, changed: Changed, stored: bool = True
    ) -> None:
        """`stored`: whether the broker stores messages at all."""
        self._stored = stored
        self.utilisation = Utilisation()
        self._node = node
        self._buffer = buffer
        self._sample_rate = sample_rate
        self._changed = changed
        self._readings: dict[Queue, Reading] = {}
        self._deleted: list[Queue] = []
        self._number = 0

    def queues(self) -> list[Queue]:
        """Return all queues."""
        queues: list[Queue] = []
        for vhost in self._node.vhosts.values():
            if vhost.message_log is not None:
                queues += vhost.queues.values()
                queues += vhost.volatile.values()
        return queues

    def queue_declared(self, queue: Queue) -> None:
        if queue.host.message_log is not None:
            self._changed.add(queue)

    def queue_deleted(self, queue: Queue) -> None:
        self._changed.add(queue)
        if queue.unacked and queue.host.message_log is not None:
            self._deleted.append(queue)

    def prepare(self) -> Iterator[None]:
        """Read all queues in slices, then those that changed meanwhile, fewer each time."""
        changed: set[Queue] = set()
        self._readings = {}
        self._changed.queues = changed
        queues = self.queues()
        while queues:
            for queue in queues[-SLICE:]:
                self._read(queue)
            del queues[-SLICE:]
            yield
        for _ in range(PASSES):
            if len(changed) <= SLICE:
                break
            for _ in range(len(changed) // SLICE):
                for queue in [changed.pop() for _ in range(min(SLICE, len(changed)))]:
                    self._read(queue)
                yield

    def take(self, kind: str) -> Snapshot:
        """Return a snapshot of this moment, which must have been prepared."""
        number, self._number = self._number, self._number + 1
        for queue in self._changed.queues or ():
            self._read(queue)
        self._changed.queues = None
        readings, self._readings = self._readings, {}
        self._deleted = [queue for queue in self._deleted if queue.unacked]
        first: dict[tuple[str, str], Queue] = {}  # the first of deleted queues with equal names
        for queue in self._deleted:
            name = queue.vhost, queue.name
            vhost = self._node.vhosts.get(queue.vhost)
            namesake = vhost.queues.get(queue.name) if vhost is not None else None
            other = readings.get(namesake or first.setdefault(name, queue))
            if other is None:
                readings[queue] = reading(queue)
            else:  # another queue has its name now
                readings[other.queue] = with_unacked(other, queue)
        head: dict[str, object] = {
            "ts_us": time.time_ns() // 1000,
            "mono_ns": time.monotonic_ns(),
            "snapshot": number,
            "kind": kind,
            "row": self._buffer.row,
            "lost_records": self._buffer.lost,
            "sample_rate": self._sample_rate,
        }
        return Snapshot(head, readings, self.utilisation.take(), self._stored)

    def _read(self, queue: Queue) -> None:
        if queue.deleted:
            self._readings.pop(queue, None)
        else:
            self._readings[queue] = reading(queue)


class Snapshot:
    """The readings of one moment by queue, from which the rows of `schema.QUEUE_STATS` are made later."""

    def __init__(
        self,
        head: dict[str, object],
        readings: dict[Queue, Reading],
        looks: dict[Queue, tuple[int, int]],
        stored: bool,
    ) -> None:
        self._stored = stored
        self._head = head
        self._readings = readings
        self._looks = looks
        self._count = len(readings)

    def slices(self) -> Iterator[list[dict[str, object]]]:
        """Yield all rows in slices, and finally the closing row. The readings are used up."""
        while self._readings:
            some = min(SLICE, len(self._readings))
            yield [self._row(self._readings.popitem()[1]) for _ in range(some)]
        yield [self._head | {"queues": self._count}]

    def _row(self, one: Reading) -> dict[str, object]:
        queue = one.queue
        looks, could = self._looks.get(queue, (0, 0))
        return self._head | {
            "vhost": escape_text(queue.vhost),
            "queue": escape_text(queue.name),
            "queue_type": queue.settings.type,
            "durable": queue.durable and self._stored and not queue.deleted,
            "ready": one.ready,
            "unacked": one.unacked,
            "ready_bytes": one.ready_bytes,
            "unacked_bytes": one.unacked_bytes,
            "consumers": len(queue.consumers),
            "prefetch": prefetch(queue),
            "utilisation": could / looks if looks else None,
            "published": one.published,
            "delivered": one.delivered,
            "redelivered": one.redelivered,
            "acked": one.acked,
            "recovered": one.recovered if self._head["kind"] == schema.START else None,
        }


def reading(queue: Queue) -> Reading:
    counted, entered = queue.delivering, queue.published
    return Reading(
        queue, queue.ready, queue.unacked, queue.ready_bytes, queue.unacked_bytes, entered,
        counted.deliver_get, counted.redeliver, counted.ack,
        queue.ready + queue.unacked + queue.expired + queue.dropped - entered,
    )  # fmt: skip


def with_unacked(one: Reading, deleted: Queue) -> Reading:
    """Add the unacknowledged messages of a deleted queue of the same name to a reading."""
    return one._replace(unacked=one.unacked + deleted.unacked, unacked_bytes=one.unacked_bytes + deleted.unacked_bytes)


def prefetch(queue: Queue) -> int | None:
    """Return the sum of its consumers' prefetches; None if one has no limit, or there is no consumer."""
    limits = [getattr(consumer, "prefetch", 0) for consumer in queue.consumers.all() if not consumer.no_ack]
    return sum(limits) if limits and all(limits) else None
