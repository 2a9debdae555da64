"""The consumer timeout (RabbitMQ's delivery acknowledgement timeout): closes channels with overdue deliveries.

No delivery is timed. Each check notes for each channel the last delivery tag and the time; what is outstanding and not
above a tag that was noted a timeout ago is overdue. So a delivery is given up a timeout after the check that followed
it, at the next one.
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
from .unacked import Unacked

PERIOD_MS = 60_000  # between two checks at the longest, as in RabbitMQ
PERIOD_LEAST_MS = 100  # and at the shortest
CHECKS = 4  # in one timeout, so that it is overrun by half of itself at the most
KEY = "consumer-timeout"  # of a policy; with x- in front of it, of a queue and of a consumer


class Timeouts:
    """Checks all channels for overdue deliveries. `default_ms` is the node's timeout or None; `connections` returns
    all.

    All of them are looked at in the period of the default. Those with a shorter timeout, which clients choose, are
    looked at more often, and by themselves.
    """

    __slots__ = ("_all_at_ms", "_clock", "_connections", "_default_ms", "_hurried", "_marks", "_timer")

    def __init__(self, clock: Clock, default_ms: int | None, connections: Callable[[], Iterable[Connection]]) -> None:
        self._clock = clock
        self._default_ms = NONE if default_ms is None else default_ms
        self._connections = connections
        self._marks: dict[Channel, deque[tuple[int, int]]] = {}  # by channel: when, and the last tag then
        self._hurried: dict[Connection, int] = {}  # with the shortest timeout of each
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
        """The shortest timeout on this channel, of its consumers and of what has been out longest.

        The only others are those of basic.get and of consumers that were cancelled: theirs are looked at when they come
        to the front, so that no check has to look at all that is out.
        """
        found = [
            timeout_ms(consumer.queue, consumer.arguments.integer(f"x-{KEY}"), self._default_ms)
            for consumer in channel.consumers.values()
            if not consumer.no_ack
        ]
        found.append(self._timeout_ms(channel.unacked.oldest()[1]))
        return min((each_ms for each_ms in found if each_ms != NONE), default=NONE)

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


def timeout_ms(queue: Queue, asked_ms: int | None, default_ms: int) -> int:
    """Return the consumer's own timeout, else the lower of queue argument and policy, else the node's."""
    if asked_ms is not None and asked_ms >= 0:
        return asked_ms
    own_ms = least(queue.arguments, queue.effective, KEY)
    return default_ms if own_ms == NONE else own_ms


def close(channel: Channel, timeout_ms: int) -> None:
    """Close a channel with RabbitMQ's text."""
    connection = channel.connection
    close_channel(
        channel,
        PreconditionFailed(
            f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {timeout_ms} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        ),
    )
    connection.node.pump()
