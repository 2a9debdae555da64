"""The consumer timeout (RabbitMQ's delivery acknowledgement timeout): closes channels with overdue deliveries.

No delivery has a timer. Each check notes the deliveries of each channel since the last one, as a group, with the time
before which none of them is overdue; no check looks at them again until then. A delivery is overdue once its timeout
has passed since the check that noted it; the next check closes its channel.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import NamedTuple

from ..amqp.errors import PreconditionFailed
from ..core.jobs.scheduler import OBJECT_COST, SLICE, Job
from ..core.messages.clock import Timer
from ..core.node.node import Node
from ..core.queues.queue import Queue
from ..core.queues.queue_settings import NONE, least
from .channel import Channel
from .connection import Connection
from .unacked import CreditConsumer, Settlement, cost_of_lookup

PERIOD_MS = 60_000  # the longest time between two checks, as in RabbitMQ
PERIOD_LEAST_MS = 100  # the shortest
CHECKS = 4  # in one timeout, so that a delivery exceeds it by half of it at most
KEY = "consumer-timeout"  # in policies; with the prefix x- an argument of queues and consumers
NEVER_MS = 1 << 62  # later than all times
JOIN_MS, JOIN_SHIFT = 1_800_000, 4  # groups are joined within a sixteenth of their timeout, or of this
LOOK_COST = 2  # of a channel without new deliveries, in the scheduler's units


class Group(NamedTuple):
    """Consecutive deliveries that count from the same time."""

    due_ms: int  # none of them is overdue before
    since_ms: int  # the time of the check that noted the last one
    opened_ms: int  # the time of the check that noted the first one
    first: int  # the lowest delivery tag
    last: int  # the highest one


class Noted:
    """The deliveries of a channel that checks have noted."""

    __slots__ = ("shortest_ms", "_groups", "_tag")

    def __init__(self) -> None:
        self.shortest_ms = NONE  # the shortest timeout of the channel's consumers and of these deliveries, or NONE
        self._groups: list[Group] = []  # a heap
        self._tag = 0  # of the last delivery

    def lower(self, timeout_ms: int) -> None:
        """Lower the shortest timeout to this one, if it is shorter."""
        if timeout_ms != NONE and not NONE < self.shortest_ms <= timeout_ms:
            self.shortest_ms = timeout_ms

    def take_due(self, tag: int, now_ms: int) -> list[Group]:
        """Remove and return the groups that may have overdue deliveries, and a group of the new ones up to a tag."""
        groups = []
        while self._groups and self._groups[0].due_ms <= now_ms:
            groups.append(heappop(self._groups))
        if tag > self._tag:
            groups.append(Group(now_ms, now_ms, now_ms, self._tag + 1, tag))
            self._tag = tag
        return groups

    def take_all(self, tag: int, now_ms: int) -> list[Group]:
        """Remove and return all groups, and one of the new deliveries up to a tag, in the order of tags.

        There are no gaps between them: deliveries that were rolled back belong to the group after it.
        """
        groups = [*sorted(self._groups, key=attrgetter("last")), Group(now_ms, now_ms, now_ms, tag, tag)]
        self._groups, self._tag = [], tag
        firsts = [1, *[group.last + 1 for group in groups]]
        pairs = zip(groups, firsts, strict=False)
        return [group._replace(first=first) for group, first in pairs if first <= group.last]

    def add(self, group: Group) -> None:
        heappush(self._groups, group)

    def add_all(self, groups: list[Group]) -> None:
        """Add groups in the order of tags, and join those whose times differ little."""
        joined: list[Group] = []
        for group in groups:
            if joined:
                before = joined[-1]
                due_ms = min(before.due_ms, group.due_ms)
                if group.since_ms - before.opened_ms <= min(due_ms - group.since_ms, JOIN_MS) >> JOIN_SHIFT:
                    group = Group(due_ms, group.since_ms, before.opened_ms, before.first, group.last)
                    del joined[-1]
            joined.append(group)
        self._groups += joined
        heapify(self._groups)


class Timeouts:
    """The checks of all channels for overdue deliveries.

    `default_ms` is the node's timeout or None; `connections` returns all connections. Their channels are checked in the
    period of the default timeout, and those with a shorter timeout, which clients can choose, more often. Every
    PERIOD_MS all timeouts are looked up again, as policies and consumers change.
    """

    __slots__ = ("_all_at_ms", "_connections", "_default_ms", "_hurried", "_node", "_noted", "_renew_at_ms", "_timer")

    def __init__(self, node: Node, default_ms: int | None, connections: Callable[[], Iterable[Connection]]) -> None:
        self._node = node
        self._default_ms = NONE if default_ms is None else default_ms
        self._connections = connections
        self._noted: dict[Channel, Noted] = {}
        self._hurried: dict[Channel, int] = {}  # channels with shorter timeouts, and the time of their next check
        self._all_at_ms = self._renew_at_ms = 0
        self._timer: Timer | None = None  # of the last check, None after the stop

    def start(self) -> None:
        now_ms = self._node.clock.now_ms()
        self._all_at_ms, self._renew_at_ms = now_ms + period_ms(self._default_ms), now_ms + PERIOD_MS
        self._timer = self._node.clock.call_at(self._all_at_ms, self._begin)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expect(self) -> None:
        """Schedule the next check, PERIOD_LEAST_MS after the end of the last one or later."""
        if self._timer is not None:
            at_ms = min(self._hurried.values(), default=self._all_at_ms)
            at_ms = max(min(at_ms, self._all_at_ms), self._node.clock.now_ms() + PERIOD_LEAST_MS)
            self._timer = self._node.clock.call_at(at_ms, self._begin)

    def _begin(self) -> None:
        self._node.scheduler.start("check of consumer timeouts", self._check_all(), self._expect)
        self._node.pump()

    def _check_all(self) -> Job:
        """Check the channels whose time has come, in steps, and schedule the next check."""
        now_ms = self._node.clock.now_ms()
        renew = now_ms >= self._renew_at_ms
        channels: Iterable[Channel | None] = [each for each, at_ms in self._hurried.items() if at_ms <= now_ms]
        before = kept = self._noted
        if renew:
            self._renew_at_ms = now_ms + PERIOD_MS
        if renew or now_ms >= self._all_at_ms:
            self._all_at_ms = now_ms + period_ms(self._default_ms)
            channels = channels_of(self._connections())
            kept, self._hurried = {}, {}
        cost = 0
        for channel in channels:
            cost += LOOK_COST
            if cost >= SLICE:
                yield cost
                cost = 0
            if self._timer is None:
                return
            if channel is None:
                continue
            self._hurried.pop(channel, None)
            if has_deliveries(channel):
                noted = kept[channel] = before.get(channel) or Noted()
                yield from self._check(channel, noted, renew or channel not in before)
                if period_ms(noted.shortest_ms) < period_ms(self._default_ms):
                    self._hurried[channel] = self._node.clock.now_ms() + period_ms(noted.shortest_ms)
        self._noted = kept
        yield cost
        self._expect()

    def _check(self, channel: Channel, noted: Noted, renew: bool) -> Job:
        """Note the new deliveries of a channel, and close it if a delivery is overdue, in steps."""
        if renew:
            noted.shortest_ms = NONE
            consumers = list(channel.consumers.values())
            for at in range(0, len(consumers), SLICE):
                for consumer in consumers[at : at + SLICE]:
                    if not consumer.no_ack:
                        noted.lower(self._timeout_ms(consumer.queue, consumer))
                yield min(len(consumers) - at, SLICE)
        now_ms = self._node.clock.now_ms()
        groups = noted.take_all(channel.delivery_tag, now_ms) if renew else noted.take_due(channel.delivery_tag, now_ms)
        unsettled: list[Group] = []
        for group in groups:
            yield from self._look(channel, noted, group, now_ms, unsettled)
        if renew:
            noted.add_all(unsettled)
        else:
            for group in unsettled:
                noted.add(group)

    def _look(self, channel: Channel, noted: Noted, group: Group, now_ms: int, unsettled: list[Group]) -> Job:
        """Add the unsettled deliveries of a group to a list, or close the channel if one is overdue, in steps."""
        waited_ms = now_ms - group.since_ms
        due_ms = NEVER_MS
        timeouts_ms: dict[tuple[Queue, CreditConsumer | None], int] = {}
        first = last = 0
        yield cost_of_lookup(group.first, group.last)
        for tags in channel.unacked.slices(range(group.first, group.last + 1)):
            if not has_deliveries(channel):
                return
            for tag in tags:
                delivery = channel.unacked.get(tag)
                if delivery is None:
                    continue
                first, last = first or tag, tag
                limit_ms = timeouts_ms.get(delivery[:2])
                if limit_ms is None:
                    limit_ms = timeouts_ms[delivery[:2]] = self._timeout_ms(*delivery[:2])
                    noted.lower(limit_ms)
                    if limit_ms != NONE:
                        due_ms = min(due_ms, group.since_ms + limit_ms)
                if NONE < limit_ms <= waited_ms > 0:
                    spent = channel.connection.spent
                    close(channel, limit_ms)
                    yield OBJECT_COST + channel.connection.spent - spent
                    return
            yield len(tags)
        if last:
            unsettled.append(group._replace(due_ms=due_ms, first=first, last=last))

    def _timeout_ms(self, queue: Queue, consumer: CreditConsumer | None) -> int:
        own_ms = consumer.arguments.integer(f"x-{KEY}") if consumer is not None else None
        return timeout_ms(queue, own_ms, self._default_ms)


def channels_of(connections: Iterable[Connection]) -> Iterator[Channel | None]:
    """Return the channels of connections, and None before those of each, because very many may have none."""
    for connection in list(connections):
        yield None
        yield from list(connection.channels.values())


def has_deliveries(channel: Channel) -> bool:
    """Whether a channel is open and has unsettled deliveries."""
    return not channel.closing and not channel.connection.ended and len(channel.unacked) > 0


def period_ms(timeout_ms: int) -> int:
    """Return the time between two checks for a timeout."""
    return PERIOD_MS if timeout_ms == NONE else min(max(PERIOD_LEAST_MS, timeout_ms // CHECKS), PERIOD_MS)


def timeout_ms(queue: Queue, consumer_ms: int | None, default_ms: int) -> int:
    """Return the consumer's own timeout, else the lower of queue argument and policy, otherwise the node's."""
    if consumer_ms is not None and consumer_ms >= 0:
        return consumer_ms
    own_ms = least(queue.arguments, queue.effective, KEY)
    return default_ms if own_ms == NONE else own_ms


def close(channel: Channel, timeout_ms: int) -> None:
    """Close a channel with RabbitMQ's text. Its deliveries do not count as failed attempts, as in RabbitMQ 4.3."""
    channel.end_settlement = Settlement.NACK
    channel.close(
        PreconditionFailed(
            f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {timeout_ms} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        )
    )
