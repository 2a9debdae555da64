"""How much every queue holds, taken in one turn of the loop, so that it agrees with the records to the message."""

from __future__ import annotations

import time
from typing import NamedTuple

from broker.plugin import Node, Observer, Queue, VHost

from .buffer import Buffer, told


class Reading(NamedTuple):
    """Of one queue."""

    queue: Queue
    ready: int
    unacked: int
    ready_bytes: int
    unacked_bytes: int
    published: int
    delivered: int
    redelivered: int
    acked: int


class Deleted(Observer):
    """Queues that are gone while consumers still have messages of theirs."""

    def __init__(self) -> None:
        self.queues: list[Queue] = []

    def queue_deleted(self, queue: Queue) -> None:
        if queue.unacked:
            self.queues.append(queue)

    def look(self) -> list[Queue]:
        """Those that still are."""
        self.queues = [queue for queue in self.queues if queue.unacked]
        return self.queues


class Utilisation:
    """In what share of looks a queue could deliver at once."""

    def __init__(self) -> None:
        self._looks: dict[Queue, tuple[int, int]] = {}  # all, and those in which it could

    def look(self, queues: list[Queue]) -> None:
        for queue in queues:
            if len(queue.consumers):
                looks, ready = self._looks.get(queue, (0, 0))
                self._looks[queue] = (looks + 1, ready + queue.consumers.any_ready())

    def take(self) -> dict[Queue, float]:
        """Since the last time; of those that had consumers."""
        looks, self._looks = self._looks, {}
        return {queue: ready / count for queue, (count, ready) in looks.items()}


class Snapshots:
    """Of the queues in the virtual hosts that are exported."""

    def __init__(self, node: Node, buffer: Buffer, sample_rate: float) -> None:
        self.deleted = Deleted()
        self.utilisation = Utilisation()
        self._node = node
        self._buffer = buffer
        self._sample_rate = sample_rate
        self._number = 0

    def queues(self) -> list[Queue]:
        """All that are there now."""
        return [queue for vhost in self._vhosts() for queue in (*vhost.queues.values(), *vhost.volatile.values())]

    def _vhosts(self) -> list[VHost]:
        return [vhost for vhost in self._node.vhosts.values() if vhost.message_log is not None]

    def take(self, kind: str) -> Snapshot:
        """Of this moment."""
        number, self._number = self._number, self._number + 1
        queues = self.queues()
        there = {(queue.vhost, queue.name) for queue in queues}
        readings = [reading(queue) for queue in queues]
        gone = self.deleted.look()
        for queue in gone:
            if (queue.vhost, queue.name) in there:  # another has its name by now
                readings = [with_unacked(one, queue) for one in readings]
            else:
                readings.append(reading(queue))
                there.add((queue.vhost, queue.name))
        head: dict[str, object] = {
            "ts_us": time.time_ns() // 1000,
            "mono_ns": time.monotonic_ns(),
            "snapshot": number,
            "kind": kind,
            "row": self._buffer.row,
            "lost_records": self._buffer.lost,
            "sample_rate": self._sample_rate,
        }
        return Snapshot(head, readings, self.utilisation.take())


class Snapshot:
    """`readings` are of one moment; the rows of `schema.QUEUE_STATS` are made of them whenever there is time."""

    def __init__(self, head: dict[str, object], readings: list[Reading], utilisation: dict[Queue, float]) -> None:
        self._head = head
        self._utilisation = utilisation
        self.readings = readings

    def rows(self, start: int, end: int) -> list[dict[str, object]]:
        return [self._row(one) for one in self.readings[start:end]]

    def closing_row(self) -> dict[str, object]:
        """It says that all others are there."""
        return self._head | {"queues": len(self.readings)}

    def _row(self, one: Reading) -> dict[str, object]:
        queue = one.queue
        return self._head | {
            "vhost": told(queue.vhost),
            "queue": told(queue.name),
            "queue_type": queue.rules.type,
            "durable": queue.durable,
            "ready": one.ready,
            "unacked": one.unacked,
            "ready_bytes": one.ready_bytes,
            "unacked_bytes": one.unacked_bytes,
            "consumers": len(queue.consumers),
            "prefetch": prefetch(queue),
            "utilisation": self._utilisation.get(queue),
            "published": one.published,
            "delivered": one.delivered,
            "redelivered": one.redelivered,
            "acked": one.acked,
        }


def reading(queue: Queue) -> Reading:
    counted = queue.delivering
    return Reading(
        queue, queue.ready, queue.unacked, queue.ready_bytes, queue.unacked_bytes, queue.published,
        counted.deliver_get, counted.redeliver, counted.ack,
    )  # fmt: skip


def with_unacked(one: Reading, gone: Queue) -> Reading:
    """A queue, and what consumers have of one that had its name."""
    if (one.queue.vhost, one.queue.name) != (gone.vhost, gone.name):
        return one
    return one._replace(unacked=one.unacked + gone.unacked, unacked_bytes=one.unacked_bytes + gone.unacked_bytes)


def prefetch(queue: Queue) -> int | None:
    """Of all its consumers together; None where one has no limit, or there is none."""
    limits = [getattr(consumer, "prefetch", 0) for consumer in queue.consumers.all() if not consumer.no_ack]
    return sum(limits) if limits and all(limits) else None
