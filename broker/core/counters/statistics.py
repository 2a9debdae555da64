"""What is counted, by RabbitMQ's names: numbers that only grow, from the start of the broker on.

Each is added to where it happens, in whole batches: to those of the queue, exchange or channel, and to those of the
virtual host. So the sums need no visit to what lives, and keep what is gone.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

from ..metadata.queue_types import CLASSIC, QUORUM

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)  # bounds in octets, inclusive
ENDLESS = 1 << 62
DISABLED, AT_MOST_ONCE = "disabled", "at_most_once"  # strategies: without a dead letter exchange, and with one


class PublishCounters:
    """Of a channel, a virtual host, the node. What a queue refuses is published, but not confirmed."""

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
    """Of a queue, a channel, a virtual host, the node. `no_ack` is what needs no acknowledgement.

    What is counted here counts in `total` as well, if there is one.
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
        """All that went out, either way."""
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack

    def delivered(self, count: int, no_ack: bool, redelivered: bool) -> None:
        """To a consumer. HOT: bench A-M."""
        if no_ack:
            self.deliver_no_ack += count
        else:
            self.deliver += count
        if redelivered:
            self.redeliver += count
        if self._total is not None:
            self._total.delivered(count, no_ack, redelivered)

    def got(self, no_ack: bool, redelivered: bool) -> None:
        """By basic.get."""
        if no_ack:
            self.get_no_ack += 1
        else:
            self.get += 1
        self.redeliver += redelivered
        if self._total is not None:
            self._total.got(no_ack, redelivered)

    def found_nothing(self) -> None:
        """By basic.get."""
        self.get_empty += 1
        if self._total is not None:
            self._total.found_nothing()

    def acked(self, count: int) -> None:
        """HOT: bench B, D, I, L."""
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
    """How many published bodies were how long.

    Bodies next to each other mostly are of one class: from above `low` to `high`, of which `run` have come.
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
        """The next are about that long."""
        self._counts[self._class] += self.run
        self.run = 0
        self._class = index = bisect_left(SIZES, body_bytes)
        self.low = SIZES[index - 1] if index else -1
        self.high = SIZES[index] if index < len(SIZES) else ENDLESS

    def counts(self) -> list[int]:
        """For each of SIZES, and for all that is longer; those of one class alone, not all up to it."""
        counts = self._counts.copy()
        counts[self._class] += self.run
        return counts

    def add(self, other: SizeHistogram) -> None:
        for index, count in enumerate(other.counts()):
            self._counts[index] += count
        self.total_bytes += other.total_bytes


class Statistics:
    """Of a virtual host, and of the node.

    received_confirm  published on channels that confirm
    routed            messages into queues: one that goes to three counts three times
    delivering        by the type of the queue
    dead_lettered     by type of the queue, strategy and reason
    received_bytes    by connections that are closed; so are `sent_bytes`, `received_reads` and `sent_writes`
    """

    __slots__ = (
        "publishing",
        "received_confirm",
        "routed",
        "delivering",
        "dead_lettered",
        "sizes",
        "received_bytes",
        "sent_bytes",
        "received_reads",
        "sent_writes",
    )

    def __init__(self) -> None:
        self.publishing = PublishCounters()
        self.received_confirm = 0
        self.routed = 0
        self.delivering = {CLASSIC: DeliveryCounters(), QUORUM: DeliveryCounters()}
        self.dead_lettered: dict[tuple[str, str, str], int] = {}
        self.sizes = SizeHistogram()
        self.received_bytes = 0
        self.sent_bytes = 0
        self.received_reads = 0
        self.sent_writes = 0

    def delivered(self) -> DeliveryCounters:
        """From queues of all types."""
        total = DeliveryCounters()
        for delivering in self.delivering.values():
            total.add(delivering)
        return total

    def count_dead_letters(self, type_: str, strategy: str, reason: str, count: int) -> None:
        """Count messages that a queue of that type has dropped."""
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
    """To log in."""

    __slots__ = ("succeeded", "failed")

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0

    def count(self, succeeded: bool) -> None:
        self.succeeded += succeeded
        self.failed += not succeeded


class Churn:
    """What came and went in the node. `queue_declared` counts declarations of what was there as well."""

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
