"""The consumer timeout (RabbitMQ's delivery acknowledgement timeout): closes channels with overdue deliveries.

No delivery has a timer. Each check notes the time and the last delivery tag of each channel. A delivery is overdue once
a timeout has passed since the first check that noted its tag or a higher one; the next check closes its channel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from ..amqp.errors import PreconditionFailed
from ..core.messages.ports import Clock, Timer
from ..core.queues.queue import Queue
from ..core.queues.queue_settings import NONE, least
from .channel import Channel
from .closing import close_channel
from .connection import Connection
from .unacked import Settlement, Unacked

PERIOD_MS = 60_000  # the longest time between two checks, as in RabbitMQ
PERIOD_LEAST_MS = 100  # the shortest
CHECKS = 4  # in one timeout, so that a delivery exceeds it by half of it at most
KEY = "consumer-timeout"  # in policies; with the prefix x- an argument of queues and consumers


class Timeouts:
    """The checks of all channels for overdue deliveries.

    `default_ms` is the node's timeout or None; `connections` returns all connections. They are checked in the period of
    the default timeout. Connections with a shorter timeout, which clients can choose, are checked more often.
    """

    __slots__ = ("_all_at_ms", "_clock", "_connections", "_default_ms", "_hurried", "_marks", "_timer")

    def __init__(self, clock: Clock, default_ms: int | None, connections: Callable[[], Iterable[Connection]]) -> None:
        self._clock = clock
        self._default_ms = NONE if default_ms is None else default_ms
        self._connections = connections
        self._marks: dict[Channel, deque[tuple[int, int]]] = {}  # by channel: times of checks and last tags
        self._hurried: dict[Connection, int] = {}  # connections with shorter timeouts, and the shortest of each
        self._all_at_ms = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        self._expect_all()
        self._expect()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        """Close channels with overdue deliveries, record the last tag of the others, and schedule the next check."""
        now_ms = self._clock.now_ms()
        connections = list(self._hurried)
        before = self._marks
        if now_ms >= self._all_at_ms:
            connections = list(self._connections())
            self._marks = {}
            self._expect_all()
        self._hurried = {}
        for connection in connections:
            shortest_ms = self._check(connection, before, now_ms)
            if shortest_ms != NONE and period_ms(shortest_ms) < period_ms(self._default_ms):
                self._hurried[connection] = shortest_ms
        self._expect()

    def _check(self, connection: Connection, before: dict[Channel, deque[tuple[int, int]]], now_ms: int) -> int:
        """Check one connection; return the shortest timeout of its unsettled deliveries, or NONE."""
        shortest_ms = NONE
        overdue: list[tuple[Channel, int]] = []
        for channel in connection.channels.values():
            marks = before.pop(channel, None) or deque()
            if channel.closing or not channel.unacked:
                continue
            channel_ms = self._shortest_ms(channel)
            if channel_ms == NONE:
                continue
            shortest_ms = channel_ms if shortest_ms == NONE else min(shortest_ms, channel_ms)
            timeout_ms = self._exceeded_ms(channel, marks, now_ms, channel_ms)
            if timeout_ms != NONE:
                overdue.append((channel, timeout_ms))
                continue
            if not marks or marks[-1][1] != channel.delivery_tag:
                marks.append((now_ms, channel.delivery_tag))
            self._marks[channel] = marks
        for channel, timeout_ms in overdue:
            close(channel, timeout_ms)
        return shortest_ms

    def _expect_all(self) -> None:
        self._all_at_ms = self._clock.now_ms() + period_ms(self._default_ms)

    def _expect(self) -> None:
        at_ms = self._all_at_ms
        if self._hurried:
            at_ms = min(at_ms, self._clock.now_ms() + period_ms(min(self._hurried.values())))
        self._timer = self._clock.call_at(at_ms, self.check)

    def _shortest_ms(self, channel: Channel) -> int:
        """Return the shortest timeout of the channel's consumers and of its oldest delivery, or NONE.

        The other deliveries of basic.get and of cancelled consumers count once they are the oldest, so that no check
        has to read all deliveries.
        """
        timeouts_ms = [
            timeout_ms(consumer.queue, consumer.arguments.integer(f"x-{KEY}"), self._default_ms)
            for consumer in channel.consumers.values()
            if not consumer.no_ack
        ]
        timeouts_ms.append(self._timeout_ms(channel.unacked.oldest()[1]))
        return min((each_ms for each_ms in timeouts_ms if each_ms != NONE), default=NONE)

    def _timeout_ms(self, entry: Unacked) -> int:
        queue, consumer, _, _ = entry
        return timeout_ms(queue, consumer.arguments.integer(f"x-{KEY}") if consumer else None, self._default_ms)

    def _exceeded_ms(self, channel: Channel, marks: deque[tuple[int, int]], now_ms: int, shortest_ms: int) -> int:
        """Return the timeout of an overdue delivery, or NONE."""
        oldest_tag = channel.unacked.oldest()[0]
        while marks and marks[0][1] < oldest_tag:
            marks.popleft()
        if not marks or now_ms - marks[0][0] < shortest_ms:
            return NONE
        at = iter(marks)
        since_ms, until_tag = next(at)
        for tag, entry in channel.unacked.items():
            while tag > until_tag:
                mark = next(at, None)
                if mark is None:
                    return NONE
                since_ms, until_tag = mark
            if now_ms - since_ms < shortest_ms:
                return NONE
            limit_ms = self._timeout_ms(entry)
            if limit_ms != NONE and now_ms - since_ms >= limit_ms:
                return limit_ms
        return NONE


def period_ms(timeout_ms: int) -> int:
    """Return the time between two checks for a timeout."""
    return PERIOD_MS if timeout_ms == NONE else min(max(PERIOD_LEAST_MS, timeout_ms // CHECKS), PERIOD_MS)


def timeout_ms(queue: Queue, consumer_ms: int | None, default_ms: int) -> int:
    """Return the consumer's own timeout, else the lower of queue argument and policy, else the node's."""
    if consumer_ms is not None and consumer_ms >= 0:
        return consumer_ms
    own_ms = least(queue.arguments, queue.effective, KEY)
    return default_ms if own_ms == NONE else own_ms


def close(channel: Channel, timeout_ms: int) -> None:
    """Close a channel with RabbitMQ's text. Its deliveries do not count as failed attempts, as in RabbitMQ 4.3."""
    connection = channel.connection
    channel.end_settlement = Settlement.NACK
    close_channel(
        channel,
        PreconditionFailed(
            f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {timeout_ms} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        ),
    )
    connection.node.pump()
