"""Snapshots: the lengths of all queues at one moment, in exact agreement with the records.

Queues are read in slices before that moment; in the snapshot's own turn of the loop, only those that have changed
since are read again. The readings are packed as they are sent to the writer: a few bytes for each queue instead of
objects, which the garbage collector would visit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import msgspec

from warren.broker.core.queues.queue_settings import NONE
from warren.broker.core.queues.traffic_log import LoggedQueue, Origin, TrafficLog
from warren.broker.core.vhost.observer import Observer
from warren.broker.plugin import Message, Node, Queue

from .pipe_format import COUNTS, DETAILS, READING, SNAPSHOT_HEAD, SNAPSHOT_KINDS
from .record_buffer import RecordBuffer, escape_text

SLICE = 250  # queues, or consumers, that are read in one turn of the loop: about a millisecond
PASSES = 5  # passes over changed queues, each much shorter than the previous one
Described = tuple[str, str, str, bool, bool]
"""Virtual host, name and type of a queue, whether it is durable, and whether messages wait in it by design."""
SEEN = 1 << 32  # one sample of a queue's utilisation; the lower half counts samples in which it could deliver


class Readings:
    """The packed counts of queues, each at a slot."""

    __slots__ = ("queues", "_slots", "_packed")

    def __init__(self) -> None:
        self.queues: list[Queue | None] = []  # None for a deleted queue
        self._slots: dict[Queue, int] = {}
        self._packed = bytearray()

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, queue: Queue) -> bool:
        return queue in self._slots

    def read(self, queue: Queue) -> None:
        """Read a queue for the first time or again."""
        slot = self._slots.get(queue)
        if slot is None:
            slot = self._slots[queue] = len(self.queues)
            self.queues.append(queue)
            self._packed += bytes(READING.size)
        counted, ready, unacked, entered = queue.delivering, queue.ready, queue.unacked, queue.published
        COUNTS.pack_into(
            self._packed, slot * READING.size, ready, unacked, queue.ready_bytes, queue.unacked_bytes,
            entered, counted.deliver_get, counted.redeliver, counted.ack,
            ready + unacked + queue.expired + queue.dropped - entered,
        )  # fmt: skip

    def remove(self, queue: Queue) -> None:
        slot = self._slots.pop(queue, None)
        if slot is not None:
            self.queues[slot] = None

    def add_unacked(self, queue: Queue, deleted: Queue) -> None:
        """Add the unacknowledged messages of a deleted queue to the reading of another one of the same name."""
        at = self._slots[queue] * READING.size
        ready, unacked, ready_bytes, unacked_bytes, *counters = COUNTS.unpack_from(self._packed, at)
        unacked, unacked_bytes = unacked + deleted.unacked, unacked_bytes + deleted.unacked_bytes
        COUNTS.pack_into(self._packed, at, ready, unacked, ready_bytes, unacked_bytes, *counters)

    def packed(self, slot: int) -> memoryview:
        """Return one reading, whose fields after COUNTS are 0."""
        return memoryview(self._packed)[slot * READING.size : (slot + 1) * READING.size]


class ChangedQueues:
    """The queues that changed during the preparation of a snapshot; `queues` is None at any other time."""

    __slots__ = ("queues",)

    def __init__(self) -> None:
        self.queues: set[LoggedQueue] | None = None

    def add(self, queue: LoggedQueue) -> None:
        if self.queues is not None:
            self.queues.add(queue)


class ChangeLog(TrafficLog):
    """A log of messages that only notes the changed queues.

    It is attached before the recorder, while the first snapshot is prepared.
    """

    __slots__ = ("_changed",)

    def __init__(self, changed: ChangedQueues) -> None:
        self._changed = changed

    def enqueued(self, queues: Sequence[LoggedQueue], messages: list[Message], source: str) -> None:
        for queue in queues:
            self._changed.add(queue)

    def delivered(
        self,
        origin: Origin,
        tag: str,
        queue: LoggedQueue,
        messages: list[Message],
        position: int,
        step: int,
        redelivered: bool,
        no_ack: bool,
    ) -> None:
        self._changed.add(queue)

    def settled(self, origin: Origin, tag: str, queue: LoggedQueue, messages: list[Message], acked: bool) -> None:
        self._changed.add(queue)

    def requeued(self, queue: LoggedQueue, message: Message, reason: str) -> None:
        self._changed.add(queue)

    def left(self, queue: LoggedQueue, messages: list[Message], reason: str) -> None:
        self._changed.add(queue)

    def cleared(self, queue: LoggedQueue) -> None:
        self._changed.add(queue)


class Utilisation:
    """The consumer utilisation of queues: the share of samples in which a queue could deliver at once."""

    def __init__(self) -> None:
        self._samples: dict[Queue, int] = {}

    def look(self, queues: Iterable[Queue]) -> None:
        samples = self._samples
        for queue in queues:
            if len(queue.consumers):
                samples[queue] = samples.get(queue, 0) + SEEN + queue.consumers.any_ready()

    def take(self) -> dict[Queue, int]:
        """Take the samples of queues with consumers: multiples of SEEN, plus the number in which they could deliver."""
        samples, self._samples = self._samples, {}
        return samples


class Snapshots(Observer):
    """Snapshots of the queues in the virtual hosts that are exported.

    `prepare` and then `take` make one. It includes deleted queues whose consumers still have messages.
    """

    def __init__(
        self, node: Node, buffer: RecordBuffer, sample_rate: float, changed: ChangedQueues, stored: bool = True
    ) -> None:
        """`stored` is true if the broker stores messages."""
        self._stored = stored
        self.utilisation = Utilisation()
        self._node = node
        self._buffer = buffer
        self._sample_rate = sample_rate
        self._changed = changed
        self._readings = Readings()
        self._deleted: list[Queue] = []
        self._number = 0

    def queues(self) -> list[Queue]:
        """Return all queues."""
        queues: list[Queue] = []
        for vhost in self._node.vhosts.values():
            if vhost.traffic_log is not None:
                queues += vhost.queues.values()
                queues += vhost.reply_queues.values()
        return queues

    def queue_declared(self, queue: Queue) -> None:
        if queue.host.traffic_log is not None:
            self._changed.add(queue)

    def queue_deleted(self, queue: Queue) -> None:
        self._changed.add(queue)
        if queue.unacked and queue.host.traffic_log is not None:
            self._deleted.append(queue)

    def prepare(self) -> Iterator[None]:
        """Read all queues in slices, then repeatedly the changed ones."""
        changed: set[LoggedQueue] = set()
        queues = self.queues()
        self._changed.queues = changed
        self._readings = Readings()
        while queues:
            for queue in queues[-SLICE:]:
                self._read(queue)
            del queues[-SLICE:]
            yield
        for _ in range(PASSES):
            if len(changed) <= SLICE:
                break
            for _ in range(len(changed) // SLICE):
                for each in [changed.pop() for _ in range(min(SLICE, len(changed)))]:
                    self._read(each)
                yield

    def take(self, kind: str) -> Snapshot:
        """Return a snapshot of this moment, which must have been prepared."""
        number, self._number = self._number, self._number + 1
        for changed in self._changed.queues or ():
            self._read(changed)
        self._changed.queues = None
        readings, self._readings = self._readings, Readings()
        self._deleted = [queue for queue in self._deleted if queue.unacked]
        first: dict[tuple[str, str], Queue] = {}  # the first of deleted queues with equal names
        for queue in self._deleted:
            vhost = self._node.vhosts.get(queue.vhost)
            namesake = vhost.queues.get(queue.name) if vhost is not None else None
            other = namesake or first.setdefault((queue.vhost, queue.name), queue)
            if other in readings:  # another queue has its name now
                readings.add_unacked(other, queue)
            else:
                readings.read(queue)
        head = (
            time.time_ns() // 1000,
            time.monotonic_ns(),
            number,
            self._buffer.row,
            self._buffer.lost,
            *self._node.journal.position(),
            self._sample_rate,
            SNAPSHOT_KINDS.index(kind),
        )
        return Snapshot(head, readings, self.utilisation.take(), self._stored)

    def _read(self, logged: LoggedQueue) -> None:
        queue = cast("Queue", logged)
        if queue.deleted:
            self._readings.remove(queue)
        else:
            self._readings.read(queue)


class Snapshot:
    """The readings of one moment, from which frames for the writer are made later."""

    def __init__(self, head: tuple[float, ...], readings: Readings, samples: dict[Queue, int], stored: bool) -> None:
        self._head = head
        self._stored = stored
        self._readings = readings
        self._samples = samples

    def frames(self) -> Iterator[list[bytes | bytearray]]:
        """Yield the frames (`pipe_format`), each in pieces, with some queues each."""
        readings, slot = self._readings, 0
        while slot < len(readings.queues):
            names: list[Described] = []
            rows = bytearray()
            work = 0
            while slot < len(readings.queues) and work < SLICE:
                queue = readings.queues[slot]
                work += 1
                if queue is not None:
                    work += len(queue.consumers)
                    durable = queue.durable and self._stored and not queue.deleted
                    vhost, name, settings = escape_text(queue.vhost), escape_text(queue.name), queue.settings
                    names.append((vhost, name, settings.type, durable, is_unattended(queue)))
                    rows += readings.packed(slot)
                    details = (prefetch(queue), len(queue.consumers), self._utilisation(queue))
                    DETAILS.pack_into(rows, len(rows) - DETAILS.size, *details)
                slot += 1
            yield self._frame(-1, names, rows)
        yield self._frame(len(readings), [], bytearray())

    def _frame(self, queues: int, names: list[Described], rows: bytearray) -> list[bytes | bytearray]:
        encoded = msgspec.json.encode(names)
        return [SNAPSHOT_HEAD.pack(*self._head, queues, len(encoded)), encoded, rows]

    def _utilisation(self, queue: Queue) -> float:
        samples, ready = divmod(self._samples.get(queue, 0), SEEN)
        return ready / samples if samples else math.nan


def is_unattended(queue: Queue) -> bool:
    """Return whether a queue needs no consumer: it delays messages, by its age limit or theirs, or keeps the last."""
    settings = queue.settings
    if settings.dead_letter_exchange is not None and (settings.ttl_ms != NONE or queue.ready_messages.timed):
        return True
    return settings.max_length == 1 and settings.drops_head


def prefetch(queue: Queue) -> int:
    """Return the sum of its consumers' prefetches; -1 if one has no limit, or there is no consumer."""
    limits = [getattr(consumer, "prefetch", 0) for consumer in queue.consumers.all if not consumer.no_ack]
    return sum(limits) if limits and all(limits) else -1
