"""Settlements of deliveries: acknowledged, dropped, dead-lettered or requeued, at once or as jobs.

Before any message is requeued, the queues are paused: they deliver nothing until all are, which keeps their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from ..core.jobs.scheduler import AWAITS_OTHERS, SLICE
from ..core.messages.journal_port import DISK_FULL
from ..core.messages.message import Message, ShedMessage
from ..core.node.node import Node
from ..core.queues.queue import Queue
from ..core.queues.sorted_rows import SortedRows
from ..core.queues.traffic_log import NACK, REJECT
from .channel_host import ChannelState
from .unacked import ROW_COST, CreditConsumer, Settlement, Unacked, delivery_of, queue_of

TOGETHER: Final = 5_000  # deliveries that are settled at once if none is copied; more of them become a job
COST: Final = 2  # of one settlement beside copies, in the scheduler's units
RETURN_COST: Final = 1  # beside that, of one that returns a message to its queue or dead-letters it
RUN_COST: Final = 2  # of deliveries that are settled in the same way, beside that of each
STEP_COST: Final = 2_000  # of the settlements in one step of a job
LOOK_SHIFT: Final = 4  # to look for 16 deliveries or collect their queues costs 1
POP_SHIFT: Final = 3  # to remove 8 deliveries from `unacked` costs 1
PAUSE_SHIFT: Final = 3  # to pause 8 queues costs 1

_source: Final = itemgetter(0, 1)  # the queue and the consumer of a delivery

SettlementRun = tuple[Settlement, list[Unacked]]
"""Consecutive deliveries that are settled in the same way."""


def settle_all(channel: ChannelState, settlement: Settlement, reason: str) -> Iterator[int]:
    """Settle all deliveries, which are no longer outstanding from the first step on, as a job."""
    taken = Taken(channel.unacked.cut_shed(channel.delivery_tag), settlement)
    parts = channel.unacked.take_all()
    parts.reverse()
    while parts:  # this frees them one by one
        part = parts.pop()
        tags = sorted(part)
        for at in range(0, len(tags), SLICE):
            taken.add([(tag, part.pop(tag)) for tag in tags[at : at + SLICE]])
            yield SLICE >> POP_SHIFT
    yield from settle_in_steps(channel, [(settlement, taken.deliveries)], reason, taken)


class Taken:
    """Deliveries that are not outstanding any more, and are settled in one way.

    shed        those that were shed, by tag
    deliveries  the others, in the order of their tags
    tags        of these, if both may be dead-lettered, in the order of their tags
    """

    __slots__ = ("shed", "deliveries", "tags")

    def __init__(self, shed: SortedRows, settlement: Settlement) -> None:
        self.shed = shed
        self.deliveries: list[Unacked] = []
        self.tags: list[int] | None = [] if settlement is not Settlement.ACK and len(shed) else None

    def add(self, items: list[tuple[int, Unacked]]) -> None:
        self.deliveries += [delivery for _, delivery in items]
        if self.tags is not None:
            self.tags += [tag for tag, _ in items]

    def take_shed(self) -> Iterator[list[Unacked]]:
        """Remove shed deliveries and yield them in slices; with `tags`, also the others that come before it."""
        tags, deliveries = self.tags or [], self.deliveries
        tags.reverse()
        if tags:
            deliveries.reverse()
        some: list[Unacked] = []
        while self.shed:
            for row in self.shed.take(SLICE):
                while tags and tags[-1] < row[0]:
                    tags.pop()
                    some.append(deliveries.pop())
                    if len(some) == SLICE:
                        yield some
                        some = []
                some.append(delivery_of(row))
            yield some
            some = []
        if tags:
            deliveries.reverse()


def settle_in_steps(
    channel: ChannelState, runs: list[SettlementRun], reason: str, taken: Taken | None = None, first: Iterable[int] = ()
) -> Iterator[int]:
    """Settle deliveries as a job; `reason` is empty if the consumer settles them itself.

    Those of the first run are from `taken`, which has others that were shed. Queues deliver nothing until all messages
    are requeued, which keeps their order. The steps of `first` are done before the runs are settled.
    """
    queues: dict[Queue, None] = {}
    shed = taken.shed if taken is not None else None
    try:
        for index, (settlement, deliveries) in enumerate(runs):
            parts = queues_in_parts(deliveries, shed if not index else None) if settlement.requeues else ()
            for some_queues, looked in parts:
                others = some_queues.difference(queues)
                for queue in others:
                    queues[queue] = None
                    queue.pause()
                yield RUN_COST + (looked >> LOOK_SHIFT) + (len(others) >> PAUSE_SHIFT)
        yield from first
        for settlement, deliveries in runs:
            if taken is not None and deliveries is taken.deliveries:
                for some in taken.take_shed():
                    yield ROW_COST * len(some)
                    yield from settle_list(channel, settlement, some, reason)
            yield from settle_list(channel, settlement, deliveries, reason)
        yield from resume_in_steps(queues)
    finally:
        for queue in queues:
            queue.resume()


def queues_in_parts(deliveries: list[Unacked], shed: SortedRows | None) -> Iterator[tuple[set[Queue], int]]:
    """Yield the queues of deliveries in parts, each with the number of its deliveries."""
    for objects in shed.objects() if shed is not None else ():
        yield {queue_of(of) for of in objects}, len(objects)
    for at in range(0, len(deliveries), TOGETHER):
        part = deliveries[at : at + TOGETHER]
        yield {delivery[0] for delivery in part}, len(part)


def settle_list(channel: ChannelState, settlement: Settlement, deliveries: list[Unacked], reason: str) -> Iterator[int]:
    """Settle deliveries in steps, which empty the list: this frees the messages slice by slice."""
    deliveries.reverse()
    while deliveries:
        some, cost = take_slice(settlement, deliveries)
        read = apply_settlement(channel, settlement, some, reason)
        yield cost
        yield from dead_lettered(channel.connection.node, read)


def is_read_back(settlement: Settlement, queue: Queue, message: Message) -> bool:
    """Return whether a message that is settled in this way is read to be dead-lettered, if the queue does that."""
    if not isinstance(message, ShedMessage):
        return False
    return settlement is Settlement.REJECT or queue.is_at_limit(message, settlement is Settlement.NACK)


def read_back(settlement: Settlement, deliveries: list[Unacked]) -> dict[tuple[Queue, int], Message]:
    """Read shed messages that are dead-lettered by this settlement; return those that can be, by queue and position."""
    shed: dict[Queue, list[ShedMessage]] = {}
    for queue, _, _, message in deliveries:
        if isinstance(message, ShedMessage) and is_read_back(settlement, queue, message):
            shed.setdefault(queue, []).append(message)
    return {
        (queue, each.position): message
        for queue, those in shed.items()
        for each, message in zip(those, queue.read_back(those), strict=False)
        if message is not None
    }


def dead_lettered(node: Node, queues: Collection[Queue]) -> Iterator[int]:
    """Wait as a part of a job until most of what these queues dead-letter is published, or cannot be now.

    Messages that were read back to be dead-lettered are in memory meanwhile.
    """
    scheduler, journal = node.scheduler, node.journal
    if queues:
        yield from scheduler.caught_up()
    while any(queue.outbox.is_behind for queue in queues):
        if scheduler.finishing or journal.room() == DISK_FULL:
            return
        yield AWAITS_OTHERS


def resume_in_steps(queues: dict[Queue, None]) -> Iterator[int]:
    """Resume paused queues as part of a job, and remove them from the dictionary."""
    while queues:
        for _ in range(min(SLICE, len(queues))):
            queues.popitem()[0].resume()
        yield SLICE


def take_slice(settlement: Settlement, deliveries: list[Unacked]) -> tuple[list[Unacked], int]:
    """Remove from the end of a reversed list as many deliveries as are settled in one step; return also their cost."""
    some = deliveries[: -SLICE - 1 : -1]
    cost = COST * len(some)
    if settlement is not Settlement.ACK:
        for count, delivery in enumerate(some, 1):
            cost += RETURN_COST + cost_of_copies(settlement, (delivery,))
            if cost > STEP_COST:
                del some[count:]
    del deliveries[-len(some) :]
    return some, cost


def cost_of_copies(settlement: Settlement, deliveries: Iterable[Unacked]) -> int:
    """Return the cost of a settlement beside COST for each delivery, in the scheduler's units.

    Copies with delivery counts have such a cost, and so has reading shed messages that are dead-lettered.
    """
    if settlement is Settlement.REJECT:
        return sum([queue.cost_of_reading_back(message) for queue, _, _, message in deliveries])
    if settlement is Settlement.ACK:
        return 0
    nacked = settlement is Settlement.NACK
    return sum([queue.cost_of_counting(message, nacked) for queue, _, _, message in deliveries])


def apply_settlement(
    channel: ChannelState, settlement: Settlement, deliveries: list[Unacked], reason: str
) -> set[Queue]:
    """Settle deliveries in one way; return the queues of those that were read to be dead-lettered."""
    read: set[Queue] = set()
    consumer: CreditConsumer | None
    if settlement is Settlement.ACK:
        for (queue, consumer), run in groupby(deliveries, _source):
            release(channel, queue, [message for _, _, _, message in run], consumer)
    else:
        rejected, nacked = settlement is Settlement.REJECT, settlement is Settlement.NACK
        contents = read_back(settlement, deliveries)
        read = {queue for queue, _ in contents}
        log = channel.vhost.traffic_log if not reason else None
        reason = reason or (NACK if nacked else REJECT)
        for queue, consumer, position, message in deliveries:
            if log is not None:
                log.settled(channel.origin, consumer_tag(consumer), queue, [message], False)
            content = contents.get((queue, position)) if contents else None
            if rejected:
                queue.reject(position, message, content)
            else:
                queue.requeue(position, message, nacked, reason, content)
    consumed = 0
    for _, consumer, _, _ in deliveries:
        if consumer is not None:
            consumer.settled()
            consumed += consumer.shares
    if consumed:
        channel.shared_prefetch.on_settled(consumed)
    return read


def consumer_tag(consumer: CreditConsumer | None) -> str:
    """Return the consumer's tag, or an empty text for basic.get."""
    return consumer.tag if consumer is not None else ""


def release(channel: ChannelState, queue: Queue, messages: list[Message], consumer: CreditConsumer | None) -> None:
    """Count acknowledged messages of one queue and one consumer, and drop them. HOT: bench B, D, I, L."""
    channel.delivering.acked(len(messages))
    if channel.rates is not None:
        channel.rates.acked(queue, len(messages))
    if channel.vhost.traffic_log is not None:
        channel.vhost.traffic_log.settled(channel.origin, consumer_tag(consumer), queue, messages, True)
    queue.settle(messages)
