"""The counters of messages, connections and logins, named as in RabbitMQ. They only grow while the broker runs.

Each batch of messages is added to the counters of its queue, exchange or channel and to those of the virtual host. So
the sums need no visit to each object, and include deleted objects.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

from ..metadata.queue_types import CLASSIC, QUORUM

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)  # bounds in bytes, inclusive
ENDLESS = 1 << 62
DISABLED = "disabled"  # the strategy of a queue without a dead letter exchange
AT_MOST_ONCE, AT_LEAST_ONCE = "at_most_once", "at_least_once"
CONFIRMED = "confirmed"  # in place of a reason: taken by all targets, with AT_LEAST_ONCE


class PublishCounters:
    """The counters of messages that a channel, a virtual host or the node received from publishers.

    A message that a queue rejects counts as published, not as confirmed.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ("publish", "confirm", "return_unroutable", "drop_unroutable")
    __slots__ = FIELDS

    def __init__(self) -> None:
        self.publish = 0
        self.confirm = 0
        self.return_unroutable = 0
        self.drop_unroutable = 0

    def values(self) -> tuple[int, ...]:
        """The counts in the order of FIELDS."""
        return self.publish, self.confirm, self.return_unroutable, self.drop_unroutable

    def add(self, other: PublishCounters) -> None:
        self.publish += other.publish
        self.confirm += other.confirm
        self.return_unroutable += other.return_unroutable
        self.drop_unroutable += other.drop_unroutable


class DeliveryCounters:
    """The counters of deliveries from a queue, to a channel, in a virtual host or in the node.

    All counts are also added to `total`, if there is one. `no_ack` deliveries need no acknowledgement.
    """

    FIELDS: ClassVar[tuple[str, ...]] = (
        *("get", "get_no_ack", "deliver", "deliver_no_ack", "redeliver", "ack", "get_empty"),
    )
    __slots__ = (*FIELDS, "_total")

    def __init__(self, total: DeliveryCounters | None = None) -> None:
        self.get = 0
        self.get_no_ack = 0
        self.deliver = 0
        self.deliver_no_ack = 0
        self.redeliver = 0
        self.ack = 0
        self.get_empty = 0
        self._total = total

    def values(self) -> tuple[int, ...]:
        """The counts in the order of FIELDS."""
        return (
            *(self.get, self.get_no_ack, self.deliver, self.deliver_no_ack, self.redeliver, self.ack),
            self.get_empty,
        )

    @property
    def deliver_get(self) -> int:
        """The number of all deliveries, by basic.deliver and basic.get."""
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack

    def delivered(self, count: int, no_ack: bool, redelivered: bool) -> None:
        """Count deliveries to a consumer. HOT: bench A-M."""
        if no_ack:
            self.deliver_no_ack += count
        else:
            self.deliver += count
        if redelivered:
            self.redeliver += count
        if self._total is not None:
            self._total.delivered(count, no_ack, redelivered)

    def got(self, no_ack: bool, redelivered: bool) -> None:
        """Count a message delivered by basic.get."""
        if no_ack:
            self.get_no_ack += 1
        else:
            self.get += 1
        self.redeliver += redelivered
        if self._total is not None:
            self._total.got(no_ack, redelivered)

    def found_nothing(self) -> None:
        """Count a basic.get from an empty queue."""
        self.get_empty += 1
        if self._total is not None:
            self._total.found_nothing()

    def acked(self, count: int) -> None:
        """Count acknowledgements. HOT: bench B, D, I, L."""
        self.ack += count
        if self._total is not None:
            self._total.acked(count)

    def add(self, other: DeliveryCounters) -> None:
        self.get += other.get
        self.get_no_ack += other.get_no_ack
        self.deliver += other.deliver
        self.deliver_no_ack += other.deliver_no_ack
        self.redeliver += other.redeliver
        self.ack += other.ack
        self.get_empty += other.get_empty


class SizeHistogram:
    """A histogram of the lengths of published bodies.

    Successive bodies mostly are of the same class: longer than `low`, at most `high`. The last `run` bodies were of it,
    and are not in `_counts` yet.
    """

    __slots__ = ("low", "high", "run", "total_bytes", "_counts", "_class")

    def __init__(self) -> None:
        self.low = -1
        self.high = SIZES[0]
        self.run = 0
        self.total_bytes = 0
        self._counts = [0] * (len(SIZES) + 1)
        self._class = 0

    def turn(self, body_bytes: int) -> None:
        """Begin a run of bodies of the class of this length."""
        self._counts[self._class] += self.run
        self.run = 0
        self._class = index = bisect_left(SIZES, body_bytes)
        self.low = SIZES[index - 1] if index else -1
        self.high = SIZES[index] if index < len(SIZES) else ENDLESS

    def counts(self) -> list[int]:
        """Return the count of each class: one for each bound of SIZES, and one for all longer bodies."""
        counts = self._counts.copy()
        counts[self._class] += self.run
        return counts

    def add(self, other: SizeHistogram) -> None:
        for index, count in enumerate(other.counts()):
            self._counts[index] += count
        self.total_bytes += other.total_bytes


class Statistics:
    """The counters of a virtual host or of the node."""

    __slots__ = (
        *("publishing", "received_confirm", "routed", "delivering", "dead_lettered", "sizes", "received_bytes"),
        *("sent_bytes", "received_reads", "sent_writes"),
    )

    def __init__(self) -> None:
        self.publishing = PublishCounters()
        self.received_confirm = 0  # messages published on channels with confirms
        self.routed = 0  # messages put in queues; a message routed to three queues counts three times
        self.delivering = {CLASSIC: DeliveryCounters(), QUORUM: DeliveryCounters()}  # by the type of the queue
        self.dead_lettered: dict[tuple[str, str, str], int] = {}  # by type of the queue, strategy and reason
        self.sizes = SizeHistogram()
        self.received_bytes = 0  # of closed connections; likewise `sent_bytes`, `received_reads` and `sent_writes`
        self.sent_bytes = 0
        self.received_reads = 0
        self.sent_writes = 0

    def delivered(self) -> DeliveryCounters:
        """Return the sum for queues of all types."""
        total = DeliveryCounters()
        for delivering in self.delivering.values():
            total.add(delivering)
        return total

    def count_dead_letters(self, type_: str, strategy: str, reason: str, count: int) -> None:
        """Count messages that a queue of this type has dropped or dead-lettered."""
        key = (type_, strategy, reason)
        self.dead_lettered[key] = self.dead_lettered.get(key, 0) + count

    def add(self, other: Statistics) -> None:
        self.publishing.add(other.publishing)
        self.received_confirm += other.received_confirm
        self.routed += other.routed
        for type_, delivering in other.delivering.items():
            self.delivering[type_].add(delivering)
        for key, count in other.dead_lettered.items():
            self.dead_lettered[key] = self.dead_lettered.get(key, 0) + count
        self.sizes.add(other.sizes)
        self.received_bytes += other.received_bytes
        self.sent_bytes += other.sent_bytes
        self.received_reads += other.received_reads
        self.sent_writes += other.sent_writes


class LoginAttempts:
    """The attempts to log in."""

    __slots__ = ("succeeded", "failed")

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0

    def count(self, succeeded: bool) -> None:
        self.succeeded += succeeded
        self.failed += not succeeded


class Churn:
    """The churn of connections, channels and queues. `queue_declared` counts declarations of existing queues too."""

    FIELDS: ClassVar[tuple[str, ...]] = (
        *("connection_created", "connection_closed", "channel_created", "channel_closed"),
        *("queue_declared", "queue_created", "queue_deleted"),
    )
    __slots__ = FIELDS

    def __init__(self) -> None:
        self.connection_created = 0
        self.connection_closed = 0
        self.channel_created = 0
        self.channel_closed = 0
        self.queue_declared = 0
        self.queue_created = 0
        self.queue_deleted = 0

    def values(self) -> tuple[int, ...]:
        """The counts in the order of FIELDS."""
        return (
            *(self.connection_created, self.connection_closed, self.channel_created, self.channel_closed),
            *(self.queue_declared, self.queue_created, self.queue_deleted),
        )
